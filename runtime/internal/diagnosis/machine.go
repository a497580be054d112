package diagnosis

import (
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// Attempt is one attempt that came to its end.
type Attempt struct {
	At       time.Time
	Sequence uint64 // of the event in its source stream
	Cycle    int
	Number   int // within the cycle, from 1
	Key      string
	Source   string
	Class    functions.Class
	Error    string
	Outcome  functions.Outcome
	Last     bool // the policy allows no further one
}

// failed reports whether it speaks for an outage: the event is to be attempted again, or would be if its policy allowed.
func (a Attempt) failed() bool { return a.Outcome == functions.Retried }

// parks reports whether its event becomes a dead letter, if nobody prevents it.
func (a Attempt) parks() bool { return a.Outcome == functions.Parked || a.failed() && a.Last }

// succeeded reports whether the handler did its work. Dropping an event on purpose is work.
func (a Attempt) succeeded() bool {
	return a.Outcome == functions.Done || a.Outcome == functions.Discarded
}

// Answer is what an attempt leads to.
type Answer struct {
	// Free says that the attempt is not charged, and its event is neither retried later nor parked: it waits where it is.
	Free bool
	// Changed says that the suspension is another one than before, and has to be written down.
	Changed bool
}

// Machine watches one function.
type Machine struct {
	name    string
	rules   functions.Breaker
	workers int
	s       *streams.Suspension // nil while the function is not suspended

	row     row    // failures since the last success
	recent  recent // how the last events ended
	ends    ends   // the last attempts, as evidence for one dead letter
	probing uint64 // source sequence of the running probe; 0 = none
	room    int    // how many may run at once on the way back
	passed  int    // how many have succeeded since room grew
	stumble int    // failures in a row on the way back
}

// New makes the machine of a function that is hosted with workers attempts at once. kept is its suspension of an earlier life, nil for none.
func New(name string, rules functions.Breaker, workers int, kept *streams.Suspension) *Machine {
	m := &Machine{name: name, rules: rules.WithDefaults(), workers: max(workers, 1), s: kept}
	m.row.limit = max(m.rules.Failures, m.rules.Unavailable)
	if kept != nil && kept.Phase == streams.SuspensionRamp {
		m.room = 1
	}
	return m
}

// Suspension is what has to be written down: nil while the function is not suspended. It never changes: a change makes a new one.
func (m *Machine) Suspension() *streams.Suspension { return m.s }

// Suspended reports whether nothing but a probe may run.
func (m *Machine) Suspended() bool { return m.s != nil && m.s.Phase != streams.SuspensionRamp }

// Room says how many attempts may run at once, if running ones do now. From next on it may be more; zero: not by the clock.
func (m *Machine) Room(now time.Time, running int) (n int, next time.Time) {
	switch {
	case m.s == nil:
		return m.workers, time.Time{}
	case m.s.Phase == streams.SuspensionRamp:
		return min(m.room, m.workers), time.Time{}
	case m.s.Phase == streams.SuspensionOpen && m.probing == 0 && !now.Before(m.s.Next):
		return running + 1, time.Time{}
	case m.s.Phase == streams.SuspensionOpen && m.probing == 0:
		return 0, m.s.Next
	}
	return 0, time.Time{}
}

// Began says that an attempt has begun. While the function is suspended that is the probe.
func (m *Machine) Began(sequence uint64) {
	if m.s != nil && m.s.Phase == streams.SuspensionOpen {
		m.probing = sequence
	}
}

// Interrupted says that an attempt came to nothing: it counts for nobody.
func (m *Machine) Interrupted(sequence uint64) {
	if m.probing == sequence {
		m.probing = 0
	}
}

// Ended takes an attempt into account.
func (m *Machine) Ended(a Attempt) Answer {
	m.ends.add(a)
	if m.s == nil {
		return m.whileClosed(a)
	}
	switch m.s.Phase {
	case streams.SuspensionOpen:
		return m.whileOpen(a)
	case streams.SuspensionRamp:
		return m.onTheWayBack(a)
	default:
		// What ran when a person stopped the function ends as it would have. What ran when an outage was recognised is not charged.
		return Answer{Free: m.s.Cause == streams.SuspendedByOutage && a.failed() || m.s.Cause == streams.SuspendedByInflow && a.parks()}
	}
}

func (m *Machine) whileClosed(a Attempt) Answer {
	if m.rules.Off {
		return Answer{}
	}
	if a.succeeded() {
		m.row.clear()
		m.recent.add(false)
		return Answer{}
	}
	if a.failed() {
		m.row.add(a)
		if m.row.shows(m.rules) {
			m.open(a, streams.SuspendedByOutage, m.row.evidence(), m.row.charges(a))
			return Answer{Free: true, Changed: true}
		}
	}
	if a.parks() {
		m.recent.add(true)
		if m.rules.Inflow < 1 && float64(m.recent.parked) > m.rules.Inflow*inflowOf {
			m.open(a, streams.SuspendedByInflow, m.recent.evidence(a), nil)
			return Answer{Free: true, Changed: true}
		}
	}
	return Answer{}
}

// whileOpen takes an attempt into account that is a probe, or that ran already when the function was suspended.
func (m *Machine) whileOpen(a Attempt) Answer {
	withheld := m.s.Cause == streams.SuspendedByInflow && a.parks()
	if a.Sequence != m.probing {
		return Answer{Free: withheld || a.failed()}
	}
	m.probing = 0
	switch {
	case a.succeeded():
		m.rampUp()
	case withheld || a.failed():
		m.probeFailed(a.At)
	default:
		return Answer{} // a judgment about the event says nothing about the resource: the next one probes at once
	}
	return Answer{Free: withheld || a.failed(), Changed: true}
}

func (m *Machine) probeFailed(at time.Time) {
	s := *m.s
	s.Probes++
	if s.Probes >= m.rules.Probes {
		s.Phase, s.Next, s.GaveUp = streams.SuspensionStays, time.Time{}, at
	} else {
		s.Next = at.Add(m.pause(s.Probes))
	}
	m.s = &s
}

// pause is how long to wait before the next probe when so many have failed.
func (m *Machine) pause(failed int) time.Duration {
	return functions.Exponential(m.rules.Probe, m.rules.LongestProbe).Delay(failed+1, 0)
}

// onTheWayBack lets more and more attempts run at once.
func (m *Machine) onTheWayBack(a Attempt) Answer {
	withheld := m.s.Cause == streams.SuspendedByInflow && a.parks()
	switch {
	case a.succeeded():
		m.stumble = 0
		m.passed++
		if m.passed < m.room {
			return Answer{}
		}
		m.room, m.passed = 2*m.room, 0
		if m.room < m.workers {
			return Answer{}
		}
		m.s = nil
		m.row.clear()
		return Answer{Changed: true}
	case withheld || a.failed():
		m.stumble++
		if m.stumble < m.rules.Unavailable {
			return Answer{Free: true}
		}
		if !m.s.Resumed.IsZero() { // a person resumed it: that it is suspended again is news
			evidence := streams.Evidence{Failures: m.stumble, First: a.At, Last: a.At, Errors: []string{brief(a.Error)}}
			m.open(a, m.s.Cause, evidence, nil)
			return Answer{Free: true, Changed: true}
		}
		s := *m.s
		s.Phase = streams.SuspensionOpen
		m.s = &s
		m.probeFailed(a.At)
		return Answer{Free: true, Changed: true}
	}
	return Answer{}
}

func (m *Machine) rampUp() {
	s := *m.s
	s.Phase, s.Next = streams.SuspensionRamp, time.Time{}
	m.s, m.room, m.passed, m.stumble = &s, 1, 0, 0
}

func (m *Machine) open(a Attempt, cause streams.SuspensionCause, e streams.Evidence, charged []streams.Charge) {
	m.s = &streams.Suspension{
		ID: m.id(a.At), Phase: streams.SuspensionOpen, Cause: cause, Since: e.First, Opened: a.At, By: "owner", Evidence: e,
		Next: a.At.Add(m.pause(0)), Charged: charged,
	}
	if cause == streams.SuspendedByPerson || cause == streams.SuspendedByHandler {
		m.s.Cause = streams.SuspendedByOutage
	}
	m.probing = 0
	m.row.clear()
	m.recent = recent{}
}

// id names a suspension by the function and the moment.
func (m *Machine) id(at time.Time) string { return m.name + "-" + at.UTC().Format("20060102T150405Z") }

// Suspend stops the function until a person resumes it. A suspension that is there already becomes one that stays; false if it was one.
func (m *Machine) Suspend(at time.Time, cause streams.SuspensionCause, by, reason string) bool {
	s := streams.Suspension{ID: m.id(at), Since: at, Opened: at}
	if m.s != nil {
		if m.s.Phase == streams.SuspensionStays && m.s.Cause == cause {
			return false
		}
		s.ID, s.Since, s.Evidence, s.Probes, s.Charged = m.s.ID, m.s.Since, m.s.Evidence, m.s.Probes, m.s.Charged
	}
	s.Phase, s.Cause, s.By, s.Reason = streams.SuspensionStays, cause, by, reason
	m.s, m.probing = &s, 0
	m.row.clear()
	return true
}

// Resume lets the function go on: one attempt at first, then more. False if it was not suspended.
func (m *Machine) Resume(at time.Time, by, reason string) bool {
	if !m.Suspended() {
		return false
	}
	m.rampUp() // which has made a new one
	m.s.Resumed, m.s.By, m.s.Reason = at, by, reason
	m.probing = 0
	return true
}

// Told says how far the audit knows of a suspension, and that what was to be given back has been.
func (m *Machine) Told(id string, told streams.SuspensionTold) {
	if m.s == nil || m.s.ID != id {
		return
	}
	s := *m.s
	s.Told, s.Charged = told, nil
	m.s = &s
}

// brief bounds an error's text, as evidence needs no more.
func brief(text string) string {
	const limit = 200
	if len(text) <= limit {
		return text
	}
	return string([]rune(text[:limit])) + "…"
}
