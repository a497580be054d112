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
					for ; killAt(t, p, at, keep); at++ {
						points.Add(1)
						if t.Failed() {
							return
						}
					}
					t.Logf("%s: %d crash points, acks kept %v", p.name, at-1, keep)
				})
			}
		}
	})
	t.Logf("%d crash points in all", points.Load())
}

// killAt runs a path with a kill at one point. It returns false when the path has fewer points.
func killAt(t *testing.T, p path, at int, keep bool) (hit bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := newMortal(w, at, keep)
		timing := testTiming()
		if p.timing != nil {
			p.timing(&timing)
		}
		first := w.start(timing, []functions.Function{w.function(p.fn, m.alive, p.script)}, streams.WithGate(m.gate))
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			publisher := &life{w: w, store: first.store.Ungated()}
			publisher.send(p.events)
			first.play(p, m.killed)
		}()
		select {
		case <-m.killed:
		case <-finished:
		}
		if hit = !m.alive(); hit {
			<-m.killed // the copy is complete
			<-finished
			first.bury(m)
		} else {
			first.end()
		}
		running := w.unfinished()
		second := w.start(testTiming(), []functions.Function{w.function(p.fn, func() bool { return true }, p.script)})
		(&life{w: w, store: second.store}).send(p.events) // what had not been accepted is sent again; the rest are duplicates
		second.play(p, nil)
		a := second.settle("f")
		before := len(w.calls(""))
		time.Sleep(10 * time.Minute)
		if after := len(w.calls("")); after != before {
			t.Errorf("killed at %d (%s): %d more attempts after everything had come to rest", at, m.lastOp(), after-before)
		}
		if a.Delivered != p.delivered || a.Parked != p.parked || a.Discarded != p.discarded {
			t.Errorf("killed at %d (%s): got %+v, want %d delivered, %d parked, %d discarded", at, m.lastOp(), a, p.delivered, p.parked, p.discarded)
		}
		w.check(fmt.Sprintf("killed at %d (%s)", at, m.lastOp()), p, second.letters("f"), running)
	})
	return hit
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

// unfinished are the events whose handler runs now, or has returned in the last instant.
func (w *world) unfinished() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := map[string]bool{}
	for _, c := range w.log {
		if !c.ended {
			open[c.event] = true
		}
	}
	return open
}

// check holds the log of all handlers against the promises.
func (w *world) check(where string, p path, letters map[string]streams.Message, running map[string]bool) {
	w.t.Helper()
	allowed := p.fn.WithDefaults().Retry.Attempts
	for i := 1; i <= p.events; i++ {
		id := fmt.Sprint(i)
		succeeded, perCycle := 0, map[int]int{}
		for _, c := range w.calls(id) {
			perCycle[c.attempt.Cycle]++
			if c.ended && c.err == nil {
				succeeded++
			}
			if c.attempt.Number > allowed {
				w.t.Errorf("%s: event %s: attempt %d of %d", where, id, c.attempt.Number, allowed)
			}
		}
		for cycle, n := range perCycle {
			if n > allowed+1 { // one kill, which can hit one attempt of one event
				w.t.Errorf("%s: event %s: %d attempts in cycle %d, allowed are %d and one kill", where, id, n, cycle, allowed)
			}
		}
		if _, parked := letters[id]; parked && succeeded > 0 {
			w.t.Errorf("%s: event %s is parked and was delivered %d times", where, id, succeeded)
		}
		if succeeded > 2 {
			w.t.Errorf("%s: event %s was delivered %d times", where, id, succeeded)
		}
		if p.delivered > 0 && succeeded == 0 {
			w.t.Errorf("%s: event %s was never delivered", where, id)
		}
	}
	_ = running
}

func (m *mortal) lastOp() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at > 0 && m.at <= len(m.ops) {
		return m.ops[m.at-1]
	}
	return "not killed"
}
