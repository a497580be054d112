package functions

import (
	"errors"
	"time"
)

// Outcome is what an attempt meant for its event. The set is closed.
type Outcome string

// The outcomes.
const (
	Done      Outcome = "done"    // delivered
	Retried   Outcome = "retry"   // to be attempted again, or parked as exhausted after the last attempt
	Parked    Outcome = "park"    // dead letter now
	Discarded Outcome = "discard" // dropped on purpose and recorded
)

// Class says in which way an attempt failed. The set is closed: classes are
// metric labels, filters and words in the console. The constants carry the
// prefix because Unavailable and Undecodable are what a handler calls.
type Class string

// The classes. The first five come from a handler's call, the others from the
// host or from the data.
const (
	ClassTransient   Class = "transient"   // a plain error
	ClassPermanent   Class = "permanent"   // Park or Discard: no retry can help
	ClassUnavailable Class = "unavailable" // a resource is away: the event is not to blame
	ClassTimeout     Class = "timeout"     // an error after the attempt's deadline
	ClassPanic       Class = "panic"       // the handler panicked or left by runtime.Goexit
	ClassCrash       Class = "crash"       // the process died during the attempt
	ClassStopping    Class = "stopping"    // interrupted by an orderly stop; never charged as an attempt
	ClassUndecodable Class = "undecodable" // the data is not what the function reads
)

// Classes returns every class, in the order in which they are documented.
func Classes() []Class {
	return []Class{
		ClassTransient, ClassPermanent, ClassUnavailable, ClassTimeout,
		ClassPanic, ClassCrash, ClassStopping, ClassUndecodable,
	}
}

// outcomeError is an error with an outcome of its own. Its text is the cause's
// alone: the outcome is recorded beside the text, not within it.
type outcomeError struct {
	outcome Outcome
	class   Class         // "" leaves it to an outcome further inside, else transient
	after   time.Duration // 0 leaves the delay to the policy
	suspend bool          // the function is not to be called any more
	cause   error         // never nil
}

func (e *outcomeError) Error() string { return e.cause.Error() }
func (e *outcomeError) Unwrap() error { return e.cause }

func outcome(e outcomeError, err error, text string) error {
	e.cause = err
	if err == nil {
		e.cause = errors.New(text)
	}
	return &e
}

// RetryAfter makes the attempt a failed one whose event is attempted again
// after d, whatever the policy's backoff says; the attempts and the budget of
// the policy still hold. A d of 0 or less leaves the delay to the policy. It
// combines with [Unavailable], in either order.
//
// Like all outcomes it is never nil, not even when err is.
func RetryAfter(d time.Duration, err error) error {
	return outcome(outcomeError{outcome: Retried, after: max(0, d)}, err, "retry asked for")
}

// Unavailable makes the attempt a failed one that says nothing against its
// event: something that the handler needs is away. When many events fail like
// this the function is suspended until a probe succeeds, and the attempts that
// the outage took are given back. It is never nil.
func Unavailable(err error) error {
	return outcome(outcomeError{outcome: Retried, class: ClassUnavailable}, err, "resource unavailable")
}

// Suspend stops the whole function: no attempt of any event begins until a
// person resumes it, over restarts too. It is for a handler that has
// learned that it must not be called any more, when its receiver is gone for
// good or its contract has ended. The attempt is not charged: its event waits, as
// all others of the function do. Other functions go on. It is never nil.
func Suspend(err error) error {
	return outcome(outcomeError{outcome: Retried, class: ClassUnavailable, suspend: true}, err, "function suspended by the handler")
}

// Park makes the event a dead letter at once, because no retry can help. Later
// events of its ordering key are held until somebody has decided about it,
// unless the function's OnPark is [Continue]. It is never nil.
func Park(err error) error {
	return outcome(outcomeError{outcome: Parked, class: ClassPermanent}, err, "parked by the handler")
}

// Undecodable parks an event whose data is not what the function reads. [Typed]
// uses it; a handler that decodes by itself may. It is never nil.
func Undecodable(err error) error {
	return outcome(outcomeError{outcome: Parked, class: ClassUndecodable}, err, "data does not decode")
}

// Discard drops the event on purpose. The reason is recorded, nothing is kept
// for an operator and nothing is held. It is never nil.
func Discard(err error) error {
	return outcome(outcomeError{outcome: Discarded, class: ClassPermanent}, err, "discarded by the handler")
}
