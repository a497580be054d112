package lane

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func (s *standings) list() []standingEvent { return slices.Collect(s.above(0)) }

// Chunks split, fill and vanish unseen, in whatever order events come and go.
func TestStandingsAreASortedMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s standings
		model := map[uint64]Position{}
		t.Repeat(map[string]func(*rapid.T){
			"put a range": func(t *rapid.T) {
				from, n := rapid.Uint64Range(1, 1000).Draw(t, "from"), rapid.Uint64Range(1, 300).Draw(t, "n")
				at := rapid.SampledFrom([]Position{Held, Waiting}).Draw(t, "at")
				down := rapid.Bool().Draw(t, "descending")
				for i := range n {
					seq := from + i
					if down {
						seq = from + n - 1 - i
					}
					s.put(seq, at)
					model[seq] = at
				}
			},
			"remove a range": func(t *rapid.T) {
				from, n := rapid.Uint64Range(1, 1000).Draw(t, "from"), rapid.Uint64Range(1, 300).Draw(t, "n")
				for seq := from; seq < from+n; seq++ {
					s.remove(seq)
					delete(model, seq)
				}
			},
			"remove the lowest": func(t *rapid.T) {
				for range rapid.IntRange(1, 200).Draw(t, "n") {
					if e, ok := s.lowest(); ok {
						s.remove(e.seq)
						delete(model, e.seq)
					}
				}
			},
			"": func(t *rapid.T) {
				var want []standingEvent
				for _, seq := range slices.Sorted(maps.Keys(model)) {
					want = append(want, standingEvent{seq, model[seq]})
				}
				if got := s.list(); !slices.Equal(got, want) {
					t.Fatalf("got (-want +got):\n%s", cmp.Diff(want, got, cmp.AllowUnexported(standingEvent{})))
				}
				if got, ok := s.lowest(); ok != (len(want) > 0) || ok && got != want[0] {
					t.Fatalf("got lowest %v (%v), want the first of %v", got, ok, want)
				}
				if s.count != len(want) {
					t.Fatalf("got count %d, want %d", s.count, len(want))
				}
				probe := rapid.Uint64Range(1, 1300).Draw(t, "probe")
				if got := s.position(probe); got != model[probe] {
					t.Fatalf("position of %d: got %v, want %v", probe, got, model[probe])
				}
				above := slices.DeleteFunc(want, func(e standingEvent) bool { return e.seq <= probe })
				if got := slices.Collect(s.above(probe)); !slices.Equal(got, above) {
					t.Fatalf("above %d: got %v, want %v", probe, got, above)
				}
			},
		})
	})
}
