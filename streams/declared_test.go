package streams_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/siding-dev/siding/streams"
)

func TestDeclarationsComeBackWholeAndTheLastOneCounts(t *testing.T) {
	s := openStore(t)
	if names, err := s.DeclaredNames(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("got %q, %v, want none", names, err)
	}
	want := streams.Declared{
		Name: "file-claim", Types: []string{"com.x.*", "com.y.>"}, Stream: "ORDERS", StreamCreated: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Since: 9,
		OrderBy: "partition key", Attempts: 12, Timeout: 1500 * time.Millisecond, Concurrency: 16, Owner: "claims-team", Version: "1.4.0",
		Paused: []streams.PausedLane{{Lane: "policy-7", Key: "policy-7", By: "ana", Reason: "audit", At: time.Date(2026, 1, 2, 3, 4, 5, 7, time.UTC)}},
	}
	for _, d := range []streams.Declared{{Name: "file-claim"}, want, {Name: "a"}} {
		if err := s.Declare(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	s = reopen(t, s)
	got, err := s.Declared(t.Context(), "file-claim")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, declaration (-want +got):\n%s", err, diff)
	}
	names, err := s.DeclaredNames(t.Context())
	slices.Sort(names)
	if diff := cmp.Diff([]string{"a", "file-claim"}, names); diff != "" || err != nil {
		t.Errorf("error %v, names (-want +got):\n%s", err, diff)
	}
}

// Consumers of advisories have any name that NATS allows, and not all of them are keys of a bucket.
func TestNamesThatNoFunctionCanHaveAreNotFound(t *testing.T) {
	s := openStore(t)
	for _, name := range []string{"", "a b", "a.>", "*", "ä", ".a", "b$"} {
		if _, err := s.Declared(t.Context(), name); !errors.Is(err, streams.ErrNotFound) {
			t.Errorf("%q: got %v, want not found", name, err)
		}
	}
}

func TestASourceIsKnownByNameAndCreation(t *testing.T) {
	s := openStore(t)
	for range 3 {
		publish(t, s.Node(), "x")
	}
	if err := s.Delete(t.Context(), streams.EventsStream, 1); err != nil {
		t.Fatal(err)
	}
	before, err := s.Source(t.Context(), streams.EventsStream)
	if err != nil || before.Name != streams.EventsStream || before.First != 2 || before.Last != 3 || before.Created.IsZero() {
		t.Errorf("got %+v, %v, want EVENTS from 2 to 3", before, err)
	}
	s = reopen(t, s)
	after, err := s.Source(t.Context(), streams.EventsStream)
	if diff := cmp.Diff(before, after, cmpopts.IgnoreUnexported(streams.Source{})); diff != "" || err != nil {
		t.Errorf("error %v, over a restart (-want +got):\n%s", err, diff)
	}
	if err := s.JetStream().DeleteStream(t.Context(), streams.EventsStream); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s)
	if anew, err := s.Source(t.Context(), streams.EventsStream); err != nil || anew.Created.Equal(before.Created) {
		t.Errorf("got %+v, %v, want a stream with another time of creation", anew, err)
	}
}
