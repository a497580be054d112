package runtime

import (
	"context"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// onResult decides what an attempt came to.
func (o *owner) onResult(ctx context.Context, j *job) {
	it := j.it
	if it.job != j { // given up as stuck, long ago or while the result was on its way
		o.abandoned--
		o.judgeStuck(ctx)
		o.returned(it.ref)
		return
	}
	delete(o.attempting, it.ref.Sequence)
	it.job = nil
	e := ended{
		result: j.result, number: j.attempt.Number, started: j.started, at: j.ended,
		version: o.fn.Version, boot: o.ledger.Boot(),
	}
	var delay time.Duration
	again := false
	if e.result.Outcome == functions.Retried && e.result.Class != functions.ClassStopping && !e.result.Suspend {
		delay, again = o.fn.Retry.For(e.result).Next(e.number, it.history.CycleFailed, e.at, e.result.After, o.random())
	}
	suspending := e.result.Outcome == functions.Retried && e.result.Suspend
	free := e.result.Class != functions.ClassStopping && !suspending && o.diagnose(ctx, it, e, !again)
	if free {
		e.result.Outcome, delay = functions.Retried, 0
	}
	j.span.end(e.result, delay) //nolint:contextcheck // a span is no part of the owner's context
	e.span = j.span.ref()
	switch {
	case e.span != (spanRef{}):
		it.span, e.trace = e.span, e.span.TraceID
	case e.result.Outcome != functions.Done:
		e.trace = traceIDOf(j.traced)
	}
	switch {
	case e.result.Outcome == functions.Done:
		e.outbox = o.outbox(j, e.span) //nolint:contextcheck // a span is no part of the owner's context
		o.do(ctx, it, planDone(it, e, o.twice(it, e)), func() { o.endSlot(it); o.finish(it, lane.Done) })
	case e.result.Outcome == functions.Discarded:
		o.tracer.moment(o.traced(it), spanDiscard, it.span, attrReason(e.result.Err.Error()), attrBy(o.fn.Name))
		o.do(ctx, it, planDiscarded(it, e), func() { o.endSlot(it); o.finish(it, lane.Done) })
	case e.result.Class == functions.ClassStopping:
		o.endSlot(it) // interrupted by us: not charged, and it comes back at the next start
		it.phase = moving
	case suspending:
		o.onSuspend(ctx, it, e.result.Err)
	case free:
		o.uncharged(ctx, it, e)
	case e.result.Outcome == functions.Parked:
		cause := advisories.Permanent
		if e.result.Class == functions.ClassUndecodable {
			cause = advisories.Undecodable
		}
		o.failed(ctx, it, e.record(it, cause, time.Time{}))
	case again:
		o.failed(ctx, it, e.record(it, "", e.at.Add(delay)))
	default:
		o.failed(ctx, it, e.record(it, advisories.Exhausted, time.Time{}))
	}
}

// failed writes the record of a failed attempt, and then does what the record says. Whatever dies after the record, the record
// alone tells the next process how to go on.
func (o *owner) failed(ctx context.Context, it *item, r streams.Record) {
	r = r.Bounded() // the history keeps the last one in memory
	it.sole = it.retry == 0 && !it.recorded && it.attempts() == 0 && it.ref.Sequence > o.replayed
	it.history.Add(r)
	o.do(ctx, it, []step{{kind: stepRecord, record: r}}, func() {
		o.endSlot(it)
		o.goOn(ctx, it)
	})
}

// goOn continues an event whose history says that an attempt failed, from wherever it stands.
func (o *owner) goOn(ctx context.Context, it *item) {
	h := it.history
	it.due = h.Due
	cause := advisories.Cause(h.Cause)
	switch {
	case cause != "" && cause != advisories.Exhausted:
		o.park(ctx, it, cause, whoParks(cause))
	case it.retry == 0:
		// Also an exhausted one: RETRY is where JetStream's own counter says so.
		o.do(ctx, it, planRetry(it, o.declared.Stream), func() {
			it.release()
			it.phase = waiting
			o.tell(it.ref, lane.Retry)
		})
	case o.isExhausted(it):
		o.exhaust(ctx, it)
	default:
		o.postpone(ctx, it)
	}
}

func (o *owner) isExhausted(it *item) bool {
	return it.history.Cause == string(advisories.Exhausted) || it.attempts() >= o.fn.Retry.Attempts
}

// exhaust gives the last delivery back, which makes JetStream say that it was the last one. Where the delivery was not the last
// that JetStream would make (its counts were wiped by a restart, or a budget ended early), or where it has spoken already, no
// advisory can come and the owner parks at once.
func (o *owner) exhaust(ctx context.Context, it *item) {
	if it.dead || it.deliveries < o.fn.Retry.Attempts || it.msg == nil {
		if o.timing.advisory > 0 {
			o.park(ctx, it, advisories.Exhausted, advisories.ByOwner)
			return
		}
	}
	it.release()
	it.phase, it.since = exhausted, time.Now()
	o.held[it.ref.Sequence] = it
	if o.timing.advisory > 0 {
		o.wake(it.since.Add(o.timing.advisory))
	}
	if it.msg != nil && !it.dead {
		o.store.Nak(it.msg, 0)
	}
}

// postpone gives the delivery back until the item is due.
func (o *owner) postpone(ctx context.Context, it *item) {
	rest := time.Until(it.due)
	switch {
	case it.dead || it.deliveries >= o.fn.Retry.Attempts:
		o.rewrite(ctx, it)
	default:
		it.release()
		it.phase = waiting
		o.store.Nak(it.msg, rest)
		o.tell(it.ref, lane.Retry)
	}
}

// rewrite writes the copy in RETRY anew: JetStream will not deliver the old one again, and counts the new one from 1.
func (o *owner) rewrite(ctx context.Context, it *item) {
	old := it.retry
	o.prepare(ctx, it, func(c streams.Copy) []step {
		c.Attempts = it.attempts()
		return []step{{kind: stepRewrite, copy: c, sequence: old}}
	}, func() {
		it.release()
		it.phase, it.since = waiting, time.Now()
		o.tell(it.ref, lane.Retry)
	})
}
