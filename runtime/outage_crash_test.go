package runtime

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// killed runs one life up to its at-th operation, with do beside it, and reports whether it came so far.
func (w *world) killed(at int, fn func(alive func() bool) functions.Function, do func(l *life, wait func(time.Duration))) (hit bool, where string) {
	m := newMortal(w, at, at%2 == 0)
	l := w.start(testTiming(), []functions.Function{fn(m.alive)}, streams.WithGate(m.gate))
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		do(&life{w: w, node: l.node, store: l.store.Ungated(), host: l.host, done: l.done}, func(d time.Duration) {
			select {
			case <-m.killed:
			case <-time.After(d):
			}
		})
	}()
	select {
	case <-m.killed:
	case <-finished:
	}
	if m.alive() {
		l.end()
		return false, m.lastOp()
	}
	<-m.killed
	<-finished
	l.bury(m)
	return true, m.lastOp()
}

// everyPoint runs a test with a kill at every operation of its first life, and prints how many there were.
func everyPoint(t *testing.T, run func(t *testing.T, at int) (hit bool)) {
	t.Helper()
	everyPointOf(t, 30, run)
}

// everyPointOf expects no fewer than so many points.
func everyPointOf(t *testing.T, least int, run func(t *testing.T, at int) (hit bool)) {
	t.Helper()
	points, stride := 0, 1
	if underRace() && least >= 30 {
		stride = 7
	}
	for at, hit := 1, true; hit && !t.Failed(); at += stride {
		synctest.Test(t, func(t *testing.T) { hit = run(t, at) })
		if hit {
			points++
		}
	}
	t.Attr("crash-points", strconv.Itoa(points))
	if points*stride < least {
		t.Errorf("got %d points, want each operation", points)
	}
}

// TestOutageKilledAtEveryPoint kills the process before and after each operation while an outage is recognised, attempts are given back, probes fail
// and the function comes back. No event is parked, each attempt that the outage spoiled is given back, and the audit tells of one suspension and one resumption.
func TestOutageKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	everyPoint(t, func(t *testing.T, at int) bool {
		w := newWorld(t)
		back := time.Now().Add(time.Minute)
		fn := func(alive func() bool) functions.Function {
			return w.function(functions.Function{
				Concurrency: 2, Retry: functions.Retry{Attempts: 4, Backoff: functions.Delays(5 * time.Second)},
				Breaker: functions.Breaker{Failures: 3, Probe: 2 * time.Second, LongestProbe: 15 * time.Second},
			}, alive, func(context.Context, string, functions.Attempt) error {
				time.Sleep(10 * time.Millisecond)
				if time.Now().Before(back) {
					return errAway
				}
				return nil
			})
		}
		hit, where := w.killed(at, fn, func(l *life, wait func(time.Duration)) {
			for i := range 5 {
				l.sendEvent(from(i+1, 5, 5))
			}
			wait(3 * time.Minute)
		})
		l := w.start(testTiming(), []functions.Function{fn(forever)})
		<-l.host.started
		for i := range 5 {
			l.sendEvent(from(i+1, 5, 5))
		}
		time.Sleep(3 * time.Minute)
		if a := l.settle("f"); a.Delivered != 5 || a.Parked != 0 {
			t.Errorf("killed at %s: got %+v, want all delivered", where, a)
		}
		if counts := l.auditCounts("f"); counts["siding.suspended"] != 1 || counts["siding.resumed"] != 1 {
			t.Errorf("killed at %s: got %v, want one suspension and one resumption", where, counts)
		}
		if d, err := l.store.Declared(t.Context(), "f"); err != nil || d.Suspension != nil {
			t.Errorf("killed at %s: got %+v, %v; want no suspension left", where, d.Suspension, err)
		}
		for seq := uint64(1); seq <= 5; seq++ {
			records, err := l.store.Records(t.Context(), "f", seq)
			if err != nil {
				t.Fatal(err)
			}
			charged := map[int]int{} // by attempt, minus those that were given back
			for _, r := range records {
				switch {
				case r.Kind == streams.RecordAttempt && r.Charged:
					charged[r.Attempt]++
				case r.Kind == streams.RecordUncharged:
					for n := range charged {
						if n >= r.Attempt {
							delete(charged, n)
						}
					}
				}
			}
			// Only what an earlier life saw fail, which died before it could know of the outage, stays charged.
			if len(charged) > 1 || !hit && len(charged) > 0 {
				t.Errorf("killed at %s: event %d: got the attempts %v charged of %+v", where, seq, charged, records)
			}
		}
		return hit
	})
}

// TestSuspendedByAPersonKilledAtEveryPoint kills the process before and after each operation while a person suspends a function and resumes it. What has
// been written down holds; each change is told once.
func TestSuspendedByAPersonKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	everyPoint(t, func(t *testing.T, at int) bool {
		w := newWorld(t)
		fn := func(alive func() bool) functions.Function {
			return w.function(functions.Function{Concurrency: 2}, alive, func(context.Context, string, functions.Attempt) error { return nil })
		}
		request := client.SuspendRequest{Function: "f", By: "anna", Reason: "deploy"}
		script := func(l *life, wait func(time.Duration)) {
			select {
			case <-l.host.started:
			case <-time.After(time.Minute):
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			o := l.host.owner("f")
			if o == nil || o.suspend(ctx, request) != nil {
				return
			}
			for i := range 3 {
				l.sendEvent(from(i+1, 5, 5))
			}
			wait(10 * time.Second)
			_ = o.resumeFunction(ctx, request)
			wait(10 * time.Second)
		}
		hit, where := w.killed(at, fn, script)
		l := w.start(testTiming(), []functions.Function{fn(forever)})
		<-l.host.started
		o := l.host.owner("f")
		time.Sleep(time.Minute)
		if len(w.calls("")) == 0 { // not resumed yet
			if !o.isSuspended() {
				if err := o.suspend(t.Context(), request); err != nil {
					t.Errorf("killed at %s: suspend: %v", where, err)
				}
			}
			for i := range 3 {
				l.sendEvent(from(i+1, 5, 5))
			}
			time.Sleep(time.Minute)
			if calls := len(w.calls("")); o.isSuspended() && calls != 0 {
				t.Errorf("killed at %s: got %d attempts of a suspended function", where, calls)
			}
			if o.isSuspended() {
				if err := o.resumeFunction(t.Context(), request); err != nil {
					t.Errorf("killed at %s: resume: %v", where, err)
				}
			}
		}
		if a := l.settle("f"); a.Delivered != 3 {
			t.Errorf("killed at %s: got %+v, want all delivered", where, a)
		}
		counts := l.auditCounts("f")
		if counts["siding.suspended"] < 1 || counts["siding.suspended"] != counts["siding.resumed"] || counts["siding.suspended"] > 2 {
			t.Errorf("killed at %s: got %v, want each suspension and its resumption told", where, counts)
		}
		return hit
	})
}
