package runtime

import (
	"context"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// TestAnEndThatCannotBeStoredKeepsItsLaneWaiting: the handler has succeeded, or dropped the event, and the record of that cannot be written. If
// the process died now, the event would be handled once more.
func TestAnEndThatCannotBeStoredKeepsItsLaneWaiting(t *testing.T) {
	for name, second := range map[string]error{"done": nil, "discarded": functions.Discard(errNo), "parked and continuing": functions.Park(errNo)} {
		t.Run(name, func(t *testing.T) {
			fn := functions.Function{Retry: every(5 * time.Second), OnPark: functions.Continue}
			ordered(t, fn, func(_ context.Context, id string, a functions.Attempt) error {
				switch {
				case id != "a1":
					return nil
				case a.Number == 1:
					return errNo
				}
				return second
			}, func(t *testing.T, w *world, l *life) {
				l.sendKeyed("a1", "a2")
				time.Sleep(time.Second)
				lift := l.limit(streams.AttemptsStream)
				time.Sleep(10 * time.Minute)
				wantOrder(t, "attempted while it cannot be stored", w.began(), "a1", "a1")
				lift()
				time.Sleep(time.Minute)
				wantOrder(t, "attempted", w.began(), "a1", "a1", "a2")
				l.nothingPending()
			})
		})
	}
}

// TestWhatArrivesBehindARetryIsHeld: however often it has failed, and whichever way it waits for its next attempt, nothing behind it stays in
// memory.
func TestWhatArrivesBehindARetryIsHeld(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*life) // in the second attempt
	}{
		{"given back", func(*life) {}},
		{"written anew", func(l *life) { l.advise(streams.RetryStream, "f", l.copyInRetry()) }}, // JetStream will not deliver it again
	} {
		t.Run(tc.name, func(t *testing.T) {
			fn := functions.Function{Retry: functions.Retry{Attempts: 5, Backoff: functions.Delays(5*time.Second, time.Hour)}, Timeout: time.Hour}
			ordered(t, fn, func(ctx context.Context, id string, a functions.Attempt) error {
				if id == "a1" && a.Number == 2 {
					_ = slowly("a1", 10*time.Second)(ctx, id, a)
				}
				return failTimes("a1", 2)(ctx, id, a)
			}, func(t *testing.T, w *world, l *life) {
				l.sendKeyed("a1")
				time.Sleep(6 * time.Second)
				tc.do(l)
				time.Sleep(time.Minute)
				l.sendKeyed("a2", "b1")
				time.Sleep(time.Minute)
				if a := l.account("f"); a.Held != 1 || a.Retrying != 1 || a.Delivered != 1 {
					t.Errorf("got %+v, want 1 retrying, 1 held, 1 delivered", a)
				}
				time.Sleep(2 * time.Hour)
				wantOrder(t, "attempted", w.began(), "a1", "a1", "b1", "a1", "a2")
			})
		})
	}
}

// TestADeadLetterThatCannotBeRemovedHoldsItsLane: a redriven event may run while it stands as a dead letter too, but has not ended before that is gone,
// and a discarded one still blocks. Other keys go on.
func TestADeadLetterThatCannotBeRemovedHoldsItsLane(t *testing.T) {
	for action, want := range map[string][]string{client.Redrive: {"a1", "a1", "b1"}, client.Discard: {"a1", "b1"}} {
		t.Run(action, func(t *testing.T) {
			ordered(t, functions.Function{}, parkOnce("a1"), func(t *testing.T, w *world, l *life) {
				l.sendKeyed("a1", "a2", "a3")
				l.settle("f")
				st, err := l.store.JetStream().Stream(t.Context(), streams.DeadLetterStream("f"))
				if err != nil {
					t.Fatal(err)
				}
				cfg := st.CachedInfo().Config
				cfg.DenyDelete = true
				if _, err := l.store.JetStream().UpdateStream(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
				l.state(1, streams.Decision{Action: action})
				time.Sleep(10 * time.Minute)
				l.sendKeyed("b1")
				time.Sleep(time.Minute)
				wantOrder(t, "attempted", w.began(), want...)
				if a := l.account("f"); a.Held != 2 || a.Delivered != 1 {
					t.Errorf("got %+v, want 2 held, 1 delivered", a)
				}
			})
		})
	}
}

// TestAnEventThatExpiredBlocksNobodyAtOnce: its key goes on in the same life, and not only when the next one looks what stands.
func TestAnEventThatExpiredBlocksNobodyAtOnce(t *testing.T) {
	ordered(t, functions.Function{}, parkOnce(""), func(t *testing.T, w *world, l *life) {
		e := newEvent("a1")
		e.SetExtension("partitionkey", "a")
		e.SetExtension("expirytime", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
		l.sendEvent(e)
		l.sendKeyed("a2")
		time.Sleep(time.Second)
		l.sendKeyed("a3")
		time.Sleep(time.Second)
		wantOrder(t, "attempted", w.began(), "a2", "a3")
	})
}
