package runtime

import (
	"context"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// job is one attempt on its way through a worker and back to the owner. It has what the attempt needs: a worker never looks into an
// item, which belongs to the owner.
type job struct {
	it          *item
	attempt     functions.Attempt
	event       functions.Event
	traced      tracedEvent
	previous    spanRef
	ready       time.Time
	redelivered bool

	started   time.Time
	ended     time.Time
	result    functions.Result
	emitted   []functions.Event
	span      *attemptSpan
	abandoned atomic.Bool // the owner gave up waiting: nobody reads the result

	slot int // of the ledger
	run  streams.Run

	lane            string
	hangs, returned bool // see hung, which guards them

	host attemptHost
}

// work runs jobs until there are no more. A worker whose job was abandoned ends after it: the owner has replaced it.
func (o *owner) work() {
	for j := range o.jobs {
		o.attempt(j)
		o.hung.returned(o.fn.Name, j)
		o.results <- j
		if j.abandoned.Load() {
			o.log.Warn("a handler that was given up has returned after all", "event", j.traced.Function, "sequence", j.traced.Sequence, "took", j.ended.Sub(j.started))
			return
		}
	}
}

// attempt invokes the handler. The context ends at the function's timeout or when the process stops.
func (o *owner) attempt(j *job) {
	ctx, cancel := context.WithTimeoutCause(o.attempts, o.fn.Timeout, functions.ErrTimeout)
	defer cancel()
	ctx, j.span = o.tracer.attempt(ctx, j.traced, j.attempt.Number, j.redelivered, j.previous)
	ctx = functions.WithTrace(ctx, handedOn(ctx, j.traced))
	ctx = pprof.WithLabels(ctx, pprof.Labels(eventLabel, j.it.ref.ID()))
	pprof.SetGoroutineLabels(ctx)
	o.metrics.started(o.fn.Name)
	o.marks.Reach(j.slot, j.run, streams.RunStarted)
	j.started = time.Now()
	j.host = attemptHost{o: o, j: j}
	ctx = functions.WithHost(ctx, j.attempt, &j.host)
	j.result = functions.Invoke(ctx, o.fn, j.event)
	j.emitted = functions.Emitted(ctx)
	j.ended = time.Now()
	o.marks.Reach(j.slot, j.run, streams.RunReturned)
	o.metrics.attempt(o.fn.Name, j.result, j.started.Sub(j.ready), j.ended.Sub(j.started))
}
