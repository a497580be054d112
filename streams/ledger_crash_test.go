package streams

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkBetween demands that a ledger cut inside a step says what stood before it or
// after it, word by word: nothing that was settled is lost, nothing else is settled.
func checkBetween(t rapid.TB, l *Ledger, before, after *ledgerModel) {
	t.Helper()
	if f := l.Floor(); f < before.floor || f > after.floor {
		t.Fatalf("Floor: got %d, want %d to %d", f, before.floor, after.floor)
	}
	if c := l.Cursor(); c != before.cursor && c != after.cursor {
		t.Fatalf("Cursor: got %d, want %d or %d", c, before.cursor, after.cursor)
	}
	for s := range before.marks {
		if !l.Settled(s) {
			t.Fatalf("sequence %d was marked and is not settled", s)
		}
	}
	count := 0
	for s := range l.Marked() {
		count++
		if !after.settled(s) {
			t.Fatalf("sequence %d is marked and never was", s)
		}
	}
	if count != l.MarkedCount() {
		t.Fatalf("MarkedCount: got %d, want %d", l.MarkedCount(), count)
	}
	found := map[int]RunningSlot{}
	for _, r := range l.Running() {
		found[r.Slot] = r
	}
	slots := maps.Clone(found)
	maps.Copy(slots, before.slots)
	maps.Copy(slots, after.slots)
	for slot := range slots {
		got, used := found[slot]
		was, wasUsed := before.slots[slot]
		is, isUsed := after.slots[slot]
		if (used != wasUsed || got != was) && (used != isUsed || got != is) {
			t.Fatalf("slot %d: got %+v (in use: %t), want %+v (%t) or %+v (%t)", slot, got, used, was, wasUsed, is, isUsed)
		}
	}
}

// Every store of every step is followed by a cut, and so is every store of the
// recovery from it, save for some of the many equal ones that clear a lap of the ring.
func TestLedgerIsWholeAfterEveryStore(t *testing.T) {
	cuts := 0
	rapid.Check(t, func(t *rapid.T) {
		m := newLedgerModel()
		l := heapLedger(t, emptyLedger(testLedgerKey), nil)
		var taken [][]uint64
		stores := 0
		take := func(words []uint64) {
			if stores++; stores <= 12 || stores%1000 == 0 {
				taken = append(taken, slices.Clone(words))
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			before := m.clone()
			taken, stores = nil, 0
			l.cut = func() { take(l.words) }
			m.step(t, l)
			l.cut = nil
			m.check(t, l)
			steps := taken
			for _, words := range steps {
				cuts++
				taken, stores = nil, 0
				var recovered *Ledger
				content, err := inspectLedger(words, testLedgerKey)
				if err != nil {
					t.Fatalf("after a cut: got %v, want an intact ledger", err)
				}
				recovered = &Ledger{path: "heap"}
				recovered.cut = func() { take(recovered.words) }
				recovered.adopt(words, content)
				recovered.cut = nil
				checkBetween(t, recovered, before, m)
				for _, again := range taken {
					cuts++
					checkBetween(t, heapLedger(t, again, nil), before, m)
				}
			}
		}
	})
	t.Logf("%d cuts", cuts)
}

// A far jump passes a mark at the very end of the window, which stands in the word
// that the first of the two steps ends in.
func TestLedgerFarJumpLeavesNoMarkBehind(t *testing.T) {
	for _, floor := range []uint64{0, 1, 47, 48, 100, LedgerWindow - 1} {
		for _, far := range []uint64{1, 48, LedgerWindow, 3*LedgerWindow + 17} {
			l, before := heapLedger(t, emptyLedger(testLedgerKey), nil), newLedgerModel()
			l.SetFloor(floor)
			before.setFloor(floor)
			if err := l.Mark(floor + LedgerWindow); err != nil {
				t.Fatal(err)
			}
			before.marks[floor+LedgerWindow] = true
			after := before.clone()
			after.setFloor(floor + LedgerWindow + far)
			var taken [][]uint64
			l.cut = func() { taken = append(taken, slices.Clone(l.words)) }
			l.SetFloor(after.floor)
			l.cut = nil
			for _, words := range taken {
				checkBetween(t, heapLedger(t, words, nil), before, after)
			}
			markWholeWindow(t, l, after)
		}
	}
}

// A kill between the floor's move and the clearing of marks leaves marks of the lap
// before in words that the window needs again.
func TestLedgerUsesAgainWhatAKillLeftUncleared(t *testing.T) {
	l, m := heapLedger(t, emptyLedger(testLedgerKey), nil), newLedgerModel()
	for seq := uint64(1); seq <= 2000; seq += 2 {
		if err := l.Mark(seq); err != nil {
			t.Fatal(err)
		}
		m.marks[seq] = true
	}
	var killed []uint64
	stores := 0
	l.cut = func() {
		if stores++; stores == 2 { // the floor's value and its seal
			killed = slices.Clone(l.words)
		}
	}
	l.SetFloor(1000)
	m.setFloor(1000)
	recovered := heapLedger(t, killed, nil)
	m.check(t, recovered)
	markWholeWindow(t, recovered, m)
}

// markWholeWindow marks a sequence in every word that the window has, and compares,
// also after an open.
func markWholeWindow(t *testing.T, l *Ledger, m *ledgerModel) {
	t.Helper()
	for ahead := uint64(1); ahead <= LedgerWindow; ahead += 41 {
		if err := l.Mark(m.floor + ahead); err != nil {
			t.Fatal(err)
		}
		m.marks[m.floor+ahead] = true
	}
	if got, want := slices.Collect(l.Marked()), m.view().Marks; !slices.Equal(got, want) {
		t.Fatalf("Marked: got %d marks, want %d", len(got), len(want))
	}
	if got, want := slices.Collect(heapLedger(t, l.words, nil).Marked()), m.view().Marks; !slices.Equal(got, want) {
		t.Fatalf("Marked after an open: got %d marks, want %d", len(got), len(want))
	}
}

const ledgerChildEnv = "SIDING_TEST_LEDGER_CHILD"

// The child says what it has done after each step; whatever it has said must be found
// after the kill, and what it never does must not.
func TestLedgerKeepsEveryMarkOverKill(t *testing.T) {
	if path := os.Getenv(ledgerChildEnv); path != "" {
		ledgerChild(path)
		return
	}
	path := filepath.Join(t.TempDir(), "ledger")
	marks := 0
	for life := range 6 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLedgerKeepsEveryMarkOverKill$")
		cmd.Env = append(os.Environ(), ledgerChildEnv+"="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The child goes on while its lines are read, so the kill finds it anywhere.
		lines, after := bufio.NewScanner(out), 1+rand.IntN(20_000)
		var marked []uint64
		var floor, highest uint64
		running, ending := map[int]uint64{}, map[int]bool{}
		for n := 0; lines.Scan(); n++ {
			if n == after {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			var what string
			var slot int
			var seq uint64
			if got, _ := fmt.Sscan(lines.Text(), &what, &slot, &seq); got != 3 {
				continue // the last line may be cut
			}
			switch what {
			case "marked":
				marked = append(marked, seq)
				highest = max(highest, seq)
			case "floor":
				floor = seq
			case "begun":
				running[slot] = seq
			case "ending": // the end may or may not have happened before the kill
				ending[slot] = true
			case "ended":
				delete(running, slot)
				delete(ending, slot)
			default:
				t.Fatalf("the child says %q", lines.Text())
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child ended by itself, want it killed")
		}
		l, state, err := OpenLedger(path, testLedgerKey)
		if err != nil || !state.Kept() {
			t.Fatalf("OpenLedger after kill %d: got %+v, %v, want it kept", life, state, err)
		}
		if got := l.Floor(); got < floor {
			t.Errorf("Floor: got %d, want %d or more", got, floor)
		}
		for _, seq := range marked {
			if !l.Settled(seq) {
				t.Errorf("kill %d: sequence %d was marked and is not settled", life, seq)
			}
		}
		for seq := range l.Marked() {
			if seq%3 == 0 {
				t.Errorf("kill %d: sequence %d is marked and never was", life, seq)
			}
		}
		found := map[int]uint64{}
		for _, r := range l.Running() {
			found[r.Slot] = r.Sequence
		}
		for slot, seq := range running {
			if !ending[slot] && found[slot] != seq {
				t.Errorf("kill %d: slot %d: got sequence %d, want %d", life, slot, found[slot], seq)
			}
		}
		if len(found) > len(running)+1 {
			t.Errorf("kill %d: got %d slots in use, want %d and at most one unspoken", life, len(found), len(running))
		}
		marks += len(marked)
		if err := l.CleanStop(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d marks over 6 kills", marks)
}

// ledgerChild marks all sequences that 3 does not divide until it is killed. Its
// floor follows a window behind, so that the ring is used again and again.
func ledgerChild(path string) {
	l, _, err := OpenLedger(path, testLedgerKey)
	say := func(what string, slot int, seq uint64) {
		// One write for each line, unbuffered: a line that is read was finished.
		_, werr := fmt.Printf("%s %d %d\n", what, slot, seq)
		err = errors.Join(err, werr)
	}
	var slots []int
	for seq := l.Cursor() + 1; err == nil; seq++ {
		slot, berr := l.Begin(Run{Sequence: seq, Attempt: 1})
		say("begun", slot, seq)
		slots = append(slots, slot)
		l.SetCursor(seq)
		if seq%3 != 0 {
			err = errors.Join(err, berr, l.Mark(seq))
			say("marked", 0, seq)
		}
		if len(slots) > 8 {
			say("ending", slots[0], 0)
			l.End(slots[0])
			say("ended", slots[0], 0)
			slots = slots[1:]
		}
		if seq%1000 == 0 {
			seq += LedgerWindow / 3
			l.SetFloor(seq)
			say("floor", 0, seq)
		}
	}
	fmt.Fprintln(os.Stderr, "ledger child:", err)
	os.Exit(1)
}
