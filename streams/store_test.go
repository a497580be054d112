package streams_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

// openStore opens a store on a node of its own.
func openStore(t *testing.T, options ...streams.StoreOption) *streams.Store {
	t.Helper()
	return storeOn(t, streamstest.New(t), options...)
}

func storeOn(t *testing.T, node *streams.Node, options ...streams.StoreOption) *streams.Store {
	t.Helper()
	s, err := streams.OpenStore(t.Context(), node, options...)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	return s
}

// reopen closes the node of a store and opens another one on what it left.
func reopen(t *testing.T, s *streams.Store) *streams.Store {
	t.Helper()
	if err := s.Node().Close(); err != nil {
		t.Fatal(err)
	}
	return storeOn(t, streamstest.New(t, streamstest.Dir(s.Node().Dir())))
}

func ref(function, key string, sequence uint64) streams.Ref {
	return streams.Ref{Function: function, Lane: streams.Lane(key), Sequence: sequence}
}

// place puts a copy somewhere, which has to work.
func place(t *testing.T, s *streams.Store, where streams.Place, r streams.Ref, c streams.Copy) uint64 {
	t.Helper()
	placed, err := s.Place(t.Context(), where, r, c)
	if err != nil || placed.Stale || placed.Already {
		t.Fatalf("place %s in %s: got %+v, %v", r.ID(), where, placed, err)
	}
	return placed.Sequence
}

// wantNothing checks that no event of the function stands there.
func wantNothing(t *testing.T, s *streams.Store, where streams.Place, function string) {
	t.Helper()
	if refs, err := s.Standing(t.Context(), where, function); err != nil || len(refs) != 0 {
		t.Errorf("%s of %s: got %+v, %v, want nothing", where, function, refs, err)
	}
}

func TestWhatDoesNotExistIsNotFoundByName(t *testing.T) {
	s := openStore(t)
	place(t, s, streams.InHeld, ref("f", "k", 7), streams.Copy{Source: "EVENTS"})
	for name, tc := range map[string]struct {
		read func() error
		want string
	}{
		"sequence": {func() error { _, err := s.Get(t.Context(), "EVENTS", 42); return err }, "stream EVENTS: sequence 42: not found"},
		"stream":   {func() error { _, err := s.Get(t.Context(), "DLQ_f", 1); return err }, "stream DLQ_f: sequence 1: not found"},
		"next":     {func() error { _, err := s.Next(t.Context(), "SIDING_HELD", 2, "siding.held.>"); return err }, "stream SIDING_HELD: siding.held.> from 2: not found"},
		"last":     {func() error { _, err := s.Last(t.Context(), "EVENTS", "events.>"); return err }, "stream EVENTS: events.>: not found"},
		"source":   {func() error { _, err := s.Source(t.Context(), "ORDERS"); return err }, "stream ORDERS: not found"},
		"function": {func() error { _, err := s.Declared(t.Context(), "nobody"); return err }, "function nobody: not found"},
		"event":    {func() error { _, err := s.Find(t.Context(), streams.InHeld, "f", 8); return err }, "SIDING_HELD: f/8: not found"},
	} {
		if err := tc.read(); !errors.Is(err, streams.ErrNotFound) || err.Error() != tc.want {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
	}
	wantNothing(t, s, streams.InDeadLetters, "f")
}

func TestStandingAndFindSeeOneFunctionOverAllLanes(t *testing.T) {
	s := openStore(t)
	mine := []streams.Ref{ref("f", "a", 1), ref("f", "", 2), ref("f", "x.y é", 3)}
	for _, r := range append(slices.Clone(mine), ref("f-2", "a", 1), ref("g", "a", 3)) {
		place(t, s, streams.InRetry, r, streams.Copy{Source: "EVENTS"})
	}
	place(t, s, streams.InHeld, ref("f", "a", 4), streams.Copy{Source: "EVENTS"})
	got, err := s.Standing(t.Context(), streams.InRetry, "f")
	byFunction := cmpopts.SortSlices(func(a, b streams.Ref) bool { return a.Sequence < b.Sequence })
	if diff := cmp.Diff(mine, got, byFunction); diff != "" || err != nil {
		t.Errorf("error %v, standing (-want +got):\n%s", err, diff)
	}
	if got, err := s.Find(t.Context(), streams.InRetry, "f", 3); err != nil || got != mine[2] {
		t.Errorf("got %+v, %v, want %+v", got, err, mine[2])
	}
	if got, err := s.Find(t.Context(), streams.InRetry, "f", 4); !errors.Is(err, streams.ErrNotFound) {
		t.Errorf("got %+v, %v for an event that stands elsewhere, want not found", got, err)
	}
}

func TestReadsGoOnAfterARestartAndAfterAStreamWasMadeAnew(t *testing.T) {
	s := openStore(t)
	r, subject := ref("f", "", 1), streams.InDeadLetters.Subject(ref("f", "", 1))
	for _, step := range []struct {
		name   string
		change func() error
		want   error
	}{
		{"restart", func() error { return s.Node().Restart(t.Context()) }, nil},
		{"deleted by hand", func() error { return s.JetStream().DeleteStream(t.Context(), "DLQ_f") }, streams.ErrNotFound},
		{"made anew", func() error { place(t, s, streams.InDeadLetters, r, streams.Copy{Source: "EVENTS"}); return nil }, nil},
	} {
		if step.name == "restart" {
			place(t, s, streams.InDeadLetters, r, streams.Copy{Source: "EVENTS"})
			if _, err := s.Last(t.Context(), "DLQ_f", subject); err != nil {
				t.Fatal(err)
			}
		}
		if err := step.change(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if _, err := s.Last(t.Context(), "DLQ_f", subject); !errors.Is(err, step.want) {
			t.Errorf("%s: got %v, want %v", step.name, err, step.want)
		}
		if refs, err := s.Standing(t.Context(), streams.InDeadLetters, "f"); err != nil || (len(refs) == 1) != (step.want == nil) {
			t.Errorf("%s: got %+v, %v", step.name, refs, err)
		}
	}
}

func TestEveryChangePassesTheGateTwiceAndNoReadDoes(t *testing.T) {
	var ops []string
	var mu sync.Mutex
	s := openStore(t, streams.WithGate(func(op string) {
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, op)
	}))
	r := ref("f", "", 1)
	for want, change := range map[string]func() error{
		"place held":         func() error { _, err := s.Place(t.Context(), streams.InHeld, r, streams.Copy{}); return err },
		"delete SIDING_HELD": func() error { return s.Delete(t.Context(), "SIDING_HELD", 1) },
		"accept":             func() error { _, err := s.Accept(t.Context(), newEvent("1"), nil); return err },
		"record attempt": func() error {
			return s.Append(t.Context(), streams.Record{Function: "f", Sequence: 1, Kind: streams.RecordAttempt})
		},
		"audit parked": func() error { return s.Audit(t.Context(), streams.AuditEntry{Action: "parked", Function: "f"}) },
		"decide": func() error {
			_, err := s.Decide(t.Context(), r, streams.Decision{Action: streams.ActionRedrive})
			return err
		},
		"declare": func() error { return s.Declare(t.Context(), streams.Declared{Name: "f"}) },
		"mark":    func() error { s.Gated("mark", func() {}); return nil },
	} {
		ops = nil
		if err := change(); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if diff := cmp.Diff([]string{want, want}, ops); diff != "" {
			t.Errorf("gate (-want +got):\n%s", diff)
		}
	}
	ops = nil
	_, _ = s.Get(t.Context(), "EVENTS", 1)
	_, _ = s.Standing(t.Context(), streams.InHeld, "f")
	_, _ = s.Records(t.Context(), "f", 1)
	if err := s.Ungated().Delete(t.Context(), "EVENTS", 1); err != nil || len(ops) != 0 {
		t.Errorf("got %v and the gate %q, want reads and the ungated store to pass by", err, ops)
	}
}

func TestCopiesCarryNothingThatTheServerOrAnEarlierCopyAdded(t *testing.T) {
	got := streams.CopyHeader(nats.Header{
		"ce-id": {"1"}, "CE-Type": {"t"}, "traceparent": {"00-x"}, "Content-Type": {"a", "b"}, "natsy": {"x"}, "Siding": {"x"}, "X-Nats-Y": {"x"},
		"Nats-Msg-Id": {"x"}, "nats-expected-stream": {"x"}, "NATS-TTL": {"x"}, "NaTs-": {"x"},
		"Siding-Cycle": {"1"}, "siding-key": {"k"}, "SIDING-DEAD-LETTER": {"{}"},
	})
	want := nats.Header{"ce-id": {"1"}, "CE-Type": {"t"}, "traceparent": {"00-x"}, "Content-Type": {"a", "b"}, "natsy": {"x"}, "Siding": {"x"}, "X-Nats-Y": {"x"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

// A full disk shows itself as a publish that is never answered.
func TestAnOperationThatIsNeverAnsweredEndsAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		if err := s.JetStream().DeleteStream(t.Context(), "SIDING_HELD"); err != nil {
			t.Fatal(err)
		}
		// Somebody who listens and says nothing is what a stream looks like whose store hangs.
		deaf, err := s.Node().Conn().SubscribeSync("siding.held.>")
		if err != nil {
			t.Fatal(err)
		}
		// The caller has more patience, which must not count: the client's own bound is for those who state none.
		patient, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun := time.Now()
		_, err = s.Place(patient, streams.InHeld, ref("f", "", 1), streams.Copy{})
		if took := time.Since(begun); err == nil || took != streams.OpTimeout || !strings.HasPrefix(err.Error(), "SIDING_HELD: f/1: ") {
			t.Errorf("got %v after %s, want an error that names stream and event after %s", err, took, streams.OpTimeout)
		}
		if err := deaf.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	})
}
