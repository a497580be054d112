package gate

import (
	"time"

	"github.com/siding-dev/siding/functions"
)

// window opens by its schedule, and knows the run that is on.
type window struct {
	schedule functions.Schedule
	opens    time.Time // the next one; not after now when one is to be opened. Zero = never
	running  bool
	mark     uint64
	closes   time.Time // of the run
	text     string    // of Waits
}

func newWindow(s functions.Schedule, now time.Time) window {
	w := window{schedule: s}
	if s.Always() {
		return w
	}
	opened, ok := s.At(now)
	if !ok {
		opened = s.Next(now)
	}
	w.opensAt(opened)
	return w
}

func (w *window) opensAt(at time.Time) {
	w.opens, w.text = at, "window opens "+at.Format(time.RFC3339)
	if at.IsZero() {
		w.text = "window never opens"
	}
}

// open reports whether an attempt may begin.
func (w *window) open(now time.Time) bool {
	return w.schedule.Always() || w.running && now.Before(w.closes)
}

// Tick brings the window up to the time. It reports whether one opens: then the caller looks how far the source stream goes and calls Open, at
// once or, if it cannot look, after asking again. closed says that the time of a run has just come to its end.
func (g *Gate) Tick(now time.Time) (opens, closed bool) {
	w := &g.window
	if w.running && !now.Before(w.closes) {
		w.running, closed = false, true
	}
	if w.opens.IsZero() || now.Before(w.opens) {
		return false, closed
	}
	opened, next := w.opens, w.schedule.Next(w.opens)
	for !next.IsZero() && !next.After(now) { // several have passed: the process did not run, or the clock was set
		opened, next = next, w.schedule.Next(next)
	}
	if !now.Before(opened.Add(w.schedule.Length())) {
		w.opensAt(next) // missed
		return false, closed
	}
	w.opensAt(opened)
	return true, closed
}

// Open begins the run of the window that Tick has reported. mark is the last sequence of the source stream.
func (g *Gate) Open(mark uint64) {
	w := &g.window
	w.running, w.mark, w.closes = true, mark, w.opens.Add(w.schedule.Length())
	w.opensAt(w.schedule.Next(w.opens))
}

// EndRun ends the run, if one is on: its events are worked off, or an outage makes it pointless. The next window begins the next one.
func (g *Gate) EndRun() { g.window.running = false }

// Run returns the mark of the run that is on.
func (g *Gate) Run() (mark uint64, running bool) { return g.window.mark, g.window.running }

// Admits reports whether an event is of the run that is on. Without a window every event is admitted.
func (g *Gate) Admits(sequence uint64) bool {
	return g.window.schedule.Always() || g.window.running && sequence <= g.window.mark
}

// Keeps reports whether the run that is on has to wait for an event that is not to be attempted before due.
func (g *Gate) Keeps(sequence uint64, due time.Time) bool {
	return g.window.running && sequence <= g.window.mark && due.Before(g.window.closes)
}

// Wakes is when Tick has something to say next, if nothing else happens; the zero time is never.
func (g *Gate) Wakes() time.Time {
	w := &g.window
	if w.running && (w.opens.IsZero() || w.closes.Before(w.opens)) {
		return w.closes
	}
	return w.opens
}
