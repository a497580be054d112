package runtime

import (
	"context"
	"slices"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// prepare hands the item's copy, with headers and body, to plan, and applies what that says. A copy that nobody holds in memory is
// read back from where it stands; one that stands nowhere is an alarm.
func (o *owner) prepare(ctx context.Context, it *item, plan func(streams.Copy) []step, then func()) {
	it.phase = moving
	delete(o.held, it.ref.Sequence)
	gone := false
	read := func(ctx context.Context) ([]step, error) {
		c, err := o.copyOf(ctx, it)
		if isNotFound(err) {
			gone = true
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return plan(c), nil
	}
	o.carry(ctx, &work{ref: it.ref, it: it, steps: []step{{kind: stepPrepare, prepare: read}}, then: func() {
		if gone {
			o.missing(it)
			return
		}
		then()
	}})
}

func (o *owner) copyOf(ctx context.Context, it *item) (streams.Copy, error) {
	c := it.copy(o.declared.Stream)
	if it.header != nil || it.data != nil {
		return c, nil
	}
	if it.retry == 0 {
		m, err := o.store.Get(ctx, o.declared.Stream, it.ref.Sequence)
		c.Header, c.Data = m.Header, m.Data
		return c, err
	}
	m, err := o.store.Get(ctx, streams.RetryStream, it.retry)
	if err != nil {
		return c, err
	}
	stands := streams.ReadCopy(m.Header, m.Data)
	c.Header, c.Data, err = o.store.Resolve(ctx, it.ref, stands)
	return c, err
}

// origin finds out on which subject, and when, the event was stored: a life that found it in RETRY was not told. A source stream that
// does not have it any more leaves both empty.
func (o *owner) origin(ctx context.Context, it *item) error {
	if it.subject != "" {
		return nil
	}
	m, err := o.store.Get(ctx, o.declared.Stream, it.ref.Sequence)
	if isNotFound(err) {
		return nil
	}
	it.subject, it.stored = m.Subject, m.Time
	return err
}

// missing is an event that stands nowhere although nobody finished it. Siding never does that: somebody deleted it.
func (o *owner) missing(it *item) {
	o.log.Error("an event that was not finished has disappeared; `siding account` names it", "event", it.ref.ID())
	o.endSlot(it)
	o.finish(it, lane.Done)
}

// park makes the item a dead letter.
func (o *owner) park(ctx context.Context, it *item, cause advisories.Cause, by string) {
	span, why := it.span, o.explain(it)
	var report advisories.Report
	o.prepare(ctx, it, func(c streams.Copy) []step {
		return []step{{kind: stepPrepare, prepare: func(ctx context.Context) ([]step, error) {
			records := []streams.Record{it.history.Last}
			if !it.sole {
				var err error
				if records, err = o.store.Records(ctx, o.fn.Name, it.ref.Sequence); err != nil {
					return nil, err
				}
			}
			if err := o.origin(ctx, it); err != nil {
				return nil, err
			}
			h := it.history
			h.Records = slices.DeleteFunc(records, func(r streams.Record) bool { return r.Cycle > it.cycle })
			report = advisories.NewReport(h, cause, by, time.Now())
			report.Stream, report.Subject, report.StoredAt, report.Cycle = o.declared.Stream, it.subject, it.stored, it.cycle
			if it.event.ID() == "" {
				if e, err := streams.Decode(c.Header, c.Data); err == nil {
					it.event = e
				}
			}
			it.header = c.Header
			t := o.traced(it)
			report.Version, report.Diagnosis = o.fn.Version, why
			if ref := o.tracer.moment(t, spanPark, span, attrCause(cause), attrBy(by)); ref != (spanRef{}) {
				report.TraceID, report.SpanID = ref.TraceID, ref.SpanID
			} else {
				report.TraceID = traceIDOf(t)
			}
			return planPark(it, c, report), nil
		}}}
	}, func() {
		o.metrics.dead(o.fn.Name, cause, by)
		end := lane.Park
		if cause == advisories.Expired || cause == advisories.SetAside {
			end = lane.ParkPassing
		}
		o.finish(it, end)
	})
}

// onNotice reaches the verdict on an advisory and applies it. The advisory is acknowledged after that: while a step of it cannot be stored
// the advisory is left, and comes again.
func (o *owner) onNotice(ctx context.Context, n notice) {
	o.heard = time.Now()
	if n.Stream != streams.RetryStream || n.Kind != advisories.MaxDeliveries {
		o.metrics.advisory(string(n.Kind), advisories.Nothing)
		n.done()
		return
	}
	s := advisories.Standing{Allowed: o.fn.Retry.Attempts}
	it := o.inRetry[n.Sequence]
	if it != nil {
		s.Known, s.Sequence, s.Attempts = true, it.retry, it.attempts()
		s.Decided, s.InHand, s.Leaving = it.history.Cause != "", it.inMemory(), it.phase == moving
	}
	verdict := advisories.Judge(n.Sequence, s)
	o.metrics.advisory(string(n.Kind), verdict)
	switch verdict {
	case advisories.Park:
		o.park(ctx, it, advisories.Exhausted, advisories.ByAdvisory)
	case advisories.MarkDead:
		it.dead = true
	case advisories.GiveBack:
		o.giveBack(ctx, it)
	case advisories.Nothing:
	}
	if it == nil || it.phase != moving || o.items[it.ref.Sequence] != it {
		n.done()
	}
}

// giveBack returns deliveries that were used up without an attempt: a durable record first, then the copy is written anew.
func (o *owner) giveBack(ctx context.Context, it *item) {
	now := time.Now().UTC()
	it.sole = false
	r := streams.Record{
		Function: o.fn.Name, Sequence: it.ref.Sequence, Kind: streams.RecordGivenBack, Cycle: it.cycle, Attempt: it.attempts(),
		Started: now, Ended: now, Boot: o.ledger.Boot(),
	}
	o.do(ctx, it, []step{{kind: stepRecord, record: r}}, func() { o.rewrite(ctx, it) })
}

// sweep looks for work that lost its trigger: what the records call exhausted and nobody parked, what stands in RETRY unknown to
// us, and what should have been delivered long ago.
func (o *owner) sweep(ctx context.Context) {
	o.metrics.swept()
	now := time.Now()
	for _, it := range o.inRetry {
		switch {
		case it.phase == exhausted && now.Sub(it.since) > 2*time.Second:
			o.park(ctx, it, advisories.Exhausted, advisories.BySweep)
		case it.phase == waiting && now.Sub(it.due) > o.overdue() && now.Sub(it.since) > o.overdue():
			o.giveBack(ctx, it)
		}
	}
	refs, err := o.store.Standing(ctx, streams.InRetry, o.fn.Name)
	if err != nil {
		o.fault(err)
		return
	}
	stands := make(map[uint64]bool, len(refs))
	for _, ref := range refs {
		stands[ref.Sequence] = true
		if o.items[ref.Sequence] != nil {
			continue
		}
		if err := o.adoptStanding(ctx, ref); err != nil {
			o.fault(err)
		}
	}
	for _, it := range o.inRetry {
		if (it.phase == waiting || it.phase == exhausted) && !stands[it.ref.Sequence] {
			o.missing(it)
		}
	}
	if err := o.lookAhead(ctx); err != nil {
		o.fault(err)
	}
	o.measure(ctx)
	o.judgeHolds(ctx)
}

// overdue is how long RETRY may stay silent about a copy that is due: an AckWait, in which even a lost nak comes back, and more.
func (o *owner) overdue() time.Duration { return o.store.AckWait() + time.Minute }

// adoptStanding takes up a copy in RETRY that nobody has in hand.
func (o *owner) adoptStanding(ctx context.Context, ref streams.Ref) error {
	m, err := o.store.Last(ctx, streams.RetryStream, streams.InRetry.Subject(ref))
	if isNotFound(err) {
		return nil // gone meanwhile
	}
	if err != nil {
		return err
	}
	c := streams.ReadCopy(m.Header, nil)
	if !c.Ours() {
		return nil // the account names it
	}
	o.stand(ref, lane.Waiting)
	it := o.adopt(ref, c, m.Sequence)
	it.since = time.Now()
	o.items[ref.Sequence] = it
	o.load(ctx, it, func() {
		it.history.Copied(c.Attempts)
		it.phase, it.due = waiting, it.history.Due
		if it.history.Final != "" {
			o.do(ctx, it, settle(it), func() { o.finish(it, lane.Done) })
		}
	})
	return nil
}

// measure states how many dead letters stand, and since when, and looks whether each blocker that should be among them is.
func (o *owner) measure(ctx context.Context) {
	refs, err := o.store.Standing(ctx, streams.InDeadLetters, o.fn.Name)
	if err != nil {
		return
	}
	var oldest time.Time
	if m, err := o.store.Next(ctx, streams.DeadLetterStream(o.fn.Name), 1, streams.InDeadLetters.Filter(o.fn.Name)); err == nil {
		oldest = m.Time
	}
	o.metrics.standing(o.fn.Name, len(refs), oldest)
	stands := make(map[uint64]bool, len(refs))
	for _, ref := range refs {
		stands[ref.Sequence] = true
	}
	for _, l := range o.lanes.all {
		if seq, at := l.Blocker(); at == lane.Parked && !stands[seq] {
			ref := streams.Ref{Function: o.fn.Name, Lane: l.token, Sequence: seq}
			o.log.Error("a dead letter that was not decided about has disappeared; its lane goes on without it, and `siding account` names it", "event", ref.ID())
			o.tell(ref, lane.Done)
		}
	}
}
