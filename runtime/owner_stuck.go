package runtime

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// onStuck gives a handler up that did not return after its timeout and the grace. The event is parked, because two attempts of one
// lane must not overlap; the worker is replaced.
func (o *owner) onStuck(ctx context.Context, it *item) {
	j := it.job
	j.abandoned.Store(true)
	o.hung.giveUp(o.fn.Name, j)
	it.job = nil
	delete(o.attempting, it.ref.Sequence)
	o.abandoned++
	o.tell(it.ref, lane.Hang)
	if it.ref.Lane != streams.NoLane {
		o.lanes.hanging[it.ref.Sequence] = nil
	}
	go o.work() //nolint:contextcheck // like the worker that it replaces
	now := time.Now()
	e := ended{
		number: j.attempt.Number, started: it.since, at: now, trace: traceIDOf(o.traced(it)), version: o.fn.Version, boot: o.ledger.Boot(),
		result: functions.Result{
			Outcome: functions.Parked, Class: functions.ClassTimeout,
			Err: fmt.Errorf("handler did not return within %s after its timeout of %s", o.timing.stuck, o.fn.Timeout),
		},
	}
	o.log.Error("a handler does not return; its event is parked as stuck", "event", it.ref.ID(), "stuck", o.abandoned)
	o.diagnose(ctx, it, e, true)
	o.failed(ctx, it, e.record(it, advisories.Stuck, time.Time{}))
	o.judgeStuck(ctx)
}

// stuckLimit is how many handlers may hang before the function is suspended. Each keeps its goroutine and whatever it waits for, and
// a function whose handlers all hang would turn its whole backlog into dead letters, one timeout after the other.
func (o *owner) stuckLimit() int { return max(8, 4*o.fn.Concurrency) }

// judgeStuck suspends the function while too many of its handlers hang. It goes on by itself when enough of them have returned, or at
// the next start of the process, which none of them survives. What waits meanwhile is kept alive by heartbeats.
func (o *owner) judgeStuck(ctx context.Context) {
	o.metrics.overdue(o.fn.Name, o.abandoned)
	suspend := o.abandoned >= o.stuckLimit()
	if suspend == o.jammed.Swap(suspend) {
		return
	}
	action := "resumed"
	if suspend {
		action = "suspended"
		o.log.Error("too many handlers do not return; the function is suspended until some do, or the process is started again", "stuck", o.abandoned)
	} else {
		o.log.Info("handlers have returned; the function goes on", "stuck", o.abandoned)
	}
	o.carry(ctx, &work{ref: streams.Ref{Function: o.fn.Name}, steps: []step{{kind: stepAudit, audit: streams.AuditEntry{
		Action: action, Function: o.fn.Name, By: advisories.ByOwner, At: time.Now().UTC(),
		Reason: "handlers that do not return", Detail: map[string]string{"stuck": strconv.Itoa(o.abandoned)},
	}}}})
}
