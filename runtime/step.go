package runtime

import (
	"context"
	"errors"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// stepKind is one kind of change to a stream or to the ledger.
type stepKind int

// The kinds of step. Each may be applied twice: that is what a crash between it and the next one amounts to.
const (
	stepRecord      stepKind = iota // append an attempt record
	stepAudit                       // append an audit entry
	stepPlace                       // create the event at another place
	stepRewrite                     // write the copy in RETRY anew, so that JetStream counts its deliveries from 1
	stepMark                        // mark the source sequence as settled in the ledger
	stepSync                        // bring the ledger to the disk; it follows each mark of a node that syncs always
	stepAck                         // acknowledge the delivery of the source stream
	stepLeave                       // remove the copy in RETRY; its item is finished after that
	stepDelete                      // delete one message by its sequence
	stepStow                        // store in the outbox what the attempt emitted
	stepEmit                        // publish what stands in the outbox
	stepUnstow                      // remove it there
	stepForgetSteps                 // forget the steps of the event that were done
	stepReplace                     // write a copy over the one with a sequence
	stepDeclare                     // write the function's declaration with its suspension
	stepUncharge                    // let an event in memory go on with attempts that it got back; nothing is stored
	stepTell                        // tell the event's lane; nothing is stored
	stepWait                        // the event waits in RETRY from here on, as its lane is told; nothing is stored
	stepAside                       // what follows is applied beside the owner, as far as it only stores
	stepPrepare                     // read what the rest of the plan depends on, and put that in its place
)

// step is one change, as data. Plans are lists of them. The owner applies them in order, or has that done beside it; see aside.
type step struct {
	kind     stepKind
	record   streams.Record
	audit    streams.AuditEntry
	place    streams.Place
	copy     streams.Copy
	msg      jetstream.Msg
	stream   string
	sequence uint64
	ref      streams.Ref // of stepTell and stepWait
	tell     func(uint64) lane.Input
	prepare  func(context.Context) ([]step, error)
	// suspension is what stepDeclare writes; nil when the function is not suspended.
	suspension *streams.Suspension
	outbox     *streams.Outbox // of stepStow, stepEmit and stepUnstow, which follow each other
	event      event.Event     // of stepForgetSteps
}

// work is what remains to be applied of one plan. While a step fails, it and the ones behind it are kept and repeated: the source
// of every move stays where it is until then.
type work struct {
	ref    streams.Ref
	it     *item
	steps  []step
	then   func()
	failed int
	next   time.Time // when the failed step is repeated
}

// Bounds of the pause before a failed step is repeated.
const (
	minRepeat = 100 * time.Millisecond
	maxRepeat = 5 * time.Second
)

func (w *work) pause() time.Duration {
	return min(minRepeat<<min(w.failed-1, 10), maxRepeat)
}

// stretch is how many steps of one work are applied without a look at anything else. Plans are a few steps long, but a discard with its tail
// can be as long as what is held, and must not keep other keys waiting.
const stretch = 64

// progress is how far a work has come.
type progress int

const (
	applied  progress = iota
	kept              // a step failed, or there are many
	departed          // it is applied beside the owner
)

// apply does what remains of w.
func (o *owner) apply(ctx context.Context, w *work) progress {
	for n := 0; len(w.steps) > 0; n++ {
		if n == stretch {
			w.next = time.Now()
			o.stalled = append(o.stalled, w)
			o.wake(w.next)
			return kept
		}
		if w.steps[0].kind == stepAside {
			w.steps = w.steps[1:]
			if o.stopping {
				continue
			}
			o.depart(ctx, w)
			return departed
		}
		if w.steps[0].kind == stepSync && !o.stopping {
			o.awaitSync(w)
			return departed
		}
		more, err := o.step(ctx, w, w.steps[0])
		if err != nil {
			o.keep(w, err)
			return kept
		}
		if more != nil {
			w.steps = append(more, w.steps[1:]...)
		} else {
			w.steps = w.steps[1:]
		}
	}
	if w.then != nil {
		w.then()
	}
	return applied
}

// mine reports whether nobody else has taken the event of w in hand: what stood in RETRY without an answer may have been delivered since.
func (o *owner) mine(w *work) bool {
	it := o.items[w.ref.Sequence]
	return it == nil || it == w.it
}

// keep repeats later what could not be stored.
func (o *owner) keep(w *work, err error) {
	w.failed++
	w.next = time.Now().Add(w.pause())
	o.stepFailed(w, err)
	o.stalled = append(o.stalled, w)
	o.wake(w.next)
}

// replace writes a copy over the one that a plan has read. Where another message stands by now it may be this very copy, written by a try whose
// answer was lost; what is not of the event at this cycle is left alone.
func (o *owner) replace(ctx context.Context, ref streams.Ref, s step) error {
	_, err := o.store.Replace(ctx, s.place, ref, s.copy, s.sequence)
	if !errors.Is(err, streams.ErrOccupied) {
		return err
	}
	m, ours, err := o.ours(ctx, s.place, ref)
	if err != nil || !ours || streams.ReadCopy(m.Header, nil).Cycle != s.copy.Cycle {
		return err
	}
	_, err = o.store.Replace(ctx, s.place, ref, s.copy, m.Sequence)
	return err
}

// step applies one change, or finds out which ones there are.
func (o *owner) step(ctx context.Context, w *work, s step) (more []step, err error) {
	if s.kind == stepPrepare {
		return s.prepare(ctx)
	}
	err = o.change(ctx, w, s)
	if s.kind == stepMark && o.syncs.always && err == nil {
		more = []step{{kind: stepSync}}
	}
	return more, err
}

func (o *owner) change(ctx context.Context, w *work, s step) error {
	if s.stores() {
		return o.put(ctx, w.ref, s)
	}
	switch s.kind {
	case stepPlace:
		placed, err := o.store.Place(ctx, s.place, w.ref, s.copy)
		if err == nil && w.it != nil && !placed.Stale && o.mine(w) {
			o.standsInRetry(w.it, placed.Sequence)
		}
		return err
	case stepRewrite:
		sequence, err := o.store.Replace(ctx, streams.InRetry, w.ref, s.copy, s.sequence)
		if errors.Is(err, streams.ErrOccupied) { // somebody removed what we hold in hand: it is put back
			var placed streams.Placed
			placed, err = o.store.Place(ctx, streams.InRetry, w.ref, s.copy)
			sequence = placed.Sequence
		}
		if err == nil {
			o.standsInRetry(w.it, sequence)
		}
		return err
	case stepReplace:
		return o.replace(ctx, w.ref, s)
	case stepDeclare:
		declared := o.declared.Suspend(s.suspension)
		err := o.store.Declare(ctx, declared)
		if err == nil {
			o.declared = declared
		}
		return err
	case stepUncharge:
		o.unchargeItem(ctx, s.ref.Sequence, s.record)
		return nil
	case stepTell:
		o.tell(s.ref, s.tell)
		return nil
	case stepWait:
		if w.it != nil && o.mine(w) {
			o.items[w.ref.Sequence] = w.it
			w.it.phase, w.it.since, w.it.due = waiting, time.Now(), w.it.history.Due
		}
		o.tell(s.ref, s.tell)
		return nil
	case stepMark:
		var err error
		o.store.Gated("mark", func() { err = o.marks.Mark(w.ref.Sequence) })
		if err == nil {
			o.advance()
		}
		return err
	case stepSync:
		return o.syncLedger()
	case stepAck:
		o.store.Ack(s.msg)
		return nil
	default:
		return o.store.Delete(ctx, s.stream, s.sequence)
	}
}
