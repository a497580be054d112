package streams_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/siding-dev/siding/streams"
)

// TestAStreamThatWasBeingDeletedWhenTheProcessDiedDoesNotStopTheNextStart: the server renames its directory first and empties it in the background.
func TestAStreamThatWasBeingDeletedWhenTheProcessDiedDoesNotStopTheNextStart(t *testing.T) {
	dir := t.TempDir()
	open := func() *streams.Node {
		t.Helper()
		n, err := streams.Open(t.Context(), streams.Config{Dir: dir, MaxStore: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := open()
	if _, err := streams.OpenStore(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*", "jetstream", "*", "streams"))
	if err != nil || len(found) != 1 {
		t.Fatalf("got %v, %v; want one directory of streams", found, err)
	}
	left := filepath.Join(found[0], ".DLQ_f")
	if err := os.MkdirAll(filepath.Join(left, "msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 { // so many that nobody removes them in passing
		if err := os.WriteFile(filepath.Join(left, "msgs", strconv.Itoa(i)+".blk"), []byte("rest"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n = open()
	defer func() { _ = n.Close() }()
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("got %v, want the rest removed", err)
	}
}
