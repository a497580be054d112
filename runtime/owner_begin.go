package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/siding-dev/siding/streams"
)

// begin finds out where every event of the function stands, repairs what a crash left half done, and brings everything that is
// not settled back in order. Nothing is inferred to be settled: only a mark, a standing copy or a final record says so.
func (o *owner) begin(ctx context.Context) error {
	known, err := o.declare(ctx)
	if err != nil {
		return err
	}
	if err := o.openLedger(known); err != nil {
		return err
	}
	before := o.remember()
	if err := o.attach(ctx, known); err != nil {
		return err
	}
	retry, err := o.repair(ctx)
	if err != nil {
		return err
	}
	if err := o.survivors(ctx, retry); err != nil {
		return err
	}
	if err := o.beginSuspended(ctx); err != nil {
		return err
	}
	o.beginSetAside()
	if err := o.lookBack(ctx, before); err != nil {
		return err
	}
	if err := o.recoverOutbox(ctx); err != nil {
		return err
	}
	for _, ref := range retry {
		if err := o.adoptStanding(ctx, ref); err != nil {
			return err
		}
	}
	if o.syncs.always { // what has just been marked may be acknowledged from now on
		if err := o.syncLedger(); err != nil {
			return err
		}
	}
	o.openLanes()
	for _, c := range []struct{ stream, name string }{
		{o.declared.Stream, o.fn.Name}, {streams.RetryStream, o.fn.Name}, {streams.DecisionsStream, o.fn.Name},
	} {
		if err := o.store.Reset(ctx, c.stream, c.name); err != nil {
			return err
		}
	}
	o.expected = 1
	return nil
}

// declare compares the function with what this node remembers of it, and writes down what it is now. known is false for a function
// that has never been hosted here.
func (o *owner) declare(ctx context.Context) (known bool, err error) {
	source, err := o.store.Source(ctx, o.fn.Stream)
	if errors.Is(err, streams.ErrNotFound) {
		return false, o.noStream(ctx, err)
	}
	if err != nil {
		return false, err
	}
	if err := o.attachable(source); err != nil {
		return false, err
	}
	o.bounds = source
	o.declared = streams.Declared{
		Name: o.fn.Name, Types: o.fn.Types, Stream: o.fn.Stream, StreamCreated: source.Created, Since: source.Last + 1, Head: source.Last,
		OrderBy: o.fn.OrderBy.String(), OnPark: o.fn.OnPark.String(), Attempts: o.fn.Retry.Attempts, Timeout: o.fn.Timeout, Concurrency: o.fn.Concurrency,
		Owner: o.fn.Owner, Version: o.fn.Version,
	}
	if o.fn.Start.String() == "beginning" {
		o.declared.Since = max(source.First, 1)
	}
	before, err := o.store.Declared(ctx, o.fn.Name)
	switch {
	case errors.Is(err, streams.ErrNotFound):
	case err != nil:
		return false, err
	case before.Stream == source.Name && before.StreamCreated.Equal(source.Created):
		o.declared.Since, o.declared.Head, o.declared.Paused, known = before.Since, before.Head, before.Paused, true
		o.declared.Suspension, o.declared.Outages, o.declared.SetAside, o.declared.Deaths = before.Suspension, before.Outages, before.SetAside, before.Deaths
	default:
		if err := o.nothingStands(ctx, before); err != nil {
			return false, err
		}
	}
	return known, o.store.Declare(ctx, o.declared)
}

// nothingStands refuses to start a function on another stream while events of the old one still stand somewhere: their sequence
// numbers, which are their identity, mean something else there. If none stands, what was recorded about the old ones is forgotten.
func (o *owner) nothingStands(ctx context.Context, before streams.Declared) error {
	for _, place := range []streams.Place{streams.InRetry, streams.InHeld, streams.InDeadLetters} {
		refs, err := o.store.Standing(ctx, place, o.fn.Name)
		if err != nil {
			return err
		}
		if len(refs) > 0 {
			return fmt.Errorf("function %s: stream %s is not the one it read before (%s, created %s), and %d of its events stand in %s: hint: restore the stream, or start the function under a new name and end what stands with `siding dlq discard`",
				o.fn.Name, o.fn.Stream, before.Stream, before.StreamCreated.Format(time.RFC3339), len(refs), place.Stream(o.fn.Name))
		}
	}
	o.log.Warn("the function's source stream was replaced; it starts anew", "stream", o.fn.Stream, "before", before.Stream)
	if err := o.store.FlushOutbox(ctx, o.fn.Name); err != nil {
		return err
	}
	if err := o.store.ForgetAllSteps(ctx, o.fn.Name); err != nil {
		return err
	}
	return o.store.ForgetRecords(ctx, o.fn.Name)
}

// ledgerPath is where the ledger of a function stands.
func ledgerPath(store *streams.Store, function string) string {
	return streams.LedgerPath(store.Node().Dir(), function)
}

// marking is what the ledger is told of events on their way.
type marking interface {
	Begin(run streams.Run) (slot int, err error)
	Reach(slot int, run streams.Run, s streams.RunState)
	End(slot int)
	Mark(seq uint64) error
	SetCursor(seq uint64)
	SetFloor(seq uint64)
}

// openLedger says once when marks of earlier lives are lost. What an earlier life may have begun is looked up in the records then.
func (o *owner) openLedger(known bool) error {
	path := ledgerPath(o.store, o.fn.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("function %s: ledger: %w: hint: let this user write to the data directory", o.fn.Name, err)
	}
	ledger, state, err := streams.OpenLedger(path,
		streams.LedgerKey{Function: o.fn.Name, Stream: o.declared.Stream, Created: o.declared.StreamCreated})
	if err != nil {
		return fmt.Errorf("function %s: %w", o.fn.Name, err)
	}
	o.ledger, o.marks = ledger, ledger
	if o.timing.unmarked != nil {
		o.marks = o.timing.unmarked
	}
	if o.syncs.always {
		if err := ledger.ClearAfterSync(); err != nil {
			return fmt.Errorf("function %s: %w", o.fn.Name, err)
		}
	}
	switch {
	case state.SetAside != "":
		o.log.Warn("the ledger cannot be trusted and was set aside; events since the last acknowledgement may be handled once more",
			"file", state.SetAside, "why", state.Why)
	case state.Fresh && known:
		o.log.Warn("the ledger is not there any more and was made anew; events since the last acknowledgement may be handled once more", "file", path)
	}
	o.fresh = state.Fresh
	o.replayed, o.forgot = ledger.Cursor(), known && !state.Kept()
	return nil
}

// closeLedger ends the ledger with the owner. An attempt that did not return is a crash to nobody. A start that failed before it had looked at what
// ran when the process died leaves that for the next one.
func (o *owner) closeLedger() {
	if o.ledger == nil {
		return
	}
	end := o.ledger.Close
	if o.survived {
		end = o.ledger.CleanStop
	}
	if err := end(); err != nil {
		o.log.Warn("closing the ledger", "err", err)
	}
}

// attach makes or finds the three consumers.
func (o *owner) attach(ctx context.Context, known bool) error {
	floor := max(o.ledger.Floor(), o.declared.Since-1)
	source, made, ackFloor, err := o.store.SourceConsumer(ctx, o.declared, floor)
	if err != nil {
		return err
	}
	o.source = source
	if made && known && !o.fresh {
		o.log.Error("the function's consumer was missing and has been made again behind the last settled event",
			"stream", o.declared.Stream, "from", floor+1)
	}
	o.ledger.SetFloor(max(floor, ackFloor))
	o.cursor = o.ledger.Floor()
	begun := uint64(0) // a new function has no history to look up
	switch {
	case known && (made || o.syncs.always): // a power loss takes the cursor back, and leaves records of what came behind it
		begun = o.bounds.Last
	case known: // the ledger may be an old copy
		begun = source.CachedInfo().Delivered.Stream
	}
	o.replayed = max(o.replayed, begun)
	if o.forgot {
		o.doubted = begun
	}
	if o.retry, err = o.store.RetryConsumer(ctx, o.fn.Name, o.fn.Retry.Attempts); err != nil {
		return err
	}
	o.decisions, err = o.store.DecisionConsumer(ctx, o.fn.Name)
	return err
}

// contiguous checks that no delivery of the source stream got lost between the server and us: the floor must never pass an event that
// nobody has seen. On a gap everything above the ack floor is asked for again.
func (o *owner) contiguous(ctx context.Context, d delivered) bool {
	n := d.meta.Sequence.Consumer
	switch {
	case n == o.expected:
		o.expected++
		return true
	case o.expected == 1 && n > o.overtaken && time.Since(o.asked) < onTheirWay:
		return false // from before we asked; at the start there is no such thing
	}
	o.log.Warn("a delivery was lost on its way; asking again for everything that is not settled", "expected", o.expected, "got", n)
	if err := o.store.Reset(ctx, o.declared.Stream, o.fn.Name); err != nil {
		o.fault(err)
		return false
	}
	o.expected, o.overtaken, o.asked = 1, n, time.Now()
	return false
}

// onTheirWay is how long deliveries from before a reset can still come in. One that comes later, with nothing before it, shows that
// the first one after the reset got lost too.
const onTheirWay = time.Second

// seen notes a source sequence. They arrive in ascending order, except for redeliveries.
func (o *owner) seen(seq uint64) {
	if seq > o.cursor {
		if seq > o.cursor+1 {
			o.skip(o.cursor+1, seq-1)
		}
		o.cursor = seq
		o.order = append(o.order, seq)
		o.marks.SetCursor(seq)
		o.passed()
	}
}

// advance moves the floor behind everything that is settled without a gap.
func (o *owner) advance() {
	for len(o.order) > 0 && (o.ledger.Settled(o.order[0]) || o.standing[o.order[0]]) {
		delete(o.standing, o.order[0])
		o.order = o.order[1:]
	}
	if len(o.order) == 0 {
		o.marks.SetFloor(o.cursor)
		return
	}
	o.marks.SetFloor(o.order[0] - 1)
}
