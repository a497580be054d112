package runtime

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// hanging is a handler of a1 that ignores its timeout in its first attempt, until it is let go.
type hanging struct {
	back chan struct{}
	once sync.Once
}

func (h *hanging) letGo() { h.once.Do(func() { close(h.back) }) }

func (h *hanging) script(_ context.Context, id string, a functions.Attempt) error {
	if id == "a1" && a.Cycle == 0 && a.Number == 1 {
		<-h.back
	}
	return nil
}

// casesOfHanging are what a decision about a hanging event's dead letter is to come to.
var casesOfHanging = []struct {
	action  string
	tail    bool
	want    []string // attempted after it has returned
	parked  int64
	discard int64
}{
	{client.Redrive, false, []string{"a1", "a2", "a3", "a4"}, 0, 0},
	{client.Discard, false, []string{"a2", "a3", "a4"}, 0, 1},
	{client.Discard, true, []string{"a4"}, 0, 3},
	{client.Release, false, []string{"a2", "a3", "a4"}, 1, 0},
}

// TestADecisionAboutAHangingEventWaitsForItsHandler lets the handler return at each stage of the decision: nothing of its key starts before.
func TestADecisionAboutAHangingEventWaitsForItsHandler(t *testing.T) {
	const never = 1000
	for _, c := range casesOfHanging {
		for _, stage := range []int{0, 1, 2, 3, 4, 6, 8, 10, never} {
			t.Run(fmt.Sprintf("%s, tail %v, stage %d", c.action, c.tail, stage), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w, h := newWorld(t), &hanging{back: make(chan struct{})}
					defer h.letGo()
					var deciding atomic.Bool
					var ops atomic.Int64
					gate := func(op string) {
						if deciding.Load() && !strings.HasPrefix(op, "ack") {
							if ops.Add(1) == int64(stage) {
								h.letGo()
								time.Sleep(time.Millisecond) // it returns before the next operation
							}
						}
					}
					l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Timeout: time.Second}, forever, h.script)}, streams.WithGate(gate))
					<-l.host.started
					outside := &life{w: w, store: l.store.Ungated()}
					outside.sendKeyed("a1", "a2", "a3", "b1")
					time.Sleep(time.Minute)
					hangs := func(when string, of ...string) {
						t.Helper()
						wantOrder(t, "attempted "+when, w.beganOf("a"), of...)
						wantOrder(t, "another key", w.beganOf("b")[:1], "b1")
					}
					hangs("while it hangs", "a1")
					if a := l.account("f"); a.Parked != 1 || a.Held != 2 {
						t.Errorf("while it hangs: got %+v, want it parked and 2 held", a)
					}
					if stage == 0 {
						h.letGo()
						time.Sleep(time.Second)
						hangs("after it has returned", "a1")
					}
					if err := l.host.owner("f").call(t.Context(), func() { deciding.Store(true) }); err != nil {
						t.Fatal(err)
					}
					outside.state(1, streams.Decision{Action: c.action, Tail: c.tail, Through: 4})
					time.Sleep(10 * time.Second)
					outside.sendKeyed("a4", "b2")
					time.Sleep(10 * time.Minute)
					if stage == never {
						hangs("while it hangs and is decided about", "a1")
						h.letGo()
						time.Sleep(time.Minute)
					}
					a := l.settle("f")
					if a.Parked != c.parked || a.Discarded != c.discard || a.Held != 0 {
						t.Errorf("got %+v, want %d parked and %d discarded", a, c.parked, c.discard)
					}
					hangs("in the end", append([]string{"a1"}, c.want...)...)
					wantOrder(t, "another key", w.beganOf("b"), "b1", "b2")
				})
			})
		}
	}
}

// beganOf is the ids of the events of one key that were attempted, in order.
func (w *world) beganOf(key string) []string {
	ids := []string{}
	for _, id := range w.began() {
		if id[:1] == key {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestAHangingHandlerLeavesNoTraceInTheNextLife: a decision was applied while it hung, and the process died before it returned.
func TestAHangingHandlerLeavesNoTraceInTheNextLife(t *testing.T) {
	for _, c := range casesOfHanging {
		t.Run(fmt.Sprintf("%s, tail %v", c.action, c.tail), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, h := newWorld(t), &hanging{back: make(chan struct{})}
				m := newMortal(w, 0, true)
				l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Timeout: time.Second}, m.alive, h.script)}, streams.WithGate(m.gate))
				<-l.host.started
				outside := &life{w: w, store: l.store.Ungated()}
				outside.sendKeyed("a1", "a2", "a3")
				time.Sleep(time.Minute)
				outside.state(1, streams.Decision{Action: c.action, Tail: c.tail, Through: 3})
				time.Sleep(time.Minute)
				m.kill()
				h.letGo()
				l.bury(m)
				l = w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, h.script)})
				l.sendKeyed("a4")
				if a := l.settle("f"); a.Parked != c.parked || a.Discarded != c.discard || a.Held != 0 {
					t.Errorf("got %+v, want %d parked and %d discarded", a, c.parked, c.discard)
				}
				wantOrder(t, "delivered", w.order(), c.want...)
			})
		})
	}
}
