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
// [EventFrom]).
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
func Invoke(ctx context.Context, f Function, e Event) Result {
	// The handler has a goroutine of its own because runtime.Goexit cannot be
	// recovered: here it would end the caller. The buffer lets that goroutine
	// end without waiting for anybody.
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
		if err := f.CheckData(e); err != nil {
			r = ResultOf(Undecodable(err))
		} else {
			own := cloneEvent(e)
			err := f.Handle(withEvent(ctx, own), own)
			r = resultIn(ctx, err)
		}
		returned = true
	}()
	return <-answer
}

// resultIn is ResultOf with what the context knows. It runs the error's own
// methods while a panic of theirs can still be recovered.
func resultIn(ctx context.Context, err error) Result {
	// In this order, because the context may end between the two.
	ended := ctx.Err()
	cause := context.Cause(ctx)
	r := ResultOf(err)
	if r.Err != nil {
		_ = r.Err.Error()
	}
	if r.Outcome != Retried || ended == nil {
		return r
	}
	switch {
	case errors.Is(cause, ErrStopping):
		r.Class = ClassStopping
	case r.Class != ClassTransient:
	case errors.Is(ended, context.DeadlineExceeded), errors.Is(cause, ErrTimeout):
		r.Class = ClassTimeout
	}
	return r
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
