package runtime

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// decisionResult is what became of a decision.
type decisionResult struct {
	applied bool
	refused string // why not, if it was not
}

// decisionKey tells one decision from another about the same dead letter.
type decisionKey struct {
	sequence uint64 // of the event
	at       int64  // of the decision, in nanoseconds
}

func keyOf(ref streams.Ref, d streams.Decision) decisionKey {
	return decisionKey{sequence: ref.Sequence, at: d.At.UnixNano()}
}

// onDecision applies what was decided about a dead letter, if it still stands at the cycle that the decision names.
func (o *owner) onDecision(ctx context.Context, d delivered) {
	d.credits.put(1) // a decision is small, and one subject holds at most one
	place, ref, err := streams.ParseSubject(d.msg.Subject())
	if err != nil || place != streams.InDecisions {
		o.log.Error("a decision has a subject that is not ours; it is left there", "subject", d.msg.Subject())
		return
	}
	m := streams.Message{Stream: streams.DecisionsStream, Subject: d.msg.Subject(), Sequence: d.meta.Sequence.Stream, Data: d.msg.Data()}
	if o.deciding[ref.Sequence] {
		return // being applied; this is its redelivery
	}
	o.deciding[ref.Sequence] = true
	result := decisionResult{}
	decision, decodeErr := streams.ReadDecision(m.Data)
	w := &work{ref: ref}
	w.steps = []step{{kind: stepPrepare, prepare: func(ctx context.Context) ([]step, error) {
		steps, r, err := o.planDecision(ctx, w, m, decision, decodeErr)
		result = r
		return steps, err
	}}}
	w.then = func() {
		delete(o.deciding, ref.Sequence)
		outcome := "applied"
		if !result.applied {
			outcome = "conflict"
		}
		o.metrics.decision(o.fn.Name, decision.Action, outcome)
		if wait := o.waiters[keyOf(ref, decision)]; wait != nil {
			wait <- result // it has room for this one answer
			delete(o.waiters, keyOf(ref, decision))
		}
	}
	o.carry(ctx, w)
}

// planDecision checks a decision against what stands now. unreadable says why it is none.
func (o *owner) planDecision(ctx context.Context, w *work, m streams.Message, d streams.Decision, unreadable error) ([]step, decisionResult, error) {
	ref := w.ref
	if unreadable != nil {
		steps, r := o.refuse(ref, m, d, unreadable.Error())
		return steps, r, nil
	}
	letter, err := o.store.Last(ctx, streams.DeadLetterStream(ref.Function), streams.InDeadLetters.Subject(ref))
	if isNotFound(err) {
		return o.planAfterwards(ctx, ref, m, d, "no dead letter stands there any more")
	}
	if err != nil {
		return nil, decisionResult{}, err
	}
	stands := streams.ReadCopy(letter.Header, letter.Data)
	if stands.Cycle != d.Cycle {
		return o.planAfterwards(ctx, ref, m, d, fmt.Sprintf("the dead letter stands at cycle %d, not %d", stands.Cycle, d.Cycle))
	}
	switch {
	case stands.Ours():
	case d.Action != streams.ActionDiscard:
		return o.planAfterwards(ctx, ref, m, d, "it was not written by siding and is no event: hint: discard it")
	default:
		// It was never an event, so there is none to be recorded as ended.
		return []step{
			{kind: stepAudit, audit: advisories.DecidedAudit(ref, d)},
			{kind: stepDelete, stream: letter.Stream, sequence: letter.Sequence},
			{kind: stepDelete, stream: m.Stream, sequence: m.Sequence},
		}, decisionResult{applied: true}, nil
	}
	if why := o.stopsDecision(ref, letter, d); why != "" {
		return o.planAfterwards(ctx, ref, m, d, why)
	}
	it := &item{ref: ref, key: stands.Key, header: letter.Header, cycle: d.Cycle}
	if e, err := streams.Decode(letter.Header, letter.Data); err == nil {
		it.event = e
	}
	traced := o.traced(it)
	var span spanRef
	var steps []step
	switch d.Action {
	case streams.ActionRedrive, streams.ActionEdit:
		c, audit := stands, advisories.DecidedAudit(ref, d)
		if d.Action == streams.ActionEdit {
			var why string
			var err error
			if c, audit, why, err = o.edit(ctx, ref, letter, d); err != nil {
				return nil, decisionResult{}, err
			}
			if why != "" {
				steps, r := o.refuse(ref, m, d, why)
				return steps, r, nil
			}
			if it.event, err = streams.Decode(c.Header, c.Data); err != nil { // which an edit has made sure of
				return nil, decisionResult{}, err
			}
		}
		traced.Cycle++
		span = o.decisionSpans(traced, spanRedrive, letter, d)
		steps = planRedrive(ref, it.event, c, letter, m, d, audit, span)
	case streams.ActionRelease:
		report, err := advisories.ReadReport(letter)
		if err != nil {
			steps, r := o.refuse(ref, m, d, err.Error())
			return steps, r, nil
		}
		span = o.decisionSpans(traced, spanRelease, letter, d)
		steps = planPass(ref, letter, report, m, d, span)
	default:
		span = o.decisionSpans(traced, spanDiscard, letter, d)
		steps = planDiscard(ref, letter, m, d, span)
		if d.Tail && o.blocks(letter) {
			steps = append(o.planTail(ref, d), steps...)
		}
	}
	o.freedBy(ref, span)
	if traced.Cycle > d.Cycle && o.items[ref.Sequence] == nil {
		w.it = &item{ref: ref, key: stands.Key, cycle: traced.Cycle, slot: -1, recorded: true, span: span}
		w.it.history = w.it.history.At(traced.Cycle)
	}
	return steps, decisionResult{applied: true}, nil
}

// stopsDecision says why a decision about a dead letter that stands at its cycle cannot be applied, "" if it can.
func (o *owner) stopsDecision(ref streams.Ref, letter streams.Message, d streams.Decision) string {
	switch d.Action {
	case streams.ActionRedrive, streams.ActionEdit:
		l := o.lanes.all[ref.Lane]
		if l == nil {
			return ""
		}
		if lowest, ok := l.LowestParked(); ok && lowest < ref.Sequence {
			return fmt.Sprintf("an earlier event of its key is a dead letter: hint: decide about %s/%d first", o.fn.Name, lowest)
		}
	case streams.ActionRelease:
		report, err := advisories.ReadReport(letter)
		switch {
		case err == nil && report.Released != nil:
			return fmt.Sprintf("its lane was released by %s at %s", report.Released.By, report.Released.At.UTC().Format(time.RFC3339))
		case ref.Lane == streams.NoLane:
			return "it has no ordering key, so nothing is held behind it"
		case !o.blocks(letter):
			return "it does not block its lane, so nothing is held behind it"
		}
	}
	return ""
}

// blocks reports whether a dead letter keeps later events of its key waiting.
func (o *owner) blocks(letter streams.Message) bool {
	return !o.lanes.rules.Continue && advisories.Blocks(letter.Header)
}

// planTail ends what is held behind a dead letter, as far as it had arrived when that was decided.
func (o *owner) planTail(letter streams.Ref, d streams.Decision) []step {
	l := o.lanes.all[letter.Lane]
	if l == nil || letter.Lane == streams.NoLane {
		return nil
	}
	var steps []step
	for _, seq := range l.Tail(letter.Sequence) {
		if seq > d.Through {
			break
		}
		ref := streams.Ref{Function: letter.Function, Lane: letter.Lane, Sequence: seq}
		steps = append(steps, step{kind: stepPrepare, prepare: func(ctx context.Context) ([]step, error) {
			held, err := o.store.Last(ctx, streams.HeldStream, streams.InHeld.Subject(ref))
			if isNotFound(err) {
				return []step{{kind: stepTell, ref: ref, tell: lane.Done}}, nil
			}
			return planDiscardHeld(ref, letter, held, d), err
		}})
	}
	return steps
}

// planAfterwards handles a decision whose dead letter does not stand any more, or stands in another cycle: an earlier life may have
// applied it and died before it could say so. Otherwise it is refused, and why says what stands.
func (o *owner) planAfterwards(ctx context.Context, ref streams.Ref, m streams.Message, d streams.Decision, why string) ([]step, decisionResult, error) {
	records, err := o.store.Records(ctx, ref.Function, ref.Sequence)
	if err != nil {
		return nil, decisionResult{}, err
	}
	for _, r := range records {
		redriven := r.Kind == streams.RecordRedriven && d.Action == streams.ActionRedrive && r.Cycle == d.Cycle+1
		edited := r.Kind == streams.RecordEdited && d.Action == streams.ActionEdit && r.Cycle == d.Cycle+1
		discarded := r.Kind == streams.RecordDiscarded && d.Action == streams.ActionDiscard && r.Cycle == d.Cycle
		released := r.Kind == streams.RecordReleased && d.Action == streams.ActionRelease && r.Cycle == d.Cycle
		if (redriven || edited || discarded || released) && r.Ended.Equal(d.At) {
			return []step{
				{kind: stepAudit, audit: advisories.DecidedAudit(ref, d)}, // perhaps said already: it has the same id then
				{kind: stepDelete, stream: m.Stream, sequence: m.Sequence},
			}, decisionResult{applied: true}, nil
		}
	}
	if first := decidedBefore(records); first != "" {
		why += ": it was " + first
	}
	steps, r := o.refuse(ref, m, d, why)
	return steps, r, nil
}

// decidedBefore says what was decided last about an event, by whom and when; "" if nothing was.
func decidedBefore(records []streams.Record) string {
	for _, r := range slices.Backward(records) {
		switch r.Kind {
		case streams.RecordRedriven, streams.RecordEdited, streams.RecordDiscarded, streams.RecordReleased:
			return fmt.Sprintf("%s by %s at %s", r.Kind, r.By, r.Ended.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// refuse answers a stale decision: recorded, never dropped in silence.
func (o *owner) refuse(ref streams.Ref, m streams.Message, d streams.Decision, why string) ([]step, decisionResult) {
	return []step{
		{kind: stepAudit, audit: streams.AuditEntry{
			Action: "refused", Function: ref.Function, Sequence: ref.Sequence, Cycle: d.Cycle, By: d.By, Reason: why, At: d.At,
			Detail: map[string]string{"action": d.Action},
		}},
		{kind: stepDelete, stream: m.Stream, sequence: m.Sequence},
	}, decisionResult{refused: why}
}
