package streams_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

func newEvent(id string) event.Event {
	e := event.New()
	e.SetID(id)
	e.SetSource("/test")
	e.SetType("com.example.claim")
	if err := e.SetData("application/json", map[string]string{"id": id}); err != nil {
		panic(err) // a map of strings always encodes
	}
	return e
}

// accept stores an event, which has to work.
func accept(t *testing.T, s *streams.Store, e event.Event) streams.Accepted {
	t.Helper()
	a, err := s.Accept(t.Context(), e, nil)
	if err != nil {
		t.Fatalf("accept %s: %v", e.ID(), err)
	}
	return a
}

func TestAcceptedEventsSurviveReopeningAndAreStillKnown(t *testing.T) {
	s := openStore(t)
	e := newEvent("é 1")
	e.SetExtension("partitionkey", `50% "off"`)
	first, err := s.Accept(t.Context(), e, nats.Header{"traceparent": {"00-hop"}})
	if err != nil || first != (streams.Accepted{Sequence: 1}) {
		t.Fatalf("got %+v, %v, want sequence 1", first, err)
	}
	s = reopen(t, s)
	m, err := s.Get(t.Context(), streams.EventsStream, 1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := streams.Decode(m.Header, m.Data)
	if err != nil || m.Subject != "events.com.example.claim" || m.Header.Get("traceparent") != "00-hop" {
		t.Errorf("got %v on %s with %v, want the event and the header of its hop", err, m.Subject, m.Header)
	}
	if diff := cmp.Diff(e.String(), got.String()); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	if a := accept(t, s, e); a != (streams.Accepted{Sequence: 1, Duplicate: true}) {
		t.Errorf("got %+v for the same event after a restart, want a duplicate of sequence 1", a)
	}
}

func TestSourceAndIDAreKnownForTheWindowAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		accept(t, s, newEvent("1"))
		time.Sleep(streams.DedupeWindow - time.Second)
		if a := accept(t, s, newEvent("1")); !a.Duplicate {
			t.Errorf("got %+v within the window, want a duplicate", a)
		}
		time.Sleep(2 * time.Minute) // the server cleans up once in a while
		if a := accept(t, s, newEvent("1")); a != (streams.Accepted{Sequence: 2}) {
			t.Errorf("got %+v behind the window, want it stored", a)
		}
		other := newEvent("1")
		other.SetSource("/other")
		if a := accept(t, s, other); a != (streams.Accepted{Sequence: 3}) {
			t.Errorf("got %+v for the same id of another source, want it stored", a)
		}
	})
}

func TestTheSameSourceAndIDWithDifferentContentIsRefused(t *testing.T) {
	s := openStore(t)
	accept(t, s, newEvent("1"))
	for name, change := range map[string]func(*event.Event){
		"data":              func(e *event.Event) { _ = e.SetData("application/json", map[string]string{"id": "2"}) },
		"no data":           func(e *event.Event) { e.DataEncoded = nil },
		"data content type": func(e *event.Event) { e.SetDataContentType("text/plain") },
		"type":              func(e *event.Event) { e.SetType("com.example.other") },
		"subject":           func(e *event.Event) { e.SetSubject("x") },
		"one extension":     func(e *event.Event) { e.SetExtension("partitionkey", "x") },
		"time":              func(e *event.Event) { e.SetTime(time.Unix(1, 0)) },
	} {
		e := newEvent("1")
		change(&e)
		a, err := s.Accept(t.Context(), e, nil)
		if !errors.Is(err, streams.ErrDifferent) || a != (streams.Accepted{}) || !strings.Contains(err.Error(), "sequence 1") {
			t.Errorf("another %s: got %+v, %v, want ErrDifferent that names sequence 1", name, a, err)
		}
	}
	if got := stored(t, s.Node()); got != 1 {
		t.Errorf("got %d events, want 1", got)
	}
}

func TestTheTraceOfASecondTryMakesNoDifferentEvent(t *testing.T) {
	s := openStore(t)
	traced := func(id, trace string) event.Event {
		e := newEvent(id)
		if trace != "" {
			e.SetExtension("traceparent", trace)
			e.SetExtension("tracestate", "a="+trace)
		}
		return e
	}
	for id, traces := range map[string][]string{"with, without": {"00-a", ""}, "without, with": {"", "00-a"}, "another": {"00-a", "00-b"}} {
		first := accept(t, s, traced(id, traces[0]))
		if a := accept(t, s, traced(id, traces[1])); a != (streams.Accepted{Sequence: first.Sequence, Duplicate: true}) {
			t.Errorf("%s: got %+v, want a duplicate of sequence %d", id, a, first.Sequence)
		}
	}
}

func TestAnEventThatAnotherClientStoredInStructuredModeIsTheSame(t *testing.T) {
	s := openStore(t)
	e := newEvent("1")
	body, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	m := &nats.Msg{Subject: "events.com.example.claim", Data: body, Header: nats.Header{"Content-Type": {"application/cloudevents+json"}}}
	if _, err := s.JetStream().PublishMsg(t.Context(), m, jetstream.WithMsgID(streams.MessageID("/test", "1"))); err != nil {
		t.Fatal(err)
	}
	if a := accept(t, s, e); !a.Duplicate {
		t.Errorf("got %+v, want a duplicate", a)
	}
}

func TestWhatDoesNotFitIsRefusedBeforeItIsSent(t *testing.T) {
	s := openStore(t)
	limit := int(streams.MaxEventSize(s.Node().MaxPayload()))
	// Fills an event up to a size, headers included, as NATS counts it.
	sized := func(size int) event.Event {
		e := newEvent("1")
		h, _, err := streams.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		e.DataEncoded = bytes.Repeat([]byte("x"), size-(&nats.Msg{Subject: "events." + e.Type(), Header: h}).Size())
		return e
	}
	with := func(change func(*event.Event)) event.Event {
		e := newEvent("1")
		change(&e)
		return e
	}
	var invalid *streams.InvalidError
	for name, tc := range map[string]struct {
		event event.Event
		want  func(error) bool
	}{
		"data":       {sized(limit + 1), func(err error) bool { return errors.Is(err, streams.ErrTooLarge) }},
		"attributes": {with(func(e *event.Event) { e.SetExtension("x", strings.Repeat("x", streams.MaxEventHeader)) }), func(err error) bool { return errors.Is(err, streams.ErrTooLarge) }},
		"type": {with(func(e *event.Event) { e.SetType(strings.Repeat("x", streams.MaxTypeSubject+1)) }),
			func(err error) bool { return errors.As(err, &invalid) && invalid.Attribute == "type" }},
		"no source": {with(func(e *event.Event) { e.SetSource("") }), func(err error) bool { return errors.As(err, &invalid) && invalid.Attribute == "source" }},
	} {
		if a, err := s.Accept(t.Context(), tc.event, nil); err == nil || !tc.want(err) || a != (streams.Accepted{}) {
			t.Errorf("%s: got %+v, %v", name, a, err)
		}
		if err := s.Check(tc.event); err == nil || !tc.want(err) {
			t.Errorf("%s: got %v from Check, want the same refusal", name, err)
		}
	}
	if err := s.Node().Health(); err != nil || stored(t, s.Node()) != 0 {
		t.Errorf("got %v, want a healthy node without events", err)
	}
	// The largest ones of each kind fit, which the server says and not only we.
	fits := sized(limit)
	if err := s.Check(fits); err != nil {
		t.Errorf("got %v for an event of %d bytes, want it accepted", err, limit)
	}
	accept(t, s, fits)
	// What was checked is not refused for what tracing has added to it since.
	traced := sized(limit)
	traced.SetID("4")
	traced.SetExtension("traceparent", strings.Repeat("0", 55))
	traced.SetExtension("tracestate", strings.Repeat("a", 512))
	if _, err := s.Accept(t.Context(), traced, nats.Header{"traceparent": {strings.Repeat("0", 55)}, "tracestate": {strings.Repeat("a", 512)}}); err != nil {
		t.Errorf("got %v with a trace context, want it accepted", err)
	}
	accept(t, s, with(func(e *event.Event) { e.SetID("2"); e.SetType(strings.Repeat("x", streams.MaxTypeSubject)) }))
	accept(t, s, with(func(e *event.Event) {
		e.SetID("3")
		e.SetExtension("x", strings.Repeat("x", streams.MaxEventHeader-512))
	}))
}

func TestAFullStoreRefusesEventsAndStillTakesDeadLetters(t *testing.T) {
	s := storeOn(t, streamstest.New(t, func(cfg *streams.Config) { cfg.MaxStore = 16 << 20 }))
	big := func(id int) event.Event {
		e := newEvent(strings.Repeat("i", id+1))
		e.DataEncoded = bytes.Repeat([]byte("x"), 512<<10)
		return e
	}
	var err error
	n := 0
	for ; n < 100 && err == nil; n++ {
		_, err = s.Accept(t.Context(), big(n), nil)
	}
	if !errors.Is(err, streams.ErrFull) || !strings.HasPrefix(err.Error(), "stream EVENTS: ") {
		t.Fatalf("got %v after %d events, want ErrFull that names the stream", err, n)
	}
	if got := stored(t, s.Node()); got != uint64(n-1) {
		t.Errorf("got %d events, want the %d that were accepted", got, n-1)
	}
	m, err := s.Get(t.Context(), streams.EventsStream, 1)
	if err != nil {
		t.Fatal(err)
	}
	place(t, s, streams.InDeadLetters, ref("f", "", 1), streams.Copy{Source: streams.EventsStream, Header: m.Header, Data: m.Data})
	if _, err := s.Accept(t.Context(), big(n), nil); !errors.Is(err, streams.ErrFull) {
		t.Errorf("got %v afterwards, want it still full", err)
	}
	if err := s.Delete(t.Context(), streams.EventsStream, 1); err != nil {
		t.Fatal(err)
	}
	accept(t, s, big(n))
}
