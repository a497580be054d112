package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// eventHeaders are the headers that belong to the event itself, as they are stored.
func eventHeaders(h nats.Header) nats.Header {
	own := nats.Header{}
	for k, v := range h {
		if strings.HasPrefix(strings.ToLower(k), "ce-") || strings.EqualFold(k, "content-type") {
			own[k] = v
		}
	}
	return own
}

// ofThisCopy reports whether a header of NATS was given to a copy by its own publish, or by the read that brought it here.
func ofThisCopy(name string, values []string, stream string) bool {
	switch name {
	case "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Expected-Last-Subject-Sequence":
		return len(values) == 1
	case "Nats-Expected-Stream":
		return slices.Equal(values, []string{stream})
	}
	return false
}

// at reads the copy of an event at a place.
func (l *life) at(place streams.Place, function string, sequence uint64) streams.Message {
	l.w.t.Helper()
	ref, err := l.store.Find(context.Background(), place, function, sequence)
	if err != nil {
		l.w.t.Fatalf("%s/%d: %v", function, sequence, err)
	}
	m, err := l.store.Last(context.Background(), place.Stream(function), place.Subject(ref))
	if err != nil {
		l.w.t.Fatalf("%s/%d: %v", function, sequence, err)
	}
	return m
}

func (l *life) decide(action, function string, sequence uint64) {
	l.w.t.Helper()
	got, err := l.host.decide(context.Background(), client.Decision{Function: function, Sequence: sequence, Action: action, Reason: "test", By: "test"})
	if err != nil || !got.Applied {
		l.w.t.Fatalf("%s of %s/%d: got %+v, %v; want it applied", action, function, sequence, got, err)
	}
}

// TestCopiesAreTheEventByteForByte: a copy that kept the Nats-Msg-Id of its source would vanish as a duplicate, with a good PubAck; one
// that kept Nats-Trace-Dest would be traced instead of stored, or traced into somebody's subject at each move.
func TestCopiesAreTheEventByteForByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		// The first life of an event fails until it is exhausted, the second one fails once and then waits.
		fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Minute)}}, always,
			func(_ context.Context, _ string, a functions.Attempt) error {
				if a.Cycle == 0 || a.Number == 1 {
					return errNo
				}
				return nil
			})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started

		first := newEvent("é %41\u2028 \"x\"")
		first.SetSubject("a b%20")
		first.SetExtension("partitionkey", "k/1 ü")
		first.SetExtension("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		_ = first.SetData("application/octet-stream", []byte{0, 1, '\r', '\n', 0xff, 0xfe})
		l.sendEvent(first)
		raw := &nats.Msg{Subject: "events.t", Data: []byte(" { \"a\" : 1 }\n"), Header: nats.Header{
			"ce-specversion": {"1.0"}, "ce-id": {"raw"}, "Ce-Source": {"/s"}, "CE-TYPE": {"t"}, "ce-empty": {""}, "content-type": {"application/json; charset=utf-8"},
			"Nats-Msg-Id": {"mine"}, "Nats-Trace-Dest": {"trace.here"}, "Nats-Trace-Only": {"false"}, "nats-expected-stream": {"EVENTS"},
			"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "X-Mine": {"a", "b"},
		}}
		if _, err := l.store.JetStream().PublishMsg(t.Context(), raw); err != nil {
			t.Fatalf("publish: %v", err)
		}

		same := func(where string, place streams.Place) {
			t.Helper()
			for seq := uint64(1); seq <= 2; seq++ {
				source, err := l.store.Get(t.Context(), streams.EventsStream, seq)
				if err != nil {
					t.Fatalf("source %d: %v", seq, err)
				}
				got := l.at(place, "f", seq)
				if diff := cmp.Diff(eventHeaders(source.Header), eventHeaders(got.Header)); diff != "" {
					t.Errorf("%s: event %d: headers differ (-source +copy):\n%s", where, seq, diff)
				}
				if !slices.Equal(source.Data, got.Data) {
					t.Errorf("%s: event %d: got body %q, want %q", where, seq, got.Data, source.Data)
				}
				for name, values := range got.Header {
					if strings.HasPrefix(strings.ToLower(name), "nats-") && !ofThisCopy(name, values, place.Stream("f")) {
						t.Errorf("%s: event %d: got header %s: %q, want none of those that the source had", where, seq, name, values)
					}
				}
			}
		}
		time.Sleep(30 * time.Second)
		same("in RETRY", streams.InRetry)
		l.settle("f")
		same("parked", streams.InDeadLetters)
		if got := l.at(streams.InDeadLetters, "f", 2).Header["X-Mine"]; !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("a header of the publisher: got %q, want a and b", got)
		}
		l.decide(client.Redrive, "f", 1)
		l.decide(client.Redrive, "f", 2)
		time.Sleep(30 * time.Second)
		same("in RETRY after a redrive", streams.InRetry)
		if a := l.settle("f"); a.Delivered != 2 {
			t.Errorf("got %+v, want 2 delivered", a)
		}
	})
}

// TestAnEventSentAgainWithinTheWindowIsOneCopy: the same event is accepted once while its copies move about.
func TestAnEventSentAgainWithinTheWindowIsOneCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Breaker: functions.Breaker{Off: true}, Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}}, always, scripted)})
		<-l.host.started
		for i := range 5 {
			if a := l.sendEvent(newEvent("never-1")); a.Duplicate != (i > 0) || a.Sequence != 1 {
				t.Errorf("sent the %d. time: got %+v", i+1, a)
			}
			time.Sleep(time.Second)
		}
		a := l.settle("f")
		if a.Accepted != 1 || a.Parked != 1 || len(w.calls("")) != 2 {
			t.Errorf("got %+v after %d attempts, want one event parked after 2", a, len(w.calls("")))
		}
		l.decide(client.Redrive, "f", 1)
		if a := l.settle("f"); a.Delivered != 1 || w.successes("never-1") != 1 {
			t.Errorf("after a redrive within the window: got %+v, want 1 delivered", a)
		}
	})
}

// TestADeadLetterOutlivesItsSource: what JetStream says about an event carries no payload, and the event may be gone by the time somebody
// looks (nats-io/nats-server#5049).
func TestADeadLetterOutlivesItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: thrice()}, always, scripted)})
		<-l.host.started
		l.sendIDs("done-1", "park-1", "never-1", "park-2")
		l.settle("f")
		source, err := l.store.Get(t.Context(), streams.EventsStream, 3)
		if err != nil {
			t.Fatalf("source: %v", err)
		}
		st, err := l.store.JetStream().Stream(t.Context(), streams.EventsStream)
		if err != nil {
			t.Fatalf("stream: %v", err)
		}
		if err := st.Purge(t.Context()); err != nil {
			t.Fatalf("purge: %v", err)
		}
		l.end()

		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: thrice()}, always, scripted)})
		letter := l.at(streams.InDeadLetters, "f", 3)
		if diff := cmp.Diff(eventHeaders(source.Header), eventHeaders(letter.Header)); diff != "" || string(letter.Data) != string(source.Data) {
			t.Errorf("the dead letter of a purged event: got body %q and headers (-source +letter)\n%s", letter.Data, diff)
		}
		a := l.settle("f")
		if a.Parked != 3 {
			t.Errorf("got %+v, want 3 parked", a)
		}
		l.decide(client.Redrive, "f", 2)
		l.decide(client.Redrive, "f", 3)
		l.decide(client.Discard, "f", 4)
		a = l.settle("f")
		if a.Delivered != 2 || a.Discarded != 1 || w.successes("park-1") != 1 || w.successes("never-1") != 1 {
			t.Errorf("after redrives: got %+v, want 2 delivered and 1 discarded", a)
		}
	})
}

// TestParkingLeavesNothingBehind: people expect an exhausted message to vanish from a work queue. JetStream keeps it there
// (nats-io/nats-server#3294, nats-io/nats-server#4956), and lost some in a work queue of 2.12 (nats-io/nats-server#7817).
func TestParkingLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fns := func() []functions.Function {
			return []functions.Function{w.function(functions.Function{OnPark: functions.Continue, Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}}, always, scripted)}
		}
		l := w.start(testTiming(), fns())
		<-l.host.started
		sent := map[string][]byte{}
		for i := range 200 {
			id := "done-" + strconv.Itoa(i)
			if i%10 == 0 {
				id = "never-" + strconv.Itoa(i)
			}
			e := newEvent(id)
			e.SetExtension("partitionkey", "k"+strconv.Itoa(i%7))
			_ = e.SetData("text/plain", []byte(strings.Repeat(id, 100)))
			l.sendEvent(e)
			sent[id] = e.Data()
		}
		if a := l.settle("f"); a.Parked != 20 || a.Delivered != 180 {
			t.Errorf("got %+v, want 20 parked and 180 delivered", a)
		}
		time.Sleep(time.Second) // the last acks are not waited for
		l.nothingPending()
		l.end()

		l = w.start(testTiming(), fns())
		if a := l.settle("f"); a.Parked != 20 || a.Delivered != 180 || a.Accepted != 200 {
			t.Errorf("after a restart: got %+v, want 20 parked and 180 delivered", a)
		}
		letters := l.letters("f")
		if len(letters) != 20 {
			t.Errorf("got %d dead letters, want 20: %v", len(letters), slices.Sorted(maps.Keys(letters)))
		}
		for id, m := range letters {
			report, err := advisories.ReadReport(m)
			if err != nil || !strings.HasPrefix(id, "never-") || string(m.Data) != string(sent[id]) || report.Cause != advisories.Exhausted || report.Attempts != 2 {
				t.Errorf("dead letter %s: got body of %d bytes, report %+v, %v", id, len(m.Data), report, err)
			}
		}
		l.nothingPending()
		for i := range 200 {
			if id := "done-" + strconv.Itoa(i); i%10 != 0 && w.successes(id) != 1 {
				t.Errorf("event %s: got %d times done, want 1", id, w.successes(id))
			}
		}
	})
}

// nothingPending checks that no consumer waits for anything and that the work queues are empty.
func (l *life) nothingPending() {
	l.w.t.Helper()
	ctx := context.Background()
	for _, name := range []string{streams.EventsStream, streams.RetryStream, streams.DecisionsStream, streams.AdvisoriesStream} {
		st, err := l.store.JetStream().Stream(ctx, name)
		if err != nil {
			l.w.t.Fatalf("stream %s: %v", name, err)
		}
		if n := st.CachedInfo().State.Msgs; n > 0 && name != streams.EventsStream {
			l.w.t.Errorf("stream %s: got %d messages, want none", name, n)
		}
		consumers := st.ListConsumers(ctx)
		for c := range consumers.Info() {
			if c.NumPending != 0 || c.NumAckPending != 0 || c.NumRedelivered != 0 {
				l.w.t.Errorf("consumer %s of %s: got %d pending, %d unacknowledged, %d redelivered, want none", c.Name, name, c.NumPending, c.NumAckPending, c.NumRedelivered)
			}
		}
		if err := consumers.Err(); err != nil {
			l.w.t.Errorf("consumers of %s: %v", name, err)
		}
	}
}

// TestDeadLettersStayAsTheyAreOverRestarts: a server that forgot what it had given up said so again after each restart
// (nats-io/nats-server#8156), and delivered it again (nats-io/nats-server#3361).
func TestDeadLettersStayAsTheyAreOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var before map[string]streams.Message
		attempts := 0
		for boot := range 6 {
			l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Breaker: functions.Breaker{Off: true}, Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}}, always, scripted)})
			if boot == 0 {
				<-l.host.started
				for i := range 50 {
					l.sendIDs(fmt.Sprintf("never-%d", i), fmt.Sprintf("park-%d", i))
				}
			}
			if a := l.settle("f"); a.Parked != 100 || a.Accepted != 100 {
				t.Errorf("boot %d: got %+v, want 100 parked", boot, a)
			}
			time.Sleep(5 * time.Minute)
			letters := l.letters("f")
			if boot == 0 {
				before, attempts = letters, len(w.calls(""))
			}
			if diff := cmp.Diff(before, letters); diff != "" || len(letters) != 100 {
				t.Errorf("boot %d: got %d dead letters, want the same 100 as before:\n%s", boot, len(letters), diff)
			}
			if got := len(w.calls("")); got != attempts || attempts != 150 {
				t.Errorf("boot %d: got %d attempts, want 150 in all", boot, got)
			}
			l.end()
		}
	})
}
