package functions

import (
	"context"
	"time"
)

// Attempt says which attempt a handler is in. An attempt is one call of the
// handler; deliveries by the broker are counted apart and do not show here.
type Attempt struct {
	Number        int       // from 1; counts the attempts of this cycle
	Allowed       int       // Retry.Attempts: the attempt Number == Allowed is the last of this cycle
	Cycle         int       // how often an operator has redriven the event; 0 in its first life
	Key           string    // the ordering key; "" is none
	Sequence      uint64    // the event's sequence in the source stream: its identity, the same in every cycle
	FirstFailedAt time.Time // when the first attempt of this cycle failed; zero while none has
	Crashes       int       // how often the process died while an attempt of this cycle ran; such an attempt is not counted in Number
}

type attemptKey struct{}

// AttemptFrom returns the attempt that ctx belongs to, and the zero Attempt
// (Number 0) outside of one.
func AttemptFrom(ctx context.Context) Attempt {
	a, _ := ctx.Value(attemptKey{}).(Attempt)
	return a
}

// WithAttempt returns a context that [AttemptFrom] answers with a. Whoever
// calls [Invoke] sets it.
func WithAttempt(ctx context.Context, a Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}
