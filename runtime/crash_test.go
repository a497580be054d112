package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// path is one way through the life of an event, on which a process is killed at every point.
type path struct {
	name   string
	events int
	fn     functions.Function
	script script
	timing func(*timing)
	// decide states decisions about what has been parked in its first cycle; "" = none.
	decide string
	// What the events must have come to in the end.
	delivered, parked, discarded int64
}

var errNo = errors.New("no")

func crashPaths() []path {
	always := func(context.Context, string, functions.Attempt) error { return errNo }
	twice := functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}
	untilRedriven := func(_ context.Context, _ string, a functions.Attempt) error {
		if a.Cycle == 0 {
			return functions.Park(errNo)
		}
		return nil
	}
	return []path{
		{name: "done", events: 3, delivered: 3, script: func(context.Context, string, functions.Attempt) error { return nil }},
		{name: "retry", events: 2, delivered: 2, fn: functions.Function{Retry: functions.Retry{Attempts: 4, Backoff: functions.Delays(time.Second, 5*time.Second)}},
			script: func(_ context.Context, _ string, a functions.Attempt) error {
				if a.Number < 3 {
					return errNo
				}
				return nil
			}},
		{name: "exhausted by advisory", events: 2, parked: 2, fn: functions.Function{Retry: twice}, script: always,
			timing: func(t *timing) { t.advisory, t.sweep = 0, 0 }},
		{name: "exhausted by owner", events: 2, parked: 2, fn: functions.Function{Retry: twice}, script: always,
			timing: func(t *timing) { t.deaf, t.sweep = true, 0 }},
		{name: "exhausted by sweep", events: 2, parked: 2, fn: functions.Function{Retry: twice}, script: always,
			timing: func(t *timing) { t.deaf, t.advisory = true, 0 }},
		{name: "permanent", events: 3, parked: 3, script: func(context.Context, string, functions.Attempt) error { return functions.Park(errNo) }},
		{name: "redrive", events: 2, delivered: 2, script: untilRedriven, decide: client.Redrive},
		{name: "redrive and parked again", events: 1, parked: 1, decide: client.Redrive,
			script: func(context.Context, string, functions.Attempt) error { return functions.Park(errNo) }},
		{name: "discard", events: 2, discarded: 2, script: untilRedriven, decide: client.Discard},
		{name: "discarded by its handler", events: 2, discarded: 2,
			script: func(context.Context, string, functions.Attempt) error { return functions.Discard(errNo) }},
	}
}

// TestKilledAtEveryPoint kills the process before and after each operation on a stream or the ledger, once with the acknowledgements of
// the last moments forgotten and once with them kept, starts another one on what is on disk, and checks the promises.
func TestKilledAtEveryPoint(t *testing.T) {
	var points atomic.Int64
	t.Run("paths", func(t *testing.T) {
		for _, p := range crashPaths() {
			for _, keep := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, acks kept %v", p.name, keep), func(t *testing.T) {
					t.Parallel()
					at := 1
					for ; killAt(t, p, keep, at); at++ {
						points.Add(1)
						if t.Failed() {
							return
						}
					}
					t.Attr("crash-points", fmt.Sprint(at-1))
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
		last := w.start(testTiming(), []functions.Function{w.function(p.fn, func() bool { return true }, p.script)})
		last.send(p.events) // what had not been accepted is sent again; the rest are duplicates
		last.play(p, nil)
		a := last.settle("f")
		before := len(w.calls(""))
		time.Sleep(10 * time.Minute)
		if after := len(w.calls("")); after != before {
			t.Errorf("%s: %d more attempts after everything had come to rest", where, after-before)
		}
		if a.Delivered != p.delivered || a.Parked != p.parked || a.Discarded != p.discarded {
			t.Errorf("%s: got %+v, want %d delivered, %d parked, %d discarded", where, a, p.delivered, p.parked, p.discarded)
		}
		w.check(where, p, last.letters("f"), last.crashes("f", p.events))
	})
	return hit
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
		publisher.send(p.events)
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
		if err != nil || a.Accepted < int64(p.events) || a.Pending+a.Delivering+a.Retrying > 0 || !a.Holds {
			continue
		}
		open := false
		if p.decide != "" {
			for _, m := range l.letters("f") {
				if copied := streams.ReadCopy(m.Header, nil); copied.Cycle == 0 {
					open = true
					_, ref, _ := streams.ParseSubject(m.Subject)
					cycle := 0
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					_, _ = l.host.decide(ctx, client.Decision{Function: "f", Sequence: ref.Sequence, Action: p.decide, Cycle: &cycle, Reason: "test", By: "test"})
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
	for i := 1; i <= p.events; i++ {
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
		if p.delivered > 0 && succeeded == 0 {
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
