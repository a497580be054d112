package functions

import (
	"cmp"
	"errors"
	"time"
)

// Result is what one attempt came to. It is data: who invoked the function
// decides with it, together with the policy, what happens to the event.
type Result struct {
	Outcome Outcome
	Class   Class         // empty when done
	After   time.Duration // the delay that the handler asked for; 0 leaves it to the policy
	Suspend bool          // the function is not to be called any more; see the function Suspend
	Code    string        // the short code of the error, if it has one; see ResultOf
	Rule    *Rule         // the rule of the function that decided, nil if none did; it must not be changed
	Err     error         // what the handler returned, or the panic as an error; nil when done
	Stack   string        // where it panicked, at most 16 KiB; else empty
}

// ResultOf reads the outcome of an attempt from the error that its handler
// returned: nil is done, and an error without an outcome is a retry of class
// transient. Of several outcomes wrapped in each other the outermost decides;
// one that means retry takes the delay and the class it does not state itself
// from the retries directly within it. A suspension within one of them holds.
// The rules of a function are not asked: see [Invoke].
//
// If the error, or one that it wraps, has a method Code() string, the result
// carries that code. It may come from a database or an HTTP API and groups
// failures better than a text.
func ResultOf(err error) Result {
	r := said(err)
	if r.Outcome != Done {
		r.Class = cmp.Or(r.Class, ClassTransient)
	}
	return r
}

// said is ResultOf without a class where the handler has stated none.
func said(err error) Result {
	if err == nil {
		return Result{Outcome: Done}
	}
	r := Result{Outcome: Retried, Err: err}
	if found, ok := errors.AsType[*outcomeError](err); ok {
		r.Outcome, r.Class, r.After, r.Suspend = found.outcome, found.class, found.after, found.suspend
		for r.Outcome == Retried {
			found, ok = errors.AsType[*outcomeError](found.cause)
			if !ok || found.outcome != Retried {
				break
			}
			r.Class = cmp.Or(r.Class, found.class)
			r.After = cmp.Or(r.After, found.after)
			r.Suspend = r.Suspend || found.suspend
		}
	}
	type coder interface {
		error
		Code() string
	}
	if c, ok := errors.AsType[coder](err); ok {
		r.Code = c.Code()
	}
	return r
}
