package runtime

import (
	"context"
	"errors"

	"github.com/siding-dev/siding/streams"
)

// Bounds of how many works are applied beside the owner. From busyAside on it takes no more events, because what runs and what is released
// would wait behind their holds; at maxAside it waits.
const (
	busyAside = 16
	maxAside  = 64
)

// aside is a work that is applied beside the owner, as far as it only stores: the answer of a stream is a matter of waiting, and meanwhile the
// owner can hand out other keys' events. One event's works are still applied one after the other, and the steps of each in order.
type aside struct {
	w      *work
	behind []*work // of the same event
}

// landing says how far a work has come beside the owner.
type landing struct {
	w    *work
	done int // steps
	err  error
}

var errNotApplied = errors.New("it was not applied")

// depart applies the next steps of w beside the owner, up to one that only the owner can apply. When too many are on their way it waits for one.
func (o *owner) depart(ctx context.Context, w *work) {
	for o.departed == maxAside {
		o.land(ctx, <-o.landings)
	}
	o.departed++
	if o.asides[w.ref.Sequence] == nil {
		o.asides[w.ref.Sequence] = &aside{w: w}
	}
	n := 0
	for n < len(w.steps) && w.steps[n].stores() {
		n++
	}
	steps := w.steps[:n:n]
	go func() {
		l := landing{w: w, err: errNotApplied}
		defer func() { o.landings <- l }() // it has room for all of them
		for l.done < n {
			if err := o.put(ctx, w.ref, steps[l.done]); err != nil {
				l.err = err
				return
			}
			l.done++
		}
		l.err = nil
	}()
}

// land goes on with a work that comes back.
func (o *owner) land(ctx context.Context, l landing) {
	o.departed--
	l.w.steps = l.w.steps[l.done:]
	if l.err != nil {
		o.keep(l.w, l.err)
		return
	}
	o.carry(ctx, l.w)
}

// landAll waits for everything that is applied beside the owner. Each step of it has a time limit.
func (o *owner) landAll(ctx context.Context) {
	for o.departed+o.syncs.pending() > 0 {
		select {
		case l := <-o.landings:
			o.land(ctx, l)
		case err := <-o.syncs.done:
			o.onSynced(ctx, err)
		}
	}
}

// stores reports whether a step only stores something, and changes nothing that the owner knows.
func (s step) stores() bool {
	switch s.kind {
	case stepRecord, stepAudit, stepLeave, stepDelete, stepStow, stepEmit, stepUnstow, stepForgetSteps:
		return true
	case stepPlace:
		return s.place != streams.InRetry
	default:
		return false
	}
}

// put applies a step that only stores. Any goroutine may.
func (o *owner) put(ctx context.Context, ref streams.Ref, s step) error {
	switch s.kind {
	case stepRecord:
		return o.store.Append(ctx, s.record)
	case stepAudit:
		return o.store.Audit(ctx, s.audit)
	case stepPlace:
		_, err := o.store.Place(ctx, s.place, ref, s.copy)
		return err
	case stepStow:
		return o.store.Stow(ctx, s.outbox)
	case stepEmit:
		return o.store.Emit(ctx, s.outbox)
	case stepUnstow:
		return o.store.Delete(ctx, streams.OutboxStream, s.outbox.Sequence)
	case stepForgetSteps:
		return o.store.ForgetSteps(ctx, o.fn.Name, s.event.Source(), s.event.ID())
	case stepLeave:
		return o.store.AckGone(ctx, streams.RetryStream, s.sequence, s.msg)
	default:
		return o.store.Delete(ctx, s.stream, s.sequence)
	}
}
