package runtime

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// TestWhatIsNoEventIsParkedOnceWithItsBytes: a message that nothing can decode loops for ever in front of any handler
// (ThreeDotsLabs/watermill#184).
func TestWhatIsNoEventIsParkedOnceWithItsBytes(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]struct {
		header nats.Header
		data   []byte
	}{
		"raw bytes":                    {nil, []byte("\x00\xff\xfe not an event")},
		"nothing at all":               {nil, nil},
		"broken structured JSON":       {nats.Header{"Content-Type": {"application/cloudevents+json"}}, []byte(`{"specversion":`)},
		"an event without a source":    {nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"x"}, "ce-type": {"t"}}, []byte("body")},
		"headers of somebody's own":    {nats.Header{"X-Tenant": {"a", "b"}, "Nats-Expected-Stream": {"EVENTS"}}, []byte("body")},
		"a PubAck":                     {nil, []byte(`{"stream":"EVENTS","seq":1}`)},
		"a report of our own":          {nats.Header{"Siding-Cycle": {"7"}, "Siding-Attempts": {"9"}, "Siding-Reference": {"EVENTS"}}, []byte("body")},
		"twice the same ce- attribute": {nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"x", "y"}, "ce-source": {"s"}, "ce-type": {"t"}}, []byte("body")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fn := w.function(functions.Function{}, forever, func(context.Context, string, functions.Attempt) error { return nil })
				l := w.start(testTiming(), []functions.Function{fn})
				<-l.host.started
				l.sendEvent(newEvent("before"))
				l.publish("events.t", foreign.header, foreign.data)
				l.sendEvent(newEvent("behind"))
				a := l.settle("f")
				if a.Delivered != 2 || a.Parked != 1 {
					t.Errorf("got %+v, want the events delivered and the rest parked", a)
				}
				d := l.detailOf("f", 2)
				if d.Cause != string(advisories.Undecodable) || d.Class != string(functions.ClassUndecodable) || d.Attempts != 0 || d.Cycle != 0 || d.ParkedBy != advisories.ByAttempt || d.Error == "" {
					t.Errorf("got %+v, want it parked as undecodable without an attempt", d.DeadLetter)
				}
				if !bytes.Equal(d.DataBase64, foreign.data) {
					t.Errorf("got bytes %q, want %q", d.DataBase64, foreign.data)
				}
				if len(d.History) != 2 {
					t.Errorf("got history %+v, want it tried once and parked once", d.History)
				}
				if v := foreign.header.Values("X-Tenant"); v != nil && d.Attributes["X-Tenant"] != "a, b" {
					t.Errorf("got headers %v, want them kept", d.Attributes)
				}
				l.redrive("f", 2)
				if a := l.settle("f"); a.Parked != 1 {
					t.Errorf("got %+v after a redrive, want it parked again", a)
				}
				if d := l.detailOf("f", 2); d.Cycle != 1 || d.Cause != string(advisories.Undecodable) || !bytes.Equal(d.DataBase64, foreign.data) {
					t.Errorf("got %+v after a redrive, want it undecodable in cycle 1 with its bytes", d)
				}
				l.end()
				l = w.start(testTiming(), []functions.Function{fn})
				if a := l.settle("f"); a.Delivered != 2 || a.Parked != 1 || len(w.calls("")) != 2 {
					t.Errorf("got %+v and %d calls after a restart, want no change", a, len(w.calls("")))
				}
			})
		})
	}
}

func TestAStructuredEventByNATSIsHandled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var got functions.Event
		fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}}, forever,
			func(ctx context.Context, _ string, a functions.Attempt) error {
				if a.Number < 2 {
					return errNo
				}
				if a.Cycle == 0 {
					return functions.Park(errNo)
				}
				got = functions.EventFrom(ctx)
				return nil
			})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.publish("events.t", nats.Header{"Content-Type": {"application/cloudevents+json; charset=utf-8"}},
			[]byte(`{"specversion":"1.0","id":"1","source":"bank","type":"t","partitionkey":"k","data":{"amount":10}}`))
		l.settle("f")
		if d := l.detailOf("f", 1); d.EventID != "1" || d.Source != "bank" || d.Key != "k" || string(d.Data) != `{"amount":10}` {
			t.Errorf("got %+v, want the event's attributes and data", d)
		}
		l.redrive("f", 1)
		l.settle("f")
		w.wantAttempts(t, "1", 1, 2, 1, 2)
		if got.ID() != "1" || got.Source() != "bank" || string(got.Data()) != `{"amount":10}` {
			t.Errorf("got event %v", got)
		}
	})
}

// TestAnEventTooLargeToCopyIsParkedByReference: a foreign writer on a stream without our limits leaves no room for what a copy adds.
func TestAnEventTooLargeToCopyIsParkedByReference(t *testing.T) {
	t.Parallel()
	event := func(id string) nats.Header {
		return nats.Header{"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-source": {"orders"}, "ce-type": {"t"}, "ce-partitionkey": {"k"}}
	}
	wide := func(id string, size int) nats.Header {
		h := event(id)
		h["ce-note"] = []string{strings.Repeat("n", size)}
		return h
	}
	small := []byte("small")
	big := bytes.Repeat([]byte("d"), 1<<20-512) // of 1 MiB, headers included
	for _, c := range []struct {
		name      string
		header    nats.Header
		data      []byte
		reference bool
	}{
		{"40 KiB of headers", wide("1", 40<<10), small, true},
		{"60 KiB of headers", wide("1", 60<<10), small, true},
		{"nearly the largest payload", event("1"), big, true},
		{"a large body that leaves room", event("1"), big[:900<<10], false},
		{"an ordering key of 40 KiB", func() nats.Header {
			h := event("1")
			h["ce-partitionkey"] = []string{strings.Repeat("k", 40<<10)}
			return h
		}(), small, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var sizes []int
				fn := functions.Function{Stream: "ORDERS", Types: []string{"orders.t"}, OnPark: functions.Continue, Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}}
				handle := func(ctx context.Context, _ string, a functions.Attempt) error {
					e := functions.EventFrom(ctx)
					note, _ := e.Extensions()["note"].(string)
					sizes = append(sizes, len(e.Data())+len(note))
					if a.Cycle == 0 {
						return errNo
					}
					return nil
				}
				l := w.open()
				if _, err := l.store.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{
					Name: "ORDERS", Subjects: []string{"orders.>"},
				}); err != nil {
					t.Fatal(err)
				}
				l.end()
				l = w.start(testTiming(), []functions.Function{w.function(fn, forever, handle)})
				<-l.host.started
				l.publish("orders.t", c.header, c.data)
				l.publish("orders.t", event("behind"), small)
				time.Sleep(2500 * time.Millisecond)
				l.end() // in the middle: the copy in RETRY may be a reference, too
				l = w.start(testTiming(), []functions.Function{w.function(fn, forever, handle)})
				time.Sleep(time.Minute)
				a := l.account("f")
				if a.Parked != 2 || !a.Holds {
					t.Fatalf("got %+v, want 2 parked", a)
				}
				w.wantAttempts(t, "1", 1, 2, 3)
				d := l.detailOf("f", 1)
				if (d.Reference == "ORDERS/1") != c.reference || d.Reference != "" && !c.reference {
					t.Errorf("got reference %q, want one: %v", d.Reference, c.reference)
				}
				if d.EventID != "1" || d.Source != "orders" || d.Attempts != 3 || d.Cause != string(advisories.Exhausted) || d.Attributes["note"] != strings.Join(c.header["ce-note"], "") {
					t.Errorf("got %+v with %d attributes", d.DeadLetter, len(d.Attributes))
				}
				if m, err := l.store.Last(t.Context(), streams.DeadLetterStream("f"), "siding.dlq.f.*.1"); err != nil || m.Header.Get("Siding-Cause") != "exhausted" {
					t.Errorf("got headers %v, %v, want the cause beside the report", len(m.Header), err)
				}
				l.redrive("f", 1)
				a = l.settle("f")
				if a.Delivered != 1 || a.Parked != 1 {
					t.Errorf("got %+v after the redrive, want it delivered", a)
				}
				w.wantAttempts(t, "1", 1, 2, 3, 1)
				want := len(c.data)
				if n := c.header["ce-note"]; n != nil {
					want += len(n[0])
				}
				seen := 0
				for _, size := range sizes {
					if size == want {
						seen++
					}
				}
				if seen != 4 && want != len(small) {
					t.Errorf("got sizes %v, want all of the event in 4 attempts", sizes)
				}
			})
		})
	}
}
