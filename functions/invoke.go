package functions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
)

// Causes with which a host cancels the context of an attempt. They are found
// by context.Cause, and by a handler that wants to know why it must end.
var (
	// ErrTimeout is the cause once Function.Timeout is over.
	ErrTimeout = errors.New("attempt timed out")
	// ErrStopping is the cause when the process stops. The attempt is not
	// charged: the event comes back after the start.
	ErrStopping = errors.New("stopping")
)

const maxStack = 16 << 10

// Invoke makes one attempt: it calls f.Handle with its own copy of e and
// returns when the handler has returned, however long that takes. The caller
// sets the deadline and the [Attempt] on ctx; Invoke adds the event (see
// [EventFrom]). What the handler emitted is told by [Emitted].
//
// An event whose data does not satisfy f.Schema is parked as undecodable without
// a call of the handler. It is checked here, although a host checks what it
// accepts, because events come in other ways too, because a schema may be
// younger than the event, and because here the checks of many events run at once.
//
// No handler takes the process with it by a panic: a panic, a runtime.Goexit,
// and an error whose own methods panic (a nil pointer in an error interface)
// are failed attempts of class panic. What a handler starts in goroutines of
// its own is beyond this.
//
// A retry of an attempt that was cancelled with ErrStopping is of class
// stopping whatever else it says, since a resource is easily called
// unavailable when it was our own stop that broke the call. A retry without a
// class of its own is of class timeout once the deadline has passed. A nil
// error is done even then: the work has been finished.
//
// Last, f.Rules are asked about a failure whose class the handler has not said.
func Invoke(ctx context.Context, f Function, e Event) Result {
	a := attemptedIn(ctx)
	a.begin(f, e)
	r := invoke(ctx, f, e)
	a.end(r)
	return r
}

func invoke(ctx context.Context, f Function, e Event) Result {
	stated := false
	r := guarded(func() Result {
		if err := f.CheckData(e); err != nil {
			stated = true
			return ResultOf(Undecodable(err))
		}
		own := cloneEvent(e)
		err := f.Handle(withEvent(ctx, own), own)
		var r Result
		r, stated = resultIn(ctx, err)
		return r
	})
	if stated || len(f.Rules) == 0 {
		return r
	}
	returned := false
	byRule := guarded(func() Result {
		r := ruled(f.Rules, r)
		returned = true
		return r
	})
	if !returned {
		byRule.Err = fmt.Errorf("a rule of the function: %w; asked about: %w", byRule.Err, r.Err)
	}
	return byRule
}

// guarded calls code of the function's author and makes a result of whatever
// way it ends in.
func guarded(call func() Result) Result {
	// A goroutine of its own because runtime.Goexit cannot be recovered: here it
	// would end the caller. The buffer lets that goroutine end without waiting
	// for anybody.
	answer := make(chan Result, 1)
	go func() {
		var r Result
		returned := false
		defer func() {
			if !returned {
				r = panicResult(recover())
			}
			answer <- r
		}()
		r = call()
		returned = true
	}()
	return <-answer
}

// resultIn is ResultOf with what the context knows, and says whether the class is
// one that nobody may change: the handler's own, or our own stop. It runs the
// error's own methods while a panic of theirs can still be recovered.
func resultIn(ctx context.Context, err error) (r Result, stated bool) {
	// In this order, because the context may end between the two.
	ended := ctx.Err()
	cause := context.Cause(ctx)
	r = said(err)
	if r.Err != nil {
		_ = r.Err.Error()
	}
	stated = r.Outcome != Retried || r.Class != ""
	switch {
	case r.Outcome != Retried:
	case ended != nil && errors.Is(cause, ErrStopping):
		r.Class, stated = ClassStopping, true
	case stated:
	case ended != nil && (errors.Is(ended, context.DeadlineExceeded) || errors.Is(cause, ErrTimeout)):
		r.Class = ClassTimeout
	default:
		r.Class = ClassTransient
	}
	return r, stated
}

// panicResult describes what was recovered; nil means runtime.Goexit, because
// a panic with nil arrives as a *runtime.PanicNilError.
func panicResult(recovered any) Result {
	r := Result{Outcome: Retried, Class: ClassPanic, Stack: stack()}
	switch v := recovered.(type) {
	case nil:
		r.Err = errors.New("panic: the handler left by runtime.Goexit")
	case error:
		r.Err = fmt.Errorf("panic: %w", v)
	default:
		r.Err = fmt.Errorf("panic: %v", v)
	}
	return r
}

// stack returns the stack of the calling goroutine, which while a panic is
// being recovered still begins with where it happened. A longer one is cut at
// the end of a line and marked.
func stack() string {
	const mark = "\n… cut at 16 KiB\n"
	buf := make([]byte, maxStack)
	n := runtime.Stack(buf, false)
	if n < len(buf) {
		return string(buf[:n])
	}
	buf = buf[:maxStack-len(mark)]
	if i := bytes.LastIndexByte(buf, '\n'); i > 0 {
		buf = buf[:i]
	}
	return string(buf) + mark
}
