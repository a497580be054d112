// Package lane keeps the events of one ordering key in order, for one function.
//
// # Guarantee
//
// **An event of a lane starts only when every lower one is delivered or discarded**, whatever mix of failing, parking, redriving,
// discarding, pausing and crashing there was, and never beside another one of its lane. The whole rule is: a lane is a set of source
// sequences that are not finished, each with a position, and only the lowest may start. Everything else here is bookkeeping.
//
// # Model
//
// A [Lane] is a pure state machine: [Lane.Step] takes one [Input] and appends the [Effect]s that follow from it. It knows no broker, no
// clock and no context. An input is a fact about one event ("it failed and stands in RETRY now"), an effect is what the owner is to do
// about one ("move it to HELD"). What nobody has said to a lane does not exist for it.
//
//	Arrive
//	  │
//	  ▼       run
//	Line ──────────────────▶ Running ──── Done ───▶ (gone)
//	  │                       │   ▲
//	  │ hold                  │   │ run
//	  ▼                       │ Ready
//	Moving                    │   ▲
//	  │               Retry   │   │ Due
//	  │ HeldNow               ▼   │
//	  ▼                      Waiting ◀── Redrive ── Parked ◀── Park, from anywhere
//	Held                      ▲
//	  │       release         │ ReleasedNow
//	  └───────────────────▶ Moving
//
// Line, and Running from there, are in memory only; Waiting, Ready, and Running from there stand in RETRY, Held in HELD, Parked among the
// dead letters. Done ends an event from every position. Between Running and what follows, Move may say that only storing is left.
//
// # Rules
//
//   - Start. While nothing runs and the lane is not paused, the lowest event starts if the cursor has passed it: from Line or Ready by
//     [Run], from Held by [Release], after which it comes back as due. If it is Waiting, Moving or Parked, it is the blocker and everybody
//     waits. A released event is the lowest on its whole way through RETRY, so that releases go one by one and in source order.
//   - Cursor. After a crash, positions become known in any order, and a lower event may still be on its way from the source stream. The
//     cursor is how far the owner has seen that stream; what it has not passed does not start.
//   - Hold. An event stays in Line only as long as nothing lower stands outside memory. Otherwise it may wait for long, and is moved to
//     HELD, where waiting is free. What a Line cannot take within its bound is moved too, so that a hot key does not fill the
//     owner's window: its lowest events stay on the hot path, and what comes after the first held one is held behind it. When
//     nothing is held any more, the next arrival stays in Line: there is no mode to leave.
//   - Lower arrivals. An arrival below everything (a replay after the ledger was lost) is simply the lowest. It goes first, though
//     something higher waits in RETRY or stands parked, and only waits for what already runs.
//   - Passing. Dead letters that do not block ([Rules.Continue], [ParkPassing]) leave the lane as if they were done. While they are being
//     retried they block like any other, also in the cycle that a [Redrive] begins.
//   - Out of order. What is held behind a dead letter goes on without it when an operator makes that one a passing one, by ParkPassing. The
//     tail then flows in its own order, up to the next dead letter. There is no way past an event that is being retried, and none for a
//     single held event past those before it.
//
// # Invariants
//
//   - At most one event of a lane is Running.
//   - No event stays in Line above one that stands outside memory or is on its way to or from HELD, and Line is never longer than its bound.
//   - Hold, Release and Run are each said once for each stay in the position that they end.
//   - When Step returns, nothing that may start has been left standing: no input is needed to "wake" a lane, except [Cursor] for one that
//     [Lane.AwaitsCursor].
//
// # What the owner does
//
// One goroutine owns a function's lanes: a map from lane to *Lane with the ones that are not [Lane.Idle]. It gives a lane every input, in
// the order in which things happened, and applies the effects. They may be applied at the same time as each other; the lane waits
// for the word that each is stored.
//
//   - [Run]: attempt the event, or find that it needs no attempt. From then on it counts as running, also while it waits for a
//     worker. It ends by Done, Retry, Park or ParkPassing, said when that is stored; Move says that the handler has returned and the rest
//     is being stored. A handler that does not return still runs: as long as it does, nothing is to be said that lets its lane go on. Hang says
//     so, and holds what waits in Line.
//   - [Hold]: move the event from the source stream to HELD, then say HeldNow. [Release]: move it from HELD to RETRY, then say ReleasedNow,
//     and Due when RETRY has delivered it. A move that cannot be stored is repeated; meanwhile the event stands where it stood.
//   - Arrive is said for each event at the moment its delivery is seen, not after a look-up of its records, and before the cursor passes it.
//     Cursor(s) just before Arrive(s) is sound, because what it starts is not above s. A lane's cursor may lag: the owner gives it
//     its own before any other input, which costs nothing, and when the cursor moves to those lanes that wait for it.
//   - Standing is said for what RETRY, HELD and the dead letters hold at the start, before the first Cursor. Lists of one stream do not
//     know what the others hold, so the order does not matter.
//   - Keyless events have no lane and are run at once.
//
// A crash loses a lane and nothing else. Each position outside memory is where the event is stored, so Standing and the
// replay of the source stream build it again; a move that was cut is found on one side or, repaired by the owner, on one of both. That
// an operator has made a dead letter a passing one is no position, so the owner stores it with the dead letter, and says Standing only about
// those that block. The property test kills lanes at every kind of moment.
//
// # Cost
//
// An idle lane is not there. One that runs its only event is one small struct. A held event costs 16 bytes (about 22 where a list came in random
// order), and an input costs O(log n) and the shift of one chunk of 128, in any order of sequences, so that a million held behind one
// blocker are no burden.
//
// # Dismissed
//
//   - Partitions (a hash of the key picks one of n lines): one failing key stops its whole partition, and n can never be changed.
//   - A consumer for each key: a consumer costs memory, a file and a Raft group or goroutine at the broker, keys are unbounded, and a new key would
//     wait for its consumer to be made.
//   - Nak with a delay for what is behind a blocker: every wait uses up a delivery, and redeliveries overtake each other.
//   - A mutex or goroutine for each lane: order then depends on the scheduler and cannot be tested as a function.
package lane
