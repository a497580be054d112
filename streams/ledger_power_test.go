package streams

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A power loss leaves of each page what the last sync wrote or something newer, whatever it left of the other pages. What was settled when a sync began
// that has ended stays settled.
func TestLedgerClearedAfterSyncSurvivesAPowerLoss(t *testing.T) {
	const pageWords = 512
	losses := 0
	rapid.Check(t, func(t *rapid.T) {
		m := newLedgerModel()
		l := heapLedger(t, emptyLedger(testLedgerKey), nil)
		if err := l.ClearAfterSync(); err != nil {
			t.Fatal(err)
		}
		safe, settled := slices.Clone(l.words), m.clone()
		noted := map[uint64]bool{} // every sequence that was ever marked
		l.flushed = func() { safe, settled = slices.Clone(l.words), m.clone() }
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "sync") == 0 {
				if err := l.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			m.step(t, l)
			maps.Copy(noted, m.marks)
			m.check(t, l)
			disk, old := slices.Clone(l.words), rapid.Uint64().Draw(t, "old")
			for page := 0; page < ledgerWords; page += pageWords {
				if old>>(page/pageWords%64)&1 == 1 {
					copy(disk[page:min(page+pageWords, ledgerWords)], safe[page:])
				}
			}
			losses++
			after := heapLedger(t, disk, nil)
			if after.Floor() < settled.floor {
				t.Fatalf("got floor %d, want at least the %d that a sync has brought to the disk", after.Floor(), settled.floor)
			}
			for seq := range noted {
				if settled.settled(seq) && !after.Settled(seq) {
					t.Fatalf("sequence %d was settled and synced, and is not settled after a power loss", seq)
				}
				if after.Settled(seq) && !m.settled(seq) {
					t.Fatalf("sequence %d is settled after a power loss, and never was", seq)
				}
			}
		}
	})
	t.Logf("%d power losses", losses)
}
