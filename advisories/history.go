package advisories

import (
	"time"

	"github.com/siding-dev/siding/streams"
)

// History is what the attempt records of one event say, folded into where its current cycle stands. It is the only memory of
// attempts that survives everything: resetting a consumer wipes JetStream's delivery counts, and a kill loses the last ones.
type History struct {
	Cycle     int // the highest one that was recorded
	Attempts  int // charged attempts in that cycle
	Crashes   int // how often the process died in that cycle before a handler had returned
	LastCrash Crash
	// GivenBack is how many attempts were made in that cycle and not charged, because the function was suspended.
	GivenBack int
	Due       time.Time
	// Cause is set when the last attempt decided to park and nothing has happened since.
	Cause string
	// Final is the kind of the record that ended the event, "" if it goes on. Parked says that this cycle ended as a dead letter.
	Final  streams.RecordKind
	Parked bool

	CycleFailed time.Time // when the first attempt of this cycle failed
	FirstFailed time.Time // of the first failed attempt of the event's life
	LastFailed  time.Time
	Last        streams.Record // the newest failed attempt
	Records     []streams.Record
}

// Crash is an attempt that the process did not survive: its number, the life in which it ran, and when the next life noticed.
type Crash struct {
	Attempt int
	Boot    uint32
	At      time.Time
}

// Fold reads records in the order in which they were written.
func Fold(records []streams.Record) History {
	h := History{}
	for _, r := range records {
		h.Add(r)
	}
	h.Records = records
	return h
}

// Add folds one more record in. It does not keep the record itself: what waits costs little memory, and who needs the whole
// history reads it back.
func (h *History) Add(r streams.Record) {
	if r.Cycle < h.Cycle {
		return // a straggler of a cycle that a decision has closed
	}
	*h = h.At(r.Cycle)
	switch r.Kind {
	case streams.RecordAttempt, streams.RecordCrash:
		switch {
		case r.Charged:
			h.Attempts = max(h.Attempts, r.Attempt)
		case r.Kind == streams.RecordAttempt:
			h.GivenBack++
		}
		if r.Kind == streams.RecordAttempt {
			h.Due, h.Cause = r.Due, r.Cause
		} else {
			if r.Outcome != streams.OutcomeReturned {
				h.Crashes++
			}
			if r.Cause != "" {
				h.Cause = r.Cause
			}
			h.LastCrash = Crash{Attempt: r.Attempt, Boot: r.Boot, At: r.Ended}
		}
		if h.FirstFailed.IsZero() {
			h.FirstFailed = r.Ended
		}
		if h.CycleFailed.IsZero() {
			h.CycleFailed = r.Ended
		}
		h.LastFailed, h.Last = r.Ended, r
	case streams.RecordUncharged:
		if kept := max(r.Attempt, 1) - 1; kept < h.Attempts && !h.Parked && h.Final == "" {
			h.GivenBack += h.Attempts - kept
			h.Attempts, h.Cause = kept, ""
		}
	case streams.RecordParked:
		h.Parked = true
	case streams.RecordDelivered, streams.RecordDiscarded, streams.RecordGone:
		h.Final = r.Kind
	case streams.RecordHeld, streams.RecordReleased, streams.RecordGivenBack, streams.RecordRedriven, streams.RecordEdited:
		// No attempt was made; a redrive's own cycle has opened by its number alone.
	}
}

// At returns the history as it counts for an event that stands at a cycle: a later cycle than any recorded one starts anew.
func (h History) At(cycle int) History {
	if cycle > h.Cycle {
		life := History{FirstFailed: h.FirstFailed, LastFailed: h.LastFailed, Last: h.Last, Records: h.Records}
		life.Cycle = cycle
		return life
	}
	return h
}

// Copied takes the number of attempts into account that a copy of the event states. The records know better: what was given back since is in
// them alone.
func (h *History) Copied(attempts int) {
	if h.GivenBack == 0 {
		h.Attempts = max(h.Attempts, attempts)
	}
}
