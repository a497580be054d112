// Package streams is all that Siding stores: the embedded JetStream server, the names of its streams and subjects, the CloudEvents
// codec, the moves between streams, the attempt records, and the ledger. It knows no handlers.
//
// # Guarantee
//
// When Accept, Place, Append, Audit or Decide has returned without an error, what it wrote survives kill -9: JetStream has written it to
// its file before it acknowledged. Power loss may take the last two minutes unless the node syncs always. Everything that must not be
// forgotten is therefore a published message or a mark in the ledger, never an acknowledgement or a delivery count: the server
// writes those behind, and a kill forgets the last 100 ms of them.
//
// # Model
//
// The data is the state: where an event stands is where it is stored. EVENTS is the log of what was accepted. SIDING_RETRY, SIDING_HELD,
// SIDING_DECISIONS and one DLQ_<function> for each function are sets of registers, one subject for each event of a function:
//
//	siding.<place>.<function>.<lane>.<sequence>
//
// The sequence is the event's in its source stream: (function, sequence) is the identity of everything that follows from it. The lane is
// the ordering key made safe for a subject. A register holds at most one message, and every write to it states the sequence that
// it expects there, so a write creates, or replaces exactly what was read, or changes nothing. A refusal means that somebody was
// faster: read what stands and compare cycles. Every other error means: not written. It never means "already there".
//
// A move is: create at the target, mark in the ledger, delete at the source. After a crash an event may stand twice, and one rule for
// each pair of places says which copy stays (see package runtime).
//
// What an attempt emits stands in SIDING_OUTBOX, whole, until the record of its success has named it and EVENTS has it. Results of steps that must
// not be done twice are kept in the bucket SIDING_ONCE.
//
// Copies keep body and attributes byte for byte. They carry no Nats-* header: a copied Nats-Msg-Id would make the copy vanish as a
// duplicate, with a good PubAck. What is too large to be copied stands by reference, and its source keeps it.
//
// # Ledger
//
// The ledger of a function is one memory-mapped file: the floor (every sequence up to it is settled), a settled bit for each sequence
// between the floor and the window, and slots for what runs. A mark is one atomic store that costs nanoseconds and survives the
// process, because the page cache does. On a node that syncs always a mark waits for a sync, which it shares with all that were made before that sync
// began; and marks that the floor has passed are cleared only when the floor is on the disk. Settled means: finished with on the source stream, either done or safely standing elsewhere.
//
// # Backup
//
// A backup is a copy of the data directory that is made while the node runs, and that a kill -9 could have left: every start repairs those,
// and no other repair exists. Copies of streams that were made one after the other are not that by themselves, because events move:
// copied from RETRY before it was parked and from the dead letters after it was redriven, one would be lost. The order is therefore:
//
//  1. A hold. Each operation that writes a register, a record, an audit entry or a declaration, and each mark in a ledger, is let through to its end,
//     and no other one begins. What has been confirmed so far is in the files; what is next has not begun. That is the state between two steps
//     of each plan, at which the crash tests cut. Handlers go on, their results wait; events go on being accepted.
//  2. The ledgers. Everything that they call settled is settled in what is copied after them. A mark of an event that the copy of its
//     source stream does not have would settle the event that gets its number later, which would be lost; so ledgers come before sources.
//  3. All streams that functions write, and of each source stream what says how far it has been read. A consumer's file may be older than the marks, as
//     after a kill, and is never newer: acknowledgements follow marks, and marks are held.
//  4. The end of the hold, 30 s after its beginning at the latest: then there is no backup.
//  5. The messages of the source streams, which nobody but their publishers changes: what was accepted before the backup began is in them, and some of
//     what came later, which stands there like an event that the functions had not come to yet. What functions emit meanwhile waits in their outboxes, because
//     the events that it follows from are not delivered in the copy.
//
// Within a stream the index comes first and the blocks in the order in which they are written, so that the copy is a beginning of the stream with an
// index that is not newer; its last message may be torn. The server mends both, as after a kill.
//
// The copy stands in the data directory until it has been sent: a reader that stalls holds nobody up. JetStream's own snapshots were
// dismissed: they leave out when a stream was created, which is a part of the identity of every sequence, and write every message anew.
//
// # Concurrency
//
// Node and Store may be used by any number of goroutines. A Ledger is written by one goroutine, the function's owner, and read by any.
package streams
