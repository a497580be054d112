package runtime

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// tailLength is how many events are held behind the dead letter of these tests: their discard takes many stretches.
const tailLength = 400

// atDelete is a gate that calls f, once, before the n-th deletion from HELD.
type atDelete struct {
	n       int64
	f       func()
	deletes atomic.Int64 // twice as many calls as deletions
}

func (d *atDelete) gate(op string) {
	if op == "delete "+streams.HeldStream && d.deletes.Add(1) == 2*d.n-1 {
		d.f()
	}
}

// longTail holds many events behind a dead letter.
func longTail(t *testing.T, l *life) {
	t.Helper()
	outside := &life{w: l.w, store: l.store.Ungated()}
	outside.sendKeyed("a0")
	for i := 1; i <= tailLength; i++ {
		outside.sendKeyed("a" + strconv.Itoa(i))
	}
	l.await("f", "a tail", func(a client.FunctionAccount) bool { return a.Held == tailLength })
}

// TestALongTailIsDiscardedWhileEverythingElseGoesOn: in the middle of it another key has an event, and the key itself has one that arrived after
// the decision and is handled when the case is closed.
func TestALongTailIsDiscardedWhileEverythingElseGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var meanwhile *life
		d := &atDelete{n: tailLength / 4, f: func() {
			meanwhile.sendKeyed("b1", "a901")
		}}
		var seen atomic.Int64
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, both(parkOnce("a0"),
			func(_ context.Context, id string, _ functions.Attempt) error {
				if id == "b1" {
					seen.Store(d.deletes.Load() / 2)
				}
				return nil
			}))}, streams.WithGate(d.gate))
		<-l.host.started
		meanwhile = &life{w: w, store: l.store.Ungated()}
		longTail(t, l)
		l.decideWith(client.Decision{Function: "f", Sequence: 1, Action: client.Discard, Tail: true, By: "anna"})
		if a := l.settle("f"); a.Discarded != tailLength+1 || a.Delivered != 2 || a.Held != 0 {
			t.Errorf("got %+v, want %d discarded and 2 delivered", a, tailLength+1)
		}
		if n := seen.Load(); n < d.n-1 || n > d.n+3*stretch {
			t.Errorf("b1, sent at deletion %d, was handled at deletion %d of %d, want it a moment later", d.n, n, tailLength)
		}
		wantOrder(t, "delivered", w.order(), "b1", "a901")
	})
}

// TestALongTailIsDiscardedOverARestart stops or kills the process in the middle. The decision stands until it has been applied, and what
// arrives meanwhile is not a part of it.
func TestALongTailIsDiscardedOverARestart(t *testing.T) {
	for _, kill := range []bool{false, true} {
		t.Run("killed "+strconv.FormatBool(kill), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m := newMortal(w, 0, true)
				reached := make(chan struct{})
				d := &atDelete{n: tailLength / 2, f: func() {
					close(reached)
					if kill {
						m.at = m.calls + 1
					}
				}}
				l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, m.alive, parkOnce("a0"))},
					streams.WithGate(func(op string) { d.gate(op); m.gate(op) }))
				<-l.host.started
				outside := &life{w: w, store: l.store.Ungated()}
				longTail(t, l)
				outside.state(1, streams.Decision{Action: streams.ActionDiscard, Tail: true, Through: tailLength + 1, Reason: "all of it"})
				outside.sendKeyed("a901")
				<-reached
				if kill {
					<-m.killed
					l.bury(m)
				} else {
					l.end()
				}
				l = w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, parkOnce("a0"))})
				l.sendKeyed("a902")
				if a := l.settle("f"); a.Discarded != tailLength+1 || a.Delivered != 2 || a.Held != 0 {
					t.Errorf("got %+v, want %d discarded and 2 delivered", a, tailLength+1)
				}
				wantOrder(t, "delivered", w.order(), "a901", "a902")
				if n := l.count(streams.AuditStream); n != tailLength+3 {
					t.Errorf("got %d audit entries, want one for the parking, one for the hold and one for each that was discarded: %d", n, tailLength+3)
				}
				l.nothingPending()
			})
		})
	}
}

// TestOnlyWhatIsHeldBehindADeadLetterIsItsTail: one that blocks nothing has none, whatever is held in its lane behind another.
func TestOnlyWhatIsHeldBehindADeadLetterIsItsTail(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		t.Run("hosted "+strconv.FormatBool(hosted), func(t *testing.T) {
			lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
				l := start(functions.Function{}, parkEach("a1", "a2"))
				l.sendKeyed("a1", "a2", "a3", "a4")
				l.settle("f")
				l.decideAbout("a1", client.Release) // and a2 parks
				if a := l.settle("f"); a.Parked != 2 || a.Held != 2 {
					t.Fatalf("got %+v, want 2 parked, of which the second holds 2", a)
				}
				if !hosted {
					l.end()
					l = w.start(testTiming(), []functions.Function{w.function(functions.Function{Name: "g"}, forever, parkOnce(""))})
					<-l.host.started
				}
				l.decideWith(client.Decision{Function: "f", Sequence: 1, Action: client.Discard, Tail: true, By: "anna"})
				time.Sleep(time.Minute)
				if a := l.account("f"); a.Parked != 1 || a.Held != 2 || a.Discarded != 1 {
					t.Errorf("got %+v, want 2 still held behind a2", a)
				}
				if !hosted {
					l.end()
					l = start(functions.Function{}, parkEach("a1", "a2"))
				}
				l.decideAbout("a2", client.Redrive)
				l.settle("f")
				wantOrder(t, "delivered by f", w.orderBy("f"), "a2", "a3", "a4")
			})
		})
	}
}

// TestATailDiscardedWithoutItsHandlerStaysDiscarded: the function is not hosted when its case is closed, and is again later.
func TestATailDiscardedWithoutItsHandlerStaysDiscarded(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		l := start(functions.Function{}, parkEach("a1", "b1"))
		l.sendKeyed("a1", "a2", "b1", "a3", "b2")
		l.settle("f")
		l.end()
		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{Name: "g"}, forever, parkOnce(""))})
		<-l.host.started
		time.Sleep(time.Second)
		for _, action := range []string{client.Redrive, client.Release} {
			_, err := l.host.decide(t.Context(), client.Decision{Function: "f", Sequence: 1, Action: action, By: "anna"})
			wantRefusal(t, err, client.Refused, "f", "not hosted")
		}
		l.decideWith(client.Decision{Function: "f", Sequence: 1, Action: client.Discard, Tail: true, By: "anna"})
		l.sendKeyed("a4")
		if a := l.account("f"); a.Discarded != 3 || a.Parked != 1 || a.Held != 1 {
			t.Errorf("without its handler: got %+v, want 3 discarded, b1 parked and b2 held", a)
		}
		l.end()
		l = start(functions.Function{}, parkEach("a1", "b1"))
		if a := l.settle("f"); a.Discarded != 3 || a.Parked != 1 || a.Held != 1 || a.Delivered != 1 {
			t.Errorf("hosted again: got %+v, want 3 discarded, b1 parked, b2 held and a4 delivered", a)
		}
		l.decideAbout("b1", client.Redrive)
		l.settle("f")
		wantOrder(t, "delivered by f", w.orderBy("f"), "a4", "b1", "b2")
	})
}

// orderBy is the ids of the events that a function delivered, in order.
func (w *world) orderBy(function string) []string {
	var ids []string
	for _, c := range w.calls("") {
		if c.function == function && c.ended && c.err == nil {
			ids = append(ids, c.event)
		}
	}
	return ids
}
