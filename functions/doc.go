// Package functions is what the author of a handler imports: the function and
// its delivery rules, the outcomes a handler can choose, and nothing that
// needs a broker.
//
// # Guarantee
//
// Every event that a function subscribes to is handled, discarded with a
// reason, or visibly waiting. It is handled at least once: after a crash an
// event whose handler had already finished may be handled once more. No event
// is attempted more often than Retry allows; a redrive by an operator grants a
// new cycle of attempts.
//
// Order is kept for each ordering key, which OrderBy finds: no attempt starts
// before every earlier event of its key is delivered or discarded. While an
// event is being retried, and while it is a dead letter, later ones of its key
// are held; those of other keys, and those without a key, pass. Three things
// lift this for what stands behind a dead letter, and nothing does behind an
// event that is being retried: the rule [Continue], a dead letter that has
// expired or was set aside, and an operator who lets the events go on out of
// order, which is audited. HoldLimit says when holding has become so much that
// somebody is to be told.
//
// # Model
//
// A [Function] is a struct literal: a name, the event types it wants, the
// rules, and a [Handler]. One call of the handler is one attempt. The error it
// returns is the outcome of that attempt:
//
//	nil                   done     the event is delivered
//	a plain error         retry    after the delay of Retry.Backoff
//	RetryAfter(d, err)    retry    after d
//	Unavailable(err)      retry    a resource is away: the event is not to blame
//	Park(err)             park     dead letter now: a person decides
//	Discard(err)          discard  dropped on purpose, and recorded
//	a panic               retry    class "panic"
//	past the deadline     retry    class "timeout"
//
// The last allowed attempt that asks for a retry has exhausted the event,
// which is then parked too. Every outcome wraps its cause, so that errors.Is
// and errors.As still find it. [Typed] decodes JSON data first and parks what
// does not decode: repeating a bad payload is noise. A Function.Schema says more
// about the data than a type can, and refuses what violates it.
//
// An event that is attempted again is handled again from the beginning. [Once]
// has a step of the handler done a single time, whatever brings the event back, and
// returns its result from then on. [Emit] has further events accepted, each exactly
// once, if the attempt succeeds.
//
// [HTTP] is a handler that posts the event to a URL, so that the work can be
// done in any language; the status that is answered is the outcome.
//
// A handler that takes the process down with it has not come to an outcome. After
// the first time its event is attempted with nothing else beside it in the whole
// process; after the second it is parked, with the cause crash. What it has left
// behind, a goroutine that panics later, is put down to the function: the third
// time within five minutes suspends it.
//
// Some attempts had better wait than fail. While one of Function.Dependencies
// fails its check, no attempt begins; Function.Rate bounds how many begin in a
// second; a function with a [Window] works off in each window what was there
// when it opened. What waits for one of them uses no attempt.
//
// What decides is pure: [Retry.For], [Retry.Next], [Backoff.Delay], [Key.Of],
// [Schedule.Next] and [ResultOf] use no clock and no randomness of their own, so that a host,
// a simulation and a test reach the same answer.
//
// # Classes and patience
//
// Each failure has a [Class]. It says whose fault it is: transient and timeout
// are retried, permanent and undecodable are parked at once, and unavailable means
// that a resource is away, so that [Breaker] suspends the whole function rather
// than park event after event. A handler says it by the calls above. What drivers
// and receivers say in their own errors is better said once, by rules, which are
// asked where the handler has named no class:
//
//	Rules: []functions.Rule{
//		functions.OnError[*net.OpError](functions.ClassUnavailable),
//		functions.OnIs(sql.ErrNoRows, functions.ClassPermanent),
//		functions.OnText("deadlock detected", "").WithAttempts(3).WithBackoff(functions.Delays(time.Second)),
//	}
//
// Retry says how patient the function is. Its default rides out an outage of a
// quarter of an hour, [Quick] a few seconds, for events that somebody waits for,
// and [Patient] half a day. While an event is retried its ordering key waits, so
// that patience has a price too; siding config check tells both for each function.
//
// # Concurrency
//
// A handler is called from many goroutines, up to Function.Concurrency at a
// time. Each call has its own copy of the event, which it may change freely.
// The context is cancelled when Function.Timeout is over (cause [ErrTimeout])
// or when the process stops (cause [ErrStopping], which charges no attempt).
// The event of a handler that ignores its context is parked as stuck in the
// end; later events of its key are held meanwhile, and no other event waits.
//
// Functions, keys, retries and backoffs are values. None of them changes after
// it was made, and all of them may be shared.
//
// # Example
//
//	func fileClaim(ctx context.Context, claim Claim) error {
//		err := ledger.File(ctx, claim)
//		if errors.Is(err, ledger.ErrUnknownPolicy) {
//			return functions.Park(err) // no retry can help: a person decides
//		}
//		return err // nil is done, anything else is tried again
//	}
//
//	functions.Function{
//		Name:    "file-claim",
//		Types:   []string{"com.insurer.claim.reported"},
//		OrderBy: functions.PartitionKey,
//		Retry:   functions.Retry{Attempts: 3, Backoff: functions.Exponential(time.Second, time.Minute)},
//		Handle:  functions.Typed(fileClaim),
//	}
//
// Package functionstest runs such a function in a unit test. Package chaos has it
// fail on purpose, there or on a node, to rehearse what follows.
package functions
