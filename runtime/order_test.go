package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// sendKeyed stores events whose ordering key is the first letter of their id.
func (l *life) sendKeyed(ids ...string) {
	l.w.t.Helper()
	for _, id := range ids {
		e := newEvent(id)
		e.SetExtension("partitionkey", id[:1])
		l.sendEvent(e)
	}
}

// order is the ids of the events that were delivered, in order.
func (w *world) order() []string {
	var ids []string
	for _, c := range w.calls("") {
		if c.ended && c.err == nil {
			ids = append(ids, c.event)
		}
	}
	return ids
}

// began is the ids of the events that were attempted, in order.
func (w *world) began() []string {
	var ids []string
	for _, c := range w.calls("") {
		ids = append(ids, c.event)
	}
	return ids
}

func wantOrder(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// ordered runs a test in fake time, on one function.
func ordered(t *testing.T, f functions.Function, s script, test func(*testing.T, *world, *life)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(f, forever, s)})
		<-l.host.started
		test(t, w, l)
	})
}

// parkOnce parks one event in its first life.
func parkOnce(id string) script {
	return func(_ context.Context, got string, a functions.Attempt) error {
		if got == id && a.Cycle == 0 {
			return functions.Park(errNo)
		}
		return nil
	}
}

// failTimes fails the first attempts of one event.
func failTimes(id string, times int) script {
	return func(_ context.Context, got string, a functions.Attempt) error {
		if got == id && a.Number <= times {
			return errNo
		}
		return nil
	}
}

func every(d time.Duration) functions.Retry {
	return functions.Retry{Attempts: 5, Backoff: functions.Delays(d)}
}

// After one event of a key is a dead letter, later ones of that key went through and corrupted data (rebus-org/Rebus#1067).
func TestLaterEventsOfAKeyWaitForADeadLetter(t *testing.T) {
	ordered(t, functions.Function{}, parkOnce("a1"), func(t *testing.T, w *world, l *life) {
		l.sendKeyed("a1", "a2", "b1", "a3")
		a := l.settle("f")
		if a.Parked != 1 || a.Held != 2 || a.Delivered != 1 {
			t.Errorf("got %+v, want 1 parked, 2 held, 1 delivered", a)
		}
		l.decideAbout("a1", client.Redrive)
		l.settle("f")
		wantOrder(t, "delivered", w.order(), "b1", "a1", "a2", "a3")
	})
}

// A nack moved an event behind later ones of its key (apache/pulsar#15317, apache/pulsar#9582, apache/pulsar#23480), where the whole topic
// should have paused for it, and nothing else (apache/pulsar-client-go#351).
func TestFollowersWaitForARetryAndOtherKeysDoNot(t *testing.T) {
	ordered(t, functions.Function{Retry: every(5 * time.Second)}, failTimes("a0", 1), func(t *testing.T, w *world, l *life) {
		l.sendKeyed("a0", "a1", "b1", "a2", "b2", "a3", "a4")
		time.Sleep(4 * time.Second)
		wantOrder(t, "before the retry", w.order(), "b1", "b2")
		l.settle("f")
		wantOrder(t, "delivered", w.order(), "b1", "b2", "a0", "a1", "a2", "a3", "a4")
		if first, second := w.calls("a0")[0], w.calls("a0")[1]; second.at.Sub(first.at) < 5*time.Second {
			t.Errorf("a0 was retried after %s, want 5 s", second.at.Sub(first.at))
		}
	})
}

// An event enqueued later overtook its predecessor, which waited in back-off (lightninglabs/wavelength#435).
func TestAnEventAMomentLaterDoesNotOvertakeABackoff(t *testing.T) {
	ordered(t, functions.Function{Retry: every(time.Second)}, failTimes("a1", 2), func(t *testing.T, w *world, l *life) {
		l.sendKeyed("a1")
		time.Sleep(10 * time.Millisecond)
		l.sendKeyed("a2")
		l.settle("f")
		wantOrder(t, "attempted", w.began(), "a1", "a1", "a1", "a2")
	})
}

// Redriven events mixed with fresh ones of their group (amazon-sqs-developer-guide#45).
func TestARedriveAmongFreshEventsKeepsTheOrder(t *testing.T) {
	slow := func(ctx context.Context, id string, a functions.Attempt) error {
		time.Sleep(time.Second)
		return parkOnce("a1")(ctx, id, a)
	}
	ordered(t, functions.Function{}, slow, func(t *testing.T, w *world, l *life) {
		l.sendKeyed("a1", "a2", "a3")
		l.settle("f")
		l.decideAbout("a1", client.Redrive)
		l.sendKeyed("a4")
		time.Sleep(1500 * time.Millisecond)
		l.sendKeyed("a5")
		l.settle("f")
		wantOrder(t, "delivered", w.order(), "a1", "a2", "a3", "a4", "a5")
	})
}

// When one message of a batch fails, later ones of its group are not to be tried, and other groups are not to be touched
// (aws-powertools/powertools-lambda-java#1140, aws-powertools/powertools-lambda-python#2981).
func TestABurstGoesOnForOtherKeysAndStopsBehindAFailure(t *testing.T) {
	ordered(t, functions.Function{Retry: every(time.Minute)}, failTimes("a2", 1), func(t *testing.T, w *world, l *life) {
		l.sendKeyed("a1", "a2", "a3", "b1")
		time.Sleep(30 * time.Second)
		wantOrder(t, "delivered at first", slices.Sorted(slices.Values(w.order())), "a1", "b1") // keys do not wait for each other
		if n := len(w.calls("a3")); n != 0 {
			t.Errorf("a3 was attempted %d times behind a2, want 0", n)
		}
		l.settle("f")
		wantOrder(t, "delivered", w.order()[2:], "a2", "a3")
	})
}

// When one message of a session failed, the rest was attempted all the same, and the order was lost when it was sent again
// (Azure/azure-service-bus#675, MicrosoftDocs/azure-docs#128317).
func TestAParkedEventAndItsTailAreOneCase(t *testing.T) {
	for _, c := range []struct {
		name   string
		action string
		tail   bool
		want   []string
		counts client.FunctionAccount
	}{
		{"redriven", client.Redrive, false, []string{"a1", "a2", "a3", "a4", "a5"}, client.FunctionAccount{Delivered: 5}},
		{"discarded", client.Discard, false, []string{"a1", "a3", "a4", "a5"}, client.FunctionAccount{Delivered: 4, Discarded: 1}},
		{"discarded with its tail", client.Discard, true, []string{"a1", "a5"}, client.FunctionAccount{Delivered: 2, Discarded: 3}},
		{"released out of order", client.Release, false, []string{"a1", "a3", "a4", "a5"}, client.FunctionAccount{Delivered: 4, Parked: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ordered(t, functions.Function{}, parkOnce("a2"), func(t *testing.T, w *world, l *life) {
				l.sendKeyed("a1", "a2", "a3", "a4")
				if a := l.settle("f"); a.Parked != 1 || a.Held != 2 {
					t.Fatalf("got %+v, want 1 parked and 2 held as one case", a)
				}
				l.decideWith(client.Decision{Function: "f", Sequence: 2, Action: c.action, Tail: c.tail, Reason: "one reason", By: "anna"})
				l.sendKeyed("a5")
				a := l.settle("f")
				if a.Delivered != c.counts.Delivered || a.Parked != c.counts.Parked || a.Discarded != c.counts.Discarded || a.Held != 0 {
					t.Errorf("got %+v, want %+v", a, c.counts)
				}
				wantOrder(t, "delivered", w.order(), c.want...)
				if !c.tail {
					return
				}
				for seq := uint64(2); seq <= 4; seq++ {
					audit := l.audited("f", seq)
					if want := "discarded by anna"; len(audit) == 0 || audit[len(audit)-1] != want {
						t.Errorf("audit of %d: got %q, want %q at its end", seq, audit, want)
					}
				}
			})
		})
	}
}

// An exception did not raise the count, an abandon had no delay, and a message that was not settled let its followers pass
// (Azure/azure-sdk-for-java#43855, Azure/azure-sdk-for-net#26618).
func TestEachKindOfFailureCountsWaitsAndHoldsFollowers(t *testing.T) {
	ordered(t, functions.Function{Retry: every(10 * time.Second), Timeout: time.Second}, func(ctx context.Context, id string, a functions.Attempt) error {
		if id != "a1" {
			return nil
		}
		switch a.Number {
		case 1:
			panic("as a handler does")
		case 2:
			return errNo
		case 3:
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}, func(t *testing.T, w *world, l *life) {
		l.sendKeyed("a1", "a2")
		l.settle("f")
		wantOrder(t, "attempted", w.began(), "a1", "a1", "a1", "a1", "a2")
		for i, c := range w.calls("a1") {
			if c.attempt.Number != i+1 {
				t.Errorf("attempt %d: got number %d", i+1, c.attempt.Number)
			}
			if i > 0 && c.at.Sub(w.calls("a1")[i-1].at) < 10*time.Second {
				t.Errorf("attempt %d came %s after the one before, want at least 10 s", i+1, c.at.Sub(w.calls("a1")[i-1].at))
			}
		}
	})
}

// TestAKeyParkedForDaysIsWorkedOffInOrder: 10 000 events are held behind a dead letter for three days, while a hundred other keys go on.
func TestAKeyParkedForDaysIsWorkedOffInOrder(t *testing.T) {
	const keys = 100
	held := 10_000
	if underRace() {
		held = 1_000
	}
	ordered(t, functions.Function{}, parkOnce("h0"), func(t *testing.T, w *world, l *life) {
		l.sendKeyed("h0")
		for i := 1; i <= held; i++ {
			l.sendKeyed("h" + strconv.Itoa(i))
		}
		for day := range 3 {
			for i := range keys {
				e := newEvent(fmt.Sprintf("o%d-%d", i, day))
				e.SetExtension("partitionkey", "other"+strconv.Itoa(i))
				l.sendEvent(e)
			}
			time.Sleep(24 * time.Hour)
		}
		if a := l.account("f"); a.Held != int64(held) || a.Delivered != 3*keys || a.Parked != 1 || !a.Holds {
			t.Fatalf("after three days: got %+v, want %d held, %d delivered, 1 parked", a, held, 3*keys)
		}
		l.decideAbout("h0", client.Redrive)
		l.settle("f")
		got := w.order()[3*keys:]
		if len(got) != held+1 {
			t.Fatalf("got %d delivered, want %d", len(got), held+1)
		}
		for i, id := range got {
			if id != "h"+strconv.Itoa(i) {
				t.Fatalf("delivery %d is %s, want h%d", i, id, i)
			}
		}
	})
}

func (l *life) decideWith(d client.Decision) {
	l.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	got, err := l.host.decide(ctx, d)
	if err != nil || !got.Applied {
		l.w.t.Fatalf("%s of %s/%d: got %+v, %v", d.Action, d.Function, d.Sequence, got, errors.Join(err))
	}
}

// decideAbout states a decision about the dead letter of an event, which must be applied.
func (l *life) decideAbout(id, action string) {
	l.w.t.Helper()
	m, ok := l.letters("f")[id]
	if !ok {
		l.w.t.Fatalf("event %s is not parked", id)
	}
	_, ref, _ := streams.ParseSubject(m.Subject)
	l.decideWith(client.Decision{Function: "f", Sequence: ref.Sequence, Action: action, Reason: "test", By: "test"})
}
