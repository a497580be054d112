package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// orderOf is the ids of the events of one key that were delivered, in order.
func (w *world) orderOf(key string) []string {
	ids := []string{}
	for _, id := range w.order() {
		if id[:1] == key {
			ids = append(ids, id)
		}
	}
	return ids
}

// lives runs a test in fake time with a function of its own for each life.
func lives(t *testing.T, test func(*testing.T, *world, func(functions.Function, script) *life)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		test(t, w, func(f functions.Function, s script) *life {
			t.Helper()
			l := w.start(testTiming(), []functions.Function{w.function(f, forever, s)})
			<-l.host.started
			return l
		})
	})
}

// parkEach parks each of some events in its first cycle.
func parkEach(ids ...string) script {
	return func(ctx context.Context, id string, a functions.Attempt) error {
		for _, parked := range ids {
			if err := parkOnce(parked)(ctx, id, a); err != nil {
				return err
			}
		}
		return nil
	}
}

// state states a decision about a dead letter and does not wait for what becomes of it.
func (l *life) state(sequence uint64, d streams.Decision) {
	l.w.t.Helper()
	ref, err := l.store.Find(context.Background(), streams.InDeadLetters, "f", sequence)
	if err == nil {
		d.By, d.At = "test", time.Now().UTC()
		_, err = l.store.Decide(context.Background(), ref, d)
	}
	if err != nil {
		l.w.t.Fatalf("%s of f/%d: %v", d.Action, sequence, err)
	}
}

// TestAFullHeldStreamStopsOnlyTheKeysThatNeedIt: what can be held no more stays in the owner's window, and other keys go on as long as that
// lasts. When there is room again, or after a restart, the key goes on where it was.
func TestAFullHeldStreamStopsOnlyTheKeysThatNeedIt(t *testing.T) {
	for _, tc := range []struct {
		name     string
		released bool // its blocker is gone before there is room
		restart  bool
	}{
		{name: "the blocker stands"}, {name: "the blocker is gone", released: true},
		{name: "the blocker stands, and a restart", restart: true}, {name: "the blocker is gone, and a restart", released: true, restart: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
				l := start(functions.Function{}, parkOnce("a1"))
				l.sendKeyed("a1", "a2", "a3")
				l.settle("f")
				lift := l.limit(streams.HeldStream)
				l.sendKeyed("a4", "a5", "b1", "a6", "b2")
				time.Sleep(10 * time.Minute) // every delivery would have expired several times
				wantOrder(t, "delivered while HELD is full", w.order(), "b1", "b2")
				if a := l.account("f"); a.Held != 2 || a.Parked != 1 || a.Pending != 3 || !a.Holds {
					t.Errorf("while HELD is full: got %+v, want 2 held and 3 pending", a)
				}
				want := []string{"a1", "a2", "a3", "a4", "a5", "a6"}
				if tc.released {
					l.decideAbout("a1", client.Redrive)
					l.sendKeyed("b3")
					time.Sleep(time.Minute)
					wantOrder(t, "delivered as far as it was held", w.orderOf("a"), want[:3]...)
					wantOrder(t, "other keys", w.orderOf("b"), "b1", "b2", "b3")
				}
				if tc.restart { // which gives the stream its limits back
					l.end()
					l = start(functions.Function{}, parkOnce("a1"))
				} else {
					lift()
				}
				l.settle("f")
				if !tc.released {
					if a := l.account("f"); a.Held != 5 {
						t.Errorf("with room again: got %+v, want 5 held", a)
					}
					l.decideAbout("a1", client.Redrive)
					l.settle("f")
				}
				wantOrder(t, "delivered", w.orderOf("a"), want...)
				if n := len(w.calls("a4")); n != 1 {
					t.Errorf("a4 was attempted %d times, want 1", n)
				}
				l.nothingPending()
			})
		})
	}
}

// TestAKillWhileHeldIsFullLosesNothing: the record of a hold has been written, and its copy has not.
func TestAKillWhileHeldIsFullLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := newMortal(w, 0, true)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, m.alive, parkOnce("a1"))}, streams.WithGate(m.gate))
		<-l.host.started
		publisher := &life{w: w, store: l.store.Ungated()}
		publisher.sendKeyed("a1", "a2")
		l.settle("f")
		publisher.limit(streams.HeldStream)
		publisher.sendKeyed("a3", "a4")
		time.Sleep(time.Minute)
		m.kill()
		l.bury(m)
		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, parkOnce("a1"))})
		if a := l.settle("f"); a.Held != 3 || a.Parked != 1 {
			t.Errorf("after the kill: got %+v, want 3 held", a)
		}
		l.decideAbout("a1", client.Redrive)
		l.settle("f")
		wantOrder(t, "delivered", w.order(), "a1", "a2", "a3", "a4")
	})
}

// TestADecisionThatCannotBeStoredKeepsItsLaneWaiting makes each stream that a decision writes to refuse that for ten minutes.
func TestADecisionThatCannotBeStoredKeepsItsLaneWaiting(t *testing.T) {
	redrive, discard := streams.Decision{Action: streams.ActionRedrive}, streams.Decision{Action: streams.ActionDiscard}
	tail := streams.Decision{Action: streams.ActionDiscard, Tail: true, Through: 3}
	release := streams.Decision{Action: streams.ActionRelease}
	for _, tc := range []struct {
		decision streams.Decision
		stream   string
		want     []string // of the key, in the end
		at       int      // how many of them before there is room again
	}{
		{redrive, streams.AttemptsStream, []string{"a1", "a2", "a3", "a4"}, 0},
		{redrive, streams.AuditStream, []string{"a1", "a2", "a3", "a4"}, 1}, // it is attempted, and its end waits
		{redrive, streams.RetryStream, []string{"a1", "a2", "a3", "a4"}, 0},
		{redrive, streams.HeldStream, []string{"a1", "a2", "a3", "a4"}, 3}, // a4 is on its way there
		{discard, streams.AttemptsStream, []string{"a2", "a3", "a4"}, 0},
		{discard, streams.AuditStream, []string{"a2", "a3", "a4"}, 0},
		{discard, streams.RetryStream, []string{"a2", "a3", "a4"}, 0},
		{tail, streams.AttemptsStream, []string{"a4"}, 0},
		{tail, streams.AuditStream, []string{"a4"}, 0},
		{release, streams.AttemptsStream, []string{"a2", "a3", "a4"}, 0},
		{release, streams.AuditStream, []string{"a2", "a3", "a4"}, 0},
		{release, streams.RetryStream, []string{"a2", "a3", "a4"}, 0},
		{release, streams.DeadLetterStream("f"), []string{"a2", "a3", "a4"}, 0},
	} {
		name := tc.decision.Action
		if tc.decision.Tail {
			name += " with its tail"
		}
		t.Run(name+", "+tc.stream, func(t *testing.T) {
			lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
				l := start(functions.Function{}, parkOnce("a1"))
				l.sendKeyed("a1", "a2", "a3")
				l.settle("f")
				lift := l.limit(tc.stream)
				l.state(1, tc.decision)
				l.sendKeyed("a4", "b1")
				time.Sleep(10 * time.Minute)
				wantOrder(t, "while it cannot be stored", w.orderOf("a"), tc.want[:tc.at]...)
				wantOrder(t, "another key meanwhile", w.orderOf("b"), "b1")
				lift()
				time.Sleep(10 * time.Second)
				a := l.settle("f")
				wantOrder(t, "delivered", w.orderOf("a"), tc.want...)
				if parked, held := a.Parked == 1, a.Held; parked != (tc.decision.Action == streams.ActionRelease) || held != 0 {
					t.Errorf("got %+v, want nothing held", a)
				}
				l.nothingPending()
				records, err := l.store.Records(t.Context(), "f", 1)
				if err != nil {
					t.Fatal(err)
				}
				decided := 0
				for _, r := range records {
					if r.Kind == streams.RecordRedriven || r.Kind == streams.RecordDiscarded || r.Kind == streams.RecordReleased {
						decided++
					}
				}
				if decided != 1 {
					t.Errorf("got the decision recorded %d times, want once, however often it was delivered", decided)
				}
			})
		})
	}
}

// TestAReleasedEventThatCannotBeParkedBlocksItsLane: the dead-letter stream is full when the next event of a key turns out to be bad.
func TestAReleasedEventThatCannotBeParkedBlocksItsLane(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		l := start(functions.Function{}, parkEach("a1", "a2"))
		l.sendKeyed("a1", "a2", "a3")
		l.settle("f")
		lift := l.limit(streams.DeadLetterStream("f"))
		l.decideAbout("a1", client.Redrive)
		time.Sleep(10 * time.Minute)
		wantOrder(t, "attempted while it is full", w.began(), "a1", "a1", "a2")
		lift()
		if a := l.settle("f"); a.Parked != 1 || a.Held != 1 {
			t.Errorf("got %+v, want a2 parked and a3 held", a)
		}
		l.decideAbout("a2", client.Redrive)
		l.settle("f")
		wantOrder(t, "delivered", w.order(), "a1", "a2", "a3")
		wantOrder(t, "attempted", w.began(), "a1", "a1", "a2", "a2", "a3")
	})
}
