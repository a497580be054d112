package functionstest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/types"

	"github.com/siding-dev/siding/functions"
)

// Run makes one attempt of f with e and returns what it came to. A function
// that Validate refuses ends the test, since no host would take it.
//
// The handler sees the first attempt of an event's first life, with the
// ordering key that f gives e and sequence 1. Each of with may change that, for
// a handler that does something else in its last attempt:
//
//	functionstest.Run(t, f, e, func(a *functions.Attempt) { a.Number = a.Allowed })
//
// A handler that ignores its context is waited for, as it is by a host.
//
// What functions.Once records is forgotten with the call; a [Host] keeps it for
// the next one.
func Run(t testing.TB, f functions.Function, e functions.Event, with ...func(*functions.Attempt)) Result {
	t.Helper()
	return new(Host).Run(t, f, e, with...)
}

// Run is [Run] with what earlier calls have recorded.
func (h *Host) Run(t testing.TB, f functions.Function, e functions.Event, with ...func(*functions.Attempt)) Result {
	t.Helper()
	if err := f.Validate(); err != nil {
		t.Fatalf("functionstest: %v", err)
	}
	f = f.WithDefaults()
	attempt := functions.Attempt{
		Number:   1,
		Allowed:  f.Retry.Attempts,
		Key:      f.OrderBy.Of(func(name string) string { return attribute(e, name) }),
		Sequence: 1,
	}
	for _, change := range with {
		change(&attempt)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), f.Timeout, functions.ErrTimeout)
	defer cancel()
	ctx = functions.WithHost(ctx, attempt, recorder{h, eventKey{f.Name, e.Source(), e.ID()}})
	r := functions.Invoke(ctx, f, e)
	return Result{attempt: r, emitted: functions.Emitted(ctx)}
}

// attribute looks an attribute or extension of e up that can be a key.
func attribute(e functions.Event, name string) string {
	switch name {
	case "subject":
		return e.Subject()
	case "source":
		return e.Source()
	}
	if e.Context == nil {
		return ""
	}
	value, ok := e.Extensions()[name]
	if !ok {
		return ""
	}
	text, err := types.Format(value)
	if err != nil {
		return ""
	}
	return text
}

// Result is what one attempt came to. Exactly one of Done, Retried, Parked and
// Discarded holds.
type Result struct {
	attempt functions.Result
	emitted []functions.Event
}

// Done says whether the event was handled.
func (r Result) Done() bool { return r.attempt.Outcome == functions.Done }

// Retried says whether the event is to be attempted again; after the last
// allowed attempt a host parks it instead.
func (r Result) Retried() bool { return r.attempt.Outcome == functions.Retried }

// Parked says whether the event is a dead letter now.
func (r Result) Parked() bool { return r.attempt.Outcome == functions.Parked }

// Suspended says whether the function is not to be called any more. The event
// is retried when it may be again.
func (r Result) Suspended() bool { return r.attempt.Suspend }

// Discarded says whether the event was dropped on purpose.
func (r Result) Discarded() bool { return r.attempt.Outcome == functions.Discarded }

// Err returns the handler's error, or its panic as an error; nil when done.
func (r Result) Err() error { return r.attempt.Err }

// Class returns the class of the failure; empty when done.
func (r Result) Class() functions.Class { return r.attempt.Class }

// Code returns the code of the error, if it has one.
func (r Result) Code() string { return r.attempt.Code }

// After returns the delay that the handler asked for; 0 leaves it to the policy.
func (r Result) After() time.Duration { return r.attempt.After }

// Emitted returns what the handler emitted, as it would be accepted; nothing unless
// it is done.
func (r Result) Emitted() []functions.Event { return r.emitted }

// String describes r in a line for a test's message, and says where it
// panicked if it did.
func (r Result) String() string {
	if r.Done() {
		return string(functions.Done)
	}
	s := fmt.Sprintf("%s (%s): %v", r.attempt.Outcome, r.attempt.Class, r.attempt.Err)
	if r.attempt.Stack != "" {
		s += "\n" + r.attempt.Stack
	}
	return s
}
