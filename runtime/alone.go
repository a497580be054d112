package runtime

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// alone lets attempts of suspects run with nothing beside them in the whole process: if it dies then, there is no doubt whose fault that was. Every
// other attempt enters and leaves; while a suspect waits none enters, and when the last one has left the suspect runs. It outlives owners, and is
// safe for concurrent use.
type alone struct {
	running atomic.Int64 // attempts of events that are no suspects
	closed  atomic.Bool  // nobody else may enter

	mu     sync.Mutex
	owners map[*owner]bool // those that run, and whether one has a suspect whose turn it is
	inside *owner          // whose suspect runs
	event  string          // which one that is
	since  time.Time       // since when a suspect waits for the others to leave
	recess time.Time       // until then they may go on, because they had to wait for longStill
}

// longStill is how long a process stands still so that a suspect can run alone. Attempts that run when a process starts are short of that, because
// none was running before; later on a suspect that failed comes back, and some function's attempts may take hours. They go on after that, for
// as long, and the suspect tries again.
const longStill = 30 * time.Second

func newAlone() *alone { return &alone{owners: map[*owner]bool{}} }

// enter lets an attempt of an event that is no suspect begin, and reports whether it did.
func (a *alone) enter() bool {
	if a.closed.Load() {
		return false
	}
	a.running.Add(1)
	if !a.closed.Load() {
		return true
	}
	a.leave(1)
	return false
}

// leave notes that so many attempts are over.
func (a *alone) leave(n int) {
	if a.running.Add(-int64(n)) == 0 && a.closed.Load() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.nudge(true)
	}
}

// enterAlone lets a suspect of o begin if nothing else runs. Otherwise nothing else begins until it can; a time says when to ask again at the latest.
func (a *alone) enterAlone(o *owner, event string, now time.Time) (ok bool, again time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.recess) {
		return false, a.recess
	}
	a.owners[o] = true
	if a.since.IsZero() {
		a.since = now
	}
	a.closed.Store(true)
	switch {
	case a.inside != nil:
		return false, time.Time{} // its end tells
	case a.running.Load() == 0:
		a.inside, a.event, a.since = o, event, time.Time{}
		a.owners[o] = false
		return true, time.Time{}
	case now.Sub(a.since) >= longStill:
		a.recess = now.Add(longStill)
		a.open()
		return false, a.recess
	}
	return false, a.since.Add(longStill)
}

// leaveAlone notes that the suspect of o has ended.
func (a *alone) leaveAlone(o *owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inside == o {
		a.inside = nil
		a.settle()
	}
}

// forget notes that o has no suspect whose turn it is.
func (a *alone) forget(o *owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.owners[o] {
		a.owners[o] = false
		a.settle()
	}
}

// join says that o is to be nudged when something changes.
func (a *alone) join(o *owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owners[o] = false
}

// part takes an owner that has ended out. It has left with all its attempts.
func (a *alone) part(o *owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.owners, o)
	if a.inside == o {
		a.inside = nil
	}
	a.settle()
}

// waits says what others wait for, "" if nobody has to.
func (a *alone) waits() string {
	if !a.closed.Load() {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inside == nil {
		return "an event that ran when the process died, to be attempted alone"
	}
	return fmt.Sprintf("event %s, which ran when the process died and is attempted alone", a.event)
}

// settle opens the process to everybody when no suspect is left.
func (a *alone) settle() {
	if a.inside != nil {
		return
	}
	if !a.nudge(true) && a.closed.Load() {
		a.open()
	}
}

func (a *alone) open() {
	a.since = time.Time{}
	a.closed.Store(false)
	a.nudge(false)
}

// nudge tells the owners that something has changed, or those among them that wait with a suspect, and reports whether there are any.
func (a *alone) nudge(waiting bool) (some bool) {
	for o, waits := range a.owners {
		if waiting && !waits {
			continue
		}
		some = true
		select {
		case o.nudged <- struct{}{}:
		default:
		}
	}
	return some
}
