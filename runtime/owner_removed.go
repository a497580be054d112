package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/siding-dev/siding/streams"
)

// Siding removes nothing from a source stream that is not finished, but somebody else may purge it. Events that an owner has in hand
// are finished from memory. Those that it has not seen, and those that a process had in hand that died, are gone: one
// record of kind gone says so, under the first sequence that is missing, and the account names it until somebody looks into it.
//
// What was removed can no longer be asked for its type, so a function that reads only some types may be told about a purge of other
// ones. That is kept rare by lookAhead, which moves the cursor over whatever does not concern the function.

// memory is what the ledger knew before the owner attached: the consumer's ack floor, which a purge moves, says less.
type memory struct {
	kept  bool
	floor uint64
	marks map[uint64]bool // below the stream's first sequence
}

func (o *owner) remember() memory {
	m := memory{kept: !o.forgot, floor: max(o.ledger.Floor(), o.declared.Since-1), marks: map[uint64]bool{}}
	if !m.kept || o.bounds.First <= m.floor+1 {
		return m
	}
	for seq := range o.ledger.Marked() {
		if seq >= o.bounds.First {
			break
		}
		m.marks[seq] = true
	}
	return m
}

// lookBack records what was purged while nobody looked. Nothing is in hand yet.
func (o *owner) lookBack(ctx context.Context, before memory) error {
	first := o.bounds.First
	if !before.kept || first <= before.floor+1 {
		return nil
	}
	places, err := standingPlaces(ctx, o.store, o.fn.Name)
	if err != nil {
		return err
	}
	for seq := before.floor + 1; seq < first; seq++ {
		if before.marks[seq] || len(places[seq]) > 0 {
			continue
		}
		last, ok, err := o.store.LastRecord(ctx, o.fn.Name, seq)
		if err != nil {
			return err
		}
		if ok && last.Kind == streams.RecordGone {
			break // said by an earlier life, about the rest too
		}
		if ok && last.Final() {
			continue
		}
		if err := o.gone(ctx, seq, first-1); err != nil {
			return err
		}
		break
	}
	o.pass(first - 1)
	return nil
}

// lookAhead compares the cursor with the bounds of the source stream: it records what was purged before it was delivered, and moves the
// cursor, and with it the floor, over what is not the function's.
func (o *owner) lookAhead(ctx context.Context) error {
	source, err := o.store.Source(ctx, o.declared.Stream)
	if err != nil {
		return err
	}
	from := o.cursor + 1
	if o.skipped != 0 {
		from = o.skipped
	}
	if source.First <= from && source.Last <= o.cursor {
		o.skipped = 0
		return o.tellHoles(ctx)
	}
	// Counted in the store itself: a consumer's own number of pending events follows a moment later.
	unseen, err := o.store.CountFrom(ctx, o.declared.Stream, o.declared.Types, o.cursor+1)
	if err != nil {
		return err
	}
	info, err := o.source.Info(ctx)
	if err != nil {
		return err
	}
	if info.Delivered.Consumer+1 != o.expected {
		return nil // a delivery is on its way, perhaps of an event that has been purged since: look again at the next sweep
	}
	if source.First > from {
		if err := o.gone(ctx, from, source.First-1); err != nil {
			return err
		}
		o.pass(source.First - 1)
	}
	if unseen == 0 {
		o.skip(o.cursor+1, source.Last)
		o.pass(source.Last)
	}
	o.skipped = 0
	return o.tellHoles(ctx)
}

// pass moves the cursor over sequences that will never be delivered.
func (o *owner) pass(seq uint64) {
	if seq > o.cursor {
		o.cursor = seq
		o.marks.SetCursor(seq)
		o.passed()
	}
	o.advance()
}

func (o *owner) gone(ctx context.Context, from, to uint64) error {
	now := time.Now().UTC()
	o.log.Error("events were removed from the source stream before they were handled", "stream", o.declared.Stream, "from", from, "to", to)
	return o.store.Append(ctx, streams.Record{
		Function: o.fn.Name, Sequence: from, Kind: streams.RecordGone, Started: now, Ended: now, Boot: o.ledger.Boot(),
		Reason: fmt.Sprintf("the sequences %d to %d are not in stream %s any more, and not all of them had been handled or were known to be of other types", from, to, o.declared.Stream),
	})
}
