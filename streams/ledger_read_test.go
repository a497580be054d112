package streams

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ReadLedger is asked about a function that nobody hosts: its next owner must find the file as its last one left it.
func TestLedgerIsReadWithoutATrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l := openTestLedger(t, path)
	l.SetFloor(10)
	l.SetCursor(40)
	if err := l.Mark(30); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Begin(Run{Sequence: 31, Attempt: 1}); err != nil {
		t.Fatal(err)
	}
	want := viewOf(l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read, state := ReadLedger(path, testLedgerKey)
	if diff := cmp.Diff(want, viewOf(read)); diff != "" || !state.Kept() {
		t.Errorf("got %+v (-want +got):\n%s", state, diff)
	}
	if err := read.Mark(50); err != nil || !read.Settled(50) {
		t.Errorf("Mark: got %v, want it marked in memory", err)
	}
	if err := read.Sync(); err != nil {
		t.Errorf("Sync: got %v, want nothing to do", err)
	}
	if err := read.CleanStop(); err != nil || read.Settled(50) {
		t.Errorf("CleanStop: got %v, want it closed", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file has changed: %v", err)
	}

	for _, tt := range []struct {
		name   string
		change func() error
		want   LedgerState
	}{
		{"damaged", func() error { return os.Truncate(path, 5) }, LedgerState{Why: fmt.Sprintf("has 5 bytes, want %d", ledgerBytes)}},
		{"absent", func() error { return os.Remove(path) }, LedgerState{Fresh: true}},
	} {
		if err := tt.change(); err != nil {
			t.Fatal(err)
		}
		read, state := ReadLedger(path, testLedgerKey)
		if diff := cmp.Diff(ledgerView{}, viewOf(read)); diff != "" || state != tt.want || state.Kept() {
			t.Errorf("%s: got %+v, want %+v and an empty ledger (-want +got):\n%s", tt.name, state, tt.want, diff)
		}
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 0 {
		t.Errorf("got %q, want no file made", left)
	}
}
