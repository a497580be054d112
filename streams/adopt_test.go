package streams_test

import (
	"errors"
	"testing"
	"time"

	"github.com/siding-dev/siding/streams"
)

// declare makes functions known that read EVENTS.
func declare(t *testing.T, s *streams.Store, all ...streams.Declared) {
	t.Helper()
	source, err := s.Source(t.Context(), streams.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		d.Stream, d.StreamCreated, d.Types, d.Since = source.Name, source.Created, []string{"t"}, 1
		if err := s.Declare(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnAdoptionTouchesNoOtherThatIsUnderWay tries each way to mix two of them.
func TestAnAdoptionTouchesNoOtherThatIsUnderWay(t *testing.T) {
	s := openStore(t)
	declare(t, s, streams.Declared{Name: "a", Adopting: &streams.Adopting{To: "b", At: time.Now()}}, streams.Declared{Name: "b", From: "a"}, streams.Declared{Name: "c"})
	for _, names := range [][2]string{{"c", "b"}, {"a", "c"}, {"a", "new"}, {"b", "new"}, {"c", "a"}} {
		for _, dry := range []bool{true, false} {
			_, err := s.Adopt(t.Context(), streams.Adoption{Old: names[0], Name: names[1], DryRun: dry})
			if got, ok := errors.AsType[*streams.UnderWayError](err); !ok || *got != (streams.UnderWayError{Old: "a", Name: "b"}) {
				t.Errorf("%v: got %v, want the adoption that is under way", names, err)
			}
		}
	}
	for name, want := range map[string]bool{"a": true, "b": true, "c": false, "new": false} {
		if err := s.UnderWay(t.Context(), name); (err != nil) != want {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	if _, err := s.Adopt(t.Context(), streams.Adoption{Old: "a", Name: "b"}); err != nil {
		t.Errorf("got %v, want it finished", err)
	}
	if err := s.UnderWay(t.Context(), "a", "b", "c"); err != nil {
		t.Errorf("got %v, want none under way", err)
	}
}

// TestAnAdoptionKeepsTheLaterCycleWhereAnEarlierTryHasPutACopy is about copies under both names: whichever knows more of the event is the one that stays.
func TestAnAdoptionKeepsTheLaterCycleWhereAnEarlierTryHasPutACopy(t *testing.T) {
	for _, where := range []streams.Place{streams.InRetry, streams.InHeld, streams.InDeadLetters} {
		for _, c := range []struct{ old, name, want int }{{1, 0, 1}, {0, 1, 1}, {2, 2, 2}} {
			s := openStore(t)
			declare(t, s, streams.Declared{Name: "f"})
			for function, cycle := range map[string]int{"f": c.old, "g": c.name} {
				place(t, s, where, ref(function, "k", 7), streams.Copy{Cycle: cycle, Key: "k", Source: streams.EventsStream})
			}
			a, err := s.Adopt(t.Context(), streams.Adoption{Old: "f", Name: "g"})
			if err != nil || a.Parked+a.Retrying+a.Held != 1 {
				t.Errorf("%s %+v: got %+v, %v, want one event that goes over", where, c, a, err)
			}
			if got, _ := stands(t, s, where, ref("g", "k", 7)); got.Cycle != c.want {
				t.Errorf("%s: cycles %d and %d: got %d, want the later", where, c.old, c.name, got.Cycle)
			}
			if refs, err := s.Standing(t.Context(), where, "f"); err != nil || len(refs) > 0 {
				t.Errorf("%s: got %v, %v of the old name, want nothing", where, refs, err)
			}
		}
	}
}

// TestAnAdoptionThatIsFinishedMovesWhatStandsAllTheSame is about a copy that came after the new name was declared: it is moved and not dropped.
func TestAnAdoptionThatIsFinishedMovesWhatStandsAllTheSame(t *testing.T) {
	s := openStore(t)
	declare(t, s, streams.Declared{Name: "f", Adopting: &streams.Adopting{To: "g", At: time.Now()}}, streams.Declared{Name: "g", From: "f"})
	place(t, s, streams.InDeadLetters, ref("f", "k", 7), streams.Copy{Key: "k", Source: streams.EventsStream})
	for _, dry := range []bool{true, false} {
		if a, err := s.Adopt(t.Context(), streams.Adoption{Old: "f", Name: "g", DryRun: dry}); err != nil || a != (streams.Adopted{Parked: 1}) {
			t.Errorf("got %+v, %v, want it counted", a, err)
		}
	}
	stands(t, s, streams.InDeadLetters, ref("g", "k", 7))
}
