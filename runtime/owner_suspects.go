package runtime

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/streams"
)

// A suspect is an event whose handler ran when the process died: the records of its cycle say so. It is attempted with nothing else beside it in
// the whole process, and stays a suspect until it is delivered, parked or discarded: an attempt that fails may not have come as far as the one
// that took the process down. If the process dies again while it runs alone it is convicted: its record says that it is to be parked.
//
// What takes the process down a moment after its handler has returned, such as a goroutine that panics, cannot be told from what runs then. So after
// a death that left a panic behind the process stays still for a moment behind each suspect: whoever dies in that moment has nobody
// else to blame, and its function is noted. A panic itself says from which event's attempt its goroutine came, as the labels of goroutines are
// inherited: then that function is noted, whatever ran beside it, and no other event is convicted. Three such deaths within five minutes suspend the
// function, and the node serves the others.

// The guard against a function that takes the process down again and again without an event that can be convicted.
const (
	deathsAllowed = 3
	deathsWithin  = 5 * time.Minute
)

// quietAfterPanic is how long nothing runs behind a suspect, after a death that left a panic.
const quietAfterPanic = 500 * time.Millisecond

// ranOn is what became of an attempt whose slot in the ledger is in use at the start.
type ranOn int

const (
	itEnded   ranOn = iota // its slot had not been freed yet
	itDied                 // the process died while it ran
	itDiedOff              // the process died a moment behind it, while nothing else ran
	itKilled               // the process died while it ran alone
)

// survivors looks at the attempts that were running when the process died, or had just ended. The records come first: they name the life that died,
// so that a start which dies in turn counts nothing twice. What stands in RETRY has not been settled.
func (o *owner) survivors(ctx context.Context, retry []streams.Ref) error {
	stands := make(map[uint64]bool, len(retry))
	for _, ref := range retry {
		stands[ref.Sequence] = true
	}
	running := o.ledger.Running()
	var died uint32
	killed := false
	for _, run := range running {
		what, err := o.survivor(ctx, run, stands[run.Sequence])
		if err != nil {
			return err
		}
		if what != itEnded {
			died = max(died, run.Boot)
		}
		killed = killed || what == itKilled
	}
	if err := o.countDeath(ctx, died, killed); err != nil {
		return err
	}
	for _, run := range running {
		o.store.Gated("end", func() { o.ledger.End(run.Slot) })
	}
	o.survived = true
	return nil
}

// survivor finds out what became of one attempt, and records it if the process died while it ran. That is not charged.
func (o *owner) survivor(ctx context.Context, run streams.RunningSlot, stands bool) (ranOn, error) {
	records, err := o.store.Records(ctx, o.fn.Name, run.Sequence)
	if err != nil {
		return itEnded, err
	}
	h := advisories.Fold(records)
	same := h.Cycle == run.Cycle
	ended := h.Cycle > run.Cycle || same && (h.Final != "" || h.Parked) || run.Cycle == 0 && len(records) == 0 && !stands && o.ledger.Settled(run.Sequence)
	if ended {
		if run.Crashes > 0 {
			return itDiedOff, nil
		}
		return itEnded, nil
	}
	failed := same && h.Attempts >= run.Attempt || slices.ContainsFunc(records, func(r streams.Record) bool {
		return r.Boot == run.Boot && r.Kind == streams.RecordAttempt && !r.Charged && r.Cycle == run.Cycle && r.Attempt == run.Attempt
	})
	if failed || run.State == streams.RunBegun { // it was not called, or has said what it came to
		return itEnded, nil
	}
	r, what := o.crashRecord(run), itDied
	if r.Cause != "" {
		what = itKilled
	}
	// A start that died in turn may have recorded it. A ledger that was lost counts its lives anew, so that they do not name a death for ever.
	recorded := same && h.Crashes > run.Crashes
	if run.State == streams.RunReturned {
		recorded = slices.ContainsFunc(records, func(b streams.Record) bool {
			return b.Kind == r.Kind && b.Outcome == r.Outcome && b.Cycle == r.Cycle && b.Attempt == r.Attempt && b.Boot == r.Boot
		})
	}
	if recorded {
		return what, nil
	}
	o.metrics.crashed(o.fn.Name)
	if err := o.store.Append(ctx, r); err != nil {
		return what, err
	}
	event := streams.Ref{Function: o.fn.Name, Sequence: run.Sequence}.ID()
	switch {
	case run.State == streams.RunReturned:
		o.log.Warn("the process died before it was stored what a handler had returned; the event is attempted again, and may be handled twice", "event", event, "attempt", run.Attempt)
	case what == itKilled:
		o.log.Error("the process died again while this event was attempted alone; it is parked, and others go on", "event", event, "attempt", run.Attempt)
	default:
		o.log.Warn("the process died while this event was attempted; it is attempted again alone, and not charged", "event", event, "attempt", run.Attempt)
	}
	return what, nil
}

// crashRecord says that the process died while an attempt ran.
func (o *owner) crashRecord(run streams.RunningSlot) streams.Record {
	at, ref := o.death.at.UTC(), streams.Ref{Function: o.fn.Name, Sequence: run.Sequence}
	r := streams.Record{
		Function: o.fn.Name, Sequence: run.Sequence, Kind: streams.RecordCrash, Cycle: run.Cycle, Attempt: run.Attempt,
		Class: "crash", Error: "the process died while the attempt ran", Stack: o.death.report, Reason: o.death.beside(ref),
		Started: at, Ended: at, Version: o.fn.Version, Boot: run.Boot,
	}
	switch {
	case run.State == streams.RunReturned:
		r.Outcome = streams.OutcomeReturned
		r.Error = "the process died before it was stored what the handler had returned"
	case run.Crashes > 0 && o.death.others(ref):
		r.Error = "the process died again while the attempt ran, of what another event's attempt had started"
	case run.Crashes > 0:
		r.Cause = string(advisories.Crashed)
		r.Error = "the process died again while the attempt ran, with nothing beside it"
	}
	if words := o.death.words(); words != "" {
		r.Error += ": " + words
	}
	return r.Bounded()
}

// whoParks says who reached the verdict that a record of an attempt states.
func whoParks(cause advisories.Cause) string {
	if cause == advisories.Crashed {
		return advisories.ByOwner
	}
	return advisories.ByAttempt
}

// countDeath remembers that the process died in a life that this function had a part in, unless the event that did it is known. boot names that life
// in the ledger; 0 = nothing of the function ran then. What the panic itself says is believed: whose goroutine it was had a part, though nothing of
// it ran, and nobody else had one.
func (o *owner) countDeath(ctx context.Context, boot uint32, killed bool) error {
	declared := o.declared
	part := boot != 0
	if blamed := o.death.blamed.Function; blamed != "" {
		part = blamed == o.fn.Name
	}
	counted := func(d streams.Death) bool { return boot != 0 && d.Boot == boot || d.At.Equal(o.death.at) }
	switch {
	case killed && len(declared.Deaths) > 0:
		declared.Deaths = nil
	case killed, !part, slices.ContainsFunc(declared.Deaths, counted):
		return nil
	default:
		declared.Deaths = slices.DeleteFunc(slices.Clone(declared.Deaths), func(d streams.Death) bool { return o.death.at.Sub(d.At) > deathsWithin })
		declared.Deaths = append(declared.Deaths, streams.Death{At: o.death.at.UTC(), Boot: boot})
	}
	if err := o.store.Declare(ctx, declared); err != nil {
		return err
	}
	o.declared = declared
	return nil
}

// suspendKiller suspends a function that takes the process down without an event that can be convicted. The suspension ends the count.
func (o *owner) suspendKiller(now time.Time) {
	deaths := o.declared.Deaths
	if o.fn.Breaker.Off || len(deaths) < deathsAllowed {
		return
	}
	why := fmt.Sprintf("the process died %d times in %s while or just after its events were attempted, and none of them did it alone",
		len(deaths), deaths[len(deaths)-1].At.Sub(deaths[0].At).Round(time.Second))
	if o.death.blamed.Function == o.fn.Name {
		why += "; the last time it was done by what " + o.death.blamed.ID() + " had started"
	}
	if words := o.death.words(); words != "" {
		why += ": " + words
	}
	o.diagnosis.Suspend(now, streams.SuspendedByCrashes, advisories.ByOwner, why)
}

// enter lets the next attempt of an item begin as far as the rest of the process is concerned, and reports whether it did. Whoever has to wait is nudged.
func (o *owner) enter(it *item, now time.Time) bool {
	if !it.suspect() {
		return o.alone.enter()
	}
	o.wanting = true
	ok, again := o.alone.enterAlone(o, it.ref.ID(), now)
	if ok {
		o.wanting = false
	} else if !again.IsZero() {
		o.wake(again)
	}
	return ok
}

// leave ends what enter began.
func (o *owner) leave(it *item) {
	if !it.suspect() {
		o.alone.leave(1)
		return
	}
	o.alone.leaveAlone(o)
}

// leaveAll ends what this owner's attempts have begun, whatever has become of them.
func (o *owner) leaveAll() {
	n := 0
	for _, it := range o.items {
		if it.slot >= 0 && !it.suspect() {
			n++
		}
	}
	if n > 0 {
		o.alone.leave(n)
	}
	o.alone.part(o)
}

// wantNothing lets others begin attempts when no suspect of this owner can.
func (o *owner) wantNothing() {
	if o.wanting {
		o.wanting = false
		o.alone.forget(o)
	}
}

// endSlot notes that an item's attempt is over. Behind a suspect the slot says for a moment longer that it was the last one that ran.
func (o *owner) endSlot(it *item) {
	if it.slot < 0 {
		return
	}
	slot := it.slot
	it.slot = -1
	switch {
	case !it.suspect():
		o.freeSlot(slot)
		o.alone.leave(1)
	case o.death.quiet > 0 && !o.stopping:
		o.quiet = quiet{slot: slot, until: time.Now().Add(o.death.quiet)}
		o.wake(o.quiet.until)
	default:
		o.freeSlot(slot)
		o.alone.leaveAlone(o)
	}
}

func (o *owner) freeSlot(slot int) { o.store.Gated("end", func() { o.marks.End(slot) }) }

// quiet is the moment behind a suspect in which nothing runs.
type quiet struct {
	slot  int
	until time.Time // zero: there is none
}

// endQuiet ends the quiet behind a suspect when it is over.
func (o *owner) endQuiet(now time.Time) {
	switch {
	case o.quiet.until.IsZero():
	case now.Before(o.quiet.until):
		o.wake(o.quiet.until)
	default:
		o.freeSlot(o.quiet.slot)
		o.quiet = quiet{}
		o.alone.leaveAlone(o)
	}
}
