package runtime

import (
	"cmp"
	"context"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// onEvent takes a delivery of the source stream.
func (o *owner) onEvent(ctx context.Context, d delivered) {
	if !o.contiguous(ctx, d) {
		d.credits.put(1)
		return
	}
	seq := d.meta.Sequence.Stream
	if it := o.items[seq]; it != nil { // redelivered: only the ack handle is new
		switch {
		case it.retry == 0:
			it.msg = d.msg
		case o.ledger.Settled(seq) || o.standing[seq]:
			o.seen(seq)
			o.store.Ack(d.msg)
			o.advance()
		}
		d.credits.put(1)
		return
	}
	if o.ledger.Settled(seq) || o.standing[seq] {
		o.seen(seq)
		o.store.Ack(d.msg)
		o.advance()
		d.credits.put(1)
		return
	}
	o.seen(seq)
	if !o.fits(seq) {
		o.log.Warn("an event must wait, because it lies too far behind the first one that is not settled; what comes behind it waits too",
			"event", streams.Ref{Function: o.fn.Name, Sequence: seq}.ID(), "settled", o.ledger.Floor())
		o.beyond = &d
		return
	}
	o.arrive(ctx, d)
}

// fits reports whether an event could be marked when it has ended: the ledger has room for a window of sequences above the first one that is not
// settled. What cannot be marked is not begun, because a kill would have it handled once more.
func (o *owner) fits(seq uint64) bool {
	span := cmp.Or(o.timing.span, streams.LedgerWindow)
	if seq > o.ledger.Floor()+span {
		o.advance() // nothing may have been settled since the cursor passed what is not the function's
	}
	return seq <= o.ledger.Floor()+span
}

// letIn takes the event that had to wait for the floor.
func (o *owner) letIn(ctx context.Context) {
	if o.beyond != nil && o.fits(o.beyond.meta.Sequence.Stream) {
		d := *o.beyond
		o.beyond = nil
		o.arrive(ctx, d)
	}
}

// arrive takes an event of the source stream into memory.
func (o *owner) arrive(ctx context.Context, d delivered) {
	seq := d.meta.Sequence.Stream
	it := &item{
		ref: streams.Ref{Function: o.fn.Name, Sequence: seq}, slot: -1, msg: d.msg, credits: d.credits,
		header: d.msg.Headers(), data: d.msg.Data(), subject: d.msg.Subject(), stored: d.meta.Timestamp,
		redelivered: d.meta.NumDelivered > 1,
	}
	o.items[seq] = it
	it.broken = o.decode(it)
	it.redelivered = it.redelivered || seq <= o.replayed
	o.line(ctx, it)
}

// replay looks up what an earlier life recorded about an event that its ledger did not call settled.
func (o *owner) replay(ctx context.Context, it *item) {
	o.load(ctx, it, func() {
		h := it.history
		switch {
		case h.Final != "" || h.Parked || h.Cycle > 0:
			// It ended, or went on from a dead letter: only the mark was lost with the ledger.
			o.do(ctx, it, settle(it), func() { o.finish(it, lane.Done) })
		case h.Attempts > 0 || h.Cause != "":
			o.moveCut(it.ref, "its attempt was recorded, and it had not left its stream")
			o.goOn(ctx, it)
		default:
			o.admit(ctx, it, it.broken)
		}
	})
}

// load reads an item's records, as often as it takes, and goes on with then.
func (o *owner) load(ctx context.Context, it *item, then func()) {
	it.phase = moving
	o.carry(ctx, &work{ref: it.ref, it: it, then: then, steps: []step{{kind: stepPrepare, prepare: func(ctx context.Context) ([]step, error) {
		records, err := o.store.Records(ctx, o.fn.Name, it.ref.Sequence)
		if err != nil {
			return nil, err
		}
		h := advisories.Fold(records)
		it.recorded = len(records) > 0
		h.Records = nil
		it.history = h.At(it.cycle)
		for _, r := range records {
			if r.SpanID != "" {
				it.span = spanRef{TraceID: r.TraceID, SpanID: r.SpanID}
			}
		}
		return nil, nil
	}}}})
}

// decode builds the event and finds its ordering key and lane.
func (o *owner) decode(it *item) error {
	unknown := it.ref.Lane == ""
	if unknown {
		it.ref.Lane = streams.NoLane // what is no event has no key
	}
	e, err := streams.Decode(it.header, it.data)
	if err != nil {
		return err
	}
	it.event = e
	if unknown {
		attributes, err := streams.ReadAttributes(it.header, it.data)
		if err != nil {
			return err
		}
		it.key = o.fn.OrderBy.Of(attributes.Get)
		it.ref.Lane = streams.Lane(it.key)
	}
	return nil
}

// admit lets an event through to its next attempt, unless it is none, has expired or is to be set aside.
func (o *owner) admit(ctx context.Context, it *item, decodeErr error) {
	if decodeErr != nil {
		now := time.Now()
		o.failed(ctx, it, streams.Record{
			Function: o.fn.Name, Sequence: it.ref.Sequence, Kind: streams.RecordAttempt, Cycle: it.cycle,
			Outcome: string(functions.Parked), Class: string(functions.ClassUndecodable), Cause: string(advisories.Undecodable),
			Error: decodeErr.Error(), Started: now.UTC(), Ended: now.UTC(), Version: o.fn.Version, Boot: o.ledger.Boot(),
		})
		return
	}
	if !o.expire(ctx, it) && !o.putAside(ctx, it) {
		o.enqueue(it)
	}
}

// expire parks an event whose time has passed, and reports whether it did.
func (o *owner) expire(ctx context.Context, it *item) bool {
	now := time.Now()
	at, expired := expiry(it.event, now)
	if !expired {
		return false
	}
	o.failed(ctx, it, streams.Record{
		Function: o.fn.Name, Sequence: it.ref.Sequence, Kind: streams.RecordAttempt, Cycle: it.cycle,
		Outcome: string(functions.Parked), Cause: string(advisories.Expired),
		Error: "expirytime " + at + " had passed before the attempt", Started: now.UTC(), Ended: now.UTC(), Version: o.fn.Version, Boot: o.ledger.Boot(),
	})
	return true
}

// expiry reads the CloudEvents extension expirytime. A value that is no time says nothing.
func expiry(e functions.Event, now time.Time) (string, bool) {
	value, ok := e.Extensions()["expirytime"]
	if !ok {
		return "", false
	}
	switch v := value.(type) {
	case string:
		at, err := time.Parse(time.RFC3339, v)
		return v, err == nil && now.After(at)
	case interface{ String() string }: // the SDK's own timestamp type
		at, err := time.Parse(time.RFC3339, v.String())
		return v.String(), err == nil && now.After(at)
	}
	return "", false
}

// onRetry takes a delivery of RETRY.
func (o *owner) onRetry(ctx context.Context, d delivered) {
	place, ref, err := streams.ParseSubject(d.msg.Subject())
	if err != nil || place != streams.InRetry {
		o.log.Error("a message in RETRY has a subject that is not ours; it is left there", "subject", d.msg.Subject())
		d.credits.put(1)
		return
	}
	copied := streams.ReadCopy(d.msg.Headers(), d.msg.Data())
	if !copied.Ours() {
		o.log.Error("a message in RETRY was not written by siding; it is left there", "subject", d.msg.Subject())
		d.credits.put(1)
		return
	}
	seq := d.meta.Sequence.Stream
	it := o.items[ref.Sequence]
	switch {
	case it == nil:
		it = o.adopt(ref, copied, seq)
		o.items[ref.Sequence] = it
		o.take(it, d, copied)
		o.load(ctx, it, func() {
			it.history.Copied(copied.Attempts)
			o.continueRetry(ctx, it)
		})
		return
	case it.retry == 0 && it.phase == moving, it.retry == seq && it.phase == moving:
		// Its move is not complete yet: the delivery comes again.
		o.store.Nak(d.msg, minRepeat)
		d.credits.put(1)
		return
	case it.retry != seq:
		d.credits.put(1) // of a copy that has been replaced since
		return
	case it.inMemory():
		it.msg, it.deliveries, it.dead = d.msg, int(d.meta.NumDelivered), false
		d.credits.put(1)
		return
	}
	o.take(it, d, copied)
	o.continueRetry(ctx, it)
}

// adopt makes an item of a copy in RETRY.
func (o *owner) adopt(ref streams.Ref, c streams.Copy, sequence uint64) *item {
	it := &item{ref: ref, key: c.Key, cycle: c.Cycle, slot: -1, phase: waiting}
	it.history = it.history.At(c.Cycle)
	it.history.Attempts = c.Attempts
	o.standsInRetry(it, sequence)
	return it
}

// take puts the delivered copy into the item.
func (o *owner) take(it *item, d delivered, c streams.Copy) {
	delete(o.held, it.ref.Sequence)
	it.release()
	it.msg, it.deliveries, it.dead, it.redelivered = d.msg, int(d.meta.NumDelivered), false, true
	it.credits = d.credits
	if !c.Referenced { // what stands by reference is read from where it stands, when an attempt needs it
		it.header, it.data = c.Header, c.Data
	}
}

// continueRetry does what is next for a copy that RETRY has delivered.
func (o *owner) continueRetry(ctx context.Context, it *item) {
	h := it.history
	if h.Final != "" || h.Parked {
		end := lane.Done
		if h.Parked {
			end = lane.Park // a sweep looks whether the dead letter stands
		}
		o.do(ctx, it, settle(it), func() { o.finish(it, end) })
		return
	}
	if h.Cause != "" && h.Cause != string(advisories.Exhausted) {
		cause := advisories.Cause(h.Cause)
		o.park(ctx, it, cause, whoParks(cause))
		return
	}
	if o.isExhausted(it) {
		o.exhaust(ctx, it)
		return
	}
	it.due = h.Due
	if rest := time.Until(it.due); rest > 0 {
		// The rest of a delay that a reset wiped out never exceeds what the policy would ask for, also after a step of the clock.
		it.due = time.Now().Add(min(rest, max(o.longest, h.Due.Sub(h.LastFailed))))
		if it.deliveries <= it.attempts() || rest > shortWait {
			o.postpone(ctx, it) // this delivery stands for an attempt that has been made
			return
		}
		it.phase = delayed
		o.held[it.ref.Sequence] = it
		o.wake(it.due)
		return
	}
	o.due(ctx, it)
}

// resume makes the next attempt of a copy that RETRY has delivered and that is due. One that is still being removed at the place it came from need
// not wait for that: the rules for doubles say which of the two counts, and its end is stored behind the removal.
func (o *owner) resume(ctx context.Context, it *item) {
	delete(o.held, it.ref.Sequence)
	if it.header != nil || it.data != nil {
		o.admit(ctx, it, o.decode(it))
		return
	}
	o.prepare(ctx, it, func(c streams.Copy) []step {
		it.header, it.data = c.Header, c.Data
		return nil
	}, func() { o.admit(ctx, it, o.decode(it)) })
}

// shortWait is a rest of a delay that is waited for in memory: JetStream's timers are coarse, and a nak for a moment would use up
// a delivery that no attempt was made for.
const shortWait = time.Second
