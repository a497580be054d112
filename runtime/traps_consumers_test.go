package runtime

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// ownConsumers are the streams on which the owner of a function has a consumer of the function's name.
var ownConsumers = []string{streams.EventsStream, streams.RetryStream, streams.DecisionsStream}

// damage changes the state of a consumer on the disk.
func (w *world) damage(stream, consumer string, change func([]byte) []byte) {
	w.t.Helper()
	path := filepath.Join(w.dir, "store", "jetstream", "$G", "streams", stream, "obs", consumer, "o.dat")
	state, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(state), 0o600)
	}
	if err != nil {
		w.t.Fatalf("damage %s: %v", path, err)
	}
}

// unsettledLife leaves behind what a life can: events done below and above the ledger's floor, one that was interrupted, one on its way
// through RETRY, dead letters, one of them with a decision that nobody has applied.
func unsettledLife(t *testing.T, w *world) {
	t.Helper()
	l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: thrice(), Timeout: time.Hour}, always, scripted)})
	<-l.host.started
	for i := range 10 {
		l.sendIDs("done-" + strconv.Itoa(i))
	}
	l.sendIDs("hang-1", "twice-1", "park-1", "never-1", "park-2", "discard-1")
	for i := 10; i < 30; i++ {
		l.sendIDs("done-" + strconv.Itoa(i))
	}
	time.Sleep(2 * time.Minute) // its delays; an account every second of them would cost more than everything else here
	l.await("f", "never-1 is parked", func(a client.FunctionAccount) bool { return a.Parked == 3 })
	if floor := l.host.owner("f").ledger.Floor(); floor != 10 {
		t.Fatalf("got floor %d, want 10, below the event that hangs", floor)
	}
	l.sendIDs("twice-2")
	time.Sleep(time.Second)
	l.end()

	l = w.open()
	ref, err := l.store.Find(t.Context(), streams.InDeadLetters, "f", 15)
	if err == nil {
		_, err = l.store.Decide(t.Context(), ref, streams.Decision{Action: streams.ActionRedrive, By: "test", At: time.Now().UTC()})
	}
	if err != nil {
		t.Fatalf("decide: %v", err)
	}
	l.end()
}

// checkUnsettledLife starts another life and checks what became of all that. The events done-<n> from n = repeated on may be handled
// once more.
func checkUnsettledLife(t *testing.T, w *world, repeated int) {
	t.Helper()
	l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: thrice(), Timeout: time.Hour}, always,
		func(ctx context.Context, id string, a functions.Attempt) error {
			if id == "hang-1" {
				return nil
			}
			return scripted(ctx, id, a)
		})})
	time.Sleep(3 * time.Minute)
	a := l.settle("f")
	if a.Accepted != 37 || a.Delivered != 34 || a.Parked != 2 || a.Discarded != 1 {
		t.Errorf("got %+v, want 37 accepted: 34 delivered, 2 parked, 1 discarded", a)
	}
	for i := range 30 {
		id := "done-" + strconv.Itoa(i)
		if got := w.successes(id); got != 1 && (got != 2 || i < repeated) {
			t.Errorf("event %s: got %d times done, want 1", id, got)
		}
	}
	for id, want := range map[string]int{"hang-1": 2, "twice-1": 3, "twice-2": 3, "never-1": 3, "park-1": 1, "park-2": 2, "discard-1": 1} {
		if got := len(w.calls(id)); got != want {
			t.Errorf("event %s: got %d attempts, want %d", id, got, want)
		}
	}
	if calls := w.calls("hang-1"); len(calls) == 2 && calls[1].attempt.Number != 1 {
		t.Errorf("the event that was interrupted: got attempt %d, want 1 again, because the first one was not charged", calls[1].attempt.Number)
	}
	l.end()
}

// TestADamagedConsumerLosesNothing zeroes or cuts the file of a consumer, as a power loss may leave it. JetStream neither starts such
// a consumer nor lets anybody make it again.
func TestADamagedConsumerLosesNothing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func([]byte) []byte
	}{
		{"zeroed", func(b []byte) []byte { return make([]byte, len(b)) }},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }},
	} {
		for _, stream := range ownConsumers {
			t.Run(stream+" "+tc.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					unsettledLife(t, w)
					w.damage(stream, "f", tc.change)
					probe := w.open()
					if _, err := probe.store.JetStream().Consumer(t.Context(), stream, "f"); err == nil {
						t.Errorf("the consumer on %s: got it still there, want none", stream)
					}
					probe.end()
					checkUnsettledLife(t, w, 30)
				})
			})
		}
	}
}

func TestAConsumerDeletedBetweenLivesLosesNothing(t *testing.T) {
	for _, stream := range ownConsumers {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				unsettledLife(t, w)
				l := w.open()
				if err := l.store.JetStream().DeleteConsumer(t.Context(), stream, "f"); err != nil {
					t.Fatalf("delete: %v", err)
				}
				l.end()
				checkUnsettledLife(t, w, 30)
			})
		})
	}
}

func TestAConsumerDeletedWhileRunningIsMadeAgainWhereItWas(t *testing.T) {
	for _, stream := range append(ownConsumers, streams.AdvisoriesStream) {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				timing := testTiming()
				timing.advisory, timing.sweep = 0, 0 // so that an advisory that nobody reads parks nothing
				l := w.start(timing, []functions.Function{w.function(functions.Function{Retry: thrice()}, always, scripted)})
				<-l.host.started
				l.sendIDs("done-1", "park-1", "twice-1", "never-1", "done-2")
				time.Sleep(30 * time.Second)
				consumer := "f"
				if stream == streams.AdvisoriesStream {
					consumer = streams.AdvisoriesConsumer
				}
				if err := l.store.JetStream().DeleteConsumer(t.Context(), stream, consumer); err != nil {
					t.Fatalf("delete: %v", err)
				}
				deleted := time.Now()
				l.sendIDs("done-3", "twice-2")
				a := l.await("f", "rest", func(a client.FunctionAccount) bool { return a.Holds && a.Delivered == 5 && a.Parked == 2 })
				if took := time.Since(deleted); took > 3*time.Minute {
					t.Errorf("got rest after %s, want it within the delays", took)
				}
				l.decide(client.Redrive, "f", 2)
				if a = l.settle("f"); a.Delivered != 6 || a.Parked != 1 {
					t.Errorf("got %+v, want 6 delivered and 1 parked", a)
				}
				for id, want := range map[string]int{"done-1": 1, "done-2": 1, "done-3": 1, "park-1": 2, "twice-1": 3, "twice-2": 3, "never-1": 3} {
					if got := len(w.calls(id)); got != want {
						t.Errorf("event %s: got %d attempts, want %d", id, got, want)
					}
				}
				for _, id := range []string{"twice-1", "twice-2"} {
					for i, c := range w.calls(id) {
						if got := c.at.Sub(w.calls(id)[0].at); got != time.Duration(i)*time.Minute {
							t.Errorf("event %s: attempt %d: got it after %s, want %d min", id, i+1, got, i)
						}
					}
				}
			})
		})
	}
}

// TestADeliveryLostOnItsWayIsAskedForAgain lets another client of the same consumer take a delivery away.
func TestADeliveryLostOnItsWayIsAskedForAgain(t *testing.T) {
	for _, tc := range []struct {
		name   string
		wait   time.Duration // between the thief's request and the first event
		events int
		lost   string
	}{
		// The thief's request is behind the owner's, until that one expires and is made again.
		{name: "the first one", wait: 6 * time.Minute, events: 5, lost: "1"},
		{name: "one in the middle", wait: time.Second, events: 5, lost: "2"},
		{name: "the last one", wait: time.Second, events: 2, lost: "2"},
		{name: "the only one", wait: 6 * time.Minute, events: 1, lost: "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Concurrency: 1}, always, scripted)})
				<-l.host.started
				time.Sleep(time.Second)
				c, err := l.store.JetStream().Consumer(t.Context(), streams.EventsStream, "f")
				if err != nil {
					t.Fatalf("consumer: %v", err)
				}
				stolen := make(chan string, 1)
				go func() {
					defer close(stolen)
					batch, err := c.Fetch(1, jetstream.FetchMaxWait(time.Hour))
					if err != nil {
						return
					}
					for m := range batch.Messages() {
						stolen <- m.Headers().Get("ce-id")
					}
				}()
				time.Sleep(tc.wait)
				l.send(tc.events)
				if got := <-stolen; got != tc.lost {
					t.Fatalf("stolen: got event %q, want %q", got, tc.lost)
				}
				// At the latest the lost one expires and shows the gap.
				a := l.await("f", "all delivered", func(a client.FunctionAccount) bool { return a.Delivered == int64(tc.events) })
				if !a.Holds {
					t.Errorf("got %+v, want an account that holds", a)
				}
				for i := 1; i <= tc.events; i++ {
					if got := len(w.calls(strconv.Itoa(i))); got != 1 {
						t.Errorf("event %d: got %d attempts, want 1", i, got)
					}
				}
				for _, c := range w.calls("") {
					if late := c.at.Sub(w.calls("")[0].at); late > l.store.AckWait()+time.Second {
						t.Errorf("event %s: got it %s after the first, want it at the latest when the lost one expires", c.event, late)
					}
				}
				l.send(tc.events) // duplicates
				l.sendIDs("after")
				l.await("f", "one more", func(a client.FunctionAccount) bool { return a.Delivered == int64(tc.events)+1 })
				time.Sleep(time.Second)
				l.nothingPending()
			})
		})
	}
}

// TestWhatStandsInRetryIsNotKeptOpenAtTheSource: when the source stream brings an event again that waits in RETRY, it is acknowledged
// there and then, and does not come back every AckWait for as long as it waits.
func TestWhatStandsInRetryIsNotKeptOpenAtTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fns := func() []functions.Function {
			return []functions.Function{w.function(functions.Function{Timeout: time.Hour, Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Hour)}}, always, scripted)}
		}
		l := w.start(testTiming(), fns())
		<-l.host.started
		l.sendIDs("hang-1", "never-1")
		time.Sleep(time.Second)
		l.end()
		l = w.open()
		if err := l.store.JetStream().DeleteConsumer(t.Context(), streams.EventsStream, "f"); err != nil {
			t.Fatalf("delete: %v", err)
		}
		l.end()
		l = w.start(testTiming(), fns())
		<-l.host.started
		time.Sleep(time.Minute)
		c, err := l.store.JetStream().Consumer(t.Context(), streams.EventsStream, "f")
		if err != nil {
			t.Fatalf("consumer: %v", err)
		}
		if got := c.CachedInfo().NumAckPending; got != 1 {
			t.Errorf("got %d events unacknowledged at the source, want 1, the one that hangs", got)
		}
	})
}
