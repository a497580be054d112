package runtime

import (
	"context"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/gate"
)

// watchDependencies checks what the function depends on, until ctx ends. run waits for its goroutines as for those that fetch.
func (o *owner) watchDependencies(ctx context.Context) {
	for i, d := range o.fn.Dependencies {
		o.metrics.dependency(o.fn.Name, d.Name, false)
		o.fetchers.Go(func() {
			for {
				why := o.checks.ask(ctx, o.fn.Name, d)
				if ctx.Err() != nil || o.call(ctx, func() { o.onAnswer(i, d, why) }) != nil {
					return
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(d.Every):
				}
			}
		})
	}
}

// onAnswer takes what a check came to; why is "" if the dependency is there.
func (o *owner) onAnswer(i int, d functions.Dependency, why string) {
	change, away := o.gate.Answered(i, time.Now(), why)
	o.metrics.dependency(o.fn.Name, d.Name, why == "")
	switch change {
	case gate.WentDown:
		o.log.Warn("a dependency is away; no attempt begins until it is back", "dependency", d.Name, "err", why, "running", len(o.attempting))
	case gate.CameBack:
		o.log.Info("a dependency is back; the function goes on", "dependency", d.Name, "away", away)
	case gate.Unchanged:
	}
}
