package runtime

import (
	"context"
	"slices"
	"time"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// maxPaused bounds how many lanes of a function may be paused at once: what is paused is kept with the function's declaration, and somebody who
// wants to stop that many keys wants to stop the function.
const maxPaused = 1000

// pauseLane stops one lane until it is resumed, over restarts too. What runs in it ends; nothing else starts.
func (o *owner) pauseLane(ctx context.Context, p streams.PausedLane) error {
	return o.ask(ctx, func() error {
		if at := o.pausedAt(p.Lane); at >= 0 {
			first := o.declared.Paused[at]
			return newProblem(client.Conflict, "function %s: the lane was paused by %s at %s", o.fn.Name, first.By, first.At.UTC().Format(time.RFC3339))
		}
		if len(o.declared.Paused) >= maxPaused {
			return newProblem(client.Refused, "function %s: %d lanes are paused, and no more can be", o.fn.Name, maxPaused).WithHint("resume some, or stop the function")
		}
		return o.declarePaused(ctx, append(slices.Clone(o.declared.Paused), p), "paused", p)
	})
}

// resumeLane lets a paused lane go on; false if it was not paused.
func (o *owner) resumeLane(ctx context.Context, token, reason, by string) (resumed bool, err error) {
	err = o.ask(ctx, func() error {
		at := o.pausedAt(token)
		if at < 0 {
			return nil
		}
		p := o.declared.Paused[at]
		p.By, p.Reason, p.At = by, reason, time.Now().UTC()
		err := o.declarePaused(ctx, slices.Delete(slices.Clone(o.declared.Paused), at, at+1), "resumed", p)
		resumed = o.pausedAt(token) < 0
		return err
	})
	return resumed, err
}

// pausedAt is where a lane stands among those that are paused; -1 for one that is not.
func (o *owner) pausedAt(token string) int {
	return slices.IndexFunc(o.declared.Paused, func(p streams.PausedLane) bool { return p.Lane == token })
}

// declarePaused writes down which lanes are paused, and who changed that about one of them.
func (o *owner) declarePaused(ctx context.Context, paused []streams.PausedLane, action string, p streams.PausedLane) error {
	// The audit comes first: what is in force has always been told.
	if err := o.store.Audit(ctx, streams.AuditEntry{
		Action: action, Function: o.fn.Name, By: p.By, Reason: p.Reason, At: p.At, Detail: map[string]string{"key": p.Key, "lane": p.Lane},
	}); err != nil {
		return err
	}
	declared := o.declared
	declared.Paused = paused
	if err := o.store.Declare(ctx, declared); err != nil {
		return err
	}
	o.declared = declared
	o.setPaused(p.Lane, o.pausedAt(p.Lane) >= 0)
	return nil
}

func (o *owner) setPaused(token string, paused bool) {
	l, in := o.lanes.of(token), lane.Resume()
	if paused {
		in = lane.Pause()
	}
	o.lanes.step(l, lane.Cursor(o.cursor))
	o.lanes.step(l, in)
	if it := l.unstarted; it != nil && !paused {
		l.unstarted = nil
		o.enqueue(it)
	}
	o.lanes.settle(l)
	o.lanes.changed = true
}

// stopped reports whether an item whose turn has come, and for which no worker was free, stands in a lane that has been paused since. The
// resume puts it in the queue again.
func (o *owner) stopped(it *item) bool {
	if len(o.declared.Paused) == 0 {
		return false
	}
	l := o.lanes.all[it.ref.Lane]
	if l == nil || !l.Paused() {
		return false
	}
	it.phase, l.unstarted = lined, it
	return true
}

// ask runs f on the owner's goroutine and returns what it says.
func (o *owner) ask(ctx context.Context, f func() error) error {
	var err error
	if stopped := o.call(ctx, func() { err = f() }); stopped != nil {
		return stopped
	}
	return err
}
