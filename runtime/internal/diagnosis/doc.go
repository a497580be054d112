// Package diagnosis tells a bad message from a bad resource. It is pure: it is told what attempts came to, and says whether a function is to be
// suspended, how many attempts may run, and which attempts are not charged. It knows no stream and no clock.
//
//	               N different events fail in a row,
//	               or most of 100 would be parked             M probes failed
//	closed ─────────────────────────────────────▶ open ────────────────────────▶ stays
//	  ▲                                           ▲  │                             │  ▲
//	  │ as many succeed as                failures│  │ a probe succeeds            │  │ a person, or the handler,
//	  │ may run at once                   in a row│  ▼                             │  │ from any phase
//	  └────────────────────────────────────────── ramp ◀──────────────────────────┘
//	                                                        a person resumes
//
// # Poison or outage
//
// One event that fails says nothing: with a single event in the queue nobody can tell whether it or the resource is bad, and the retry policy
// decides. If others succeed meanwhile, the event is the cause: poison. If nothing else succeeds, and different events of at least two keys or
// sources fail one after the other, the events are not to blame: outage. An event that has no key stands for itself, since it
// has nothing in common with others that could be bad. What a handler calls unavailable is believed sooner, because it has looked.
//
// A failure that no retry can help is the handler's judgment about the event. It neither counts towards an outage nor speaks against one.
// When most of what comes in is judged like that, a sender or a new version of the handler is broken, and a dead-letter queue
// full of everything helps nobody: the function is suspended instead.
//
// # Attempts
//
// While a function is suspended or on its way back, a failed attempt is not charged. The attempts that failed in the row that showed the
// outage were charged before anybody could know: they are named, to be given back. An outage therefore costs no event an attempt, however
// often the function is suspended.
//
// Each probe takes the event that waits at the front, so that a bad event among the probes fails one of them and goes behind the others.
package diagnosis
