package runtime

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// wantAccount compares an account that must hold.
func (l *life) wantAccount(when string, got, want client.FunctionAccount) {
	l.w.t.Helper()
	want.Function, want.Stream, want.Holds = got.Function, sourceOf(want), true
	if diff := cmp.Diff(want, got); diff != "" {
		l.w.t.Errorf("%s: account (-want +got):\n%s", when, diff)
	}
}

// sourceOf is the stream that an account is of, EVENTS unless it names one.
func sourceOf(a client.FunctionAccount) string {
	if a.Stream != "" {
		return a.Stream
	}
	return streams.EventsStream
}

// TestTheAccountIsExactInEachState reads it where nothing moves: while handlers hang, delays run and letters stand, among events of types
// that the function does not read.
func TestTheAccountIsExactInEachState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		open := make(chan struct{})
		fn := w.function(functions.Function{
			Types: []string{"t", "com.a.*", "com.b.>"}, Concurrency: 2, Timeout: 100 * time.Hour,
			Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Hour)},
		}, always, func(ctx context.Context, id string, a functions.Attempt) error {
			if strings.HasPrefix(id, "wait") || strings.HasPrefix(id, "never-wait") && a.Number == 2 {
				select {
				case <-open:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return scripted(ctx, id, a)
		})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		foreign := func(ids ...string) {
			for _, id := range ids {
				l.sendEvent(typed("u", id))
				l.sendEvent(typed("com.a", id+"a"))
				l.sendEvent(typed("com.a.b.c", id+"abc"))
			}
		}
		l.wantAccount("before the first event", l.account("f"), client.FunctionAccount{})
		foreign("1")
		l.wantAccount("with events of other types", l.account("f"), client.FunctionAccount{})

		l.sendIDs("done-1")
		l.sendEvent(typed("com.a.x", "done-2"))
		l.sendEvent(typed("com.b.x.y", "done-3"))
		foreign("2")
		l.sendIDs("park-1", "park-2", "discard-1", "never-1", "never-2")
		l.sendEvent(typed("com.a.x", "park-3"))
		time.Sleep(time.Second)
		l.wantAccount("delivered, parked, discarded and retrying", l.account("f"), client.FunctionAccount{Accepted: 9, Delivered: 3, Retrying: 2, Parked: 3, Discarded: 1})

		l.sendIDs("wait-1", "wait-2", "wait-3", "wait-4", "wait-5")
		foreign("3")
		time.Sleep(time.Second)
		l.wantAccount("while two handlers hang", l.account("f"), client.FunctionAccount{Accepted: 14, Delivered: 3, Pending: 3, Delivering: 2, Retrying: 2, Parked: 3, Discarded: 1})
		close(open)
		time.Sleep(time.Second)
		l.wantAccount("after they have returned", l.account("f"), client.FunctionAccount{Accepted: 14, Delivered: 8, Retrying: 2, Parked: 3, Discarded: 1})

		time.Sleep(2 * time.Hour)
		l.wantAccount("after the last attempts", l.account("f"), client.FunctionAccount{Accepted: 14, Delivered: 8, Parked: 5, Discarded: 1})
		var sequences []uint64
		for _, m := range l.letters("f") {
			_, ref, _ := streams.ParseSubject(m.Subject)
			sequences = append(sequences, ref.Sequence)
		}
		l.decide(client.Redrive, "f", sequences[0])
		l.decide(client.Discard, "f", sequences[1])
		time.Sleep(time.Second)
		l.wantAccount("after a redrive and a discard", l.account("f"), client.FunctionAccount{Accepted: 14, Delivered: 9, Parked: 3, Discarded: 2})
		l.end()

		// Nobody hosts it any more.
		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{Name: "g"}, always, scripted)})
		<-l.host.started
		l.wantAccount("when it is no longer hosted", l.account("f"), client.FunctionAccount{Accepted: 14, Delivered: 9, Parked: 3, Discarded: 2})
		l.sendIDs("late-1")
		l.sendEvent(typed("com.b.z", "late-2"))
		foreign("4")
		time.Sleep(time.Second)
		l.wantAccount("with new events that nobody handles", l.account("f"), client.FunctionAccount{Accepted: 16, Delivered: 9, Pending: 2, Parked: 3, Discarded: 2})
		all, err := l.host.account(t.Context())
		if err != nil || !all.Holds || len(all.Functions) != 2 {
			t.Errorf("the account of all: got %+v, %v; want two functions that hold", all, err)
		}
	})
}

func TestTheAccountOfARunningRetryCountsItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Timeout: 100 * time.Hour, Retry: thrice()}, always,
			func(ctx context.Context, _ string, a functions.Attempt) error {
				if a.Number == 1 {
					return errNo
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})})
		<-l.host.started
		l.send(1)
		time.Sleep(time.Hour)
		l.wantAccount("while the second attempt runs", l.account("f"), client.FunctionAccount{Accepted: 1, Retrying: 1})
	})
}

func TestTheAccountOfAFunctionThatStartsNowLeavesOutWhatWasBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.open()
		l.sendIDs("done-old-1", "park-old-2")
		l.sendEvent(typed("u", "old-3"))
		l.end()
		fns := func() []functions.Function {
			fn := w.function(functions.Function{}, always, scripted)
			fn.Start = functions.FromNow
			return []functions.Function{fn}
		}
		l = w.start(testTiming(), fns())
		<-l.host.started
		l.wantAccount("at its start", l.account("f"), client.FunctionAccount{})
		l.sendEvent(typed("u", "u-4"))
		l.sendIDs("done-5", "park-6", "done-7")
		l.wantAccount("later", l.settle("f"), client.FunctionAccount{Accepted: 3, Delivered: 2, Parked: 1})
		l.end()
		l = w.start(testTiming(), fns())
		l.wantAccount("after a restart", l.settle("f"), client.FunctionAccount{Accepted: 3, Delivered: 2, Parked: 1})
		if got := len(w.calls("")); got != 3 {
			t.Errorf("got %d attempts, want 3: %+v", got, w.calls(""))
		}
	})
}

// TestTheAccountNamesWhatSomebodyTookAway deletes one message behind Siding's back, from each place in which an event can stand.
func TestTheAccountNamesWhatSomebodyTookAway(t *testing.T) {
	for _, place := range []streams.Place{streams.InRetry, streams.InHeld, streams.InDeadLetters} {
		t.Run(place.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fns := []functions.Function{w.function(functions.Function{Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(100 * time.Hour)}}, always, scripted)}
				l := w.start(testTiming(), fns)
				<-l.host.started
				l.sendIDs("done-1", "never-2", "park-3", "never-4")
				for _, id := range []string{"park-5", "done-6", "done-7"} {
					e := newEvent(id)
					e.SetExtension("partitionkey", "k")
					l.sendEvent(e)
				}
				time.Sleep(time.Second)
				whole := client.FunctionAccount{Accepted: 7, Delivered: 1, Retrying: 2, Held: 2, Parked: 2}
				l.wantAccount("before", l.account("f"), whole)
				sequence := map[streams.Place]uint64{streams.InRetry: 2, streams.InHeld: 6, streams.InDeadLetters: 3}[place]
				m := l.at(place, "f", sequence)
				st, err := l.store.JetStream().Stream(t.Context(), m.Stream)
				if err == nil {
					err = st.DeleteMsg(t.Context(), m.Sequence)
				}
				if err != nil {
					t.Fatalf("delete: %v", err)
				}
				named := func(when string) {
					t.Helper()
					a := l.account("f")
					if a.Holds || a.Function != "f" || len(a.Problems) != 1 || a.Problems[0].Sequence != sequence || a.Accepted != 7 || sum(a) != 6 {
						t.Errorf("%s: got %+v, want one of 7 missing and sequence %d named", when, a, sequence)
					}
				}
				named("at once")
				time.Sleep(time.Hour)
				named("later")
				l.end()
				l = w.start(testTiming(), fns)
				<-l.host.started
				time.Sleep(time.Minute)
				named("after a restart")
				if got := len(w.calls("")); got != 5 {
					t.Errorf("got %d attempts, want 5, none of them for what waits or is held", got)
				}
			})
		})
	}
}

// TestTheAccountNamesWhatSomebodyElseWrote: a message that is none of ours is no event that stands somewhere.
func TestTheAccountNamesWhatSomebodyElseWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, always, scripted)})
		<-l.host.started
		l.sendIDs("done-1", "park-2")
		l.settle("f")
		if err := l.store.JetStream().DeleteStream(t.Context(), streams.AttemptsStream); err != nil {
			t.Fatalf("delete: %v", err)
		}
		a := l.account("f")
		if a.Holds || a.Parked != 1 || len(a.Problems) != 1 || a.Problems[0].Sequence != 2 {
			t.Errorf("a dead letter whose records were removed: got %+v, want it counted and named", a)
		}
		for _, m := range []*nats.Msg{
			{Subject: "siding.dlq.f.y.5", Data: []byte("garbage")},
			{Subject: "siding.dlq.f.y.1", Data: []byte("garbage")},
		} {
			if _, err := l.store.JetStream().PublishMsg(t.Context(), m); err != nil {
				t.Fatalf("publish: %v", err)
			}
		}
		a = l.account("f")
		named := map[uint64]bool{}
		for _, p := range a.Problems {
			named[p.Sequence] = true
		}
		if a.Holds || len(a.Problems) != 3 || !named[1] || !named[2] || !named[5] {
			t.Errorf("with dead letters that somebody else wrote: got %+v, want 1, 2 and 5 named", a)
		}
	})
}
