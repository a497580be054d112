package streams_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/streams"
)

func TestASecondDecisionIsRefusedNamingTheFirstUntilThatOneIsApplied(t *testing.T) {
	s := openStore(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first := streams.Decision{Action: streams.ActionRedrive, Cycle: 1, Reason: "fixed", By: "Ada", At: at}
	second := streams.Decision{Action: streams.ActionDiscard, Cycle: 1, Reason: "no claim", By: "Bob", At: at.Add(time.Second)}
	r := ref("f", "k", 7)
	seq, err := s.Decide(t.Context(), r, first)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := s.Decide(t.Context(), r, second)
		var pending *streams.DecisionPendingError
		if !errors.As(err, &pending) || got != 0 {
			t.Fatalf("got %d, %v, want a DecisionPendingError", got, err)
		}
		if diff := cmp.Diff(&streams.DecisionPendingError{Ref: r, First: first}, pending); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
		if want := "dead letter f/7: redrive by Ada at 2026-03-01T12:00:00Z waits to be applied"; err.Error() != want {
			t.Errorf("got %s, want %s", err, want)
		}
	}
	if _, err := s.Decide(t.Context(), ref("f", "k", 8), second); err != nil {
		t.Errorf("got %v about another dead letter, want it stated", err)
	}
	if err := s.Delete(t.Context(), streams.DecisionsStream, seq); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Decide(t.Context(), r, second); err != nil {
		t.Errorf("got %v after the first was applied, want it stated", err)
	}
	m, err := s.Last(t.Context(), streams.DecisionsStream, streams.InDecisions.Subject(r))
	if err != nil {
		t.Fatal(err)
	}
	got, err := streams.ReadDecision(m.Data)
	if diff := cmp.Diff(second, got); diff != "" || err != nil {
		t.Errorf("error %v, decision (-want +got):\n%s", err, diff)
	}
}

func TestOfManyDecisionsAtOnceExactlyOneIsStated(t *testing.T) {
	s := openStore(t)
	const deciders = 16
	errs := make([]error, deciders)
	var wait sync.WaitGroup
	for i := range deciders {
		wait.Go(func() {
			_, errs[i] = s.Decide(t.Context(), ref("f", "", 1), streams.Decision{Action: streams.ActionDiscard, By: "x"})
		})
	}
	wait.Wait()
	stated := 0
	for _, err := range errs {
		switch {
		case err == nil:
			stated++
		case !errors.As(err, new(*streams.DecisionPendingError)):
			t.Errorf("got %v, want a DecisionPendingError", err)
		}
	}
	if stated != 1 {
		t.Errorf("got %d decisions stated, want 1", stated)
	}
}

func TestADecisionThatWasNotStatedIsAnError(t *testing.T) {
	s := openStore(t)
	d := streams.Decision{Action: streams.ActionDiscard, Reason: strings.Repeat("x", 2<<20)}
	if _, err := s.Decide(t.Context(), ref("f", "", 1), d); !errors.Is(err, streams.ErrTooLarge) || !strings.HasPrefix(err.Error(), "decision on f/1: ") {
		t.Errorf("got %v, want ErrTooLarge that names the dead letter", err)
	}
	wantNothing(t, s, streams.InDecisions, "f")
}

func TestWhatIsNoDecisionIsNotRead(t *testing.T) {
	for _, data := range []string{"", "x", "{}", "[]", `{"action":"edit"}`, `{"action":"Redrive"}`, `{"action":1}`, `{"action":"redrive","cycle":"1"}`} {
		if d, err := streams.ReadDecision([]byte(data)); err == nil || !strings.HasPrefix(err.Error(), "decision: ") {
			t.Errorf("%q: got %+v, %v, want an error", data, d, err)
		}
	}
}

func TestAnEditKeepsItsDataByteForByte(t *testing.T) {
	s := openStore(t)
	for i, data := range []string{"", "\n", "{\"a\":1}\n\n", "\x00\xff", `{"action":"discard"}`} {
		want := streams.Decision{Action: streams.ActionEdit, Cycle: 1, Reason: "two\nlines", By: "Ada", Source: "a letter", Data: []byte(data)}
		r := ref("f", "k", uint64(i)+1)
		if _, err := s.Decide(t.Context(), r, want); err != nil {
			t.Fatal(err)
		}
		m, err := s.Last(t.Context(), streams.DecisionsStream, streams.InDecisions.Subject(r))
		if err != nil {
			t.Fatal(err)
		}
		got, err := streams.ReadDecision(m.Data)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("error %v, decision (-want +got):\n%s", err, diff)
		}
		var pending *streams.DecisionPendingError
		if _, err := s.Decide(t.Context(), r, want); !errors.As(err, &pending) || pending.First.By != "Ada" {
			t.Errorf("got %v, want the first editor named", err)
		}
	}
	if d, err := streams.ReadDecision([]byte(`{"action":"edit"}`)); err == nil {
		t.Errorf("got %+v of an edit without data, want an error", d)
	}
}
