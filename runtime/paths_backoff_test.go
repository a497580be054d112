package runtime

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

var doubling = functions.Retry{Attempts: 5, Backoff: functions.Exponential(time.Second, time.Minute)}

var doublingTimes = []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}

// TestARestartMovesNoAttempt stops the process after the third of five attempts. The handler is called five times in the event's whole
// life, at the times of the backoff. Elsewhere attempts multiplied with restarts: dapr/docs#3650, dapr/dapr#4592.
func TestARestartMovesNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := functions.Function{Retry: doubling}
		first := w.start(testTiming(), []functions.Function{w.function(fn, forever, alwaysFailing)})
		<-first.host.started
		first.send(3)
		time.Sleep(3500 * time.Millisecond)
		w.wantAttempts(t, "1", 1, 2, 3)
		first.end()
		time.Sleep(time.Second)
		second := w.start(testTiming(), []functions.Function{w.function(fn, forever, alwaysFailing)})
		a := second.settle("f")
		if a.Parked != 3 {
			t.Errorf("got %+v, want 3 parked", a)
		}
		for _, id := range []string{"1", "2", "3"} {
			w.wantAttempts(t, id, 1, 2, 3, 4, 5)
			w.wantTimes(t, id, doublingTimes...)
		}
		d := second.detail("f", "1")
		if d.Attempts != 5 || d.Cause != string(advisories.Exhausted) || len(d.History) != 6 || d.Subject != "events.t" {
			t.Errorf("got %+v, want exhausted after 5 attempts", d)
		}
	})
}

// dies makes the process die at the n-th call of its gate for an operation.
func (m *mortal) dies(operation string, n int) func(string) {
	seen := 0 // under mu
	return func(op string) {
		m.mu.Lock()
		if op == operation {
			if seen++; seen == n {
				m.at = m.calls + 1
			}
		}
		m.mu.Unlock()
		m.gate(op)
	}
}

// TestAKillMovesNoAttempt kills the process around the third attempt's end, and in the middle of its handler. What was recorded is
// never repeated; what was not is repeated under the same number, uncharged.
func TestAKillMovesNoAttempt(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		name, operation string
		n               int
		attempts        []int
	}{
		{"in the handler", "handler", 3, []int{1, 2, 3, 3, 4, 5}},
		{"before the record", "record attempt", 5, []int{1, 2, 3, 3, 4, 5}},
		{"behind the record", "record attempt", 6, []int{1, 2, 3, 4, 5}},
		{"behind the nak", "nak", 6, []int{1, 2, 3, 4, 5}},
	} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, acks kept %v", k.name, keep), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					m := newMortal(w, 0, keep)
					gate := m.dies(k.operation, k.n)
					fn := functions.Function{Retry: doubling}
					first := w.start(testTiming(), []functions.Function{w.function(fn, m.alive, func(context.Context, string, functions.Attempt) error {
						gate("handler")
						return errNo
					})}, streams.WithGate(gate))
					<-first.host.started
					(&life{w: w, store: first.store.Ungated()}).send(1)
					<-m.killed
					first.bury(m)
					begun := w.calls("1")[0].at
					died := time.Since(begun)
					time.Sleep(time.Second)
					second := w.start(testTiming(), []functions.Function{w.function(fn, forever, alwaysFailing)})
					if a := second.settle("f"); a.Parked != 1 {
						t.Errorf("got %+v, want 1 parked", a)
					}
					w.wantAttempts(t, "1", k.attempts...)
					calls := w.calls("1")
					for i, c := range calls[len(calls)-2:] {
						want := doublingTimes[3+i]
						if len(k.attempts) == 6 { // its third failure came a life later
							want = calls[3].at.Sub(begun) + doublingTimes[3+i] - doublingTimes[2]
						}
						if got := c.at.Sub(begun); got != want {
							t.Errorf("attempt %d: got %s after the first, want %s (killed at %s)", c.attempt.Number, got, want, died)
						}
					}
				})
			})
		}
	}
}

func TestADelayThatAHandlerAsksForIsObeyed(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"in one life": false, "over a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fn := functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}}
				asking := func(_ context.Context, _ string, a functions.Attempt) error {
					if a.Number == 1 {
						return functions.RetryAfter(90*time.Second, errNo)
					}
					return errNo
				}
				l := w.start(testTiming(), []functions.Function{w.function(fn, forever, asking)})
				<-l.host.started
				l.send(1)
				time.Sleep(time.Second)
				if restart {
					l.end()
					l = w.start(testTiming(), []functions.Function{w.function(fn, forever, asking)})
				}
				time.Sleep(3 * time.Minute)
				if a := l.settle("f"); a.Parked != 1 {
					t.Errorf("got %+v, want 1 parked", a)
				}
				w.wantTimes(t, "1", 0, 90*time.Second, 91*time.Second)
			})
		})
	}
}

func TestABudgetEndsTheAttemptsEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{Retry: functions.Retry{
			Attempts: 10, Backoff: functions.Delays(10 * time.Second), Budget: 25 * time.Second,
		}}, forever, alwaysFailing)
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.send(1)
		l.settle("f")
		w.wantTimes(t, "1", 0, 10*time.Second, 20*time.Second)
		d := l.detail("f", "1")
		if d.Attempts != 3 || d.Cause != string(advisories.Exhausted) || d.ParkedBy != advisories.ByOwner {
			t.Errorf("got %+v, want it parked by the owner as exhausted after 3 attempts", d.DeadLetter)
		}
		if got := d.ParkedAt.Sub(d.LastFailedAt); got > time.Second {
			t.Errorf("got it parked %s after the last attempt, want at once", got)
		}
	})
}

func TestTwoDaysOfBackoffPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(48*time.Hour, time.Second)}}, forever,
			func(_ context.Context, id string, a functions.Attempt) error {
				if id == "1" && a.Number == 3 {
					return nil
				}
				return errNo
			})
		timing := testTiming()
		// Thousands of sweeps and of idle requests prove no more than some do.
		timing.sweep, timing.pulling = time.Hour, pulling{expires: 6 * time.Hour, heartbeat: time.Hour}
		l := w.start(timing, []functions.Function{fn})
		<-l.host.started
		l.send(2)
		time.Sleep(48 * time.Hour)
		a := l.settle("f")
		if a.Delivered != 1 || a.Parked != 1 {
			t.Errorf("got %+v, want 1 delivered and 1 parked", a)
		}
		for _, id := range []string{"1", "2"} {
			w.wantTimes(t, id, 0, 48*time.Hour, 48*time.Hour+time.Second)
		}
		if d := l.detail("f", "2"); d.ParkedBy != advisories.ByAdvisory {
			t.Errorf("got parked by %s, want by advisory", d.ParkedBy)
		}
	})
}

func TestJitterStaysWithinItsBand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const events = 100
		w := newWorld(t)
		fn := w.function(functions.Function{Breaker: functions.Breaker{Off: true}, Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(100 * time.Second).WithJitter(0.5)}}, forever, alwaysFailing)
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.send(events)
		time.Sleep(3 * time.Minute)
		l.settle("f")
		early, late := 0, 0
		for i := range events {
			calls := w.calls(fmt.Sprint(i + 1))
			if len(calls) != 2 {
				t.Fatalf("event %d: got %d attempts, want 2", i+1, len(calls))
			}
			got := calls[1].at.Sub(calls[0].at)
			if got < 75*time.Second || got > 125*time.Second {
				t.Errorf("event %d: got a delay of %s, want 75 to 125 s", i+1, got)
			}
			if got < 95*time.Second {
				early++
			}
			if got > 105*time.Second {
				late++
			}
		}
		if early < events/10 || late < events/10 {
			t.Errorf("got %d early and %d late of %d, want them spread over the band", early, late, events)
		}
	})
}

// TestABareErrorRidesOutAQuarterOfAnHour: where a bare error is a bare nak, all attempts are burnt within milliseconds
// (hmchangw/newchat#346, glassflow/clickhouse-etl#724, kyma-project/kyma#13625).
func TestABareErrorRidesOutAQuarterOfAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, alwaysFailing)})
		<-l.host.started
		l.send(1)
		time.Sleep(time.Hour) // settle looks every second
		l.settle("f")
		calls := w.calls("1")
		if len(calls) != functions.DefaultAttempts {
			t.Fatalf("got %d attempts, want %d", len(calls), functions.DefaultAttempts)
		}
		wait := time.Second
		for i, c := range calls[1:] {
			got := c.at.Sub(calls[i].at)
			if got < wait*9/10 || got > wait*11/10 {
				t.Errorf("attempt %d: got %s after the one before, want %s with a tenth more or less", c.attempt.Number, got, wait)
			}
			wait = min(2*wait, 5*time.Minute)
		}
		if got := calls[len(calls)-1].at.Sub(calls[0].at); got < 15*time.Minute {
			t.Errorf("got the last attempt after %s, want a quarter of an hour at least", got)
		}
	})
}

// TestThreeAttemptsAreThree: a dead letter at the first failure although retries were set, or one attempt more or less than that
// (dapr/dapr#5511, ThreeDotsLabs/watermill#645, #580).
func TestThreeAttemptsAreThree(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"a bare error":  errNo,
		"a wrapped one": fmt.Errorf("booking: %w", errNo),
		"unavailable":   functions.Unavailable(errNo),
		"asked to wait": functions.RetryAfter(time.Second, errNo),
		"joined errors": errors.Join(errNo, errors.New("and no")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}}, forever,
					func(context.Context, string, functions.Attempt) error { return err })
				l := w.start(testTiming(), []functions.Function{fn})
				<-l.host.started
				l.send(1)
				l.settle("f")
				w.wantAttempts(t, "1", 1, 2, 3)
				if d := l.detail("f", "1"); d.Attempts != 3 || d.Cause != string(advisories.Exhausted) {
					t.Errorf("got %+v, want exhausted after 3 attempts", d.DeadLetter)
				}
			})
		})
	}
}
