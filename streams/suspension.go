package streams

import (
	"slices"
	"time"
)

// SuspensionPhase is how far a suspension has come.
type SuspensionPhase string

// The phases of a suspension. A function that is not suspended has none.
const (
	SuspensionOpen  SuspensionPhase = "open"  // one event at a time probes, at growing intervals
	SuspensionRamp  SuspensionPhase = "ramp"  // a probe succeeded, or a person resumed it: more and more attempts run at once
	SuspensionStays SuspensionPhase = "stays" // until a person resumes it
)

// SuspensionCause is why a function was suspended.
type SuspensionCause string

// The causes.
const (
	SuspendedByOutage  SuspensionCause = "outage"  // everything that it attempts fails
	SuspendedByInflow  SuspensionCause = "inflow"  // most of what comes in would be parked
	SuspendedByHandler SuspensionCause = "handler" // its handler asked not to be called any more
	SuspendedByPerson  SuspensionCause = "person"
	SuspendedByCrashes SuspensionCause = "crashes" // it takes the process down again and again
)

// Suspension is kept with the declaration of a function while it is suspended, and while it comes back to its full rate. It outlives restarts.
type Suspension struct {
	ID       string          `json:"id"` // the function and when it began: claims-20261201T021530Z
	Phase    SuspensionPhase `json:"phase"`
	Cause    SuspensionCause `json:"cause"`
	Since    time.Time       `json:"since"`  // of an outage: the first failure of those that show it
	Opened   time.Time       `json:"opened"` // when the function was suspended
	By       string          `json:"by"`
	Reason   string          `json:"reason,omitempty"`
	Evidence Evidence        `json:"evidence,omitzero"`
	Probes   int             `json:"probes,omitempty"` // that failed
	Next     time.Time       `json:"next_probe,omitzero"`
	GaveUp   time.Time       `json:"gave_up,omitzero"` // when too many probes had failed
	Resumed  time.Time       `json:"resumed,omitzero"` // when a person resumed it
	// Told is how far the audit knows of it, so that a process that dies in between neither forgets an entry nor writes it twice.
	Told SuspensionTold `json:"told,omitempty"`
	// Charged are the attempts that are to be given back: they failed before anybody could know that it was an outage.
	Charged []Charge `json:"charged,omitempty"`
}

// SuspensionTold is the last change of a suspension that the audit knows.
type SuspensionTold string

// The changes.
const (
	ToldNothing   SuspensionTold = ""
	ToldSuspended SuspensionTold = "suspended"
	ToldGaveUp    SuspensionTold = "gave-up"
	ToldResumed   SuspensionTold = "resumed"
)

// Evidence is what speaks for a suspension.
type Evidence struct {
	Failures int       `json:"failures,omitempty"` // failed attempts in a row, or parked events
	Of       int       `json:"of,omitempty"`       // so many events were looked at; of an inflow
	Events   int       `json:"events,omitempty"`   // different ones among them
	Keys     int       `json:"keys,omitempty"`     // different ordering keys; an event without a key counts as its own
	Sources  int       `json:"sources,omitempty"`  // different senders
	First    time.Time `json:"first,omitzero"`
	Last     time.Time `json:"last,omitzero"`
	Errors   []string  `json:"errors,omitempty"` // different ones, a few of them
}

// Outage is one that a function had: what it exhausted before it was recognised is found by it.
type Outage struct {
	ID     string    `json:"id"`     // of the suspension
	Since  time.Time `json:"since"`  // the first failure of those that showed it
	Opened time.Time `json:"opened"` // when the function was suspended
}

// keptOutages is how many outages of a function are remembered.
const keptOutages = 50

// Suspend returns the declaration with a suspension, nil for none, and remembers which outage it was. One because of crashes ends their count.
func (d Declared) Suspend(s *Suspension) Declared {
	d.Suspension = s
	if s != nil && s.Cause == SuspendedByCrashes {
		d.Deaths = nil
	}
	if s == nil || s.Cause != SuspendedByOutage || slices.ContainsFunc(d.Outages, func(o Outage) bool { return o.ID == s.ID }) {
		return d
	}
	d.Outages = append(slices.Clone(d.Outages), Outage{ID: s.ID, Since: s.Since, Opened: s.Opened})
	d.Outages = d.Outages[max(0, len(d.Outages)-keptOutages):]
	return d
}

// Charge is an attempt that was charged to an event: the Attempt-th of a cycle.
type Charge struct {
	Sequence uint64 `json:"sequence"`
	Cycle    int    `json:"cycle"`
	Attempt  int    `json:"attempt"`
}
