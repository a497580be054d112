package runtime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// TestARulesAttemptsAndBackoffHoldOverARestart has a rule that is less patient than the policy, so that JetStream would still deliver what the
// rule calls exhausted, and waits longer than the policy ever does.
func TestARulesAttemptsAndBackoffHoldOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rules := []functions.Rule{
			functions.OnText("deadlock", "").WithAttempts(2).WithBackoff(functions.Delays(time.Hour)),
			functions.OnText("no such policy", functions.ClassPermanent),
			functions.OnText("refused", functions.ClassUnavailable).WithAttempts(1),
		}
		texts := map[string]string{"1": "deadlock", "2": "no such policy", "3": "refused", "4": "else"}
		fn := func() functions.Function {
			return w.function(functions.Function{Retry: functions.Retry{Attempts: 5, Backoff: functions.Delays(time.Second)}, Rules: rules}, forever,
				func(_ context.Context, id string, _ functions.Attempt) error { return errors.New(texts[id]) })
		}
		l := w.start(testTiming(), []functions.Function{fn()})
		<-l.host.started
		l.send(4)
		time.Sleep(30 * time.Minute)
		l.end()

		l = w.start(testTiming(), []functions.Function{fn()})
		if a := l.settle("f"); a.Parked != 4 {
			t.Fatalf("got %+v, want all parked", a)
		}
		letters := l.letters("f")
		for id, want := range map[string]struct {
			attempts int
			lasts    time.Duration
			cause    advisories.Cause
			class    functions.Class
		}{
			"1": {2, time.Hour, advisories.Exhausted, functions.ClassTransient},
			"2": {1, 0, advisories.Permanent, functions.ClassPermanent},
			"3": {1, 0, advisories.Exhausted, functions.ClassUnavailable},
			"4": {5, 4 * time.Second, advisories.Exhausted, functions.ClassTransient},
		} {
			calls := w.calls(id)
			if len(calls) != want.attempts {
				t.Fatalf("%s: got %d attempts, want %d", texts[id], len(calls), want.attempts)
			}
			if got := calls[len(calls)-1].at.Sub(calls[0].at); got != want.lasts {
				t.Errorf("%s: got the last attempt after %s, want %s", texts[id], got, want.lasts)
			}
			r, err := advisories.ReadReport(letters[id])
			if err != nil || r.Cause != want.cause || r.Attempts != want.attempts || r.Class != string(want.class) {
				t.Errorf("%s: got %+v, %v, want %s of class %s after %d attempts", texts[id], r, err, want.cause, want.class, want.attempts)
			}
		}
		if n := w.calls("1")[1].life; n == w.calls("1")[0].life {
			t.Error("got both attempts in one process, want a restart between them")
		}
		if left := l.count(streams.RetryStream); left != 0 {
			t.Errorf("got %d copies left in RETRY, want none", left)
		}
	})
}
