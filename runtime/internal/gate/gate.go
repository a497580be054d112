package gate

import (
	"time"

	"github.com/siding-dev/siding/functions"
)

// Rules are what a function has declared.
type Rules struct {
	Dependencies []string // their names
	Rate         float64  // attempts that may begin within a second; 0 = any number
	Window       functions.Schedule
}

// Gate says whether a function may begin an attempt. Make one with New.
type Gate struct {
	dependencies dependencies
	rate         rate
	window       window
}

// New makes the gate of a function whose host starts at now. Rules that have been validated are sound.
func New(rules Rules, now time.Time) *Gate {
	return &Gate{dependencies: newDependencies(rules.Dependencies), rate: newRate(rules.Rate), window: newWindow(rules.Window, now)}
}

// Free reports whether the rules are empty, so that the gate is always open.
func (g *Gate) Free() bool {
	return len(g.dependencies.all) == 0 && g.rate.interval == 0 && g.window.schedule.Always()
}

// May reports whether an attempt may begin now. If only the clock stands against it, next is when to ask again; the zero time means that an
// input will change the answer.
func (g *Gate) May(now time.Time) (may bool, next time.Time) {
	if g.dependencies.away > 0 || !g.window.open(now) {
		return false, time.Time{} // Wakes tells when a window opens
	}
	if next := g.rate.next(); now.Before(next) {
		return false, next
	}
	return true, time.Time{}
}

// Started notes that an attempt has begun.
func (g *Gate) Started(now time.Time) { g.rate.start(now) }

// Waits says for a person what keeps attempts from beginning at now, "" if nothing does. A rate does only where something waits for it.
func (g *Gate) Waits(now time.Time, queued bool) string {
	switch {
	case g.dependencies.away > 0:
		return g.dependencies.text
	case !g.window.open(now):
		return g.window.text
	case queued && now.Before(g.rate.next()):
		return g.rate.text
	}
	return ""
}
