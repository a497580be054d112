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

// TestAHoldPastItsLimitIsToldOnceAndDropsNothing by depth, and by age also in a life that did not see it begin.
func TestAHoldPastItsLimitIsToldOnceAndDropsNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit functions.HoldLimit
	}{{"depth", functions.HoldLimit{Depth: 2}}, {"age", functions.HoldLimit{Age: time.Hour}}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fn := func() []functions.Function {
					return []functions.Function{w.function(functions.Function{HoldLimit: c.limit}, forever, parkOnce("a1"))}
				}
				l := w.start(testTiming(), fn())
				<-l.host.started
				l.sendKeyed("a1", "a2", "a3", "b1")
				time.Sleep(50 * time.Minute)
				if got := l.limitsTold(); got != 0 {
					t.Errorf("within the limit: got %d audit entries, want none", got)
				}
				l.sendKeyed("a4")
				l.end()
				l = w.start(testTiming(), fn())
				time.Sleep(30 * time.Minute)
				if got := l.limitsTold(); got != 1 {
					t.Errorf("past the limit: got %d audit entries, want one", got)
				}
				if a := l.settle("f"); a.Held != 3 || a.Delivered != 1 {
					t.Errorf("got %+v, want 3 held and b1 delivered", a)
				}
				l.decideAbout("a1", client.Redrive)
				l.settle("f")
				wantOrder(t, "delivered", w.order(), "b1", "a1", "a2", "a3", "a4")
			})
		})
	}
}

// limitsTold counts the audit entries about hold limits.
func (l *life) limitsTold() (n int) {
	l.w.t.Helper()
	for next := uint64(1); ; {
		m, err := l.store.Next(context.Background(), streams.AuditStream, next, streams.AuditSubject("f"))
		if isNotFound(err) {
			return n
		}
		if err != nil {
			l.w.t.Fatal(err)
		}
		if m.Header.Get("ce-type") == "siding.hold_limit" {
			n++
		}
		next = m.Sequence + 1
	}
}
