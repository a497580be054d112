package streams_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/streams"
)

func step(function, id, name, result string) streams.Step {
	return streams.Step{Function: function, Source: "s", ID: id, Name: name, Sequence: 1, Result: json.RawMessage(result)}
}

func recordSteps(t *testing.T, s *streams.Store, steps ...streams.Step) {
	t.Helper()
	for _, each := range steps {
		if err := s.RecordStep(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
}

// wantSteps compares the results of an event's steps, in the order in which they were recorded.
func wantSteps(t *testing.T, s *streams.Store, function, id string, want ...string) {
	t.Helper()
	steps, err := s.Steps(t.Context(), function, "s", id)
	got := []string{}
	for _, each := range steps {
		got = append(got, each.Name+"="+string(each.Result))
	}
	wantEqual(t, "steps of "+function+" "+id, got, append([]string{}, want...))
	if err != nil {
		t.Fatal(err)
	}
}

func TestOnceTheFirstResultOfAStepStays(t *testing.T) {
	s := openStore(t)
	recordSteps(t, s, step("f", "1", "a", "1"), step("f", "1", "a.b > *", "2"), step("f", "1", "a", "3"), step("f", "2", "a", "4"), step("g", "1", "a", "5"))
	wantSteps(t, s, "f", "1", "a=1", "a.b > *=2")
	if err := s.ForgetSteps(t.Context(), "f", "s", "1"); err != nil {
		t.Fatal(err)
	}
	wantSteps(t, s, "f", "1")
	wantSteps(t, s, "f", "2", "a=4")
	wantSteps(t, s, "g", "1", "a=5")
	recordSteps(t, s, step("f", "1", "a", "6")) // done again
	wantSteps(t, s, "f", "1", "a=6")
}

// TestOnceAndEmitFollowTheNameOfTheirFunction: an adoption carries the steps over, and the outbox with what had been delivered.
func TestOnceAndEmitFollowTheNameOfTheirFunction(t *testing.T) {
	s := openStore(t)
	declare(t, s, streams.Declared{Name: "f"})
	recordSteps(t, s, step("f", "1", "a", "1"), step("h", "1", "a", "2"))
	stow(t, s, "f", 1, "x", true)
	stow(t, s, "f", 2, "y", false)
	if _, err := s.Adopt(t.Context(), streams.Adoption{Old: "f", Name: "g"}); err != nil {
		t.Fatal(err)
	}
	wantSteps(t, s, "f", "1")
	wantSteps(t, s, "g", "1", "a=1")
	wantSteps(t, s, "h", "1", "a=2")
	wantEmittedIDs(t, s)
	if err := s.FlushOutbox(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	wantEmittedIDs(t, s, "x1", "x2")
}

// stow stores an outbox of two events, and the record that names it if it is committed.
func stow(t *testing.T, s *streams.Store, function string, cause uint64, id string, committed bool) *streams.Outbox {
	t.Helper()
	o := &streams.Outbox{Function: function, Cause: cause, ID: id}
	for _, n := range []string{"1", "2"} {
		e := event.New()
		e.SetID(id + n)
		e.SetSource("s")
		e.SetType("followed")
		o.Events = append(o.Events, e)
	}
	if err := s.Stow(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if committed {
		if err := s.Append(t.Context(), streams.Record{Function: function, Sequence: cause, Kind: streams.RecordDelivered, Outbox: id}); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func wantEmittedIDs(t *testing.T, s *streams.Store, want ...string) {
	t.Helper()
	got := []string{}
	for next := uint64(1); ; {
		m, err := s.Next(t.Context(), streams.EventsStream, next, "events.followed")
		if err != nil {
			break
		}
		got, next = append(got, m.Header.Get("ce-id")), m.Sequence+1
	}
	wantEqual(t, "emitted", got, append([]string{}, want...))
}

// TestEmitOnlyWhatTheRecordNames: a kill can bring back what an earlier attempt stored, and an attempt that emitted nothing can be the one that succeeded.
func TestEmitOnlyWhatTheRecordNames(t *testing.T) {
	s := openStore(t)
	stow(t, s, "f", 1, "x", true)
	stow(t, s, "f", 1, "y", false) // stands in the place of x
	stow(t, s, "f", 2, "z", false)
	if err := s.Append(t.Context(), streams.Record{Function: "f", Sequence: 2, Kind: streams.RecordDelivered}); err != nil {
		t.Fatal(err)
	}
	if err := s.FlushOutbox(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	wantEmittedIDs(t, s)
	if left, err := s.Outboxes(t.Context(), "f"); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want nothing left", left, err)
	}
}

func wantEqual(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// TestOnceIsKeptForALaterEventOfTheSameID: one that was accepted again, long after the first, keeps the steps of the first as its own.
func TestOnceIsKeptForALaterEventOfTheSameID(t *testing.T) {
	s := openStore(t)
	recordSteps(t, s, step("f", "1", "a", "1"))
	for _, sequence := range []uint64{9, 5} { // the later one stays
		if err := s.TakeSteps(t.Context(), "f", "s", "1", sequence); err != nil {
			t.Fatal(err)
		}
		steps, err := s.Steps(t.Context(), "f", "s", "1")
		if err != nil || len(steps) != 1 || steps[0].Sequence != 9 || string(steps[0].Result) != "1" {
			t.Errorf("got %+v, %v, want the step as one of sequence 9", steps, err)
		}
	}
}
