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

// TestALowerDeadLetterIsDecidedFirst: with the policy changed from Continue to Hold, several dead letters of one key stand. The lowest one blocks.
func TestALowerDeadLetterIsDecidedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		parks := func(_ context.Context, id string, a functions.Attempt) error {
			if a.Cycle == 0 && (id == "a1" || id == "a3") {
				return functions.Park(errNo)
			}
			return nil
		}
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{OnPark: functions.Continue}, forever, parks)})
		<-l.host.started
		l.sendKeyed("a1", "a2", "a3", "a4")
		if a := l.settle("f"); a.Parked != 2 || a.Delivered != 2 {
			t.Fatalf("continuing: got %+v, want 2 parked, 2 delivered", a)
		}
		l.end()
		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, parks)})
		<-l.host.started
		l.sendKeyed("a5")
		if a := l.settle("f"); a.Held != 1 {
			t.Errorf("holding: got %+v, want a5 held", a)
		}
		_, err := l.host.decide(t.Context(), client.Decision{Function: "f", Sequence: 3, Action: client.Redrive, By: "anna"})
		wantRefusal(t, err, client.Conflict, "f/3", "f/1")
		l.decideAbout("a1", client.Redrive)
		l.settle("f")
		l.decideAbout("a3", client.Redrive)
		l.settle("f")
		wantOrder(t, "delivered", w.order(), "a2", "a4", "a1", "a3", "a5")
	})
}

// TestWhatIsHeldGoesOnWhenTheFunctionNoLongerHolds: the policy is changed from Hold to Continue while events are held.
func TestWhatIsHeldGoesOnWhenTheFunctionNoLongerHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, parkOnce("a1"))})
		<-l.host.started
		l.sendKeyed("a1", "a2", "a3")
		if a := l.settle("f"); a.Held != 2 {
			t.Fatalf("holding: got %+v, want 2 held", a)
		}
		l.end()
		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{OnPark: functions.Continue}, forever, parkOnce("a1"))})
		l.settle("f")
		l.decideAbout("a1", client.Redrive)
		l.settle("f")
		wantOrder(t, "delivered", w.order(), "a2", "a3", "a1")
	})
}

// TestTheKeyRuleMayChangeWithWorkStanding: what stands keeps its lane, and is found there; new events are lined up by the new rule.
func TestTheKeyRuleMayChangeWithWorkStanding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, parkOnce("a1"))})
		<-l.host.started
		l.sendKeyed("a1", "a2", "a3")
		l.settle("f")
		l.end()
		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{OrderBy: functions.BySource}, forever, parkOnce("a1"))})
		<-l.host.started
		l.sendKeyed("a4")
		if a := l.settle("f"); a.Held != 2 || a.Delivered != 1 {
			t.Errorf("got %+v, want a2 and a3 held in their old lane and a4 delivered in its new one", a)
		}
		l.decideAbout("a1", client.Redrive)
		if a := l.settle("f"); a.Delivered != 4 {
			t.Errorf("got %+v, want all delivered", a)
		}
		wantOrder(t, "delivered", w.order(), "a4", "a1", "a2", "a3")
	})
}

// TestAnEventThatExpiredBlocksNobody: an event that nobody wants any more is parked and holds nothing up, not even after a restart.
func TestAnEventThatExpiredBlocksNobody(t *testing.T) {
	ordered(t, functions.Function{}, parkOnce("none"), func(t *testing.T, w *world, l *life) {
		e := newEvent("a1")
		e.SetExtension("partitionkey", "a")
		e.SetExtension("expirytime", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
		l.sendEvent(e)
		l.sendKeyed("a2")
		l.settle("f")
		l.end()
		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, parkOnce("none"))})
		<-l.host.started
		l.sendKeyed("a3")
		if a := l.settle("f"); a.Parked != 1 || a.Held != 0 {
			t.Errorf("got %+v, want the expired one parked and nothing held", a)
		}
		wantOrder(t, "delivered", w.order(), "a2", "a3")
	})
}

// TestADeadLetterDeletedByHandDoesNotHoldForEver: somebody purged the dead-letter stream. The account names it, and the lane goes on.
func TestADeadLetterDeletedByHandDoesNotHoldForEver(t *testing.T) {
	ordered(t, functions.Function{}, parkOnce("a1"), func(t *testing.T, w *world, l *life) {
		l.sendKeyed("a1", "a2")
		l.settle("f")
		if err := l.store.JetStream().DeleteStream(t.Context(), streams.DeadLetterStream("f")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		wantOrder(t, "delivered", w.order(), "a2")
		if a := l.account("f"); a.Holds || len(a.Problems) != 1 || a.Problems[0].Sequence != 1 {
			t.Errorf("got %+v, want the account to name 1", a)
		}
	})
}
