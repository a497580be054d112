package runtime

import (
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// attemptHost is what the handler of a job asks for. It is a part of its job, so that an attempt that asks for nothing costs nothing more. Handlers
// call it from any goroutine: of the owner it touches only what never changes.
type attemptHost struct {
	o *owner
	j *job
}

var _ functions.Host = (*attemptHost)(nil)

// Steps reads what was done for the event before.
func (a *attemptHost) Steps(ctx context.Context) (map[string]json.RawMessage, error) {
	e := a.j.event
	var steps []streams.Step
	err := a.persist(ctx, func() (err error) {
		steps, err = a.o.store.Steps(ctx, a.o.fn.Name, e.Source(), e.ID())
		return err
	})
	results := make(map[string]json.RawMessage, len(steps))
	earlier := false
	for _, s := range steps {
		results[s.Name] = s.Result
		earlier = earlier || s.Sequence < a.j.attempt.Sequence
	}
	if earlier && err == nil { // the same event was accepted before
		err = a.persist(ctx, func() error {
			return a.o.store.TakeSteps(ctx, a.o.fn.Name, e.Source(), e.ID(), a.j.attempt.Sequence)
		})
	}
	return results, err
}

// RecordStep records a step that has been done, also after the attempt has run out of time.
func (a *attemptHost) RecordStep(ctx context.Context, step string, result json.RawMessage) error {
	e := a.j.event
	whole := context.WithoutCancel(ctx) // an operation has a limit of its own
	return a.persist(ctx, func() error {
		return a.o.store.RecordStep(whole, streams.Step{
			Function: a.o.fn.Name, Source: e.Source(), ID: e.ID(), Name: step, Sequence: a.j.attempt.Sequence, Result: result,
		})
	})
}

// persist repeats what cannot be stored or read until ctx ends. It tries once in any case.
func (a *attemptHost) persist(ctx context.Context, try func() error) error {
	for pause := minRepeat; ; pause = min(2*pause, maxRepeat) {
		err := try()
		if err == nil {
			return nil
		}
		a.o.fault(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// CheckEmitted refuses what accepting over HTTP refuses. The trace of an event that states none goes on from the attempt.
func (a *attemptHost) CheckEmitted(ctx context.Context, e *functions.Event, before int) (int, error) {
	c := trace.SpanContextFromContext(ctx)
	if !c.IsValid() {
		c = creationOf(a.j.traced)
	}
	setCreation(e, c) //nolint:contextcheck // c is all that it needs
	if err := a.o.check(*e); err != nil {
		return 0, err
	}
	return a.o.store.EmittedSize(*e, before)
}
