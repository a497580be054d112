package runtime

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// refused waits for a host that does not start, and returns why.
func (l *life) refused() error {
	l.w.t.Helper()
	select {
	case <-l.done:
	case <-time.After(time.Hour):
		l.w.t.Fatalf("got a host that runs, want one that is refused")
	}
	err := l.err
	l.err = nil
	return err
}

// replaceEvents deletes EVENTS while nothing runs; the next start makes it anew.
func (w *world) replaceEvents() {
	w.t.Helper()
	l := w.open()
	if err := l.store.JetStream().DeleteStream(context.Background(), streams.EventsStream); err != nil {
		w.t.Fatalf("delete: %v", err)
	}
	l.end()
	time.Sleep(time.Second) // a stream is told from its successor by when it was created
}

// TestAReplacedSourceIsRefusedWhileEventsOfTheOldOneStand: a sequence is the identity of an event, and means another one there.
func TestAReplacedSourceIsRefusedWhileEventsOfTheOldOneStand(t *testing.T) {
	for _, id := range []string{"park-1", "never-1"} { // a dead letter; an event in RETRY
		t.Run(id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fns := []functions.Function{w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Hour)}}, always, scripted)}
				l := w.start(testTiming(), fns)
				<-l.host.started
				l.sendIDs(id, "done-1")
				time.Sleep(time.Second)
				l.end()
				w.replaceEvents()

				l = w.start(testTiming(), fns)
				err := l.refused()
				for _, want := range []string{"function f", "stream EVENTS", "1 of its events stand", "hint: "} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want it to say %q", err, want)
					}
				}
				if got := len(w.calls("")); got != 2 {
					t.Errorf("got %d attempts, want none after the first life", got)
				}
				l.end()
			})
		})
	}
}

// TestAReplacedSourceOfWhichNothingStandsStartsAnew sends other events under the sequences of old ones: nothing that is known about those
// may count for these, in this life or in the next.
func TestAReplacedSourceOfWhichNothingStandsStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fns := func() []functions.Function {
			return []functions.Function{w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second, 10*time.Minute)}, Timeout: time.Hour}, always, scripted)}
		}
		l := w.start(testTiming(), fns())
		<-l.host.started
		l.sendIDs("twice-1", "discard-1", "park-1", "done-1", "never-1")
		time.Sleep(15 * time.Minute)
		l.settle("f")
		l.decide(client.Redrive, "f", 3)
		l.decide(client.Discard, "f", 5)
		l.settle("f")
		l.end()
		w.replaceEvents()

		l = w.start(testTiming(), fns())
		<-l.host.started
		if a := l.account("f"); a.Accepted != 0 || !a.Holds {
			t.Errorf("anew: got %+v, want an empty account", a)
		}
		l.sendIDs("twice-2", "twice-3", "never-2", "hang-2", "park-2")
		time.Sleep(time.Minute)
		a := l.account("f")
		if a.Accepted != 5 || a.Delivering != 1 || a.Retrying != 3 || a.Parked != 1 || !a.Holds {
			t.Errorf("in the first life on the new stream: got %+v, want 1 delivering, 3 retrying, 1 parked", a)
		}
		l.end()

		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: thrice()}, always, func(ctx context.Context, id string, a functions.Attempt) error {
			if id == "hang-2" {
				return nil
			}
			return scripted(ctx, id, a)
		})})
		time.Sleep(20 * time.Minute)
		if a := l.settle("f"); a.Delivered != 3 || a.Parked != 2 || a.Accepted != 5 {
			t.Errorf("in the second life on the new stream: got %+v, want 3 delivered and 2 parked", a)
		}
		for id, want := range map[string]int{"twice-2": 3, "twice-3": 3, "never-2": 3, "park-2": 1, "hang-2": 2} {
			if got := len(w.calls(id)); got != want {
				t.Errorf("event %s: got %d attempts, want %d", id, got, want)
			}
		}
	})
}

// TestAnEventPurgedInHandIsFinished: JetStream says MSG_TERMINATED about whatever is in flight when it is purged or deleted
// (nats-io/nats-server#3957, nats-io/nats-server#5638). That is no verdict about the event.
func TestAnEventPurgedInHandIsFinished(t *testing.T) {
	for _, tc := range []struct {
		name   string
		remove func(jetstream.Stream) error
	}{
		{"purged", func(s jetstream.Stream) error { return s.Purge(context.Background()) }},
		{"deleted", func(s jetstream.Stream) error {
			for seq := uint64(2); seq <= 5; seq++ {
				if err := s.DeleteMsg(context.Background(), seq); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				open := make(chan struct{})
				l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: thrice(), Timeout: time.Hour, Concurrency: 8}, always,
					func(ctx context.Context, id string, a functions.Attempt) error {
						if strings.HasPrefix(id, "slow") && a.Number == 1 {
							<-open
						}
						return scripted(ctx, strings.TrimPrefix(id, "slow-"), a)
					})})
				<-l.host.started
				l.sendIDs("done-1", "slow-done-2", "slow-twice-3", "slow-park-4", "done-5", "done-6")
				time.Sleep(time.Second)
				st, err := l.store.JetStream().Stream(t.Context(), streams.EventsStream)
				if err != nil {
					t.Fatalf("stream: %v", err)
				}
				if err := tc.remove(st); err != nil {
					t.Fatalf("remove: %v", err)
				}
				time.Sleep(time.Minute)
				if a := l.account("f"); a.Delivering != 3 || !a.Holds {
					t.Errorf("removed in hand: got %+v, want 3 delivering", a)
				}
				close(open)
				l.sendIDs("done-7")
				time.Sleep(3 * time.Minute)
				a := l.settle("f")
				// What is done on the hot path and then removed leaves no trace to count.
				if a.Parked != 1 || a.Gone != 0 || len(a.Problems) != 0 {
					t.Errorf("got %+v, want 1 parked, by its handler", a)
				}
				for id, want := range map[string]int{"done-1": 1, "slow-done-2": 1, "slow-twice-3": 3, "slow-park-4": 1, "done-5": 1, "done-6": 1, "done-7": 1} {
					if got := len(w.calls(id)); got != want {
						t.Errorf("event %s: got %d attempts, want %d", id, got, want)
					}
				}
				time.Sleep(10 * time.Minute)
				if a := l.account("f"); !a.Holds || a.Gone != 0 {
					t.Errorf("later: got %+v, want no more of it", a)
				}
				l.nothingPending()
				l.end()
				l = w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: thrice()}, always, scripted)})
				if a := l.settle("f"); a.Parked != 1 || a.Gone != 0 {
					t.Errorf("after a restart: got %+v, want 1 parked", a)
				}
			})
		})
	}
}

// TestEventsPurgedBeforeTheyWereHandledAreNamed: what somebody took away before the function had seen it, or while a process had it that
// died, is an alarm.
func TestEventsPurgedBeforeTheyWereHandledAreNamed(t *testing.T) {
	purge := func(t *testing.T, l *life) {
		t.Helper()
		st, err := l.store.JetStream().Stream(t.Context(), streams.EventsStream)
		if err == nil {
			err = st.Purge(t.Context())
		}
		if err != nil {
			t.Fatalf("purge: %v", err)
		}
	}
	named := func(t *testing.T, l *life, sequence uint64) {
		t.Helper()
		a := l.await("f", "an alarm", func(a client.FunctionAccount) bool { return len(a.Problems) > 0 })
		if a.Holds || a.Gone != 1 || len(a.Problems) != 1 || a.Problems[0].Sequence != sequence {
			t.Errorf("got %+v, want what is gone named from sequence %d", a, sequence)
		}
	}
	blocked := func(w *world) []functions.Function {
		return []functions.Function{w.function(functions.Function{Concurrency: 1, Timeout: 24 * time.Hour}, always, scripted)}
	}
	free := func(w *world) []functions.Function {
		return []functions.Function{w.function(functions.Function{}, always, func(context.Context, string, functions.Attempt) error { return nil })}
	}
	t.Run("while nothing is hosted", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			l := w.start(testTiming(), free(w))
			<-l.host.started
			l.send(3)
			l.settle("f")
			l.end()
			l = w.open()
			l.sendIDs("gone-1", "gone-2")
			purge(t, l)
			l.end()
			l = w.start(testTiming(), free(w))
			<-l.host.started
			l.sendIDs("after")
			named(t, l, 4)
			if w.successes("after") != 1 {
				t.Errorf("the event after them: got it %d times, want 1", w.successes("after"))
			}
			l.end()
			l = w.start(testTiming(), free(w)) // said once, and for good
			<-l.host.started
			named(t, l, 4)
		})
	})
	t.Run("beyond what is in memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			open := make(chan struct{})
			l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Concurrency: 1, Timeout: 24 * time.Hour}, always,
				func(context.Context, string, functions.Attempt) error { <-open; return nil })})
			<-l.host.started
			for i := range window + 100 {
				l.sendIDs(strconv.Itoa(i))
			}
			time.Sleep(time.Second)
			seen := l.host.owner("f").ledger.Cursor()
			purge(t, l)
			close(open)
			l.sendIDs("after")
			named(t, l, seen+1)
			if got := len(w.calls("")); got != int(seen)+1 {
				t.Errorf("got %d attempts, want %d: all that was in memory, and the one after", got, seen+1)
			}
		})
	})
	t.Run("while a process had them that died", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			m := newMortal(w, 0, true)
			l := w.start(testTiming(), blocked(w), streams.WithGate(m.gate))
			<-l.host.started
			publisher := &life{w: w, store: l.store.Ungated()}
			publisher.sendIDs("done-1", "hang-2", "queued-3")
			time.Sleep(time.Second)
			purge(t, publisher)
			m.kill()
			l.bury(m)
			l = w.start(testTiming(), free(w))
			<-l.host.started
			l.sendIDs("after")
			named(t, l, 2)
		})
	})
	t.Run("of other types it is none", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			l := w.start(testTiming(), free(w))
			<-l.host.started
			l.send(3)
			for i := range 10 {
				l.sendEvent(typed("u", fmt.Sprintf("u%d", i)))
			}
			l.settle("f")
			time.Sleep(2 * time.Minute)
			purge(t, l)
			l.sendIDs("after")
			time.Sleep(2 * time.Minute)
			if a := l.settle("f"); a.Gone != 0 {
				t.Errorf("got %+v, want no alarm", a)
			}
			l.end()
			l = w.start(testTiming(), free(w))
			if a := l.settle("f"); a.Gone != 0 {
				t.Errorf("after a restart: got %+v, want no alarm", a)
			}
		})
	})
}

// kill is the end of a process at this very instant.
func (m *mortal) kill() {
	m.mu.Lock()
	m.dead = true
	m.mu.Unlock()
	m.copied = scratch(m.w.t)
	if err := copyDirectory(m.copied, m.w.dir); err != nil {
		m.w.t.Errorf("copy: %v", err)
	}
	close(m.killed)
}
