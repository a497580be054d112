package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// pubAck is what a guest can make the server publish at any subject: the answer to a publish of his own with that reply subject.
const pubAck = `{"stream":"EVENTS","seq":7}`

func (l *life) plant(subject, body string) {
	l.w.t.Helper()
	if _, err := l.store.JetStream().PublishMsg(context.Background(), &nats.Msg{Subject: subject, Data: []byte(body)}); err != nil {
		l.w.t.Fatalf("plant at %s: %v", subject, err)
	}
}

// TestForeignMessagesAreNoEvents plants what is none of ours into every register, of events that exist, that do not, and that are about to.
func TestForeignMessagesAreNoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fns := func() []functions.Function {
			return []functions.Function{w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}}, always, scripted)}
		}
		l := w.start(testTiming(), fns())
		<-l.host.started
		l.sendIDs("done-1", "park-2")
		l.settle("f")
		l.plant("siding.retry.f._.999", pubAck)
		l.plant("siding.retry.f", pubAck)
		l.plant("siding.retry.f._.x", pubAck)
		l.plant("siding.held.f._.998", pubAck)
		l.plant("siding.decision.f.x.1", "garbage")
		l.plant("siding.decision.f._.2", pubAck)
		l.plant("siding.decision.f", "garbage")
		l.plant("siding.dlq.f.y.997", "garbage")
		l.plant("siding.attempt.f.1", "garbage")
		l.plant("siding.audit.f", "garbage")
		l.sendIDs("done-3", "twice-4", "park-5")
		for boot := range 3 {
			time.Sleep(30 * time.Minute)
			a := l.account("f")
			named := map[uint64]bool{}
			for _, p := range a.Problems {
				named[p.Sequence] = true
			}
			if a.Accepted != 5 || a.Delivered != 3 || a.Parked != 2 || sum(a) != 5 {
				t.Errorf("boot %d: got %+v, want 3 delivered and 2 parked, whatever somebody else wrote", boot, a)
			}
			if a.Holds || len(a.Problems) != 3 || !named[999] || !named[998] || !named[997] {
				t.Errorf("boot %d: got problems %+v, want the foreign messages named as 997, 998 and 999", boot, a.Problems)
			}
			if got := len(w.calls("")); got != 7 {
				t.Errorf("boot %d: got %d attempts, want 7: %+v", boot, got, w.calls(""))
			}
			l.end()
			l = w.start(testTiming(), fns())
			<-l.host.started
		}
		// A person looks at what is in the way and ends it.
		_, err := l.host.decide(t.Context(), client.Decision{Function: "f", Sequence: 997, Action: client.Redrive, By: "anna"})
		wantRefusal(t, err, client.Conflict, "f/997", "not written by siding")
		l.decide(client.Discard, "f", 997)
		for _, p := range l.account("f").Problems {
			if p.Sequence == 997 {
				t.Errorf("after its discard: got %+v, want it gone", p)
			}
		}
		l.decide(client.Redrive, "f", 2)
		if a := l.await("f", "redriven", func(a client.FunctionAccount) bool { return a.Delivered == 4 }); a.Parked != 1 {
			t.Errorf("an event among them: got %+v, want it redriven", a)
		}
	})
}

// TestAForeignMessageDoesNotTakeAnEventsPlace plants messages where events are going to be moved. They must not be taken for the copies.
func TestAForeignMessageDoesNotTakeAnEventsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Minute)}}, always, scripted)})
		<-l.host.started
		l.sendIDs("park-1")
		l.settle("f")
		for _, subject := range []string{
			"siding.retry.f._.2", "siding.retry.f._.3", "siding.dlq.f._.3", "siding.dlq.f._.4", "siding.retry.f._.4", "siding.retry.f._.1",
		} {
			l.plant(subject, pubAck)
		}
		l.sendIDs("twice-2", "never-3", "park-4")
		time.Sleep(3 * time.Minute)
		a := l.await("f", "rest", func(a client.FunctionAccount) bool {
			return a.Delivered == 1 && a.Parked == 3 && a.Pending+a.Retrying == 0 || a.Delivered == 1 && len(w.calls("")) == 8
		})
		if w.successes("twice-2") != 1 || len(w.calls("never-3")) != 3 || len(w.calls("park-4")) != 1 {
			t.Errorf("got %+v and calls %+v, want 2 delivered, 3 and 4 parked", a, w.calls(""))
		}
		letters := l.letters("f")
		for _, id := range []string{"park-1", "never-3", "park-4"} {
			if m, ok := letters[id]; !ok || string(m.Data) == pubAck {
				t.Errorf("event %s: got dead letter %q, want the event itself", id, m.Data)
			}
		}
		// The redrive of 1 moves over what was planted in RETRY.
		l.decide(client.Redrive, "f", 1)
		l.await("f", "redriven", func(client.FunctionAccount) bool { return w.successes("park-1") == 1 })
		if _, ok := l.letters("f")["park-1"]; ok {
			t.Errorf("event park-1: got its dead letter still there after it was delivered")
		}
	})
}

// TestAForeignMessageSettlesNothing plants messages under the sequences of events that no life has seen yet.
func TestAForeignMessageSettlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fns := func() []functions.Function {
			return []functions.Function{w.function(functions.Function{Retry: thrice()}, always, scripted)}
		}
		l := w.start(testTiming(), fns())
		<-l.host.started
		l.sendIDs("park-1")
		l.settle("f")
		l.end()
		l = w.open()
		l.sendIDs("done-2", "done-3", "twice-4", "twice-5")
		l.plant("siding.retry.f._.2", pubAck)
		l.plant("siding.held.f._.3", pubAck)
		l.plant("siding.dlq.f._.4", pubAck)
		l.plant("siding.attempt.f.5", pubAck)
		l.end()
		l = w.start(testTiming(), fns())
		<-l.host.started
		time.Sleep(30 * time.Minute)
		for id, want := range map[string]int{"done-2": 1, "done-3": 1, "twice-4": 3, "twice-5": 3} {
			if got := len(w.calls(id)); got != want || w.successes(id) != 1 {
				t.Errorf("event %s: got %d attempts and %d times done, want %d and 1", id, got, w.successes(id), want)
			}
		}
		// Nobody hosts it any more, and somebody clears up.
		l.end()
		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{Name: "g", Types: []string{"u"}}, always, scripted)})
		<-l.host.started
		l.decide(client.Discard, "f", 4)
		if a := l.account("f"); a.Discarded != 0 || a.Parked != 1 {
			t.Errorf("after the foreign message was discarded: got %+v, want no event discarded", a)
		}
	})
}

func TestAnEventInRetryIsStillOursAfterAGiveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: thrice()}, always, scripted)})
		<-l.host.started
		l.sendIDs("twice-1")
		time.Sleep(time.Second)
		// Somebody takes its delivery and answers for us: JetStream has nothing to deliver any more, and the sweep writes the copy anew.
		m := l.at(streams.InRetry, "f", 1)
		if err := l.host.owner("f").call(t.Context(), func() {
			o := l.host.owner("f")
			o.giveBack(t.Context(), o.inRetry[m.Sequence])
		}); err != nil {
			t.Fatalf("give back: %v", err)
		}
		time.Sleep(3 * time.Minute)
		if a := l.settle("f"); a.Delivered != 1 || len(w.calls("")) != 3 {
			t.Errorf("got %+v after %d attempts, want it delivered at the third", a, len(w.calls("")))
		}
	})
}
