package functions

import (
	"context"
	"errors"
	"time"
)

// ErrNoAttempt is what [Once] and [Emit] answer where no attempt runs that they
// could belong to: the context is none of an attempt, or the attempt is over.
var ErrNoAttempt = errors.New("called outside an attempt")

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

// attempted is all that a context knows of its attempt. It is one value, so that
// an attempt that asks for nothing costs nothing more.
type attempted struct {
	Attempt
	host     Host // nil where nothing can be stored
	function string
	cause    Event // as the host has it: the handler may change its own copy
	steps    steps
	emitted  emitted
}

func attemptedIn(ctx context.Context) *attempted {
	a, _ := ctx.Value(attemptKey{}).(*attempted)
	return a
}

// AttemptFrom returns the attempt that ctx belongs to, and the zero Attempt
// (Number 0) outside of one.
func AttemptFrom(ctx context.Context) Attempt {
	if a := attemptedIn(ctx); a != nil {
		return a.Attempt
	}
	return Attempt{}
}

// WithAttempt returns a context that [AttemptFrom] answers with a. Whoever
// calls [Invoke] sets it. [Once] and [Emit] are refused there: see [WithHost].
func WithAttempt(ctx context.Context, a Attempt) context.Context { return WithHost(ctx, a, nil) }

// WithHost is WithAttempt for an attempt in which h does what [Once] and [Emit]
// ask for. The context is for one call of [Invoke].
func WithHost(ctx context.Context, a Attempt, h Host) context.Context {
	return context.WithValue(ctx, attemptKey{}, &attempted{Attempt: a, host: h})
}

// begin is told what the attempt is about; a may be nil.
func (a *attempted) begin(f Function, e Event) {
	if a != nil {
		a.function, a.cause = f.Name, e
	}
}

// end forgets what was emitted unless the attempt has succeeded; a may be nil.
func (a *attempted) end(r Result) {
	if a != nil {
		a.emitted.end(r.Outcome == Done)
	}
}
