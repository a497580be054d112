package runtime

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
)

// sendPath stores the events of a path, in order.
func (l *life) sendPath(p path) {
	l.w.t.Helper()
	for i, key := range p.keys {
		e := newEvent(strconv.Itoa(i + 1))
		if key != "" {
			e.SetExtension("partitionkey", key)
		}
		l.sendEvent(e)
	}
}

// decided writes down that a decision about an event is asked for: from then on it may have been applied. With its tail, a discard is about every
// later event of its key.
func (w *world) decided(id string, p path) {
	w.mu.Lock()
	defer w.mu.Unlock()
	about := []string{id}
	if p.tail {
		n, _ := strconv.Atoi(id)
		for i := n; i < len(p.keys); i++ {
			if p.keys[i] == p.keys[n-1] {
				about = append(about, strconv.Itoa(i+1))
			}
		}
	}
	for _, id := range about {
		w.log = append(w.log, call{function: "f", event: id, decision: p.decide})
	}
}

// checkOrder holds the log against the order of each key: an attempt starts only when every earlier event of its key is delivered or
// discarded, and never beside another one. A kill allows to repeat what had just ended, before anything later starts.
func (w *world) checkOrder(where string, p path) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, c := range w.log {
		n, _ := strconv.Atoi(c.event)
		if c.decision != "" || p.keys[n-1] == "" {
			continue
		}
		for other := 1; other <= len(p.keys); other++ {
			if p.keys[other-1] != p.keys[n-1] {
				continue
			}
			before := w.log[:at]
			switch id := strconv.Itoa(other); {
			case other < n && !over(before, id, at, p):
				w.violation(where, p, at, "event %d starts though event %d is neither delivered nor discarded", n, other)
			case other > n && began(before, id) && !released(before, c.event, p):
				w.violation(where, p, at, "event %d starts though the later event %d has begun", n, other)
			case other != n && runs(before, id, at, c.life):
				w.violation(where, p, at, "event %d starts while event %d runs", n, other)
			}
		}
	}
}

func over(before []call, id string, at int, p path) bool {
	for _, c := range before {
		if c.event != id {
			continue
		}
		discarded := c.err != nil && functions.ResultOf(c.err).Outcome == functions.Discarded
		parked := c.ended && c.endedAt <= at && c.err != nil && p.fn.OnPark == functions.Continue
		if c.decision == client.Discard || c.decision == client.Release || parked || c.ended && c.endedAt <= at && (c.err == nil || discarded) {
			return true
		}
	}
	return false
}

func began(before []call, id string) bool {
	for _, c := range before {
		if c.event == id && c.decision == "" {
			return true
		}
	}
	return false
}

// released reports whether later events of its key may have begun before an event.
func released(before []call, id string, p path) bool {
	for _, c := range before {
		if c.event == id && c.decision == client.Release {
			return true
		}
	}
	return p.fn.OnPark == functions.Continue
}

func runs(before []call, id string, at, life int) bool {
	for _, c := range before {
		if c.event == id && c.decision == "" && c.life == life && (!c.ended || c.endedAt > at) {
			return true
		}
	}
	return false
}

func (w *world) violation(where string, p path, at int, format string, args ...any) {
	w.t.Helper()
	var b strings.Builder
	for i, c := range w.log[:at+1] {
		if c.decision != "" {
			fmt.Fprintf(&b, "\n%d: event %s: %s asked for", i, c.event, c.decision)
			continue
		}
		fmt.Fprintf(&b, "\n%d: event %s (%s): life %d, cycle %d, attempt %d: ended %v with %v before %d",
			i, c.event, c.attempt.Key, c.life, c.attempt.Cycle, c.attempt.Number, c.ended, c.err, c.endedAt)
	}
	w.t.Errorf("%s: %s: %s%s", where, p.name, fmt.Sprintf(format, args...), b.String())
}
