package runtime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
)

func TestAttemptsComeAtExactlyTheTimesOfTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 5, Backoff: functions.Exponential(time.Second, time.Minute)}},
			func() bool { return true }, func(context.Context, string, functions.Attempt) error { return errors.New("no") })
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.send(1)
		a := l.settle("f")
		if a.Parked != 1 {
			t.Errorf("got %+v, want one parked", a)
		}
		calls := w.calls("1")
		if len(calls) != 5 {
			t.Fatalf("got %d attempts, want 5: %+v %+v", len(calls), calls, l.letters("f"))
		}
		for i, want := range []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second} {
			if got := calls[i].at.Sub(calls[0].at); got != want {
				t.Errorf("attempt %d: got %s, want %s", i+1, got, want)
			}
		}
	})
}
