package runtime

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// TestALostLedgerLosesNothing: without it the records say how events ended, and only what neither they nor the consumer's ack floor
// tell is handled once more. A decided event never comes back.
func TestALostLedgerLosesNothing(t *testing.T) {
	for _, tc := range []struct {
		name     string
		change   func(path string, data []byte) error
		consumer bool // its state is lost too
		repeated int  // of the events done-<n>, see unsettledLife
	}{
		{name: "deleted", change: func(path string, _ []byte) error { return os.Remove(path) }, repeated: 10},
		{name: "zeroed", change: func(path string, data []byte) error { return os.WriteFile(path, make([]byte, len(data)), 0o600) }, repeated: 10},
		{name: "cut", change: func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)/2], 0o600) }, repeated: 10},
		{name: "torn", change: func(path string, data []byte) error {
			for i := 0; i < 4096; i += 7 {
				data[i] ^= 0x5a
			}
			return os.WriteFile(path, data, 0o600)
		}, repeated: 10},
		{name: "empty", change: func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) }, repeated: 10},
		{name: "deleted with the consumer", change: func(path string, _ []byte) error { return os.Remove(path) }, consumer: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				unsettledLife(t, w)
				path := filepath.Join(w.dir, "ledger", "f.ledger")
				data, err := os.ReadFile(path)
				if err == nil {
					err = tc.change(path, data)
				}
				if err != nil {
					t.Fatalf("change: %v", err)
				}
				if tc.consumer {
					w.damage(streams.EventsStream, "f", func(b []byte) []byte { return make([]byte, len(b)) })
				}
				checkUnsettledLife(t, w, tc.repeated)
			})
		})
	}
}

// TestALoweredLimitParksWhatIsBeyondIt: JetStream said nothing about a message that had been delivered more often than a lowered limit
// allows, and it was stuck silently (nats-io/nats-server#7148).
func TestALoweredLimitParksWhatIsBeyondIt(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			fns := func(attempts int) []functions.Function {
				return []functions.Function{w.function(functions.Function{Retry: functions.Retry{
					Attempts: attempts, Backoff: functions.Delays(time.Second, time.Second, 10*time.Hour),
				}}, always, scripted)}
			}
			l := w.start(testTiming(), fns(5))
			<-l.host.started
			l.sendIDs("never-1", "never-2", "never-3")
			time.Sleep(time.Minute)
			if got := len(w.calls("")); got != 9 {
				t.Fatalf("got %d attempts, want 3 each", got)
			}
			l.end()

			timing := testTiming()
			timing.deaf = deaf
			l = w.start(timing, fns(1))
			<-l.host.started
			time.Sleep(time.Minute + 5*time.Second)
			letters := l.letters("f")
			if len(letters) != 3 {
				t.Errorf("deaf %v: got %d dead letters within one sweep, want 3", deaf, len(letters))
			}
			for id, m := range letters {
				if r, err := advisories.ReadReport(m); err != nil || r.Cause != advisories.Exhausted || r.Attempts != 3 {
					t.Errorf("deaf %v: event %s: got cause %s after %d attempts, %v; want exhausted after 3", deaf, id, r.Cause, r.Attempts, err)
				}
			}
			if a := l.settle("f"); a.Parked != 3 || len(w.calls("")) != 9 {
				t.Errorf("deaf %v: got %+v after %d attempts, want 3 parked without a further one", deaf, a, len(w.calls("")))
			}
			if !deaf {
				l.nothingPending()
			}
			l.end()

			// A later limit is for later events, and for a redrive.
			l = w.start(testTiming(), fns(2))
			l.settle("f")
			l.decide("redrive", "f", 1)
			if a := l.settle("f"); a.Delivered != 1 || a.Parked != 2 {
				t.Errorf("deaf %v: after a redrive: got %+v, want 1 delivered", deaf, a)
			}
		})
	}
}

func TestARaisedLimitGivesFurtherAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fns := func(attempts int) []functions.Function {
			return []functions.Function{w.function(functions.Function{Retry: functions.Retry{
				Attempts: attempts, Backoff: functions.Delays(time.Second, 10*time.Minute),
			}}, always, func(_ context.Context, _ string, a functions.Attempt) error {
				if a.Number < 5 {
					return errNo
				}
				return nil
			})}
		}
		l := w.start(testTiming(), fns(3))
		<-l.host.started
		l.send(2)
		time.Sleep(time.Minute)
		l.end()
		l = w.start(testTiming(), fns(6))
		time.Sleep(40 * time.Minute)
		if a := l.settle("f"); a.Delivered != 2 {
			t.Errorf("got %+v, want 2 delivered", a)
		}
		for _, id := range []string{"1", "2"} {
			calls := w.calls(id)
			if len(calls) != 5 {
				t.Errorf("event %s: got %d attempts, want 5", id, len(calls))
				continue
			}
			for i, c := range calls {
				if c.attempt.Number != i+1 {
					t.Errorf("event %s: attempt %d: got number %d", id, i+1, c.attempt.Number)
				}
			}
			if calls[4].attempt.Allowed != 6 {
				t.Errorf("event %s: got %d attempts allowed, want 6", id, calls[4].attempt.Allowed)
			}
		}
	})
}
