package streams

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestLedgerSetsAsideWhatIsOfNoUse(t *testing.T) {
	intact := func() []uint64 {
		l := heapLedger(t, emptyLedger(testLedgerKey), nil)
		l.SetFloor(100)
		if err := l.Mark(200); err != nil {
			t.Fatal(err)
		}
		return l.words
	}
	write := func(change func(words []uint64, content []byte) []byte) func(string) error {
		return func(path string) error {
			words := intact()
			return os.WriteFile(path, change(words, ledgerFileBytes(words)), 0o600)
		}
	}
	key := func(change func(*LedgerKey)) func(string) error {
		return func(path string) error {
			k := testLedgerKey
			change(&k)
			return writeLedger(path, k)
		}
	}
	for _, tt := range []struct {
		name, why string
		stand     func(path string) error
	}{
		{"truncated", "bytes", write(func(_ []uint64, b []byte) []byte { return b[:len(b)-4096] })},
		{"longer", "bytes", write(func(_ []uint64, b []byte) []byte { return append(bytes.Clone(b), 0) })},
		{"empty", "has 0 bytes", func(path string) error { return os.WriteFile(path, nil, 0o600) }},
		{"zeros", "not a ledger", func(path string) error { return os.WriteFile(path, make([]byte, ledgerBytes), 0o600) }},
		{"text", "not a ledger", func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte("x"), ledgerBytes), 0o600)
		}},
		{"directory", "not a file", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"other function", "belongs to another", key(func(k *LedgerKey) { k.Function = "refund" })},
		{"other stream", "belongs to another", key(func(k *LedgerKey) { k.Stream = "ORDERS" })},
		{"names run together", "belongs to another", key(func(k *LedgerKey) { k.Function, k.Stream = "chargeE", "VENTS" })},
		{"stream made anew", "belongs to another", key(func(k *LedgerKey) { k.Created = k.Created.Add(time.Nanosecond) })},
		{"other version", "layout version 9", write(func(w []uint64, b []byte) []byte { w[ledgerVersionAt] = 9; return b })},
		{"other geometry", "words and", write(func(w []uint64, b []byte) []byte {
			w[2] = 1 << 10
			w[ledgerSumAt] = ledgerHash(w[:ledgerSumAt]...)
			return b
		})},
		{"torn header", "header: checksum", write(func(w []uint64, b []byte) []byte { w[ledgerIdentityAt]++; return b })},
		{"torn floor", "floor: checksum", write(func(w []uint64, b []byte) []byte { w[ledgerFloorAt+2]++; return b })},
		{"torn cursor", "cursor: checksum", write(func(w []uint64, b []byte) []byte { w[ledgerCursorAt+2]++; return b })},
		{"torn boot", "boot: checksum", write(func(w []uint64, b []byte) []byte { w[ledgerBootAt+2] = 0; return b })},
		{"torn mark", "sequences 192 to 239", write(func(w []uint64, b []byte) []byte { w[ledgerRingIndex(200/48)]++; return b })},
		{"mark of a lap to come", "sequences 192 to 239", write(func(w []uint64, b []byte) []byte {
			w[ledgerRingIndex(4)] = addLedgerMark(0, 4+ledgerRingWords, 1)
			return b
		})},
		{"mark at another place", "sequences 240 to 287", write(func(w []uint64, b []byte) []byte {
			w[ledgerRingIndex(5)] = w[ledgerRingIndex(4)]
			return b
		})},
		{"torn slot", "slot 3: checksum", write(func(w []uint64, b []byte) []byte { w[ledgerSlotIndex(3)+3] = 1; return b })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger")
			if err := tt.stand(path); err != nil {
				t.Fatal(err)
			}
			was, _ := os.ReadFile(path) // nil for a directory
			l, state, err := OpenLedger(path, testLedgerKey)
			if err != nil {
				t.Fatalf("OpenLedger: %v", err)
			}
			defer l.Close()
			if !strings.Contains(state.Why, tt.why) || !strings.HasPrefix(state.SetAside, path+".aside-") || state.Fresh || state.Kept() {
				t.Errorf("state: got %+v, want it set aside because %q", state, tt.why)
			}
			if aside, _ := os.ReadFile(state.SetAside); !bytes.Equal(aside, was) {
				t.Error("the file set aside is not the one that stood there")
			}
			if _, err := os.Stat(state.SetAside); err != nil {
				t.Errorf("the file set aside: %v", err)
			}
			if diff := cmp.Diff(ledgerView{}, viewOf(l)); diff != "" {
				t.Errorf("the new ledger (-want +got):\n%s", diff)
			}
			if left, _ := filepath.Glob(path + "*"); len(left) != 2 {
				t.Errorf("files: got %v, want the ledger and the one set aside", left)
			}
		})
	}
}

// In the bubble the clock stands still, so that the names would be the same.
func TestLedgerNeverOverwritesWhatWasSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ledger")
		for _, content := range []string{"first", "second", "third"} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			l, state, err := OpenLedger(path, testLedgerKey)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(state.SetAside); string(got) != content {
				t.Errorf("set aside: got %q, %v, want %q", got, err, content)
			}
		}
		if aside, _ := filepath.Glob(path + ".aside-*"); len(aside) != 3 {
			t.Errorf("set aside: got %v, want 3 files", aside)
		}
	})
}

func TestLedgerOpensInPlaceOfAnUnfinishedOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	if err := os.WriteFile(path+".new", bytes.Repeat([]byte("x"), 2*ledgerBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	l, state, err := OpenLedger(path, testLedgerKey)
	if err != nil || !state.Fresh {
		t.Fatalf("OpenLedger: got %+v, %v, want a fresh one", state, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLedgerNeedsADirectory(t *testing.T) {
	l, _, err := OpenLedger(filepath.Join(t.TempDir(), "absent", "ledger"), testLedgerKey)
	if err == nil {
		l.Close()
		t.Fatal("OpenLedger without a directory: got nil, want an error")
	}
}

// Whatever byte is damaged, the ledger says the same as before or is not used.
func TestLedgerFindsADamagedByte(t *testing.T) {
	found, same := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := newLedgerModel()
		l := heapLedger(t, emptyLedger(testLedgerKey), nil)
		words := l.words
		// The state is one that a kill leaves, now and then inside a step.
		last := rapid.IntRange(0, 60).Draw(t, "stores")
		l.cut = func() {
			if last--; last == 0 {
				words = slices.Clone(l.words)
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			m.step(t, l)
		}
		l.cut = nil
		want := viewOf(heapLedger(t, slices.Clone(words), nil))
		var used []int
		for at, w := range words {
			if w != 0 {
				used = append(used, at)
			}
		}
		for range 10 {
			at := rapid.OneOf(rapid.SampledFrom(used), rapid.IntRange(0, 64), rapid.IntRange(0, ledgerWords-1)).Draw(t, "word")
			damaged := slices.Clone(words)
			damaged[at] ^= rapid.Uint64Range(1, 255).Draw(t, "bits") << (8 * rapid.IntRange(0, 7).Draw(t, "byte"))
			content, err := inspectLedger(damaged, testLedgerKey)
			if err != nil {
				found++
				continue
			}
			same++
			after := &Ledger{}
			after.adopt(damaged, content)
			if diff := cmp.Diff(want, viewOf(after), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("word %d damaged and used (-want +got):\n%s", at, diff)
			}
		}
	})
	t.Logf("%d damaged bytes found, %d without meaning", found, same)
}

// The check bits are chosen so that this holds for every word, not with some probability.
func TestLedgerWordWithADamagedByteIsNoWordOfAnyNearLap(t *testing.T) {
	marks := []uint64{1, 1 << 47, ledgerMarkBits, 0x5555_5555_5555, 0x1234_5678_9abc, 0xff00}
	for n := uint64(0); n < 9*ledgerRingWords; n += 4099 {
		for _, set := range marks {
			word := uint64(0)
			for bit := range uint64(ledgerWordBits) {
				if set>>bit&1 == 1 {
					word = addLedgerMark(word, n, bit)
				}
			}
			if !validLedgerMarks(word, n) {
				t.Fatalf("word %d with marks %#x is not valid", n, set)
			}
			for shift := 0; shift < 64; shift += 8 {
				for flip := range uint64(256) {
					damaged := word ^ flip<<shift
					for lap := range uint64(8) {
						if near := n + lap*ledgerRingWords; (flip != 0 || lap != 0) && (damaged == 0 || validLedgerMarks(damaged, near)) {
							t.Fatalf("word %d with marks %#x, byte at bit %d changed by %#x, is valid %d laps on", n, set, shift, flip, lap)
						}
					}
				}
			}
		}
	}
}
