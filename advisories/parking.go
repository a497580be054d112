package advisories

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// Letter is the dead letter of an event: a copy of it with its report.
func Letter(source streams.Copy, report Report) streams.Copy {
	c := source
	c.Cycle, c.Attempts, c.Extra = report.Cycle, report.Attempts, report.Headers()
	return c
}

// ParkedRecord is the record that ends a cycle as a dead letter.
func ParkedRecord(ref streams.Ref, r Report) streams.Record {
	return streams.Record{
		Function: ref.Function, Sequence: ref.Sequence, Kind: streams.RecordParked, Cycle: r.Cycle, Attempt: r.Attempts,
		Class: r.Class, Cause: string(r.Cause), By: r.ParkedBy, Started: r.ParkedAt, Ended: r.ParkedAt,
		TraceID: r.TraceID, SpanID: r.SpanID, Version: r.Version,
	}
}

// Why is what the audit says about the failure of a dead letter beyond its cause. The audit is kept long after the event has been decided about, so
// that nothing of the event's data may stand in it: Text leaves out what an error quotes.
type Why struct {
	Source string // of the event, "" if it cannot be read
	Text   string // of the error, without what differs from event to event
	Group  string // id of all failures of the function that are alike
}

// maxSource bounds the source in an audit entry, in bytes.
const maxSource = 1 << 10

// ParkedAudit is the audit entry of a dead letter.
func ParkedAudit(ref streams.Ref, r Report, why Why) streams.AuditEntry {
	detail := map[string]string{"class": r.Class, "trace_id": r.TraceID}
	for name, text := range map[string]string{"source": (&Report{}).cut(why.Source, maxSource), "why": why.Text, "group": why.Group} {
		if text != "" {
			detail[name] = text
		}
	}
	return streams.AuditEntry{
		Action: "parked", Function: ref.Function, Sequence: ref.Sequence, Cycle: r.Cycle, By: r.ParkedBy, At: r.ParkedAt,
		Reason: string(r.Cause), Detail: detail,
	}
}

// SourceOf is the source of an event that is stored with these headers and data, "" for what is no event.
func SourceOf(header nats.Header, data []byte) string {
	a, err := streams.ReadAttributes(header, data)
	if err != nil {
		return ""
	}
	return a.Source()
}

// Orphans parks and discards for functions that are declared but not hosted: nobody else writes their streams then.
type Orphans struct {
	Store *streams.Store
	// Hosted reports whether a function has an owner in this process.
	Hosted func(function string) bool
	// Explain leaves of an error's text what is common to all of its kind, and gives the id of that; nil = no error is told.
	Explain func(class, text string) (common, group string)
}

// Exhausted handles an advisory for a function that nobody hosts. What the records call exhausted is parked; everything else
// stays in RETRY, visibly waiting for its function to come back.
func (o *Orphans) Exhausted(ctx context.Context, function string, sequence uint64) (Verdict, error) {
	m, err := o.Store.Get(ctx, streams.RetryStream, sequence)
	if isAbsent(err) {
		return Nothing, nil
	}
	if err != nil {
		return Nothing, err
	}
	_, ref, notOurs := streams.ParseSubject(m.Subject)
	if notOurs != nil || ref.Function != function {
		return Nothing, nil //nolint:nilerr // a message with a subject that is not ours is nobody's dead letter
	}
	d, err := o.Store.Declared(ctx, function)
	if isAbsent(err) {
		return Nothing, nil
	}
	if err != nil {
		return Nothing, err
	}
	records, err := o.Store.Records(ctx, ref.Function, ref.Sequence)
	if err != nil {
		return Nothing, err
	}
	copied := streams.ReadCopy(m.Header, m.Data)
	h := Fold(records).At(copied.Cycle)
	h.Copied(copied.Attempts)
	verdict := Judge(sequence, Standing{Known: true, Sequence: m.Sequence, Attempts: h.Attempts, Allowed: d.Attempts, Decided: h.Cause != ""})
	if verdict != Park {
		return Nothing, nil // a GiveBack would only be undone by the reset when the function is hosted again
	}
	cause := Exhausted
	if h.Cause != "" {
		cause = Cause(h.Cause)
	}
	return Park, o.park(ctx, ref, m, copied, NewReport(h, cause, ByAdvisory, time.Now()))
}

// park writes the dead letter before it deletes what it is a copy of. Repeated after a crash, it tells the story of the dead letter
// that stands already, so that records and audit do not tell it twice.
func (o *Orphans) park(ctx context.Context, ref streams.Ref, m streams.Message, copied streams.Copy, r Report) error {
	r.Stream = copied.Source
	why := Why{Source: SourceOf(copied.Header, copied.Data)}
	if source, err := o.Store.Get(ctx, copied.Source, ref.Sequence); err == nil {
		r.Subject, r.StoredAt = source.Subject, source.Time
		why.Source = SourceOf(source.Header, source.Data)
	}
	placed, err := o.Store.Place(ctx, streams.InDeadLetters, ref, Letter(copied, r))
	if err != nil {
		return err
	}
	if placed.Already {
		letter, err := o.Store.Get(ctx, streams.DeadLetterStream(ref.Function), placed.Sequence)
		if err != nil {
			return err
		}
		if r, err = ReadReport(letter); err != nil {
			return err
		}
	}
	if err := o.Store.Append(ctx, ParkedRecord(ref, r)); err != nil {
		return err
	}
	if o.Explain != nil {
		why.Text, why.Group = o.Explain(r.Class, r.Error)
	}
	if err := o.Store.Audit(ctx, ParkedAudit(ref, r, why)); err != nil {
		return err
	}
	return o.Store.Delete(ctx, m.Stream, m.Sequence)
}

// Decisions applies the discards that wait for functions nobody hosts. Everything else goes on waiting: there is no handler to run and
// no owner to let a lane go on.
func (o *Orphans) Decisions(ctx context.Context) error {
	names, err := o.Store.DeclaredNames(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if o.Hosted(name) {
			continue
		}
		refs, err := o.Store.Standing(ctx, streams.InDecisions, name)
		if err != nil {
			return err
		}
		for _, ref := range refs {
			if err := o.decide(ctx, ref); err != nil {
				return fmt.Errorf("decision on %s: %w", ref.ID(), err)
			}
		}
	}
	return nil
}

func (o *Orphans) decide(ctx context.Context, ref streams.Ref) error {
	m, err := o.Store.Last(ctx, streams.DecisionsStream, streams.InDecisions.Subject(ref))
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	d, err := streams.ReadDecision(m.Data)
	if err == nil && d.Action != streams.ActionDiscard {
		return nil // there is no handler to run it, nor what it holds up
	}
	letter, findErr := o.Store.Last(ctx, streams.DeadLetterStream(ref.Function), streams.InDeadLetters.Subject(ref))
	if findErr != nil && !isAbsent(findErr) {
		return findErr
	}
	if err != nil || findErr != nil || streams.ReadCopy(letter.Header, nil).Cycle != d.Cycle {
		last, ok, lastErr := o.Store.LastRecord(ctx, ref.Function, ref.Sequence)
		if lastErr != nil {
			return lastErr
		}
		// An earlier try of this very decision may have died after it had deleted the dead letter.
		applied := err == nil && ok && last.Kind == streams.RecordDiscarded && last.Cycle == d.Cycle && last.Ended.Equal(d.At)
		if !applied {
			if err := o.Store.Audit(ctx, streams.AuditEntry{
				Action: "refused", Function: ref.Function, Sequence: ref.Sequence, Cycle: d.Cycle, By: d.By, At: d.At,
				Reason: "no dead letter stands at this cycle",
			}); err != nil {
				return err
			}
		}
		return o.Store.Delete(ctx, streams.DecisionsStream, m.Sequence)
	}
	if d.Tail && Blocks(letter.Header) {
		if err := o.discardTail(ctx, ref, d); err != nil {
			return err
		}
	}
	if err := o.Store.Audit(ctx, DecidedAudit(ref, d)); err != nil {
		return err
	}
	if streams.ReadCopy(letter.Header, nil).Ours() { // what somebody else wrote there was never an event
		if err := o.Store.Append(ctx, DiscardedRecord(ref, d)); err != nil {
			return err
		}
	}
	if err := o.Store.Delete(ctx, letter.Stream, letter.Sequence); err != nil {
		return err
	}
	return o.Store.Delete(ctx, streams.DecisionsStream, m.Sequence)
}

// discardTail ends what is held behind a dead letter that blocks its lane. The dead letter itself comes after it: while it stands, the decision
// can be repeated. Where a function continues behind its dead letters, what is held waits for something else.
func (o *Orphans) discardTail(ctx context.Context, letter streams.Ref, d streams.Decision) error {
	declared, err := o.Store.Declared(ctx, letter.Function)
	if err != nil || declared.OnPark == functions.Continue.String() {
		return err
	}
	refs, err := o.Store.Standing(ctx, streams.InHeld, letter.Function)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if ref.Lane != letter.Lane || ref.Lane == streams.NoLane || ref.Sequence <= letter.Sequence || ref.Sequence > d.Through {
			continue
		}
		held, err := o.Store.Last(ctx, streams.HeldStream, streams.InHeld.Subject(ref))
		if isAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := o.Store.Audit(ctx, DiscardedTailAudit(ref, letter, d)); err != nil {
			return err
		}
		if err := o.Store.Append(ctx, DiscardedRecord(ref, streams.Decision{By: d.By, Reason: d.Reason, At: d.At})); err != nil {
			return err
		}
		if err := o.Store.Delete(ctx, held.Stream, held.Sequence); err != nil {
			return err
		}
	}
	return nil
}

// DiscardedRecord ends an event by a decision.
func DiscardedRecord(ref streams.Ref, d streams.Decision) streams.Record {
	return streams.Record{
		Function: ref.Function, Sequence: ref.Sequence, Kind: streams.RecordDiscarded, Cycle: d.Cycle,
		By: d.By, Reason: d.Reason, Started: d.At, Ended: d.At,
	}
}

// DecidedAudit is the audit entry of an applied decision. Its time is the decision's, so that applying it again after a crash
// does not say it twice.
func DecidedAudit(ref streams.Ref, d streams.Decision) streams.AuditEntry {
	entry := streams.AuditEntry{Function: ref.Function, Sequence: ref.Sequence, Cycle: d.Cycle, By: d.By, Reason: d.Reason, At: d.At}
	switch d.Action {
	case streams.ActionDiscard:
		entry.Action = "discarded"
	case streams.ActionRelease:
		entry.Action, entry.Detail = "released", map[string]string{"order": "out of order"}
	case streams.ActionEdit:
		entry.Action, entry.Detail = "edited", map[string]string{"source": d.Source}
		if d.ForgetSteps {
			entry.Detail["steps"] = "forgotten"
		}
	default:
		entry.Action = "redriven"
	}
	return entry
}

// DiscardedTailAudit is the audit entry of an event that was held behind a dead letter and was discarded with it.
func DiscardedTailAudit(ref, letter streams.Ref, d streams.Decision) streams.AuditEntry {
	d.Cycle = 0 // an event is held in its first life
	entry := DecidedAudit(ref, d)
	entry.Detail = map[string]string{"with": letter.ID()}
	return entry
}
