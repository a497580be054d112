// Package torture judges what a node did while it was killed and stopped: it reads one log of facts and says which promise was broken
// first, with the history that shows it.
//
// # Guarantee
//
// [Check] is pure: the same log gives the same verdict, so that a log that was kept can be judged again after the checker or the
// reader has learned more. It finds every break that the log proves, and names none that a kill or an unanswered decision could explain.
//
// # Model
//
// A [Log] is a list of [Line]s, in the order in which things happened, and it may end with what the node itself says about where
// everything stands ([End]). Order is that of lines alone. Handlers and the driver append to one file, each line by one write: the begin of an attempt is
// written before the handler does anything, its end before the host learns of it, what is asked for before it is sent, an answer after
// it has come, and a kill once the process is gone and before the next one starts. So each line is true when it is written, whatever the clocks say.
//
// # Promises
//
// Each [Kind] is a promise that is broken. Events are known by their id, a lane is one function and one key, and a lower event of
// a lane is one with a lower sequence:
//
//   - [Overtaken]: an attempt begins though a lower event of its lane is neither delivered nor discarded nor released out of order. A
//     discard and a release count from when they were asked for, because one that was never answered may have been applied, unless they were
//     refused. What shows afterwards that they had not been applied, an attempt of the lower event, shows that it was overtaken.
//   - [Overlap]: an attempt begins while another of its lane (without a lane: of its event and cycle) runs in a process that lives.
//   - [Lost]: an accepted event is in the end neither delivered, parked nor possibly discarded, and nothing says that it waits, or it is held
//     behind nothing.
//   - [AfterDelivery]: an attempt begins after its event was delivered. A kill of the process that had delivered it explains one, unless
//     something higher of the lane has begun meanwhile.
//   - [AfterDiscard]: an attempt begins after its event was discarded.
//   - [Both]: a dead letter stands for an event whose last attempt delivered it.
//   - [TooOften]: an attempt has a number above the allowed one, or one that was used before and that no kill explains, or it
//     belongs to a cycle that is over.
//   - [Unasked]: an attempt of an event that nobody sent, in a cycle that no redrive began, or under another key than the event's.
//   - [Account]: the node counts otherwise than the log.
//
// A process that is stopped (SIGSTOP) and goes on has not been killed: nothing may be repeated because of it.
//
// # What a kill allows
//
// A process that dies takes its running attempts with it, and the word of those that have ended and whose end was not yet stored. The
// log cannot tell how long ago an end was stored, so that it allows the last attempt of each event in a killed process to be
// made again, under the same number, as long as nothing higher of the lane has begun.
package torture
