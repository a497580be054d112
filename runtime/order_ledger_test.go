package runtime

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// TestALostLedgerKeepsTheOrderOfEachKey: what stands in HELD, in RETRY and among the dead letters says so itself. Nothing of it is handled in
// another order or stands twice; only what was done on the hot path and lies above the consumer's ack floor comes again.
func TestALostLedgerKeepsTheOrderOfEachKey(t *testing.T) {
	for _, consumerToo := range []bool{false, true} {
		t.Run("the consumer lost too "+strconv.FormatBool(consumerToo), func(t *testing.T) {
			lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
				f := functions.Function{Retry: every(time.Hour)}
				l := start(f, both(parkEach("a2", "d1"), failTimes("c1", 1)))
				l.sendKeyed("a1", "b1", "a2", "a3", "c1", "b2", "a4", "c2", "d1", "d2", "d3")
				time.Sleep(time.Minute)
				l.decideAbout("d1", client.Redrive) // and d2 and d3 go by RETRY
				l.sendKeyed("b3")
				time.Sleep(time.Minute)
				before := l.account("f")
				l.end()
				w.loseLedger()
				if consumerToo {
					l = w.open()
					if err := l.store.JetStream().DeleteConsumer(t.Context(), streams.EventsStream, "f"); err != nil {
						t.Fatal(err)
					}
					l.end()
				}
				calls := len(w.began())
				l = start(f, both(parkOnce("a2"), failTimes("c1", 1)))
				time.Sleep(time.Minute)
				if a := l.account("f"); a.Held != before.Held || a.Parked != 1 || a.Retrying != 1 || a.Delivered != before.Delivered || !a.Holds {
					t.Errorf("got %+v, want it as before: %+v", a, before)
				}
				for _, id := range w.began()[calls:] {
					if id != "a1" && id != "b1" && id != "b2" && id != "b3" {
						t.Errorf("%s was attempted again, want only what was done on the hot path", id)
					}
				}
				l.decideAbout("a2", client.Redrive)
				l.sendKeyed("a5", "c3", "d4")
				time.Sleep(2 * time.Hour)
				l.settle("f")
				for key, want := range map[string][]string{
					"a": {"a1", "a2", "a3", "a4", "a5"}, "b": {"b1", "b2", "b3"}, "c": {"c1", "c2", "c3"}, "d": {"d1", "d2", "d3", "d4"},
				} {
					got := w.orderOf(key)
					if consumerToo && (key == "a" || key == "b") {
						n := len(want) // the hot path's come again, in order
						if key == "a" {
							n = 1
						}
						wantOrder(t, "key "+key+" at first", got[:n], want[:n]...)
						got = got[n:]
					}
					wantOrder(t, "key "+key, got, want...)
				}
			})
		})
	}
}

// TestALedgerLostInTheMiddleOfAHoldDoublesNothing: a process dies at some points of holds and releases, and its ledger is lost with it. A released event
// runs while it is being deleted in HELD: what ran at the kill is made once more.
func TestALedgerLostInTheMiddleOfAHoldDoublesNothing(t *testing.T) {
	for _, op := range []string{"record held", "place held", "place retry", "delete SIDING_HELD"} {
		for n := 1; n <= 4; n++ {
			t.Run(op+" "+strconv.Itoa(n), func(t *testing.T) {
				lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
					m := newMortal(w, 0, true)
					l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, m.alive, parkOnce("a1"))}, streams.WithGate(m.dies(op, n)))
					outside := &life{w: w, store: l.store.Ungated()}
					<-l.host.started
					outside.sendKeyed("a1", "a2", "a3")
					time.Sleep(time.Second)
					if m.alive() {
						outside.state(1, streams.Decision{Action: streams.ActionRedrive})
					}
					<-m.killed
					l.bury(m)
					w.loseLedger()
					l = start(functions.Function{}, parkOnce("a1"))
					if a := l.settle("f"); a.Parked == 1 {
						if a.Held != 2 {
							t.Errorf("got %+v, want 2 held", a)
						}
						l.decideAbout("a1", client.Redrive)
					}
					if a := l.settle("f"); a.Delivered != 3 {
						t.Errorf("got %+v, want 3 delivered", a)
					}
					delivered := w.order()
					if op == "delete SIDING_HELD" {
						if len(delivered) > 4 {
							t.Errorf("got %q delivered, want one of them twice at most", delivered)
						}
						delivered = slices.Compact(delivered)
					}
					wantOrder(t, "delivered", delivered, "a1", "a2", "a3")
					time.Sleep(time.Minute) // an advisory is acknowledged a moment later
					l.nothingPending()
				})
			})
		}
	}
}

// TestWhatEndedIsNotHeldAgainWithoutItsLedger: an event passed a dead letter that an operator had released, and that one waits in RETRY now. Without
// its mark the event comes again, and its lane is blocked, but its records say that it was delivered.
func TestWhatEndedIsNotHeldAgainWithoutItsLedger(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		fn := functions.Function{Retry: every(time.Hour)}
		s := func(ctx context.Context, id string, a functions.Attempt) error {
			if id == "a1" && a.Cycle == 1 && a.Number == 1 {
				return errNo
			}
			return parkOnce("a1")(ctx, id, a)
		}
		l := start(fn, s)
		l.sendKeyed("a1", "a2")
		l.settle("f")
		l.decideAbout("a1", client.Release)
		l.settle("f")
		l.decideAbout("a1", client.Redrive)
		time.Sleep(time.Second)
		l.end()
		w.loseLedger()
		l = w.open()
		if err := l.store.JetStream().DeleteConsumer(t.Context(), streams.EventsStream, "f"); err != nil {
			t.Fatal(err)
		}
		l.end()
		l = start(fn, s)
		l.sendKeyed("a3")
		time.Sleep(time.Minute)
		if a := l.account("f"); a.Held != 1 || a.Retrying != 1 || a.Delivered != 1 {
			t.Errorf("got %+v, want a1 retrying, a2 delivered and a3 held", a)
		}
		time.Sleep(2 * time.Hour)
		wantOrder(t, "delivered", w.order(), "a2", "a1", "a3")
	})
}

// loseLedger removes the ledger of the function while nothing runs.
func (w *world) loseLedger() {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, "ledger", "f.ledger")); err != nil {
		w.t.Fatal(err)
	}
}

// both follows two scripts.
func both(a, b script) script {
	return func(ctx context.Context, id string, at functions.Attempt) error {
		if err := a(ctx, id, at); err != nil {
			return err
		}
		return b(ctx, id, at)
	}
}
