package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// hold moves an event from its source stream to HELD. There it costs no place in the window, no delivery and no timer, however long it waits.
func (o *owner) hold(ctx context.Context, it *item) {
	if it.ref.Sequence > o.replayed {
		o.place(ctx, it)
		return
	}
	o.load(ctx, it, func() {
		if h := it.history; h.Final != "" || h.Parked || h.Cycle > 0 {
			o.do(ctx, it, settle(it), func() { o.finish(it, lane.Done) }) // see replay
			return
		}
		o.place(ctx, it)
	})
}

func (o *owner) place(ctx context.Context, it *item) {
	now := time.Now().UTC()
	r := streams.Record{
		Function: o.fn.Name, Sequence: it.ref.Sequence, Kind: streams.RecordHeld, Cycle: it.cycle,
		Started: now, Ended: now, Boot: o.ledger.Boot(),
	}
	blocker := o.lanes.blockerOf(it.ref.Lane)
	if blocker != 0 {
		r.Reason = fmt.Sprintf("behind %s/%d", o.fn.Name, blocker)
	}
	span := o.holdSpan(ctx, it, blocker)
	r.TraceID, r.SpanID = span.TraceID, span.SpanID
	steps := planHold(it, o.declared.Stream, r, span)
	if l := o.lanes.all[it.ref.Lane]; l != nil && !l.announced && blocker != 0 && l.Position(blocker) == lane.Parked {
		l.announced = true
		// The first behind a dead letter makes a case of it. Those behind a retry wait for a moment, and would only be noise.
		steps = append(steps, step{kind: stepAudit, audit: streams.AuditEntry{
			Action: "held", Function: o.fn.Name, Sequence: it.ref.Sequence, Cycle: it.cycle, By: advisories.ByOwner, At: now,
			Reason: r.Reason, Detail: map[string]string{"key": it.key},
		}})
	}
	o.do(ctx, it, steps, func() {
		o.metrics.hold(o.fn.Name)
		o.finish(it, lane.HeldNow)
	})
}

// release moves an event from HELD to RETRY, where it is attempted like any other. What stands in HELD is not ours, or is not there any more,
// only if somebody else has written there.
func (o *owner) release(ctx context.Context, ref streams.Ref) {
	it := &item{ref: ref, slot: -1, phase: moving, recorded: true}
	o.items[ref.Sequence] = it
	gone := false
	read := func(ctx context.Context) ([]step, error) {
		held, err := o.store.Last(ctx, streams.HeldStream, streams.InHeld.Subject(ref))
		copied := streams.ReadCopy(held.Header, held.Data)
		if isNotFound(err) || err == nil && !copied.Ours() {
			gone = true
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		it.key, it.cycle = copied.Key, copied.Cycle
		it.history = it.history.At(copied.Cycle)
		if copied.Attempts > 0 { // an earlier life attempted it and lost its ledger
			records, err := o.store.Records(ctx, o.fn.Name, ref.Sequence)
			if err != nil {
				return nil, err
			}
			it.history = advisories.Fold(records).At(copied.Cycle)
			it.history.Records = nil
		}
		it.span = o.releaseSpans(it, held)
		return planRelease(ref, copied, held), nil
	}
	o.carry(ctx, &work{ref: ref, it: it, steps: []step{{kind: stepPrepare, prepare: read}}, then: func() {
		if gone {
			o.missing(it)
			return
		}
		o.metrics.release(o.fn.Name)
	}})
}
