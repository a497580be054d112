package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
)

// TestRateLimitsAttemptsWhateverTheyAre: 100 events of eight keys, of which the first of each key fails once: 108 attempts begin a tenth of a second apart.
func TestRateLimitsAttemptsWhateverTheyAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := functions.Function{Rate: 10, Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}}
		l := w.start(testTiming(), []functions.Function{w.function(fn, forever, func(_ context.Context, id string, a functions.Attempt) error {
			if id[1:] == "1" && a.Number == 1 {
				return errNo
			}
			return nil
		})})
		<-l.host.started
		const keys = "abcdefgh"
		sent := time.Now()
		for i := range 100 {
			l.fillKeyed("t", string(keys[i%8]), 1+i/8, 1+i/8)
		}
		time.Sleep(5 * time.Second)
		if got, want := l.waitingFor("f"), "rate 10/s"; got != want {
			t.Errorf("got it waiting for %q, want %q", got, want)
		}
		a := l.settle("f")
		calls := w.calls("")
		if a.Delivered != 100 || len(calls) != 108 {
			t.Fatalf("got %d attempts and %+v, want 108 and all delivered", len(calls), a)
		}
		for i, c := range calls[1:] {
			if pause := c.at.Sub(calls[i].at); pause < 100*time.Millisecond {
				t.Errorf("attempt of %s: got it %s after the one before", c.event, pause)
			}
		}
		if took := calls[107].at.Sub(sent); took < 10700*time.Millisecond || took > 11500*time.Millisecond {
			t.Errorf("got the last attempt after %s, want about 10.7s", took)
		}
		for _, key := range keys {
			for i, id := range w.orderOf(string(key)) {
				if want := string(key) + string(rune('1'+i)); i < 9 && id != want {
					t.Errorf("key %c: got %s where %s was next", key, id, want)
				}
			}
		}
		if got := l.waitingFor("f"); got != "" {
			t.Errorf("with nothing left: got it waiting for %q", got)
		}
	})
}

// TestRateLeavesOtherFunctionsAlone: a slow function's events wait, those of another one do not.
func TestRateLeavesOtherFunctionsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{
			w.function(functions.Function{Rate: 0.1}, forever, good), w.function(functions.Function{Name: "other"}, forever, good),
		})
		<-l.host.started
		l.send(10)
		time.Sleep(5 * time.Second)
		if slow, other := l.account("f"), l.account("other"); slow.Delivered != 1 || other.Delivered != 10 {
			t.Errorf("got %d and %d delivered after 5 s, want 1 and 10", slow.Delivered, other.Delivered)
		}
		l.settle("f")
	})
}
