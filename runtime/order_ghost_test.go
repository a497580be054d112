package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
)

// kill ends the process as kill -9 does, at a moment at which it does nothing.
func (l *life) kill() {
	l.w.t.Helper()
	copied := scratch(l.w.t)
	if err := copyDirectory(copied, l.w.dir); err != nil {
		l.w.t.Fatal(err)
	}
	l.end()
	l.w.dir = copied
}

// TestAReplacedCopyThatComesBackAfterAKillEndsNothingTwice: the store removes the copy that another one replaced by its limit for each subject, which leaves no
// mark on the disk. When the newer one has been deleted and the process is killed, the older one stands again.
func TestAReplacedCopyThatComesBackAfterAKillEndsNothingTwice(t *testing.T) {
	for _, c := range []struct {
		action string
		want   client.FunctionAccount
	}{
		{client.Discard, client.FunctionAccount{Accepted: 3, Delivered: 1, Discarded: 1, Parked: 1}},
		{client.Redrive, client.FunctionAccount{Accepted: 3, Delivered: 2, Parked: 1}},
	} {
		t.Run(c.action, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				parks := func(_ context.Context, id string, a functions.Attempt) error {
					if a.Cycle == 0 && id != "a2" {
						return functions.Park(errNo)
					}
					return nil
				}
				fn := func() []functions.Function {
					return []functions.Function{w.function(functions.Function{}, forever, parks)}
				}
				l := w.start(testTiming(), fn())
				<-l.host.started
				l.sendKeyed("b1", "a1", "a2") // b1 stays: a block that becomes empty would be written down
				l.settle("f")
				l.decideAbout("a1", client.Release) // replaces the dead letter
				l.settle("f")
				l.decideAbout("a1", c.action)
				l.settle("f")
				time.Sleep(time.Second)
				l.kill()
				l = w.start(testTiming(), fn())
				<-l.host.started
				l.wantAccount("after a kill", l.settle("f"), c.want)
				if letters := l.letters("f"); len(letters) != 1 || letters["b1"].Subject == "" {
					t.Errorf("got %d dead letters, want b1 alone", len(letters))
				}
			})
		})
	}
}
