package runtime

import (
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// leaveBehind makes the directory of a function that parked a1, holds a2, retries b1 and has delivered c1, and is not hosted any more.
func leaveBehind(t *testing.T) *world {
	w := newWorld(t)
	l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: every(time.Hour)}, forever, both(parkOnce("a1"), failTimes("b1", 9)))})
	<-l.host.started
	l.sendKeyed("a1", "a2", "b1", "c1")
	time.Sleep(time.Second)
	l.end()
	return w
}

func (l *life) forget() (client.Forgotten, error) {
	return l.host.forget(l.w.t.Context(), client.ForgetRequest{Function: "f", Reason: "renamed", By: "anna"})
}

// TestForgettingEndsAtEveryPoint kills the process before and after each operation of a forgetting; doing it again finishes it, each event ends as
// discarded, and a function of that name is a new one.
func TestForgettingEndsAtEveryPoint(t *testing.T) {
	points := 0
	for at, hit := 1, true; hit && !t.Failed(); at++ {
		synctest.Test(t, func(t *testing.T) {
			w := leaveBehind(t)
			m := newMortal(w, at, false)
			l := w.start(testTiming(), nil, streams.WithGate(m.gate))
			<-l.host.started
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = l.forget()
			}()
			select {
			case <-m.killed:
				<-done
				l.bury(m)
				points++
			case <-done:
				hit = false
				l.end()
			}
			w.checkForgotten(t, m.lastOp(), hit)
		})
	}
	t.Attr("crash-points", strconv.Itoa(points))
	if points < 20 {
		t.Errorf("got %d points, want each operation of the forgetting", points)
	}
}

// checkForgotten forgets once more where a kill has cut it, and looks for anything that is left.
func (w *world) checkForgotten(t *testing.T, where string, cut bool) {
	l := w.start(testTiming(), nil)
	<-l.host.started
	_, err := l.store.Declared(t.Context(), "f")
	if known := err == nil; known != cut {
		if known || where != "undeclare" {
			t.Errorf("killed at %s: got known %v, want it to be known until all has gone", where, known)
		}
	}
	if _, err := l.forget(); err != nil && problemCode(err) != client.NotFound {
		t.Errorf("killed at %s: again: %v", where, err)
	}
	left, err := l.host.orphans.Left(t.Context(), "f")
	if err != nil || left.Parked+left.Held+left.Retrying+left.Decisions > 0 {
		t.Errorf("killed at %s: got %+v, %v, want nothing left", where, left, err)
	}
	if records, err := l.store.Recorded(t.Context(), "f"); err != nil || len(records) > 0 {
		t.Errorf("killed at %s: got records %v, %v, want none", where, records, err)
	}
	if _, err := os.Stat(ledgerPath(l.store, "f")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("killed at %s: got %v, want no ledger", where, err)
	}
	for _, stream := range []string{streams.EventsStream, streams.RetryStream, streams.DecisionsStream} {
		if _, err := l.store.JetStream().Consumer(t.Context(), stream, "f"); err == nil {
			t.Errorf("killed at %s: got a consumer on %s, want none", where, stream)
		}
	}
	told := l.audits(t)
	for _, seq := range []uint64{1, 2, 3} {
		if n := told[seq]; n != 1 {
			t.Errorf("killed at %s: event %d: got %d audit entries of its discard, want one", where, seq, n)
		}
	}
	if told[4] > 0 {
		t.Errorf("killed at %s: the event that was delivered is called discarded", where)
	}
	l.end()
	again := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, parkOnce(""))})
	if a := again.settle("f"); a.Delivered != 4 || a.Accepted != 4 {
		t.Errorf("killed at %s: a new function from the beginning: got %+v, want all of the log", where, a)
	}
	again.end()
}

// audits counts the entries of discards by event.
func (l *life) audits(t *testing.T) map[uint64]int {
	t.Helper()
	told := map[uint64]int{}
	for next := uint64(1); ; {
		m, err := l.store.Next(t.Context(), streams.AuditStream, next, streams.AuditSubject("f"))
		if errors.Is(err, streams.ErrNotFound) {
			return told
		}
		if err != nil {
			t.Fatal(err)
		}
		next = m.Sequence + 1
		var entry struct{ Sequence uint64 }
		if m.Header.Get("ce-type") == "siding.discarded" && json.Unmarshal(m.Data, &entry) == nil {
			told[entry.Sequence]++
		}
	}
}

func TestForgettingIsRefusedForAFunctionThatIsHosted(t *testing.T) {
	ordered(t, functions.Function{}, parkOnce("a1"), func(t *testing.T, _ *world, l *life) {
		l.sendKeyed("a1", "a2")
		before := l.settle("f")
		if _, err := l.forget(); problemCode(err) != client.Refused {
			t.Errorf("got %v, want a refusal", err)
		}
		if _, err := l.host.forget(t.Context(), client.ForgetRequest{Function: "g", DryRun: true}); problemCode(err) != client.NotFound {
			t.Errorf("one that nobody knows: got %v, want not found", err)
		}
		if after := l.settle("f"); after.Parked != before.Parked || after.Held != before.Held {
			t.Errorf("got %+v, want it untouched: %+v", after, before)
		}
	})
}
