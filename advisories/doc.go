// Package advisories turns JetStream's advisories into dead letters. It captures them, reaches a verdict on each, and knows how an event
// becomes a dead letter, also for functions that are not hosted any more.
//
// # Guarantee
//
// An event whose last allowed attempt failed becomes a dead letter once, whether its advisory arrives, gets lost, comes twice or comes
// late. An event that is not exhausted never becomes one because of an advisory.
//
// # Model
//
// RETRY's consumer allows as many deliveries as the policy allows attempts, and the owner makes deliveries equal attempts. So when the last
// attempt has failed, JetStream's own counter says so: it publishes MAX_DELIVERIES, which the stream SIDING_ADVISORIES captures.
// The Reader hands each one to the owner of the function, which asks Judge:
//
//	advisory ──▶ Judge ──┬─ park       the records call the event exhausted
//	                     ├─ mark dead  it is being attempted; if that fails, its copy is written anew
//	                     ├─ give back  deliveries were used up without attempts: its copy is written anew
//	                     └─ nothing    moved, replaced or settled since
//
// The advisory alone decides nothing, because of what it is: a fire-and-forget message without payload, published before the state
// that it reports has been stored. Nobody subscribed: it is not even encoded. Killed between state and advisory: it is lost, and
// the message is never delivered again. Killed between advisory and state: it comes twice. Nobody pulling: it does not come. That is
// why two further paths lead to the same end: the owner parks by itself when no advisory has come two seconds after the last nak,
// and a sweep at the start and every minute parks what the records call exhausted.
//
// # Crash argument
//
// Parking writes the dead letter (1), its record (2), an audit entry (3), deletes the copy in RETRY or marks the event at its
// source (4), and only then is the advisory acknowledged (5).
//
//   - Dead before (1): the event stands in RETRY, the records call it exhausted, and the advisory comes again. Any of the three
//     paths parks it.
//   - Dead after (1), (2) or (3): it stands twice at the same cycle. The next start deletes the copy in RETRY: at equal cycles the dead
//     letter wins. If it came from its source stream, the dead letter standing is what marks it there.
//   - Dead after (4): the advisory comes again and names a sequence that stands no more: nothing.
//
// # Alternatives dismissed
//
// Parking from the advisory alone loses events whenever an advisory is lost. Parking in the attempt that fails last, without advisories,
// leaves what JetStream gives up on by itself (a process that hung through its last delivery) in RETRY for ever. Terminating the
// message (TERM) deletes it before the advisory exists.
package advisories
