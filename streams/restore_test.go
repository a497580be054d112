package streams_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

// someBackup writes the backup of a small store to a file.
func someBackup(t *testing.T) (path string, m streams.Manifest) {
	t.Helper()
	s := openStore(t)
	for _, id := range []string{"1", "2", "3"} {
		if _, err := s.Accept(t.Context(), newEvent(id), nil); err != nil {
			t.Fatal(err)
		}
	}
	source, err := s.Source(t.Context(), streams.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	d := streams.Declared{Name: "f", Types: []string{"t"}, Stream: source.Name, StreamCreated: source.Created, Since: 1}
	if err := s.Declare(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	place(t, s, streams.InDeadLetters, ref("f", "k", 2), streams.Copy{Source: source.Name, Key: "k", Data: []byte("x")})
	ledger := openLedger(t, s)
	if err := ledger.Mark(2); err != nil {
		t.Fatal(err)
	}
	b, err := s.Backup(t.Context(), map[string]*streams.Ledger{"f": ledger})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "b.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = b.Write(f); err == nil {
		err = errors.Join(f.Close(), b.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Node().Dir(), "backup-*")); len(left) > 0 {
		t.Errorf("got %v left in the data directory, want nothing of the copy", left)
	}
	if err := errors.Join(ledger.CleanStop(), s.Node().Close()); err != nil {
		t.Fatal(err)
	}
	return path, m
}

// openLedger opens the ledger of the declared function f.
func openLedger(t *testing.T, s *streams.Store) *streams.Ledger {
	t.Helper()
	d, err := s.Declared(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	path := streams.LedgerPath(s.Node().Dir(), "f")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, state, err := streams.OpenLedger(path, streams.LedgerKey{Function: "f", Stream: d.Stream, Created: d.StreamCreated})
	if err != nil || state.SetAside != "" {
		t.Fatalf("open ledger: got %+v, %v", state, err)
	}
	return l
}

func TestRestoredDirectoryHoldsWhatWasBackedUp(t *testing.T) {
	path, want := someBackup(t)
	dir := filepath.Join(t.TempDir(), "a", "b")
	got, err := streams.Restore(path, dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("manifest (-written +restored):\n%s", d)
	}
	s := storeOn(t, streamstest.New(t, streamstest.Dir(dir)))
	source, err := s.Source(t.Context(), streams.EventsStream)
	if err != nil || source.Last != 3 {
		t.Errorf("got source %+v, %v, want 3 events", source, err)
	}
	d, err := s.Declared(t.Context(), "f")
	if err != nil || !d.StreamCreated.Equal(source.Created) {
		t.Errorf("got %v, %v, want the source stream as it was created: %v", d.StreamCreated, err, source.Created)
	}
	if r, err := s.Find(t.Context(), streams.InDeadLetters, "f", 2); err != nil || r != ref("f", "k", 2) {
		t.Errorf("dead letter: got %v, %v", r, err)
	}
	ledger := openLedger(t, s)
	defer ledger.Close()
	if ledger.Settled(1) || !ledger.Settled(2) || ledger.Settled(3) {
		t.Errorf("got %v, %v and %v settled, want only the second", ledger.Settled(1), ledger.Settled(2), ledger.Settled(3))
	}
}

// TestDamagedBackupIsRefusedAndLeavesNothing cuts and changes a backup at many places.
func TestDamagedBackupIsRefusedAndLeavesNothing(t *testing.T) {
	path, m := someBackup(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(name string, content []byte) {
		t.Helper()
		parent := t.TempDir()
		file, dir := filepath.Join(parent, "b.tar"), filepath.Join(parent, "data")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := streams.Restore(file, dir)
		if _, ok := errors.AsType[*streams.BackupError](err); !ok {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
		if left, _ := filepath.Glob(filepath.Join(parent, "data*")); len(left) > 0 {
			t.Errorf("%s: got %v left behind, want nothing", name, left)
		}
	}
	end := bytes.LastIndex(whole, []byte("manifest.sha256"))
	for _, at := range []int{0, 1, 511, 512, 700, 1024, 4096, len(whole) / 3, len(whole) / 2, end - 1024, end, end + 512} {
		refused("cut", whole[:at])
	}
	// One changed byte in the middle of each file that has one, of the manifest, and of its checksum.
	for _, f := range m.Files {
		if f.Size == 0 {
			continue
		}
		at := bytes.Index(whole, []byte("data/"+f.Name))
		changed := bytes.Clone(whole)
		changed[contentAfter(whole, at)+int(f.Size/2)] ^= 1
		refused(f.Name, changed)
	}
	for _, name := range []string{"manifest.json", "manifest.sha256", "siding-backup"} {
		changed := bytes.Clone(whole)
		changed[contentAfter(whole, bytes.LastIndex(whole, []byte(name)))] ^= 1
		refused(name, changed)
	}
	refused("another file", []byte("no backup at all"))
	refused("a way out", bytes.Replace(whole, []byte("data/ledger/f.ledger"), []byte("data/../f.ledger.xyz")[:20], 1))
}

// contentAfter is where the content of the tar's entry begins whose header is at.
func contentAfter(tar []byte, at int) int { return at/512*512 + 512 }

func TestRestoreRefusesADirectoryThatHoldsSomething(t *testing.T) {
	path, _ := someBackup(t)
	dir := t.TempDir()
	if _, err := streams.Restore(path, dir); err != nil {
		t.Errorf("an empty directory: got %v, want it taken", err)
	}
	_, err := streams.Restore(path, dir)
	if err == nil || !strings.Contains(err.Error(), "not empty") || !strings.Contains(err.Error(), "hint: ") {
		t.Errorf("a full one: got %v, want a refusal with a hint", err)
	}
	file := filepath.Join(dir, "format")
	if _, err := streams.Restore(path, file); err == nil {
		t.Error("a file: got no error, want a refusal")
	}
	_, err = streams.Restore(filepath.Join(dir, "none"), filepath.Join(dir, "new"))
	if err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("no such backup: got %v, want it named as not found", err)
	}
}

func TestKilledBackupLeavesNothingInTheDirectory(t *testing.T) {
	dir := t.TempDir()
	n := streamstest.New(t, streamstest.Dir(dir))
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "backup-123", "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	streamstest.New(t, streamstest.Dir(dir))
	if left, _ := filepath.Glob(filepath.Join(dir, "backup-*")); len(left) > 0 {
		t.Errorf("got %v, want what a killed backup left to go at the start", left)
	}
}

// TestStoreOpensOnADiskThatHasBecomeSmaller: the limit of EVENTS is derived from the disk, and the server takes no change of any stream while it
// reserves more than there is.
func TestStoreOpensOnADiskThatHasBecomeSmaller(t *testing.T) {
	path, _ := someBackup(t)
	for name, most := range map[string]int64{"smaller": 64 << 20, "smaller than what it holds": 1 << 10} {
		dir := t.TempDir()
		if _, err := streams.Restore(path, dir); err != nil {
			t.Fatal(err)
		}
		node := streamstest.New(t, streamstest.Dir(dir), func(c *streams.Config) { c.MaxStore = most })
		s, err := streams.OpenStore(t.Context(), node)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if source, err := s.Source(t.Context(), streams.EventsStream); err != nil || source.First != 1 || source.Last != 3 {
			t.Errorf("%s: got %+v, %v, want every event kept", name, source, err)
		}
		uses, err := s.Uses(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range uses {
			if u.Name == streams.EventsStream && u.MaxBytes != most/4*3 {
				t.Errorf("%s: got a limit of %d bytes, want three quarters of %d", name, u.MaxBytes, most)
			}
		}
	}
}
