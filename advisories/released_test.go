package advisories

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// rendered is a dead letter as it is stored.
func rendered(r Report) streams.Message {
	m := streams.Message{Subject: "siding.dlq.f.k.7", Header: nats.Header{}}
	for name, value := range r.Headers() {
		m.Header.Set(name, value)
	}
	return m
}

func TestOnlySomeDeadLettersBlockTheirLane(t *testing.T) {
	released := &Released{By: "anna", At: base}
	for _, tc := range []struct {
		cause    Cause
		released *Released
		want     bool
	}{
		{Exhausted, nil, true}, {Permanent, nil, true}, {Undecodable, nil, true}, {Crashed, nil, true}, {Stuck, nil, true},
		{Expired, nil, false}, {SetAside, nil, false},
		{Exhausted, released, false}, {Permanent, released, false}, {Stuck, released, false}, {Expired, released, false},
	} {
		m := rendered(Report{Cause: tc.cause, Released: tc.released, ParkedAt: base})
		if got := Blocks(m.Header); got != tc.want {
			t.Errorf("%s, released %v: got that it blocks %v, want %v", tc.cause, tc.released != nil, got, tc.want)
		}
	}
}

func TestAReleaseIsReadBackAsItWasWrittenAndFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReport(t)
		r.Released = &Released{By: drawText(t, "by"), Reason: drawText(t, "reason"), At: base.Add(time.Duration(rapid.Int64Range(0, 1e18).Draw(t, "at")))}
		before := *r.Released
		if size := added(r.Headers()); size > maxAdded {
			t.Fatalf("got %d bytes of headers, want no more than %d", size, maxAdded)
		}
		if diff := cmp.Diff(before, *r.Released); diff != "" {
			t.Errorf("rendering changed the report:\n%s", diff)
		}
		m := rendered(r)
		got, err := ReadReport(m)
		if err != nil || got.Released == nil {
			t.Fatalf("got %+v, %v, want a release", got.Released, err)
		}
		if !got.Released.At.Equal(before.At) {
			t.Errorf("got it released at %s, want %s", got.Released.At, before.At)
		}
		for name, text := range map[string][2]string{"by": {before.By, got.Released.By}, "reason": {before.Reason, got.Released.Reason}} {
			cut, ok := shortened(text[0], text[1])
			if !ok || cut && !got.Truncated {
				t.Errorf("%s: got %q of %q, marked as cut %v", name, text[1], text[0], got.Truncated)
			}
			if len(text[1]) > 6*maxBrief {
				t.Errorf("%s: got %d bytes, want it brief", name, len(text[1]))
			}
		}
		if Blocks(m.Header) {
			t.Error("got one that blocks its lane, want that its release says that it does not")
		}
		again := rendered(got) // as a further release would write it
		if diff := cmp.Diff(m.Header.Get(releasedHeader), again.Header.Get(releasedHeader)); diff != "" {
			t.Errorf("written again:\n%s", diff)
		}
	})
}

func TestADeadLetterThatWasNotReleasedSaysNothingOfIt(t *testing.T) {
	m := rendered(Report{Cause: Permanent, ParkedAt: base})
	if got := m.Header.Get(releasedHeader); got != "" || strings.Contains(m.Header.Get(reportHeader), "released") {
		t.Errorf("got header %q and report %s, want no word of a release", got, m.Header.Get(reportHeader))
	}
	if r, err := ReadReport(m); err != nil || r.Released != nil {
		t.Errorf("got %+v, %v", r.Released, err)
	}
}

// TestATailOfAnOrphanIsWhatItsDeadLetterHolds: a discard with the tail ends what is held behind the dead letter, as far as it had arrived, and
// nothing where the dead letter blocks nobody.
func TestATailOfAnOrphanIsWhatItsDeadLetterHolds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		onPark functions.OnPark
		report Report
		held   int // in the end, of 4
	}{
		{"holding", functions.Hold, Report{Cause: Permanent}, 2},
		{"continuing", functions.Continue, Report{Cause: Permanent}, 4},
		{"released", functions.Hold, Report{Cause: Permanent, Released: &Released{By: "anna", At: base}}, 4},
		{"expired", functions.Hold, Report{Cause: Expired}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := openStore(t)
			ref, c := store1(t, s)
			tc.report.ParkedAt = base
			must(t, s.Declare(t.Context(), streams.Declared{Name: "f", Attempts: 2, OnPark: tc.onPark.String()}))
			_, err := s.Place(t.Context(), streams.InDeadLetters, ref, Letter(c, tc.report))
			must(t, err)
			for _, held := range []streams.Ref{
				{Function: "f", Lane: ref.Lane, Sequence: 2}, {Function: "f", Lane: ref.Lane, Sequence: 3}, // its tail
				{Function: "f", Lane: ref.Lane, Sequence: 9}, // arrived later
				{Function: "f", Lane: streams.Lane("other"), Sequence: 4}, {Function: "g", Lane: ref.Lane, Sequence: 2},
			} {
				_, err := s.Place(t.Context(), streams.InHeld, held, c)
				must(t, err)
			}
			_, err = s.Decide(t.Context(), ref, streams.Decision{Action: streams.ActionDiscard, Tail: true, Through: 8, By: "anna", At: base})
			must(t, err)
			o := &Orphans{Store: s, Hosted: func(name string) bool { return name != "f" }}
			must(t, o.Decisions(t.Context()))
			stands := map[string]int{"held": tc.held}
			wantStanding(t, s, stands)
		})
	}
}
