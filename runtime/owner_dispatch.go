package runtime

import (
	"context"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// enqueue makes an item ready for a worker.
func (o *owner) enqueue(it *item) {
	it.phase, it.ready = queued, time.Now()
	switch {
	case it.suspect():
		o.suspects = append(o.suspects, it)
	case it.retry == 0 && it.ref.Sequence == o.cursor:
		o.queue = append(o.queue, it)
	default:
		o.waited = append(o.waited, it)
	}
}

// lineUp is how many items wait for a worker.
func (o *owner) lineUp() int { return len(o.suspects) + len(o.queue) + len(o.waited) }

// nextQueue is the queue whose turn it is, nil if nothing waits: suspects go first, unless none may run now.
func (o *owner) nextQueue(barred bool) *[]*item {
	switch {
	case len(o.suspects) > 0 && !barred:
		return &o.suspects
	case len(o.queue)+len(o.waited) == 0:
		return nil
	case len(o.queue) == 0 || len(o.waited) > 0 && !o.favored:
		o.favored = true
		return &o.waited
	}
	o.favored = false
	return &o.queue
}

// dispatch hands queued items to free workers, in turn of those that have just arrived and of those that had to wait before. A key's events
// wait for each other: if each of them went behind everybody else in the window too, a hot key would stand still beside the others.
func (o *owner) dispatch(ctx context.Context) {
	barred := false
	for o.lineUp() > 0 && o.mayStart(time.Now()) {
		from := o.nextQueue(barred)
		if from == nil {
			return
		}
		it := (*from)[0]
		if it.phase == queued && !o.enter(it, time.Now()) { // this owner is told when it can
			if barred || !it.suspect() {
				return
			}
			barred = true
			continue
		}
		(*from)[0] = nil
		*from = (*from)[1:]
		switch {
		case it.phase != queued:
		case o.stopped(it) || !o.ofRun(it):
			o.leave(it)
		case time.Since(it.ready) > shortWait && o.expire(ctx, it): // it may have waited for days
			o.leave(it)
			o.perform(ctx) // its lane goes on
		default:
			o.start(it)
		}
	}
	o.wantNothing()
}

// start begins the next attempt of an item. The slot in the ledger says so before the handler does.
func (o *owner) start(it *item) {
	number := it.attempts() + 1
	run := streams.Run{Sequence: it.ref.Sequence, Cycle: it.cycle, Attempt: number, Crashes: it.history.Crashes}
	var err error
	o.store.Gated("begin", func() { it.slot, err = o.marks.Begin(run) })
	if err != nil {
		o.leave(it)
		o.log.Error("the ledger takes no more running events", "event", it.ref.ID(), "err", err)
		it.phase, it.due = delayed, time.Now().Add(maxRepeat)
		o.held[it.ref.Sequence] = it
		o.wake(it.due)
		return
	}
	it.phase, it.since = running, time.Now()
	it.job = &job{
		it: it, slot: it.slot, run: run, lane: it.ref.Lane, event: it.event, traced: o.traced(it), previous: it.span, ready: it.ready, redelivered: it.redelivered,
		attempt: functions.Attempt{
			Number: number, Allowed: o.fn.Retry.Attempts, Cycle: it.cycle, Key: it.key,
			Sequence: it.ref.Sequence, FirstFailedAt: it.history.CycleFailed, Crashes: it.history.Crashes,
		},
	}
	o.backoffSpan(it)
	o.attempting[it.ref.Sequence] = it
	o.diagnosis.Began(it.ref.Sequence)
	o.gate.Started(it.since)
	o.wake(it.since.Add(o.fn.Timeout + o.timing.stuck))
	o.jobs <- it.job
}
