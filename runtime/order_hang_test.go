package runtime

import (
	"context"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// A handler that never returns held its key for ever (restatedev/restate#2362).
func TestAHandlerThatHangsKeepsItsLaneUntilItReturns(t *testing.T) {
	back := make(chan struct{})
	var once bool
	ordered(t, functions.Function{Timeout: time.Second}, func(_ context.Context, id string, a functions.Attempt) error {
		if id == "a1" && !once {
			once = true
			<-back
		}
		return nil
	}, func(t *testing.T, w *world, l *life) {
		back = make(chan struct{}) // of the bubble
		l.sendKeyed("a1", "a2")
		time.Sleep(time.Second)
		l.sendKeyed("b1")
		time.Sleep(time.Minute)
		if a := l.account("f"); a.Parked != 1 || a.Delivered != 1 {
			t.Fatalf("got %+v, want a1 parked as stuck and b1 delivered", a)
		}
		l.decideAbout("a1", client.Redrive)
		time.Sleep(time.Minute)
		if n := len(w.calls("a1")); n != 1 {
			t.Errorf("a1 was attempted %d times while its first attempt still ran, want 1", n)
		}
		close(back)
		l.settle("f")
		wantOrder(t, "attempted", w.began(), "a1", "b1", "a1", "a2")
	})
}

// TestAnOwnerThatStartsAgainWaitsForTheHandlersOfTheOneBefore: a consumer was deleted, so the owner starts again in the same process, while a
// handler of the one before has not returned.
func TestAnOwnerThatStartsAgainWaitsForTheHandlersOfTheOneBefore(t *testing.T) {
	var back chan struct{}
	first := true
	ordered(t, functions.Function{Timeout: time.Hour}, func(_ context.Context, id string, _ functions.Attempt) error {
		if id == "a1" && first {
			first = false
			<-back
		}
		return nil
	}, func(t *testing.T, w *world, l *life) {
		back = make(chan struct{})
		l.sendKeyed("a1", "a2")
		time.Sleep(time.Second)
		l.sendKeyed("b1")
		time.Sleep(time.Second)
		if err := l.store.JetStream().DeleteConsumer(t.Context(), streams.EventsStream, "f"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		l.sendKeyed("b2")
		time.Sleep(5 * time.Minute)
		wantOrder(t, "attempted while it hangs", w.began(), "a1", "b1", "b2")
		close(back)
		l.settle("f")
		wantOrder(t, "attempted", w.began(), "a1", "b1", "b2", "a1", "a2")
	})
}
