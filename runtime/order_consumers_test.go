package runtime

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// TestAConsumerDeletedWhileLanesHoldKeepsTheirOrder: the owner starts again in the process, and finds its lanes where they were.
func TestAConsumerDeletedWhileLanesHoldKeepsTheirOrder(t *testing.T) {
	for _, stream := range ownConsumers {
		for _, between := range []bool{false, true} {
			name := stream
			if between {
				name += ", between two lives"
			}
			t.Run(name, func(t *testing.T) {
				lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
					fn, s := functions.Function{Retry: every(10 * time.Minute), Timeout: time.Hour}, both(parkOnce("a2"), both(failTimes("c1", 1), slowly("e1", 5*time.Minute)))
					l := start(fn, s)
					l.sendKeyed("a1", "a2", "a3", "c1", "b1", "a4", "c2")
					time.Sleep(time.Second)
					if between {
						l.end()
						l = w.open()
					}
					if err := l.store.JetStream().DeleteConsumer(t.Context(), stream, "f"); err != nil {
						t.Fatal(err)
					}
					l.sendKeyed("a5", "c3", "b2")
					if between {
						l.end()
						l = start(fn, s)
					}
					time.Sleep(5 * time.Minute)
					if stream != streams.RetryStream && !between {
						wantOrder(t, "within minutes", w.orderOf("b"), "b1", "b2")
					}
					l.await("f", "rest", func(a client.FunctionAccount) bool { return a.Parked == 1 && a.Held == 3 && a.Delivered == 6 })
					l.decideAbout("a2", client.Redrive)
					l.sendKeyed("a6")
					if a := l.settle("f"); a.Delivered != 11 {
						t.Errorf("got %+v, want 11 delivered", a)
					}
					wantOrder(t, "key a", w.orderOf("a"), "a1", "a2", "a3", "a4", "a5", "a6")
					wantOrder(t, "key b", w.orderOf("b"), "b1", "b2")
					wantOrder(t, "key c", w.orderOf("c"), "c1", "c2", "c3")
					if calls := w.calls("c1"); len(calls) != 2 || calls[1].at.Sub(calls[0].at) != 10*time.Minute {
						t.Errorf("c1 was attempted %d times, want the second one 10 min after the first", len(calls))
					}
				})
			})
		}
	}
}

// TestAnOwnerThatStartsAgainDuringADecisionGoesOnWithIt: a consumer is deleted while a decision cannot be stored. What was redriven runs
// meanwhile; its end waits for the audit of the decision, and the owner that starts again, which does not know of it, makes the attempt once more.
func TestAnOwnerThatStartsAgainDuringADecisionGoesOnWithIt(t *testing.T) {
	for action, tc := range map[string]struct{ meanwhile, delivered []string }{
		streams.ActionRedrive: {[]string{"a1", "a1", "a1", "a2", "a3"}, []string{"a1", "a1", "a2", "a3"}},
		streams.ActionDiscard: {[]string{"a1"}, []string{"a2", "a3"}}, streams.ActionRelease: {[]string{"a1"}, []string{"a2", "a3"}},
	} {
		t.Run(action, func(t *testing.T) {
			ordered(t, functions.Function{}, parkOnce("a1"), func(t *testing.T, w *world, l *life) {
				l.sendKeyed("a1", "a2", "a3")
				l.settle("f")
				lift := l.limit(streams.AuditStream)
				l.state(1, streams.Decision{Action: action})
				time.Sleep(time.Minute)
				if err := l.store.JetStream().DeleteConsumer(t.Context(), streams.RetryStream, "f"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				wantOrder(t, "attempted while it cannot be stored", w.began(), tc.meanwhile...)
				lift()
				time.Sleep(10 * time.Minute)
				l.settle("f")
				wantOrder(t, "delivered", w.order(), tc.delivered...)
				audit := l.audited("f", 1)
				if n := len(slices.DeleteFunc(audit, func(s string) bool { return s == "parked by attempt" })); n != 1 {
					t.Errorf("audit: got %q, want the decision once", l.audited("f", 1))
				}
			})
		})
	}
}

// slowly makes the attempts of one event last.
func slowly(id string, d time.Duration) script {
	return func(ctx context.Context, got string, _ functions.Attempt) error {
		if got == id {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
}
