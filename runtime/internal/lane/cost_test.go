package lane

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// An event whose lane is otherwise empty costs its lane and nothing else; the ones behind it cost nothing at all.
func TestHotPathAllocatesOnlyTheLane(t *testing.T) {
	effects := make([]Effect, 0, 8)
	lanes := map[string]*Lane{"a": nil} // as an owner keeps them
	allocs := testing.AllocsPerRun(100, func() {
		lanes["a"] = New(Rules{})
		for _, in := range []Input{Cursor(9), Arrive(7), Arrive(8), Done(7), Done(8)} {
			effects = lanes["a"].Step(in, effects[:0])
		}
	})
	if allocs > 1 || !lanes["a"].Idle() {
		t.Errorf("got %v allocations and idle %v, want one, the lane, and idle", allocs, lanes["a"].Idle())
	}

	l := New(Rules{})
	seq := uint64(1)
	l.Step(Cursor(1<<60), effects[:0])
	l.Step(Arrive(seq), effects[:0])
	l.Step(Arrive(seq+1), effects[:0])
	l.Step(Retry(seq), effects[:0])
	allocs = testing.AllocsPerRun(1000, func() {
		for _, in := range []Input{HeldNow(seq + 1), Due(seq), Done(seq), ReleasedNow(seq + 1), Due(seq + 1), Arrive(seq + 2), Retry(seq + 1)} {
			effects = l.Step(in, effects[:0])
		}
		seq++
	})
	if allocs != 0 || l.Len() != 2 {
		t.Errorf("got %v allocations and %d events for each blocked event, want none and 2", allocs, l.Len())
	}
}

// What held events cost is a matter of counts, so that the test does not depend on the machine's speed: the room that they take, and how
// many of them one input can shift.
func TestHeldEventsCostLittle(t *testing.T) {
	const n = 50_000
	room := func(s standings) (bytes int) {
		for _, c := range s.chunks {
			bytes += cap(c) * int(unsafe.Sizeof(standingEvent{}))
			if len(c) > chunkSize {
				t.Errorf("got a chunk of %d, want at most %d", len(c), chunkSize)
			}
		}
		return bytes
	}
	ascending := blocked(n)
	listed := New(Rules{})
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		listed.Step(Standing(uint64(i)+1, Held), nil)
	}
	for name, test := range map[string]struct {
		lane *Lane
		most int
	}{"ascending": {ascending, 17}, "listed": {listed, 26}} {
		each := float64(room(test.lane.away)) / n
		t.Attr(name+"_bytes_per_held_event", fmt.Sprintf("%.1f", each))
		if each > float64(test.most) {
			t.Errorf("%s: got %.1f bytes for each held event, want at most %d", name, each, test.most)
		}
	}
	// One dead letter is looked for among one, however many are held.
	if seq, ok := ascending.LowestParked(); seq != 1 || !ok || room(ascending.parked) > chunkSize*int(unsafe.Sizeof(standingEvent{})) {
		t.Errorf("got lowest dead letter %d (%v) out of %d, want 1 out of one chunk", seq, ok, ascending.parked.count)
	}
	for ascending.Len() > 10 {
		e, _ := ascending.away.lowest()
		ascending.Step(Done(e.seq), nil)
	}
	if got, want := room(ascending.away), 2*chunkSize*int(unsafe.Sizeof(standingEvent{})); got > want {
		t.Errorf("got %d bytes when all but 10 are gone, want at most %d", got, want)
	}
}

// blocked returns a lane with n events held behind a dead letter.
func blocked(n int) *Lane {
	l := New(Rules{})
	effects := make([]Effect, 0, 8)
	for _, in := range []Input{Cursor(1 << 60), Standing(1, Parked)} {
		effects = l.Step(in, effects[:0])
	}
	for seq := uint64(2); seq < uint64(n)+2; seq++ {
		effects = l.Step(Arrive(seq), effects[:0])
		effects = l.Step(HeldNow(seq), effects[:0])
	}
	return l
}

func BenchmarkHotPath(b *testing.B) {
	effects := make([]Effect, 0, 8)
	lanes := map[string]*Lane{}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l := New(Rules{})
		lanes["a"] = l
		seq := uint64(i + 1)
		for _, in := range [...]Input{Cursor(seq), Arrive(seq), Done(seq)} {
			effects = l.Step(in, effects[:0])
		}
	}
}

// BenchmarkBehindAMillion is the whole way of one event through a lane with a million held: in at the end, out at the front.
func BenchmarkBehindAMillion(b *testing.B) {
	const n = 1_000_000
	l := blocked(n)
	effects := l.Step(Done(1), nil)
	last := uint64(n + 1)
	b.ReportAllocs()
	for b.Loop() {
		last++
		first := effects[len(effects)-1].Seq
		effects = l.Step(Arrive(last), effects[:0])
		for _, in := range [...]Input{HeldNow(last), ReleasedNow(first), Due(first), Done(first)} {
			effects = l.Step(in, effects[:0])
		}
	}
}

// BenchmarkStart builds a lane of a million held events from a list in random order.
func BenchmarkStart(b *testing.B) {
	const n = 1_000_000
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	b.ReportAllocs()
	for b.Loop() {
		l := New(Rules{})
		for _, i := range order {
			l.Step(Standing(uint64(i)+2, Held), nil)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
}
