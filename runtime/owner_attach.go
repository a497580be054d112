package runtime

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/siding-dev/siding/runtime/internal/spelling"
	"github.com/siding-dev/siding/streams"
)

// A function may read a stream that somebody else has made. Siding removes nothing there and cannot keep the stream from removing something
// by its own rules, so the promise is weaker by just that: what is removed before it was handled is gone, and an alarm. What had
// left the stream for RETRY, HELD or the dead letters stands there whole, whatever becomes of the original.

// attachable refuses a stream that cannot be read safely, and says which promise it weakens.
func (o *owner) attachable(source streams.Source) error {
	if err := source.Attachable(o.fn.Types); err != nil {
		return fmt.Errorf("function %s: %w", o.fn.Name, err)
	}
	rules := source.Removes()
	if len(rules) == 0 {
		return nil
	}
	o.holes.watched = source.RemovesInside() && source.Whole(o.fn.Types)
	noticed := "each one that is removed before it was handled is counted as gone"
	if source.RemovesInside() && !o.holes.watched {
		noticed = "one that is removed before it was handled is counted as gone only where the oldest go first: the function does not read all of the stream's subjects"
	}
	o.log.Warn("the stream removes events by itself, so no more is promised than it keeps",
		"stream", source.Name, "removes", strings.Join(rules, "; "), "noticed", noticed)
	return nil
}

// noStream says that the function's stream is not there, and which one may have been meant.
func (o *owner) noStream(ctx context.Context, err error) error {
	hint := "create the stream first, or let the function read " + streams.EventsStream
	names, listing := o.store.SourceNames(ctx)
	if near := spelling.Nearest(o.fn.Stream, names); listing == nil && near != "" {
		hint = "did you mean " + near + "?"
	}
	return fmt.Errorf("function %s: %w: hint: %s", o.fn.Name, err, hint)
}

// holes are the sequences in the middle of the source stream that were passed over and are not there, although the function reads every
// event of it: they were removed before they were handled.
type holes struct {
	watched     bool
	count       uint64
	first, last uint64
}

// skip notes that the sequences from to to will not be delivered.
func (o *owner) skip(from, to uint64) {
	if !o.holes.watched {
		if o.skipped == 0 && from <= to {
			o.skipped = from
		}
		return
	}
	for seq := max(from, o.declared.Head+1); seq <= to; seq++ {
		if o.ledger.Settled(seq) || o.standing[seq] {
			continue
		}
		if o.holes.count == 0 {
			o.holes.first = seq
		}
		o.holes.count++
		o.holes.last = seq
	}
}

// tellHoles records what was removed from the middle of the stream since the last look: one record, however many there are.
func (o *owner) tellHoles(ctx context.Context) error {
	h := o.holes
	if h.count == 0 {
		return nil
	}
	now := time.Now().UTC()
	o.log.Error("events were removed from the source stream before they were handled", "stream", o.declared.Stream, "events", h.count, "from", h.first, "to", h.last)
	err := o.store.Append(ctx, streams.Record{
		Function: o.fn.Name, Sequence: h.first, Kind: streams.RecordGone, Started: now, Ended: now, Boot: o.ledger.Boot(),
		Reason: fmt.Sprintf("%d of the sequences %d to %d are not in stream %s any more, and had not been handled", h.count, h.first, h.last, o.declared.Stream),
	})
	if err == nil {
		o.holes = holes{watched: h.watched}
	}
	return err
}
