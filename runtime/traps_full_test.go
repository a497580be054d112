package runtime

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

func always() bool { return true }

// scripted handles events by what their id begins with.
func scripted(ctx context.Context, id string, a functions.Attempt) error {
	switch word, _, _ := strings.Cut(id, "-"); {
	case word == "park" && a.Cycle == 0, word == "reject":
		return functions.Park(errNo)
	case word == "discard":
		return functions.Discard(errNo)
	case word == "never" && a.Cycle == 0:
		return errNo
	case word == "twice" && a.Number < 3:
		return errNo
	case word == "hang":
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

// thrice allows three attempts, a minute apart.
func thrice() functions.Retry {
	return functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Minute)}
}

// sendIDs stores events of type t, one an id.
func (l *life) sendIDs(ids ...string) {
	l.w.t.Helper()
	for _, id := range ids {
		l.sendEvent(newEvent(id))
	}
}

func typed(kind, id string) event.Event {
	e := newEvent(id)
	e.SetType(kind)
	return e
}

// limit makes a stream refuse every write until the limit is lifted.
func (l *life) limit(stream string) (lift func()) {
	l.w.t.Helper()
	ctx := context.Background()
	st, err := l.store.JetStream().Stream(ctx, stream)
	if err != nil {
		l.w.t.Fatalf("stream %s: %v", stream, err)
	}
	before := st.CachedInfo().Config
	full := before
	full.Discard, full.MaxBytes = jetstream.DiscardNew, 1
	if _, err := l.store.JetStream().UpdateStream(ctx, full); err != nil {
		l.w.t.Fatalf("limit %s: %v", stream, err)
	}
	return func() {
		l.w.t.Helper()
		if _, err := l.store.JetStream().UpdateStream(ctx, before); err != nil {
			l.w.t.Fatalf("lift %s: %v", stream, err)
		}
	}
}

// await reads the account of a function until ok says so. It tolerates a function that is just starting again.
func (l *life) await(function, what string, ok func(client.FunctionAccount) bool) client.FunctionAccount {
	l.w.t.Helper()
	var a client.FunctionAccount
	for range 3600 {
		d, err := l.store.Declared(context.Background(), function)
		if err == nil {
			a, err = l.host.accountOf(context.Background(), d)
		}
		var problem *client.Problem
		switch {
		case err == nil && ok(a):
			return a
		case err != nil && !errors.Is(err, streams.ErrNotFound) && !errors.As(err, &problem):
			l.w.t.Fatalf("account of %s: %v", function, err)
		}
		select {
		case <-l.done:
			l.w.t.Fatalf("host ended: %v", l.err)
		case <-time.After(time.Second):
		}
	}
	l.w.t.Fatalf("function %s: not reached: %s: %+v", function, what, a)
	return a
}

func sum(a client.FunctionAccount) int64 {
	return a.Delivered + a.Pending + a.Delivering + a.Retrying + a.Held + a.Parked + a.Discarded + a.Gone
}

// successes counts how often the handler of an event returned nil.
func (w *world) successes(id string) int {
	n := 0
	for _, c := range w.calls(id) {
		if c.ended && c.err == nil {
			n++
		}
	}
	return n
}

// TestAFullStreamLosesNothing makes each stream that an event passes through refuse writes, long enough for every delivery to expire
// several times.
func TestAFullStreamLosesNothing(t *testing.T) {
	for _, stream := range []string{streams.RetryStream, streams.DeadLetterStream("f"), streams.AttemptsStream, streams.AuditStream} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.start(testTiming(), []functions.Function{
					w.function(functions.Function{Retry: thrice()}, always, scripted),
					w.function(functions.Function{Name: "g", Types: []string{"u"}}, always, scripted),
				})
				<-l.host.started
				l.sendIDs("park-before", "twice-before") // the dead-letter stream exists then, and one event waits in RETRY
				time.Sleep(30 * time.Second)
				lift := l.limit(stream)
				l.sendIDs("park-1", "twice-1", "never-1", "done-1", "discard-1")
				for i := range 10 {
					l.sendEvent(typed("u", "u"+strconv.Itoa(i)))
				}
				time.Sleep(10 * time.Minute)
				if a := l.account("g"); a.Delivered != 10 || !a.Holds {
					t.Errorf("another function, while %s is full: got %+v, want 10 delivered", stream, a)
				}
				// An event whose move to the dead letters cannot be audited stands in both places meanwhile, and is named.
				if a := l.account("f"); a.Accepted != 7 || sum(a) != 7 || a.Holds == (stream == streams.AuditStream) {
					t.Errorf("while %s is full: got %+v, want 7 accepted that add up", stream, a)
				}
				lift()
				lifted := time.Now()
				a := l.settle("f")
				if a.Delivered != 3 || a.Parked != 3 || a.Discarded != 1 {
					t.Errorf("after %s has room again: got %+v, want 3 delivered, 3 parked, 1 discarded", stream, a)
				}
				// Two delays can be outstanding, and a repeat.
				if took := time.Since(lifted); took > 2*time.Minute+15*time.Second {
					t.Errorf("%s had room again: got rest after %s, want no more than the delays that were outstanding", stream, took)
				}
				if calls := w.calls("twice-before"); len(calls) == 3 && calls[2].at.Sub(lifted) > 10*time.Second {
					t.Errorf("the last attempt of an event that was in hand: got it %s after %s had room again, want it at once", calls[2].at.Sub(lifted), stream)
				}
				for id, want := range map[string]int{"park-before": 1, "twice-before": 3, "park-1": 1, "twice-1": 3, "never-1": 3, "done-1": 1, "discard-1": 1} {
					if got := len(w.calls(id)); got != want {
						t.Errorf("event %s: got %d attempts, want %d", id, got, want)
					}
				}
				letters := l.letters("f")
				for _, id := range []string{"park-before", "park-1", "never-1"} {
					if _, ok := letters[id]; !ok {
						t.Errorf("event %s: got no dead letter", id)
					}
				}
			})
		})
	}
}

func TestAFullRegisterByCountLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: thrice()}, always, scripted)})
		<-l.host.started
		l.sendIDs("twice-1")
		time.Sleep(time.Second)
		js := l.store.JetStream()
		st, err := js.Stream(t.Context(), streams.RetryStream)
		if err != nil {
			t.Fatalf("stream: %v", err)
		}
		cfg := st.CachedInfo().Config
		cfg.MaxMsgs = 1
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatalf("update: %v", err)
		}
		l.sendIDs("twice-2", "twice-3")
		time.Sleep(8 * time.Minute)
		// One place in RETRY serves all three, one after the other.
		if a := l.settle("f"); a.Delivered != 3 {
			t.Errorf("got %+v, want 3 delivered", a)
		}
		for i := 1; i <= 3; i++ {
			if id := fmt.Sprintf("twice-%d", i); len(w.calls(id)) != 3 {
				t.Errorf("event %s: got %d attempts, want 3", id, len(w.calls(id)))
			}
		}
	})
}

func TestADeadLetterStreamThatWasDeletedIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, always, scripted)})
		<-l.host.started
		l.sendIDs("park-1")
		l.settle("f")
		if err := l.store.JetStream().DeleteStream(t.Context(), streams.DeadLetterStream("f")); err != nil {
			t.Fatalf("delete: %v", err)
		}
		l.sendIDs("park-2")
		a := l.await("f", "one dead letter", func(a client.FunctionAccount) bool { return a.Parked == 1 })
		if _, ok := l.letters("f")["park-2"]; !ok {
			t.Errorf("got dead letters %v, want park-2", l.letters("f"))
		}
		if a.Holds || len(a.Problems) != 1 || a.Problems[0].Sequence != 1 {
			t.Errorf("the dead letter that went with the stream: got %+v, want it named as sequence 1", a)
		}
	})
}

func TestADecisionDuringAFullAuditIsAppliedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: thrice()}, always, scripted)})
		<-l.host.started
		l.sendIDs("park-1", "never-1", "done-1")
		lift := l.limit(streams.AuditStream)
		l.await("f", "two dead letters", func(client.FunctionAccount) bool { return len(l.letters("f")) == 2 })
		for seq := uint64(1); seq <= 2; seq++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			got, err := l.host.decide(ctx, client.Decision{Function: "f", Sequence: seq, Action: client.Redrive, By: "test"})
			cancel()
			if err != nil || got.Applied {
				t.Errorf("redrive %d: got %+v, %v; want it stated and not yet applied", seq, got, err)
			}
		}
		time.Sleep(10 * time.Minute)
		lift()
		time.Sleep(10 * time.Minute)
		if a := l.settle("f"); a.Delivered != 3 {
			t.Errorf("got %+v, want 3 delivered", a)
		}
		for _, id := range []string{"park-1", "never-1", "done-1"} {
			if got := w.successes(id); got != 1 {
				t.Errorf("event %s: got %d times done, want 1", id, got)
			}
		}
	})
}
