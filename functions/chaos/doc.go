// Package chaos makes functions fail on purpose, so that what follows a failure
// can be rehearsed before it happens: retries, dead letters, held keys, a
// process that dies, an outage that ends.
//
// # Guarantee
//
// What a [Plan] does to an attempt is decided by the plan, the function, the
// event, the attempt and the time since the start, and by nothing else: see
// [Plan.Decide], which is pure. A plan rehearsed twice with the same events does
// the same to the same ones, whatever their order. An event that no rule fits is
// handled as if there were no plan.
//
// # Model
//
// A plan is a list of rules. Rules that are slow add up, and then the first
// other rule that applies to the attempt takes the handler's place:
//
//	Fail         retry     a plain error
//	Unavailable  retry     a resource is away, as functions.Unavailable says it
//	Park         park      dead letter now
//	Panic        retry     class "panic"
//	Hang         retry     the attempt ends when its context does, of class "timeout" after the function's timeout
//	Kill                   the process ends at once, see Plan.Kill
//	Slow                   the handler is called later
//
// A failure says that it was meant: it is or wraps an [*Error], whose code is
// "chaos". The code is recorded with the attempt and with the dead letter, unless
// the attempt panicked: a panic has no code.
//
// # Concurrency
//
// Plans and rules are values that nothing here changes. A wrapped function may
// be called as concurrently as the one within it. Nothing is started that outlives
// an attempt.
//
// # Example
//
//	plan := chaos.Plan{Seed: 7, Rules: []chaos.Rule{
//		{Function: "file-claim", Where: "type=claim.*", Share: 0.1, Do: chaos.Fail, Times: 3},
//		{Do: chaos.Unavailable, Window: chaos.Window{After: 30 * time.Second, For: 10 * time.Minute}},
//	}}
//
// Package functionstest wraps a function with a plan in a unit test, the command
// siding dev --chaos FILE all functions of a node.
package chaos
