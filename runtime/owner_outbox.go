package runtime

import (
	"context"
	"crypto/rand"

	"github.com/siding-dev/siding/streams"
)

// What an attempt emits is accepted when the attempt has succeeded, once. The final record is where that is decided, and it names the outbox: what
// stands there and is named by none was left by an attempt that a kill cut, and is forgotten.

// outbox is what an attempt emitted, nil if that is nothing.
func (o *owner) outbox(j *job, span spanRef) *streams.Outbox {
	if len(j.emitted) == 0 {
		return nil
	}
	out := &streams.Outbox{Function: o.fn.Name, Cause: j.it.ref.Sequence, ID: rand.Text(), Events: j.emitted}
	if c, ok := span.context(); ok {
		out.Hop = contextHeader(c)
	}
	return out
}

// planEmitted settles an event whose attempt emitted something; twice as in planDone.
func planEmitted(it *item, e ended, twice *streams.AuditEntry) []step {
	out, r := e.outbox, e.final(it, streams.RecordDelivered)
	r.Outbox = out.ID
	steps := []step{{kind: stepAside}}
	if twice != nil {
		steps = append(steps, step{kind: stepAudit, audit: *twice})
	}
	steps = append(steps, []step{
		{kind: stepStow, outbox: out},
		{kind: stepRecord, record: r},
		{kind: stepEmit, outbox: out},
		{kind: stepUnstow, outbox: out},
	}...)
	return append(steps, settle(it)...)
}

// recoverOutbox completes what a crash cut between the final record and EVENTS, and forgets what was never emitted. The events' own ends are
// stored behind that.
func (o *owner) recoverOutbox(ctx context.Context) error {
	all, err := o.store.Outboxes(ctx, o.fn.Name)
	if err != nil {
		return err
	}
	for _, out := range all {
		committed, err := o.store.Committed(ctx, out)
		if err != nil {
			return err
		}
		w := &work{ref: streams.Ref{Function: o.fn.Name, Sequence: out.Cause}, steps: []step{{kind: stepUnstow, outbox: out}}}
		if committed {
			o.moveCut(w.ref, "it had been delivered, and what it emitted had not been accepted")
			w.steps = []step{{kind: stepAside}, {kind: stepEmit, outbox: out}, {kind: stepUnstow, outbox: out}}
		}
		o.carry(context.WithoutCancel(ctx), w)
	}
	return nil
}
