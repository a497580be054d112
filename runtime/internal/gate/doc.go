// Package gate decides whether a function may begin one more attempt now: by what it depends on, by its rate and by its window.
//
// # Guarantee
//
// While a dependency is away, or has not answered yet, nothing begins. Never more attempts begin within a time than the rate allows. With a
// window nothing begins outside of a run, and in a run only what stood in the source stream when it began.
//
// # Model
//
// A [Gate] is a pure state machine: it knows no broker, no clock and no context. Facts come in (an answer, a start, the time), and [Gate.May] says
// whether an attempt may begin, and if only the clock stands against it, when to ask again. What may not begin is the business of whoever
// asks: the owner keeps it in its queue, alive by heartbeats, so that waiting uses neither an attempt nor a delivery.
//
// A window is open from a time of its schedule for its length at most. Each opening is a run:
//
//	closed ── Tick says that a window opens; Open(mark) ──▶ running ── EndRun (worked off, or an outage), or its time is over ──▶ closed
//	                                                         │    ▲
//	                                                         └────┘ the next window opens: a new mark
//
// The mark is the last sequence of the source stream when the run began. [Gate.Admits] says whether an event is of the run: whatever way
// it comes (for the first time, again, released or redriven), it is if its sequence is not above the mark. Nothing of a run is stored. A process
// that starts within a window begins a new run, of what stands then: that can take in more than the run before, and never less.
//
// # Concurrency
//
// A Gate belongs to one goroutine, its function's owner.
package gate
