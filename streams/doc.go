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
// Copies keep body and attributes byte for byte. They carry no Nats-* header: a copied Nats-Msg-Id would make the copy vanish as a
// duplicate, with a good PubAck. What is too large to be copied stands by reference, and its source keeps it.
//
// # Ledger
//
// The ledger of a function is one memory-mapped file: the floor (every sequence up to it is settled), a settled bit for each sequence
// between the floor and the window, and slots for what runs. A mark is one atomic store that costs nanoseconds and survives the
// process, because the page cache does. Settled means: finished with on the source stream, either done or safely standing elsewhere.
//
// # Concurrency
//
// Node and Store may be used by any number of goroutines. A Ledger is written by one goroutine, the function's owner, and read by any.
package streams
