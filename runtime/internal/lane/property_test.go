package lane

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func live(t *rapid.T, goOn bool) {
	w := newWorld(t, Rules{Bound: rapid.IntRange(1, 3).Draw(t, "bound"), Continue: goOn})
	for range 3 { // rapid's 30 steps are a short life
		t.Repeat(map[string]func(*rapid.T){"live": func(*rapid.T) { w.live() }})
	}
	w.settle()
}

// Whatever happens to a lane: never two running, none before its predecessors, nothing lost, held means not run, each move asked for once, and
// what may start is started at once.
func TestLaneDoesWhatTheObviousModelSays(t *testing.T) {
	t.Run("and is blocked by dead letters", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { live(t, false) })
	})
	t.Run("and continues behind dead letters", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { live(t, true) })
	})
}

func FuzzLives(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { live(t, rapid.Bool().Draw(t, "continue")) }))
}

// Any bytes are inputs, also ones that no owner would give. The lane may then keep an event for ever, but it never breaks its rule.
func FuzzInputs(f *testing.F) {
	const highest = 15
	// Two dead letters with their tails, of which the lower one is let pass.
	f.Add([]byte{0x02, 0x71, 0x02, 0x62, 0x02, 0x73, 0x02, 0x64, 0x0c, 0x0f, 0x07, 0x01, 0x0b, 0x02, 0x05, 0x02, 0x03, 0x02})
	f.Fuzz(func(t *testing.T, data []byte) {
		l := New(Rules{Bound: 2})
		var past []Input
		for i := 0; i+1 < len(data); i += 2 {
			in := Input{kind: inputKind(data[i] % 16), at: Position(data[i+1] >> 4), seq: uint64(data[i+1] % (highest + 1))}
			past = append(past, in)
			before := positions(l, highest)
			effects := l.Step(in, nil)
			for _, e := range effects {
				if e.Action == Hold {
					continue
				}
				for seq, at := range before {
					ended := uint64(seq) == in.seq
					if at == Running && !ended {
						t.Fatalf("%v: %v while %d runs", past, e, seq)
					}
					if at != Absent && uint64(seq) < e.Seq && !ended {
						t.Fatalf("%v: %v overtakes %d, which is %v", past, e, seq, at)
					}
				}
				if l.Paused() || e.Seq > l.cursor {
					t.Fatalf("%v: %v, paused %v, cursor %d", past, e, l.Paused(), l.cursor)
				}
			}
			now := positions(l, highest)
			unfinished := slices.DeleteFunc(slices.Clone(now), func(at Position) bool { return at == Absent })
			held := slices.DeleteFunc(slices.Clone(now), func(at Position) bool { return at != Held })
			if diff := cmp.Diff([]int{len(unfinished), len(held)}, []int{l.Len(), l.Held()}); diff != "" {
				t.Fatalf("%v: unfinished and held (-want +got):\n%s", past, diff)
			}
			if got, ok := l.LowestParked(); int(got) != max(0, slices.Index(now, Parked)) || ok != slices.Contains(now, Parked) {
				t.Fatalf("%v: got lowest dead letter %d (%v), want the first parked of %v", past, got, ok, now)
			}
		}
	})
}

func positions(l *Lane, highest uint64) []Position {
	all := make([]Position, highest+1)
	for seq := range all {
		all[seq] = l.Position(uint64(seq))
	}
	return all
}
