// Package runtime hosts functions on an embedded node: owners, attempts, recovery, traces, the HTTP API and the command line. It is the
// only package that sees everything.
//
// # Guarantee
//
// Every accepted event is, for every function that subscribes to it, delivered, discarded with a reason, or visibly waiting, and kill -9 at
// any instant changes none of this. No event is attempted more often in a cycle than its policy allows, restarts included. After a crash
// an event whose handler had finished, but whose mark had not been written, is handled once more.
//
// For one function and one ordering key, an attempt never starts before every earlier event is delivered or discarded, and never beside another
// one. No other key notices.
//
// # Model
//
// Each function has one owner, and the owner is one goroutine. It takes deliveries from three consumers (its source stream, RETRY,
// DECISIONS), advisories, results of attempts and timers, decides by pure plans (plan.go) and applies their steps one after the
// other (step.go). What only has to be stored it has stored beside it (owner_aside.go), by a bounded number of goroutines that it waits for when it
// ends; the plans of one event follow each other all the same. Nobody else writes the function's streams while it is hosted. Workers run
// handlers and touch nothing else.
//
//	EVENTS ──▶ lined ──▶ queued ──▶ running ──┬─ done ───▶ mark, ack
//	             │  ▲               ▲         ├─ failed ─▶ record, RETRY, mark, ack ──▶ waiting
//	        hold │  │ due           │         └─ park ───▶ record, DLQ, mark, ack
//	             │  └── waiting ◀───┴── nak with the backoff ◀── failed, attempts left
//	             ▼        ▲             last nak ──▶ exhausted ──▶ advisory, owner or sweep ──▶ DLQ, delete in RETRY
//	           HELD ──────┘ release
//	   redrive: DLQ ──▶ RETRY, next cycle          discard: record, delete in DLQ
//
// An event with an ordering key is lined up in its lane ([github.com/siding-dev/siding/runtime/internal/lane]), which says when it runs, when it
// is held and when it is released; the owner tells the lane of each change when it is stored. What waits in HELD is in no item: a lane keeps its
// sequence and nothing else. An event without a key goes from EVENTS to queued.
//
// The first delivery from RETRY stands for the attempt that was made from the source stream. It is given back with the backoff's
// delay, so that deliveries equal attempts and JetStream's own counter enforces the policy. Waiting for a worker, or for the rest of a
// delay, never uses a delivery: the owner keeps it alive by heartbeats.
//
// A function is suspended when different events fail one after the other and none succeeds, when most of what comes in would be parked, or when its
// handler or a person asks for it ([github.com/siding-dev/siding/runtime/internal/diagnosis]). What waits stays in the queue like what waits for a worker.
// Single events probe; what fails meanwhile is not charged, and the attempts that showed the outage are given back: the state with the list of them is written
// first, then a record each. Nothing begins between a change of the state and its end on disk, so that a process that dies in between leaves a state
// that the next one can complete.
// Whether anything may begin at all is asked at one place (owner_gate.go): a worker is free, the function is not suspended, and its gate
// ([github.com/siding-dev/siding/runtime/internal/gate]) is open, which knows what the function depends on, its rate and its window. What may not
// begin stays queued. Checks of dependencies run beside the owner and end with it. The run of a window is nowhere stored: a start within a
// window begins one of what stands then, and attempts, which are counted in the records, count on across runs.
//
// The ledger can mark a window of sequences above the first one that is not settled (streams.LedgerWindow, about three million). While a handler takes
// so long that others fill it, the owner takes no further event from the source stream: what could not be marked would be handled again after
// a kill. What stands in RETRY, in HELD or among the dead letters is marked and holds nothing up, nor does a gap of other functions' events.
//
// A step that cannot be stored is kept and repeated; the event stays where it stands until then. A store that cannot be written at all
// (a full disk leaves a stream unwritable until the server restarts) ends the session: the server is started again when there is room.
//
// # Crash argument
//
// Plans put what stands at the target and in the records first, then the mark, then the ack or the delete. After a crash:
//
//   - done: before the mark the event is attempted once more; after it, the redelivery is acknowledged and not run. An event that has
//     records gets a final record before its mark: if only that was written, the record says that it ended.
//   - done, with events emitted: they are stored whole in the outbox first. Before the final record, which names what is stored there, nothing has been
//     emitted, and the event is attempted once more; the next start forgets what no record names, also a copy of an earlier attempt that the kill
//     has brought back. After the record the start publishes them before the event's end is stored: what carries its message id in EVENTS is there
//     already, which the server knows for ten minutes, and the stream itself, from where it ended before, for ever. What a function emitted that is not
//     hosted any more is published by the sweep of orphans.
//   - a step of functions.Once: before its record the step is done once more, by the attempt that comes; after it never, whatever brings the event
//     back. An edit that forgets steps does so between its record and the move, before anything can be attempted.
//   - failed: before the record the attempt counts for nobody (its slot in the ledger says that it ran, and a record of class crash
//     says so); after it, the record says what was to follow, and that is done without the handler: the move to RETRY, the rest of
//     the delay, or parking.
//   - moved to RETRY, not marked: what stands anywhere outside its source stream is marked at the start.
//   - parked, RETRY not deleted: the same cycle stands twice, the dead letter wins.
//   - redriven, DLQ not deleted: the higher cycle stands in RETRY and wins. The decision comes again, and the record that was written first
//     says that it has been applied; the audit entry, which comes after the move, is written again with the same id. An edit is the same.
//   - discarded, DLQ not deleted: the decision comes again and is completed. With a tail, the dead letter is the last to end: until then it
//     blocks its lane, so that nothing of the tail can have been released.
//   - held, not marked: like every copy, what stands in HELD is marked at the start. Before the copy there is only a record, which ends nothing.
//   - released, HELD not deleted: the same event stands in RETRY, which wins; HELD is deleted. What was released or redriven is attempted meanwhile,
//     and its end is stored behind the delete: an end that a crash takes away is one of an attempt that ran, whose slot says so.
//   - released out of order: the dead letter itself says that it blocks no longer, and a start believes it.
//   - suspended, the audit or the records that give attempts back not written: the state with the declaration says so, and the next start writes them.
//     Attempts that fail while the function is suspended have a record that charges nothing, and stay where they are.
//   - a copy that was written over another one and then deleted: the store writes no tombstone for what a limit for each subject removes, so
//     the older copy can stand again. The records, which outlive it, say that its event has ended or stands elsewhere.
//
// # Order after a crash
//
// A lane is rebuilt from what stands in RETRY, HELD and among the dead letters, all of it before any lane may start something, and from what the
// source stream brings again. The cursor is the highest source sequence seen since the start, and begins at the floor. Nothing with a sequence that it
// has not passed starts from RETRY or is released: an earlier event of the key may still be on its way from the source stream.
//
// JetStream's acknowledgements may all be forgotten: every start resets the three consumers, which brings back everything above their ack
// floors at once and in order, and the ledger says what of it is settled. The reset also wipes JetStream's delivery counts, so
// the records, not the counts, bound the attempts.
//
// A delivery that is lost between the server and the owner would let the floor pass an event that nobody has seen. Consumer
// sequences are contiguous, so a gap is noticed, and the consumer is reset.
//
// # What is handled twice
//
// An attempt that succeeds in a cycle in which the process died during an earlier one may be the second one that did: the audit says so
// (possibly_delivered_twice), with both lives, and siding_possibly_delivered_twice_total counts it. The same is said of what an earlier life had been
// handed when the ledger, and with it the marks of that life, is lost. Where it is known that an earlier attempt succeeded, because a mark stands or because a
// handler that had been given up returned after all, it is delivered_again, and siding_delivered_again_total.
//
// # What takes the process down
//
// Each attempt has a slot in the ledger, which says that it was begun, that its handler was called, and that it returned (job.go). A start finds the
// slots that are in use and records of each attempt whose handler was running that the process died meanwhile; nothing of that is charged. A stop in
// order leaves no slot. An attempt that had returned, or whose handler had not been called, cannot have been the culprit and is only attempted again.
//
// An event with such a record is a suspect until it ends (owner_suspects.go). It is attempted with nothing beside it in the whole process
// (alone.go), so that a second death during it leaves no doubt: it is parked with the cause crash. An attempt that fails clears nobody, since it
// may not have come as far. For a suspect the process stands still for 30 s at most, then the others go on for as long.
//
// What dies later than its handler, such as a goroutine that was left behind, can be told from what runs then only by itself. The process has the Go
// runtime write down what ends it (death.go), and each attempt runs with a label that its goroutines inherit and that stands in that report: it says from
// whose attempt the goroutine came. Then no other event is convicted. Where the report says nothing of the kind the process stays still for
// 500 ms behind each suspect, and who dies in that moment has nobody else to blame. Either way the death counts for a function; three within
// five minutes suspend it, unless Breaker.Off says otherwise, and the node serves the others.
//
// Someone who kills the process from outside twice while the same suspect runs alone has it convicted. It is a dead letter like any other, whose
// history says so, and a redrive attempts it again.
//
// # Telling someone
//
// The audit has an entry for everything that happens to an event or a function, whoever did it. The notifier (notify.go) reads it from where it has been
// told to, and stores what people are to be told in SIDING_OPS, as CloudEvents on siding.ops.<function> and siding.ops._node.digest. It stands beside
// the owners, who know nothing of it, and so holds no event up; functions that are not hosted are told of as well.
//
//	siding.suspended, siding.resumed, siding.gave-up, siding.stuck    at once, one for each entry
//	siding.digest                                                     what was parked: an interval (1 h) after the first of it, one line a group
//
// A group is a function and a fingerprint: the class and the text of the error without numbers, ids and quoted parts (package digest). That text is all that
// the audit and a notice have of an error; data of events is in neither. What was parked and has been decided about before the digest is
// made counts, and the digest says how many still are parked. Where nothing was parked there is silence.
//
// How far has been told is in the notices themselves: each has the sequence of its audit entry, a digest that of the newest one it is about, and ids follow
// from these alone. A start reads the newest notices and goes on behind them. Between two digests nothing but counts is in memory, for 100 groups
// at most; a process that dies reads the entries again. What is beyond is a position that is saved once an interval when nothing was parked, so that a
// start need not read a year. Whatever dies where: every notice stands in SIDING_OPS once, and two digests are an interval apart. When a node is
// started for the first time, what its audit had before is not told.
//
// The webhook (webhook.go) is a durable consumer of SIDING_OPS: it posts one notice after the other as structured CloudEvents, signed as Standard
// Webhooks say, and acknowledges with the receiver's 2xx. Everything else is a failure: it posts again after 1 s, 2 s … 5 min, or later where Retry-After
// asks for it, 5 min at most. No redirect is followed. A notice that is not taken for a day is dropped, with an error in the log, for the sake of those
// behind it; 410 ends the webhook until the process starts again. After a kill, what was taken in its last 100 ms is posted again, with the
// same webhook-id.
//
// # Concurrency
//
// A Runtime is made by New and run once by Run, which blocks. Everything it starts has ended when it returns, except handlers that do not
// return: they are given up after their timeout and a grace, their event is parked as stuck, and their worker is replaced. Until such a handler
// returns its lane hears nothing of what becomes of the event, and so starts nothing: two attempts of one lane never overlap.
package runtime
