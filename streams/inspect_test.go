package streams_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

func TestInspectionOfADirectory(t *testing.T) {
	inspect := func(dir string) streams.Inspection {
		t.Helper()
		i, err := streams.Inspect(dir)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	if i := inspect(filepath.Join(t.TempDir(), "none")); !i.Absent {
		t.Errorf("missing: got %+v, want it called absent", i)
	}
	empty := t.TempDir()
	if i := inspect(empty); i.Absent || i.Lock != nil || i.Format != nil || i.Free <= 0 {
		t.Errorf("empty: got %+v, want nothing to find", i)
	}
	if left, _ := os.ReadDir(empty); len(left) > 0 {
		t.Errorf("got %v in a directory that was only looked at", left)
	}
	node := streamstest.New(t)
	if i := inspect(node.Dir()); i.Lock == nil || i.Lock.PID != os.Getpid() || i.Newest.IsZero() {
		t.Errorf("running: got %+v, want this process as the holder", i)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if i := inspect(node.Dir()); i.Lock != nil || i.Format != nil {
		t.Errorf("closed: got %+v, want it free", i)
	}
	ledgers := filepath.Join(node.Dir(), "ledger")
	if err := os.Mkdir(ledgers, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"torn.ledger", "f.ledger.aside-1"} {
		if err := os.WriteFile(filepath.Join(ledgers, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(node.Dir(), "format"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	i := inspect(node.Dir())
	if i.Format == nil || i.Format.Version != 9 || len(i.Ledgers) != 1 || i.Ledgers[0].Damage == nil || len(i.Aside) != 1 {
		t.Errorf("got %+v, want a newer format, one torn ledger and one that was set aside", i)
	}
}

func TestDriftNamesTheFieldThatSomebodyChanged(t *testing.T) {
	s := openStore(t)
	d := streams.Declared{Name: "f", Types: []string{"t"}, Stream: streams.EventsStream, Attempts: 3}
	source, _, _, err := s.SourceConsumer(t.Context(), d, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RetryConsumer(t.Context(), "f", 3); err != nil {
		t.Fatal(err)
	}
	drift := func() (all []streams.Drift) {
		t.Helper()
		all, err := s.StreamDrift(t.Context(), []string{"f"})
		if err != nil {
			t.Fatal(err)
		}
		consumers, err := s.ConsumerDrift(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return append(all, consumers...)
	}
	missing := streams.Drift{Stream: streams.DecisionsStream, Consumer: "f"}
	if diff := cmp.Diff([]streams.Drift{missing}, drift()); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	if _, err := s.DecisionConsumer(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	place(t, s, streams.InDeadLetters, ref("f", "k", 1), streams.Copy{Source: streams.EventsStream})
	if got := drift(); len(got) > 0 {
		t.Errorf("got %+v, want none in what Siding made", got)
	}
	js := s.JetStream()
	letters, err := js.Stream(t.Context(), streams.DeadLetterStream("f"))
	if err != nil {
		t.Fatal(err)
	}
	changed := letters.CachedInfo().Config
	changed.MaxMsgs = 10
	if _, err := js.UpdateStream(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	config := source.CachedInfo().Config
	config.MaxDeliver = 5
	if _, err := js.UpdateConsumer(t.Context(), streams.EventsStream, config); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), streams.HeldStream); err != nil {
		t.Fatal(err)
	}
	want := []streams.Drift{
		{Stream: streams.HeldStream},
		{Stream: streams.DeadLetterStream("f"), Field: "max messages", Got: "10", Want: "0"},
		{Stream: streams.EventsStream, Consumer: "f", Field: "max deliver", Got: "5", Want: "-1"},
	}
	if diff := cmp.Diff(want, drift()); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
}
