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
		if len(o.declared.Paused) >= maxPaused {
			return newProblem(client.Refused, "function %s: %d lanes are paused, and no more can be", o.fn.Name, maxPaused).WithHint("resume some, or stop the function")
		}
		paused := append(slices.Clone(o.declared.Paused), p)
		if err := o.declarePaused(ctx, paused, "paused", p); err != nil {
			return err
		}
		o.setPaused(p.Lane, true)
		return nil
	})
}

// resumeLane lets a paused lane go on; false if it was not paused.
func (o *owner) resumeLane(ctx context.Context, token, reason, by string) (resumed bool, err error) {
	err = o.ask(ctx, func() error {
		at := slices.IndexFunc(o.declared.Paused, func(p streams.PausedLane) bool { return p.Lane == token })
		if at < 0 {
			return nil
		}
		p := o.declared.Paused[at]
		p.By, p.Reason, p.At = by, reason, time.Now().UTC()
		if err := o.declarePaused(ctx, slices.Delete(slices.Clone(o.declared.Paused), at, at+1), "resumed", p); err != nil {
			return err
		}
		o.setPaused(token, false)
		resumed = true
		return nil
	})
	return resumed, err
}

// declarePaused writes down which lanes are paused, and who changed that.
func (o *owner) declarePaused(ctx context.Context, paused []streams.PausedLane, action string, p streams.PausedLane) error {
	declared := o.declared
	declared.Paused = paused
	if err := o.store.Declare(ctx, declared); err != nil {
		return err
	}
	o.declared = declared
	return o.store.Audit(ctx, streams.AuditEntry{
		Action: action, Function: o.fn.Name, By: p.By, Reason: p.Reason, At: p.At, Detail: map[string]string{"key": p.Key, "lane": p.Lane},
	})
}

func (o *owner) setPaused(token string, paused bool) {
	l, in := o.lanes.of(token), lane.Resume()
	if paused {
		in = lane.Pause()
	}
	o.lanes.step(l, lane.Cursor(o.cursor))
	o.lanes.step(l, in)
	o.lanes.settle(l)
	o.lanes.changed = true
}

// ask runs f on the owner's goroutine and returns what it says.
func (o *owner) ask(ctx context.Context, f func() error) error {
	var err error
	if stopped := o.call(ctx, func() { err = f() }); stopped != nil {
		return stopped
	}
	return err
}
