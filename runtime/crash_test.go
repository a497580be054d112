package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// path is one way through the life of an event, on which a process is killed at every point.
type path struct {
	name string
	// keys are the ordering keys of the events, whose ids are 1, 2, …; "" = none.
	keys   []string
	fn     functions.Function
	script script
	timing func(*timing)
	// decide states decisions about what has been parked in its first cycle; "" = none.
	decide string
	tail   bool
	// What the events must have come to in the end.
	delivered, parked, discarded, held int64
}

var errNo = errors.New("no")

// editedData are the data that an edit gives.
const editedData = `{"edited": true}`

// crashPaths are the ways of events. Unless a path is about order, two of its events have a key and one has none.
func crashPaths() []path {
	always := func(context.Context, string, functions.Attempt) error { return errNo }
	good := func(context.Context, string, functions.Attempt) error { return nil }
	twice := functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}
	thrice := functions.Retry{Attempts: 4, Backoff: functions.Delays(time.Second, 5*time.Second)}
	untilRedriven := func(_ context.Context, _ string, a functions.Attempt) error {
		if a.Cycle == 0 {
			return functions.Park(errNo)
		}
		return nil
	}
	// firstParks parks the first event until it is redriven.
	firstParks := func(ctx context.Context, id string, a functions.Attempt) error {
		if id == "1" {
			return untilRedriven(ctx, id, a)
		}
		return nil
	}
	// untilEdited parks the first event until its data have been edited.
	untilEdited := func(ctx context.Context, id string, a functions.Attempt) error {
		if data := functions.EventFrom(ctx).Data(); id == "1" && string(data) != editedData {
			return functions.Park(fmt.Errorf("cycle %d: the data are %s", a.Cycle, data))
		}
		return nil
	}
	mixed, four := []string{"k", "", "k"}, []string{"k", "k", "other", "k"}
	return []path{
		{name: "done", keys: mixed, delivered: 3, script: good},
		{name: "retry", keys: mixed, delivered: 3, fn: functions.Function{Retry: thrice},
			script: func(_ context.Context, id string, a functions.Attempt) error {
				if a.Number < 3 && id != "3" {
					return errNo
				}
				return nil
			}},
		{name: "exhausted by advisory", keys: mixed, parked: 2, held: 1, fn: functions.Function{Retry: twice}, script: always,
			timing: func(t *timing) { t.advisory, t.sweep = 0, 0 }},
		{name: "exhausted by owner", keys: mixed, parked: 2, held: 1, fn: functions.Function{Retry: twice}, script: always,
			timing: func(t *timing) { t.deaf, t.sweep = true, 0 }},
		{name: "exhausted by sweep", keys: mixed, parked: 2, held: 1, fn: functions.Function{Retry: twice}, script: always,
			timing: func(t *timing) { t.deaf, t.advisory = true, 0 }},
		{name: "permanent", keys: mixed, parked: 2, held: 1, script: func(context.Context, string, functions.Attempt) error { return functions.Park(errNo) }},
		{name: "permanent, continuing", keys: mixed, parked: 3, fn: functions.Function{OnPark: functions.Continue},
			script: func(context.Context, string, functions.Attempt) error { return functions.Park(errNo) }},
		{name: "redrive", keys: mixed, delivered: 3, script: untilRedriven, decide: client.Redrive},
		{name: "redrive and parked again", keys: []string{"k", "k"}, parked: 1, held: 1, decide: client.Redrive,
			script: func(context.Context, string, functions.Attempt) error { return functions.Park(errNo) }},
		{name: "discard", keys: mixed, discarded: 3, script: untilRedriven, decide: client.Discard},
		{name: "discarded by its handler", keys: mixed, discarded: 3,
			script: func(context.Context, string, functions.Attempt) error { return functions.Discard(errNo) }},

		{name: "hold behind a retry", keys: four, delivered: 4, fn: functions.Function{Retry: thrice},
			script: func(_ context.Context, id string, a functions.Attempt) error {
				if id == "1" && a.Number < 3 {
					return errNo
				}
				return nil
			}},
		{name: "hold, redrive and release", keys: four, delivered: 4, script: firstParks, decide: client.Redrive},
		{name: "hold, edit and release", keys: four, delivered: 4, script: untilEdited, decide: client.Edit},
		{name: "hold, discard and release", keys: four, delivered: 3, discarded: 1, script: firstParks, decide: client.Discard},
		{name: "a released event parks", keys: four[:3], delivered: 3, script: untilRedriven, decide: client.Redrive},
		{name: "tail", keys: four, delivered: 1, discarded: 3, script: firstParks, decide: client.Discard, tail: true},
		{name: "release out of order", keys: four, delivered: 3, parked: 1, script: firstParks, decide: client.Release},
		{name: "spill", keys: []string{"k", "k", "k", "k", "k"}, delivered: 5, timing: func(t *timing) { t.line = 1 },
			script: func(context.Context, string, functions.Attempt) error { time.Sleep(time.Second); return nil }},
	}
}

// TestKilledAtEveryPoint kills the process before and after each operation on a stream or the ledger, once with the acknowledgements of
// the last moments forgotten and once with them kept, starts another one on what is on disk, and checks the promises. Under the race detector, to
// which all points of a path are alike, it takes every seventh.
func TestKilledAtEveryPoint(t *testing.T) {
	var points atomic.Int64
	stride := 1
	if underRace() {
		stride = 7
	}
	t.Run("paths", func(t *testing.T) {
		for i, p := range crashPaths() {
			for _, keep := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, acks kept %v", p.name, keep), func(t *testing.T) {
					t.Parallel()
					n := 0
					for at := 1 + i%stride; killAt(t, p, keep, at); at += stride {
						points.Add(1)
						n++
						if t.Failed() {
							return
						}
					}
					t.Attr("crash-points", fmt.Sprint(n))
				})
			}
		}
	})
	t.Attr("crash-points-in-all", fmt.Sprint(points.Load()))
}

// killAt runs a path with a kill at one point of each of several lives, and then one life to the end. It returns false when the first
// life has fewer points.
func killAt(t *testing.T, p path, keep bool, points ...int) (hit bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		where := "killed at"
		for i, at := range points {
			m := newMortal(w, at, keep)
			w.mortal(p, m)
			if i == 0 {
				hit = !m.alive()
			}
			where += fmt.Sprintf(" %d (%s)", at, m.lastOp())
		}
		timing := testTiming()
		if p.timing != nil && p.name == "spill" {
			p.timing(&timing)
		}
		last := w.start(timing, []functions.Function{w.function(p.fn, func() bool { return true }, p.script)})
		last.sendPath(p) // what had not been accepted is sent again; the rest are duplicates
		last.play(p, nil)
		a := last.settle("f")
		before := len(w.calls(""))
		time.Sleep(10 * time.Minute)
		if after := len(w.calls("")); after != before {
			t.Errorf("%s: %d more attempts after everything had come to rest", where, after-before)
		}
		if w.convicted(where, last.letters("f")) {
			if !a.Holds {
				t.Errorf("%s: got %+v, want it to hold", where, a)
			}
			w.checkOrder(where, p)
			return
		}
		if a.Delivered != p.delivered || a.Parked != p.parked || a.Discarded != p.discarded || a.Held != p.held {
			t.Errorf("%s: got %+v, want %d delivered, %d parked, %d discarded, %d held", where, a, p.delivered, p.parked, p.discarded, p.held)
		}
		w.check(where, p, last.letters("f"), last.crashes("f", len(p.keys)))
		w.checkOrder(where, p)
	})
	return hit
}

// convicted reports whether an event was parked because the process died while it ran. That may be so only where it had begun in two lives that died.
func (w *world) convicted(where string, letters map[string]streams.Message) (some bool) {
	w.t.Helper()
	for id, m := range letters {
		if r, err := advisories.ReadReport(m); err != nil || r.Cause != advisories.Crashed {
			continue
		}
		some = true
		cut := map[int]bool{}
		for _, c := range w.calls(id) {
			if !c.ended {
				cut[c.life] = true
			}
		}
		if len(cut) != 2 {
			w.t.Errorf("%s: event %s is convicted, and it ran in %d lives that died, want 2", where, id, len(cut))
		}
	}
	return some
}

// mortal runs one life of a path under a gate that may kill it.
func (w *world) mortal(p path, m *mortal) {
	timing := testTiming()
	if p.timing != nil {
		p.timing(&timing)
	}
	l := w.start(timing, []functions.Function{w.function(p.fn, m.alive, p.script)}, streams.WithGate(m.gate))
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		publisher := &life{w: w, store: l.store.Ungated()}
		publisher.sendPath(p)
		l.play(p, m.killed)
	}()
	select {
	case <-m.killed:
	case <-finished:
	}
	if m.alive() {
		l.end()
		return
	}
	<-m.killed // the copy is complete
	<-finished
	l.bury(m)
}

// TestKilledAgainWhileRecovering kills a second and a third process too, wherever they are: mostly while they repair what the kill before
// left behind.
func TestKilledAgainWhileRecovering(t *testing.T) {
	for _, p := range crashPaths() {
		p.fn.Breaker.Off = true // three deaths suspend it, which is another test's matter
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for run := range 6 {
				if first := 8 + 9*run; !killAt(t, p, run%2 == 0, first, 1+(first*7)%23, 1+(first*5)%17) || t.Failed() {
					return
				}
			}
		})
	}
}

// play states the decisions of a path as soon as there is something to decide, until everything has come to rest or the process dies.
func (l *life) play(p path, killed <-chan struct{}) {
	var a client.FunctionAccount
	for range 1_000 {
		select {
		case <-killed:
			return
		case <-time.After(time.Second):
		}
		d, err := l.store.Declared(context.Background(), "f")
		if err != nil {
			continue
		}
		select {
		case <-l.host.started:
		default:
			continue
		}
		a, err = l.host.accountOf(context.Background(), d)
		if err != nil || a.Accepted < int64(len(p.keys)) || a.Pending+a.Delivering+a.Retrying > 0 || !a.Holds {
			continue
		}
		open := false
		if p.decide != "" {
			for _, m := range l.letters("f") {
				copied := streams.ReadCopy(m.Header, nil)
				report, _ := advisories.ReadReport(m)
				if copied.Cycle == 0 && report.Released == nil {
					open = true
					_, ref, _ := streams.ParseSubject(m.Subject)
					cycle := 0
					l.w.decided(m.Header.Get("ce-id"), p)
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					d := client.Decision{Function: "f", Sequence: ref.Sequence, Action: p.decide, Cycle: &cycle, Tail: p.tail, Reason: "test", By: "test"}
					if p.decide == client.Edit {
						d.Data = []byte(editedData)
					}
					_, _ = l.host.decide(ctx, d)
					cancel()
				}
			}
		}
		if !open {
			return
		}
	}
	l.w.t.Errorf("path %s does not come to rest: %+v", p.name, a)
}

// crashes counts for each event how often the process died while it was attempted: that is what the ledger's slots said at the start.
func (l *life) crashes(function string, events int) map[string]int {
	l.w.t.Helper()
	hits := map[string]int{}
	for seq := uint64(1); seq <= uint64(events); seq++ {
		records, err := l.store.Records(context.Background(), function, seq)
		if err != nil {
			l.w.t.Fatalf("records: %v", err)
		}
		m, err := l.store.Get(context.Background(), streams.EventsStream, seq)
		if err != nil {
			l.w.t.Fatalf("event: %v", err)
		}
		for _, r := range records {
			if r.Kind == streams.RecordCrash {
				hits[m.Header.Get("ce-id")]++
			}
		}
	}
	return hits
}

// check holds the log of all handlers against the promises.
func (w *world) check(where string, p path, letters map[string]streams.Message, hits map[string]int) {
	w.t.Helper()
	allowed := p.fn.WithDefaults().Retry.Attempts
	for i := 1; i <= len(p.keys); i++ {
		id := fmt.Sprint(i)
		succeeded, perCycle, same := 0, map[int]int{}, map[[2]int]int{}
		for _, c := range w.calls(id) {
			perCycle[c.attempt.Cycle]++
			same[[2]int{c.attempt.Cycle, c.attempt.Number}]++
			if c.ended && c.err == nil {
				succeeded++
			}
			if c.attempt.Number > allowed {
				w.t.Errorf("%s: event %s: attempt %d of %d", where, id, c.attempt.Number, allowed)
			}
		}
		for attempt, n := range same {
			if n > 1+hits[id] {
				w.t.Errorf("%s: event %s: attempt %d of cycle %d was made %d times, and %d kills hit it", where, id, attempt[1], attempt[0], n, hits[id])
			}
		}
		for cycle, n := range perCycle {
			if n > allowed+hits[id] {
				w.t.Errorf("%s: event %s: %d attempts in cycle %d, allowed are %d and %d kills hit it", where, id, n, cycle, allowed, hits[id])
			}
		}
		if _, parked := letters[id]; parked && succeeded > 0 {
			w.t.Errorf("%s: event %s is parked and was delivered %d times", where, id, succeeded)
		}
		if succeeded > 1+hits[id] {
			w.t.Errorf("%s: event %s was delivered %d times, and %d kills hit it", where, id, succeeded, hits[id])
		}
		if p.delivered == int64(len(p.keys)) && succeeded == 0 {
			w.t.Errorf("%s: event %s was never delivered", where, id)
		}
	}
}

func (m *mortal) lastOp() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at > 0 && m.at <= len(m.ops) {
		return m.ops[m.at-1]
	}
	return "not killed"
}
