package streams

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var testLedgerKey = LedgerKey{Function: "charge", Stream: "EVENTS", Created: time.Unix(1_700_000_000, 42)}

func openTestLedger(t testing.TB, path string) *Ledger {
	t.Helper()
	l, _, err := OpenLedger(path, testLedgerKey)
	if err != nil {
		t.Fatalf("OpenLedger: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// heapLedger runs a ledger over plain memory, for the tests that need no file.
func heapLedger(t rapid.TB, words []uint64, cut func()) *Ledger {
	t.Helper()
	content, err := inspectLedger(words, testLedgerKey)
	if err != nil {
		t.Fatalf("inspectLedger: got %v, want an intact ledger", err)
	}
	l := &Ledger{path: "heap", cut: cut}
	l.adopt(words, content)
	return l
}

// ledgerView is all that a ledger says, for comparison.
type ledgerView struct {
	Floor, Cursor uint64
	Marks         []uint64
	Running       []RunningSlot
}

func viewOf(l *Ledger) ledgerView {
	return ledgerView{l.Floor(), l.Cursor(), slices.Collect(l.Marked()), l.Running()}
}

// ledgerModel is the obvious ledger.
type ledgerModel struct {
	floor, cursor uint64
	marks         map[uint64]bool
	slots         map[int]RunningSlot
}

func newLedgerModel() *ledgerModel {
	return &ledgerModel{marks: map[uint64]bool{}, slots: map[int]RunningSlot{}}
}

func (m *ledgerModel) settled(seq uint64) bool { return seq <= m.floor || m.marks[seq] }

func (m *ledgerModel) setFloor(seq uint64) {
	m.floor = max(m.floor, seq)
	for s := range m.marks {
		if s <= m.floor {
			delete(m.marks, s)
		}
	}
}

func (m *ledgerModel) clone() *ledgerModel {
	c := newLedgerModel()
	c.floor, c.cursor = m.floor, m.cursor
	for s := range m.marks {
		c.marks[s] = true
	}
	maps.Copy(c.slots, m.slots)
	return c
}

func (m *ledgerModel) view() ledgerView {
	v := ledgerView{Floor: m.floor, Cursor: m.cursor}
	for s := range m.marks {
		v.Marks = append(v.Marks, s)
	}
	slices.Sort(v.Marks)
	for _, r := range m.slots {
		v.Running = append(v.Running, r)
	}
	slices.SortFunc(v.Running, func(a, b RunningSlot) int { return a.Slot - b.Slot })
	return v
}

func (m *ledgerModel) check(t rapid.TB, l *Ledger) {
	t.Helper()
	if diff := cmp.Diff(m.view(), viewOf(l), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("ledger differs from the model (-want +got):\n%s", diff)
	}
	if got, want := l.MarkedCount(), len(m.marks); got != want {
		t.Fatalf("MarkedCount: got %d, want %d", got, want)
	}
	probe := []uint64{0, 1, m.floor, m.floor + 1, m.floor + 48, m.floor + LedgerWindow, m.floor + LedgerWindow + 1}
	for s := range m.marks {
		probe = append(probe, s-1, s, s+1, s+48, s+ledgerRingWords*ledgerWordBits)
	}
	for _, s := range probe {
		if got, want := l.Settled(s), m.settled(s); got != want {
			t.Fatalf("Settled(%d): got %t, want %t (floor %d)", s, got, want, m.floor)
		}
	}
}

// step does one random thing to both.
func (m *ledgerModel) step(t *rapid.T, l *Ledger) {
	near := rapid.Uint64Range(0, 300)
	edge := rapid.Uint64Range(LedgerWindow-100, LedgerWindow+100)
	switch rapid.SampledFrom([]string{"mark", "mark", "mark", "mark", "floor", "floor", "jump", "cursor", "begin", "begin", "end", "reach", "reach"}).Draw(t, "op") {
	case "mark":
		seq := m.floor + rapid.OneOf(near, near, near, rapid.Uint64Range(0, LedgerWindow), edge).Draw(t, "ahead")
		err := l.Mark(seq)
		if seq > m.floor+LedgerWindow {
			if !errors.Is(err, ErrLedgerWindow) {
				t.Fatalf("Mark(%d) with floor %d: got %v, want ErrLedgerWindow", seq, m.floor, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("Mark(%d): %v", seq, err)
		}
		if seq > m.floor {
			m.marks[seq] = true
		}
	case "floor":
		seq := m.floor + near.Draw(t, "forward") - min(m.floor, rapid.Uint64Range(0, 20).Draw(t, "back"))
		l.SetFloor(seq)
		m.setFloor(seq)
	case "jump":
		seq := m.floor + rapid.OneOf(edge, rapid.Uint64Range(1000, 7*LedgerWindow)).Draw(t, "far")
		l.SetFloor(seq)
		m.setFloor(seq)
	case "cursor":
		seq := rapid.Uint64Range(0, 1000).Draw(t, "cursor")
		l.SetCursor(seq)
		m.cursor = max(m.cursor, seq)
	case "begin":
		r := drawRun(t)
		slot, err := l.Begin(r)
		if err != nil {
			t.Fatalf("Begin: %v", err)
		}
		if _, used := m.slots[slot]; used {
			t.Fatalf("Begin: got slot %d, which is in use", slot)
		}
		m.slots[slot] = RunningSlot{Slot: slot, Run: r}
	case "end":
		slot := rapid.IntRange(-1, 4).Draw(t, "slot")
		l.End(slot)
		delete(m.slots, slot)
	case "reach":
		slot, state := rapid.IntRange(-1, 4).Draw(t, "slot"), rapid.SampledFrom([]RunState{RunStarted, RunReturned}).Draw(t, "state")
		run, used := m.slots[slot]
		if stranger := rapid.Bool().Draw(t, "of another run"); stranger || !used {
			r := drawRun(t)
			if r == run.Run {
				return
			}
			l.Reach(slot, r, state) // one that was given up, whose slot is another's by now
			return
		}
		l.Reach(slot, run.Run, state)
		run.State = max(run.State, state)
		m.slots[slot] = run
	}
}

func drawRun(t *rapid.T) Run {
	number := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, math.MaxInt32))
	return Run{
		Sequence: rapid.Uint64().Draw(t, "sequence"),
		Cycle:    number.Draw(t, "cycle"),
		Attempt:  number.Draw(t, "attempt"),
		Boot:     rapid.Uint32Min(1).Draw(t, "boot"),
		Crashes:  number.Draw(t, "crashes"),
	}
}

func TestLedgerIsTheObviousLedgerThroughCloseAndKill(t *testing.T) {
	dir, files := t.TempDir(), 0
	newPath := func() string {
		files++
		return filepath.Join(dir, fmt.Sprint(files))
	}
	rapid.Check(t, func(t *rapid.T) {
		path, m := newPath(), newLedgerModel()
		l, state, err := OpenLedger(path, testLedgerKey)
		if err != nil || !state.Fresh || state.Kept() {
			t.Fatalf("OpenLedger: got %+v, %v, want a fresh one", state, err)
		}
		defer func() {
			if err := errors.Join(l.Close(), os.Remove(path)); err != nil {
				t.Errorf("clean up: %v", err)
			}
		}()
		reopen := func(next string) {
			boot := l.Boot()
			if err := l.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			if next != path {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			path = next
			if l, state, err = OpenLedger(path, testLedgerKey); err != nil || !state.Kept() {
				t.Fatalf("OpenLedger: got %+v, %v, want it kept", state, err)
			}
			if l.Boot() != boot+1 {
				t.Fatalf("Boot: got %d after %d, want one more", l.Boot(), boot)
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "life") {
			case 0:
				reopen(path)
			case 1:
				// What a kill leaves is what another reader of the file sees now.
				killed := newPath()
				content, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(killed, content, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				reopen(killed)
			default:
				m.step(t, l)
			}
			m.check(t, l)
		}
	})
}

func TestLedgerRingWrapsOverManyLaps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, m := openTestLedger(t, path), newLedgerModel()
	// A stride that is no multiple of the word touches ever other bits of ever other words.
	const stride = 9973
	for seq := uint64(1); seq < 20*LedgerWindow; seq += stride {
		if seq > LedgerWindow {
			l.SetFloor(seq - LedgerWindow)
			m.setFloor(seq - LedgerWindow)
		}
		if err := l.Mark(seq); err != nil {
			t.Fatalf("Mark(%d): %v", seq, err)
		}
		m.marks[seq] = true
	}
	m.check(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	m.check(t, openTestLedger(t, path))
}

func TestLedgerBoundsOfTheWindow(t *testing.T) {
	for _, floor := range []uint64{0, 1, 47, 48, 49, LedgerWindow - 1, LedgerWindow, LedgerWindow + 1, 1 << 60, math.MaxUint64 - LedgerWindow - 1} {
		t.Run(fmt.Sprint(floor), func(t *testing.T) {
			l, m := heapLedger(t, emptyLedger(testLedgerKey), nil), newLedgerModel()
			l.SetFloor(floor)
			m.setFloor(floor)
			for _, seq := range []uint64{floor, floor + 1, floor + LedgerWindow} {
				if err := l.Mark(seq); err != nil {
					t.Errorf("Mark(%d): got %v, want nil", seq, err)
				}
				if seq > floor {
					m.marks[seq] = true
				}
			}
			if err := l.Mark(floor + LedgerWindow + 1); !errors.Is(err, ErrLedgerWindow) {
				t.Errorf("Mark beyond the window: got %v, want ErrLedgerWindow", err)
			}
			m.check(t, l)
			m.check(t, heapLedger(t, l.words, nil))
			l.SetFloor(math.MaxUint64)
			if got := l.MarkedCount(); got != 0 || !l.Settled(math.MaxUint64) {
				t.Errorf("floor at the end of all sequences: got %d marks, want 0", got)
			}
		})
	}
}

func TestLedgerBoundsOfTheSlots(t *testing.T) {
	l := heapLedger(t, emptyLedger(testLedgerKey), nil)
	for i := range LedgerSlots {
		if slot, err := l.Begin(Run{Sequence: uint64(i)}); err != nil || slot != i {
			t.Fatalf("Begin: got %d, %v, want slot %d", slot, err, i)
		}
	}
	if _, err := l.Begin(Run{}); !errors.Is(err, ErrLedgerSlots) {
		t.Errorf("Begin with all slots in use: got %v, want ErrLedgerSlots", err)
	}
	l.End(7)
	l.End(7)
	l.End(LedgerSlots)
	l = heapLedger(t, l.words, nil)
	if slot, err := l.Begin(Run{Sequence: 1}); err != nil || slot != 7 {
		t.Errorf("Begin: got %d, %v, want the slot that ended, 7", slot, err)
	}
	if _, err := l.Begin(Run{}); !errors.Is(err, ErrLedgerSlots) {
		t.Errorf("Begin after a slot ended twice: got %v, want ErrLedgerSlots", err)
	}
	if got := l.Running()[7].Boot; got != l.Boot() {
		t.Errorf("Boot of a run begun without one: got %d, want the present boot %d", got, l.Boot())
	}
}

func TestLedgerRefusesNumbersThatASlotCannotHold(t *testing.T) {
	l := heapLedger(t, emptyLedger(testLedgerKey), nil)
	for _, r := range []Run{{Attempt: -1}, {Cycle: -1}, {Crashes: -1}} {
		if _, err := l.Begin(r); err == nil {
			t.Errorf("Begin(%+v): got nil, want an error", r)
		}
	}
	if got := l.Running(); len(got) != 0 {
		t.Errorf("Running: got %v, want none", got)
	}
}

func TestLedgerCleanStopLeavesNoRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l := openTestLedger(t, path)
	for _, r := range []Run{{Sequence: 1, Attempt: 1}, {Sequence: 2, Attempt: 3, Crashes: 1}} {
		if _, err := l.Begin(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.CleanStop(); err != nil {
		t.Fatalf("CleanStop: %v", err)
	}
	if got := openTestLedger(t, path).Running(); len(got) > 0 {
		t.Errorf("after a clean stop: got %+v running, want nothing", got)
	}
}

func TestLedgerAnswersAfterClose(t *testing.T) {
	l := openTestLedger(t, filepath.Join(t.TempDir(), "ledger"))
	l.SetFloor(10)
	l.SetCursor(20)
	slot, err := l.Begin(Run{Sequence: 11})
	if err := errors.Join(err, l.Mark(12), l.Sync(), l.Close(), l.Close(), l.CleanStop()); err != nil {
		t.Fatal(err)
	}
	l.SetFloor(30)
	l.SetCursor(30)
	l.End(slot)
	l.Reach(slot, Run{Sequence: 11}, RunReturned)
	_, begun := l.Begin(Run{})
	for name, err := range map[string]error{"Mark": l.Mark(13), "Begin": begun, "Sync": l.Sync()} {
		if !errors.Is(err, ErrLedgerClosed) {
			t.Errorf("%s: got %v, want ErrLedgerClosed", name, err)
		}
	}
	if diff := cmp.Diff(ledgerView{}, viewOf(l)); diff != "" {
		t.Errorf("a closed ledger (-want +got):\n%s", diff)
	}
	if l.Settled(5) || l.MarkedCount() != 0 {
		t.Error("Settled or MarkedCount: got something, want nothing")
	}
}

// The owner marks odd sequences only, so that an even one is settled by the floor
// alone; laps of the ring pass while the readers look, and it closes under their hands.
func TestLedgerReadersRunBesideTheOwner(t *testing.T) {
	l := openTestLedger(t, filepath.Join(t.TempDir(), "ledger"))
	var last, floor atomic.Uint64 // last: marked before it is stored; floor: stored before it is set
	var readers sync.WaitGroup
	closed := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for before := uint64(0); ; {
				marked, settled := last.Load(), false
				if marked > 0 {
					settled = l.Settled(marked)
				}
				even := (marked + 1) &^ 1 // 0 before the first mark, and that is settled
				early := l.Settled(even) && floor.Load() < even
				now := l.Floor()
				ascending := slices.IsSorted(slices.Collect(l.Marked()))
				select {
				case <-closed:
					return
				default:
				}
				if marked > 0 && !settled {
					t.Errorf("Settled(%d): got false, want true", marked)
				}
				if early || now < before || !ascending {
					t.Errorf("even sequence %d settled early: %t; floor %d after %d; marks ascending: %t", even, early, now, before, ascending)
				}
				before = now
			}
		})
	}
	seq := uint64(1)
	for i := range 300_000 {
		seq += 2 * uint64(i%997)
		if seq > LedgerWindow/2 {
			to := seq - uint64(i%5000) - 1
			floor.Store(max(floor.Load(), to))
			l.SetFloor(to)
		}
		if err := l.Mark(seq); err != nil {
			t.Fatalf("Mark(%d): %v", seq, err)
		}
		last.Store(seq)
	}
	close(closed)
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	readers.Wait()
}

func TestLedgerHotPathDoesNotAllocate(t *testing.T) {
	l := openTestLedger(t, filepath.Join(t.TempDir(), "ledger"))
	seq := uint64(0)
	allocs := testing.AllocsPerRun(1000, func() {
		seq++
		slot, err := l.Begin(Run{Sequence: seq, Attempt: 1})
		if err = errors.Join(err, l.Mark(seq+1)); err != nil {
			t.Fatal(err)
		}
		l.End(slot)
		l.SetCursor(seq)
		l.SetFloor(seq)
	})
	if allocs != 0 {
		t.Errorf("allocations of one event: got %v, want 0", allocs)
	}
}

func BenchmarkLedgerMark(b *testing.B) {
	l := openTestLedger(b, filepath.Join(b.TempDir(), "ledger"))
	b.ReportAllocs()
	seq := uint64(0)
	for b.Loop() {
		if seq++; seq%1024 == 0 {
			l.SetFloor(seq - 1)
		}
		if err := l.Mark(seq); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLedgerBeginEnd(b *testing.B) {
	l := openTestLedger(b, filepath.Join(b.TempDir(), "ledger"))
	b.ReportAllocs()
	for b.Loop() {
		slot, err := l.Begin(Run{Sequence: 1, Attempt: 1})
		if err != nil {
			b.Fatal(err)
		}
		l.End(slot)
	}
}
