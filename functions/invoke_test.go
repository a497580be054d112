package functions_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/functions"
)

func reported() functions.Event {
	e := event.New()
	e.SetID("1")
	e.SetSource("/claims")
	e.SetType("com.insurer.claim.reported")
	e.SetExtension("tenant", "t1")
	if err := e.SetData(event.ApplicationJSON, []byte(`{"n":7}`)); err != nil {
		panic(err)
	}
	return e
}

func handler(h functions.Handler) functions.Function {
	f := valid()
	f.Handle = h
	return f
}

func TestInvokeReturnsTheHandlersOutcome(t *testing.T) {
	got := functions.Invoke(t.Context(), handler(func(context.Context, functions.Event) error { return functions.Park(io.EOF) }), reported())
	if got.Outcome != functions.Parked || got.Class != functions.ClassPermanent || !errors.Is(got.Err, io.EOF) || got.Stack != "" {
		t.Errorf("got %+v, want it parked with EOF", got)
	}
	if got := functions.Invoke(t.Context(), handler(ignore), reported()); got != (functions.Result{Outcome: functions.Done}) {
		t.Errorf("got %+v, want done", got)
	}
}

func TestInvokeGivesTheContextOfTheAttempt(t *testing.T) {
	want := functions.Attempt{Number: 2, Allowed: 3, Cycle: 1, Key: "k", Sequence: 42, FirstFailedAt: failedAt}
	f := handler(func(ctx context.Context, e functions.Event) error {
		if got := functions.AttemptFrom(ctx); got != want {
			t.Errorf("attempt: got %+v, want %+v", got, want)
		}
		if got := functions.EventFrom(ctx); got.ID() != "1" || string(got.Data()) != `{"n":7}` {
			t.Errorf("event: got %v, want the one invoked with", got)
		}
		return nil
	})
	functions.Invoke(functions.WithAttempt(t.Context(), want), f, reported())
}

func TestNothingInAContextOfItsOwn(t *testing.T) {
	if got := functions.AttemptFrom(t.Context()); got != (functions.Attempt{}) {
		t.Errorf("attempt: got %+v, want none", got)
	}
	if got := functions.EventFrom(t.Context()); got.ID() != "" || got.Type() != "" {
		t.Errorf("event: got %v, want none", got)
	}
}

// Two functions with the same event at once: under -race this fails if they
// share anything that one of them changes (sdk-go#1032).
func TestEachInvocationOwnsItsEvent(t *testing.T) {
	e := reported()
	change := handler(func(_ context.Context, e functions.Event) error {
		e.SetSubject("changed")
		e.SetExtension("tenant", "changed")
		e.DataEncoded[0] = '!'
		return nil
	})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { functions.Invoke(t.Context(), change, e) })
	}
	wg.Wait()
	if e.Subject() != "" || e.Extensions()["tenant"] != "t1" || string(e.Data()) != `{"n":7}` {
		t.Errorf("got %v, want it unchanged", e)
	}
}

func TestInvokeTakesAnEmptyEvent(t *testing.T) {
	in := functions.Event{DataEncoded: []byte("x")}
	got := functions.Invoke(t.Context(), handler(func(_ context.Context, e functions.Event) error {
		if string(e.Data()) != "x" {
			t.Errorf("got %q, want x", e.Data())
		}
		e.DataEncoded[0] = '!'
		return nil
	}), in)
	if got.Outcome != functions.Done || string(in.Data()) != "x" {
		t.Errorf("got %+v and data %q, want done and x", got, in.Data())
	}
}

// nilError has a method that a nil pointer cannot answer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func explode(depth int) error {
	if depth > 0 {
		return explode(depth - 1)
	}
	panic("boom")
}

func TestPanicsAreFailedAttempts(t *testing.T) {
	for _, tc := range []struct {
		name, text, stack string
		handle            func() error
	}{
		{"text", "panic: boom", "explode", func() error { return explode(0) }},
		{"error", "panic: EOF", "TestPanicsAreFailedAttempts", func() error { panic(io.EOF) }},
		{"outcome", "panic: EOF", "TestPanicsAreFailedAttempts", func() error { panic(functions.Park(io.EOF)) }},
		{"nil", "panic: panic called with nil argument", "TestPanicsAreFailedAttempts", func() error { panic(nil) }},
		{"goexit", "panic: the handler left by runtime.Goexit", "TestPanicsAreFailedAttempts", func() error { runtime.Goexit(); return nil }},
		{"runtime error", "panic: runtime error: index out of range", "TestPanicsAreFailedAttempts", func() error { return []error{}[len(os())] }},
		{"nil pointer for an error", "panic: runtime error: invalid memory address", "Error", func() error { var e *nilError; return e }},
		{"deep", "panic: boom", "explode", func() error { return explode(5000) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := functions.Invoke(t.Context(), handler(func(context.Context, functions.Event) error { return tc.handle() }), reported())
			if got.Outcome != functions.Retried || got.Class != functions.ClassPanic {
				t.Errorf("got %s, %s; want retry, panic", got.Outcome, got.Class)
			}
			if got.Err == nil || !strings.HasPrefix(got.Err.Error(), tc.text) {
				t.Errorf("error: got %v, want %q", got.Err, tc.text)
			}
			if !strings.Contains(got.Stack, tc.stack) || len(got.Stack) > 16<<10 {
				t.Errorf("stack of %d bytes, want at most 16 KiB with %q:\n%s", len(got.Stack), tc.stack, got.Stack)
			}
		})
	}
}

// os is empty in a way that the compiler does not see.
func os() string { return strings.TrimSpace(" ") }

func TestPanicKeepsItsError(t *testing.T) {
	got := functions.Invoke(t.Context(), handler(func(context.Context, functions.Event) error { panic(io.EOF) }), reported())
	if !errors.Is(got.Err, io.EOF) {
		t.Errorf("got %v, want EOF within", got.Err)
	}
}

// The Go runtime leaves out the middle of a stack of more than 100 frames, so
// that it takes a long name to fill 16 KiB.
func explodeFarBelowInAFunctionWhoseNameIsSoLongThatItsFramesAloneFillAllTheRoomThatAStackIsGivenInAResult(depth int) error {
	if depth > 0 {
		return explodeFarBelowInAFunctionWhoseNameIsSoLongThatItsFramesAloneFillAllTheRoomThatAStackIsGivenInAResult(depth - 1)
	}
	panic("boom")
}

func TestLongStackIsCutAndMarked(t *testing.T) {
	got := functions.Invoke(t.Context(), handler(func(context.Context, functions.Event) error {
		return explodeFarBelowInAFunctionWhoseNameIsSoLongThatItsFramesAloneFillAllTheRoomThatAStackIsGivenInAResult(500)
	}), reported())
	if n := len(got.Stack); n > 16<<10 || n < 15<<10 {
		t.Errorf("got %d bytes, want nearly 16 KiB", n)
	}
	kept, marked := strings.CutSuffix(got.Stack, "\n… cut at 16 KiB\n")
	if !marked {
		t.Errorf("got an end of %q, want it marked", got.Stack[max(0, len(got.Stack)-80):])
	}
	// A frame is two lines: the call, and an indented position in a file.
	last := kept[strings.LastIndexByte(kept, '\n')+1:]
	if !strings.HasSuffix(last, ")") && (!strings.HasPrefix(last, "\t") || !strings.Contains(last, ".go:")) {
		t.Errorf("got %q at the cut, want a whole line", last)
	}
}

func TestMissingHandlerIsAFailedAttempt(t *testing.T) {
	if got := functions.Invoke(t.Context(), functions.Function{}, reported()); got.Class != functions.ClassPanic {
		t.Errorf("got %+v, want class panic", got)
	}
}

func TestWhatACancelledContextMeans(t *testing.T) {
	timedOut := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(ctx, time.Second, functions.ErrTimeout)
	}
	bareDeadline := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	}
	because := func(cause error) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		}
	}
	plain := func(err error) error { return err }
	later := func(err error) error { return functions.RetryAfter(9*time.Second, err) }
	for _, tc := range []struct {
		name    string
		end     func(context.Context) (context.Context, context.CancelFunc)
		outcome func(error) error
		want    functions.Result
	}{
		{"timeout", timedOut, plain, functions.Result{Outcome: functions.Retried, Class: functions.ClassTimeout}},
		{"a deadline without a cause", bareDeadline, plain, functions.Result{Outcome: functions.Retried, Class: functions.ClassTimeout}},
		{"cancelled as timed out", because(functions.ErrTimeout), plain, functions.Result{Outcome: functions.Retried, Class: functions.ClassTimeout}},
		{"timeout, but later", timedOut, later, functions.Result{Outcome: functions.Retried, Class: functions.ClassTimeout, After: 9 * time.Second}},
		{"timeout, called unavailable", timedOut, functions.Unavailable, functions.Result{Outcome: functions.Retried, Class: functions.ClassUnavailable}},
		{"timeout, parked", timedOut, functions.Park, functions.Result{Outcome: functions.Parked, Class: functions.ClassPermanent}},
		{"timeout, but finished", timedOut, func(error) error { return nil }, functions.Result{Outcome: functions.Done}},
		{"stopping", because(functions.ErrStopping), plain, functions.Result{Outcome: functions.Retried, Class: functions.ClassStopping}},
		{"stopping, called unavailable", because(functions.ErrStopping), functions.Unavailable, functions.Result{Outcome: functions.Retried, Class: functions.ClassStopping}},
		{"stopping, parked", because(functions.ErrStopping), functions.Park, functions.Result{Outcome: functions.Parked, Class: functions.ClassPermanent}},
		{"stopping, discarded", because(functions.ErrStopping), functions.Discard, functions.Result{Outcome: functions.Discarded, Class: functions.ClassPermanent}},
		{"stopping, but finished", because(functions.ErrStopping), func(error) error { return nil }, functions.Result{Outcome: functions.Done}},
		{"cancelled otherwise", because(io.EOF), plain, functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := tc.end(t.Context())
				defer cancel()
				got := functions.Invoke(ctx, handler(func(ctx context.Context, _ functions.Event) error {
					<-ctx.Done()
					return tc.outcome(ctx.Err())
				}), reported())
				got.Err = nil
				if got != tc.want {
					t.Errorf("got %+v, want %+v", got, tc.want)
				}
			})
		})
	}
}

func TestFailureBeforeTheDeadlineIsNoTimeout(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, functions.ErrTimeout)
	defer cancel()
	got := functions.Invoke(ctx, handler(func(context.Context, functions.Event) error { return io.EOF }), reported())
	if got.Class != functions.ClassTransient {
		t.Errorf("got %s, want transient", got.Class)
	}
}

// A host must not take a handler for ended that still runs: two attempts of
// one key would overlap.
func TestInvokeWaitsForAHandlerThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, functions.ErrTimeout)
		defer cancel()
		begin := time.Now()
		got := functions.Invoke(ctx, handler(func(context.Context, functions.Event) error {
			time.Sleep(time.Minute)
			return io.EOF
		}), reported())
		if took := time.Since(begin); took != time.Minute || got.Class != functions.ClassTimeout {
			t.Errorf("got %s after %v, want timeout after 1m0s", got.Class, took)
		}
	})
}
