// Package runtime hosts functions on an embedded node: owners, attempts, recovery, traces, the HTTP API and the command line. It is the
// only package that sees everything.
//
// # Guarantee
//
// Every accepted event is, for every function that subscribes to it, delivered, discarded with a reason, or visibly waiting, and kill -9 at
// any instant changes none of this. No event is attempted more often in a cycle than its policy allows, restarts included. After a crash
// an event whose handler had finished, but whose mark had not been written, is handled once more.
//
// # Model
//
// Each function has one owner, and the owner is one goroutine. It takes deliveries from three consumers (its source stream, RETRY,
// DECISIONS), advisories, results of attempts and timers, decides by pure plans (plan.go) and applies their steps one after the
// other (step.go). Nobody else writes the function's streams while it is hosted. Workers run handlers and touch nothing else.
//
//	EVENTS ──▶ queued ──▶ running ──┬─ done ───▶ mark, ack
//	                      ▲         ├─ failed ─▶ record, RETRY, mark, ack ──▶ waiting
//	                      │         └─ park ───▶ record, DLQ, mark, ack
//	   due ◀── waiting ◀──┴── nak with the backoff ◀── failed, attempts left
//	                          last nak ──▶ exhausted ──▶ advisory, owner or sweep ──▶ DLQ, delete in RETRY
//	   redrive: DLQ ──▶ RETRY, next cycle          discard: record, delete in DLQ
//
// The first delivery from RETRY stands for the attempt that was made from the source stream. It is given back with the backoff's
// delay, so that deliveries equal attempts and JetStream's own counter enforces the policy. Waiting for a worker, or for the rest of a
// delay, never uses a delivery: the owner keeps it alive by heartbeats.
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
//   - failed: before the record the attempt counts for nobody (its slot in the ledger says that it ran, and a record of class crash
//     says so); after it, the record says what was to follow, and that is done without the handler: the move to RETRY, the rest of
//     the delay, or parking.
//   - moved to RETRY, not marked: what stands anywhere outside its source stream is marked at the start.
//   - parked, RETRY not deleted: the same cycle stands twice, the dead letter wins.
//   - redriven, DLQ not deleted: the higher cycle stands in RETRY and wins. The decision comes again, and the record that was written first
//     says that it has been applied.
//   - discarded, DLQ not deleted: the decision comes again and is completed.
//
// JetStream's acknowledgements may all be forgotten: every start resets the three consumers, which brings back everything above their ack
// floors at once and in order, and the ledger says what of it is settled. The reset also wipes JetStream's delivery counts, so
// the records, not the counts, bound the attempts.
//
// A delivery that is lost between the server and the owner would let the floor pass an event that nobody has seen. Consumer
// sequences are contiguous, so a gap is noticed, and the consumer is reset.
//
// # Concurrency
//
// A Runtime is made by New and run once by Run, which blocks. Everything it starts has ended when it returns, except handlers that do not
// return: they are given up after their timeout and a grace, their event is parked as stuck, and their worker is replaced.
package runtime
