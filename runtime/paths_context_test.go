package runtime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
)

// Two attempts at once must not see each other's event or context (cloudevents/sdk-go#1224), and a context must live until its
// handler returns, also when whoever published the event has long gone (cloudevents/sdk-go#691).
func TestEachAttemptHasItsOwnContextWhichLivesUntilItReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{Concurrency: 8, Timeout: time.Minute}, forever,
			func(ctx context.Context, id string, a functions.Attempt) error {
				deadline, _ := ctx.Deadline()
				began := time.Now()
				time.Sleep(30 * time.Second)
				switch {
				case ctx.Err() != nil:
					return functions.Park(context.Cause(ctx))
				case functions.EventFrom(ctx).ID() != id || functions.AttemptFrom(ctx) != a:
					return functions.Park(errors.New("another attempt's event"))
				case !deadline.Equal(began.Add(time.Minute)):
					return functions.Park(errors.New("another attempt's deadline"))
				}
				return nil
			})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
			l.sendEvent(newEvent(id))
			time.Sleep(time.Second) // so that their deadlines differ
		}
		if a := l.settle("f"); a.Delivered != 8 || a.Parked != 0 {
			t.Errorf("got %+v and %v, want 8 delivered", a, l.letters("f"))
		}
	})
}
