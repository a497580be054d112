package runtime

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// firstFormat is a data directory as the first version of the layout left it, with something in every place. It is kept and never made anew
// while programs claim to read that format; a new format gets a file of its own, by this command after its name was changed here:
//
//	go test ./runtime -run TestADirectoryOfTheFirstFormatOpens -update-format
const firstFormat = "testdata/format-1.tar.gz"

var updateFormat = flag.Bool("update-format", false, "write the data directory of the present format")

// formatScript is the function of the kept directory: a1 is parked until it is redriven, b1 fails once, and x1 is discarded.
func formatScript(ctx context.Context, id string, a functions.Attempt) error {
	if id == "x1" {
		return functions.Discard(errNo)
	}
	return both(parkOnce("a1"), failTimes("b1", 1))(ctx, id, a)
}

// TestADirectoryOfTheFirstFormatOpens opens the kept directory: what stood still stands, waits or is paused, and all of it comes to its end.
func TestADirectoryOfTheFirstFormatOpens(t *testing.T) {
	if *updateFormat {
		synctest.Test(t, writeFormat)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		time.Sleep(24 * time.Hour) // what waited for its next attempt is due, also when the directory has just been made
		unpack(t, firstFormat, w.dir)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: every(time.Hour)}, forever, formatScript)})
		a := l.account("f")
		if !a.Holds || a.Accepted != 7 || a.Parked != 1 || a.Discarded != 1 {
			t.Errorf("got %+v, want 7 accepted, one of them parked and one discarded", a)
		}
		records, err := l.store.Records(t.Context(), "f", 3)
		if err != nil || len(records) == 0 || records[0].Class != "transient" {
			t.Errorf("records of b1: got %+v, %v, want its failed attempt", records, err)
		}
		time.Sleep(time.Minute)
		wantOrder(t, "before anything is decided", w.began(), "b1")
		l.decideAbout("a1", client.Redrive)
		l.resume("d")
		a = l.settle("f")
		if a.Delivered != 6 || a.Discarded != 1 {
			t.Errorf("got %+v, want all but the discarded one delivered", a)
		}
		wantOrder(t, "key a", w.beganOf("a"), "a1", "a2")
		wantOrder(t, "key d", w.beganOf("d"), "d1", "d2")
		l.end()
	})
}

// writeFormat makes a directory in which events are delivered, parked, held, retrying, paused and discarded, and packs it.
func writeFormat(t *testing.T) {
	w := newWorld(t)
	l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: every(time.Hour)}, forever, formatScript)})
	<-l.host.started
	l.pause("d")
	l.sendKeyed("a1", "a2", "b1", "c1", "d1", "d2", "x1")
	time.Sleep(time.Second)
	refs, err := l.store.Standing(t.Context(), streams.InHeld, "f")
	if err != nil || len(refs) == 0 {
		t.Fatalf("held: got %v, %v", refs, err)
	}
	l.end()
	pack(t, w.dir, firstFormat)
}

func pack(t *testing.T, dir, file string) {
	t.Helper()
	var names []string
	for name := range filesOf(t, dir) {
		if name != "lock" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	tw := tar.NewWriter(zip)
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = tw.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(content))})
		}
		if err == nil {
			_, err = tw.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tw.Close(), zip.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, file, dir string) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	zip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(zip); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !filepath.IsLocal(header.Name) {
			t.Fatalf("%s: %v, %v", file, header, err)
		}
		content, err := io.ReadAll(tr)
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
