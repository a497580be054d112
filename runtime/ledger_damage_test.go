package runtime

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// ledgerFile is where the ledger of function f stands.
func (w *world) ledgerFile() string { return filepath.Join(w.dir, "ledger", "f.ledger") }

// firstLedger puts an intact ledger of function f in the place of its present one, as it was when nothing had happened yet.
func (w *world) firstLedger() {
	w.t.Helper()
	l := w.open()
	d, err := l.store.Declared(context.Background(), "f")
	l.end()
	if err == nil {
		err = os.Remove(w.ledgerFile())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	ledger, _, err := streams.OpenLedger(w.ledgerFile(), streams.LedgerKey{Function: "f", Stream: d.Stream, Created: d.StreamCreated})
	if err == nil {
		err = ledger.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestLedgerOfAnotherTimeBringsNothingBack: an intact ledger of this very function that is older than what has happened since, as somebody may take
// it from a copy. Nothing in it is wrong, and it knows of nothing that was done.
func TestLedgerOfAnotherTimeBringsNothingBack(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*testing.T, *world)
	}{
		{"an old copy", func(_ *testing.T, w *world) { w.firstLedger() }},
		{"an old copy, and no consumer", func(t *testing.T, w *world) {
			t.Helper()
			w.firstLedger()
			l := w.open()
			if err := l.store.JetStream().DeleteConsumer(t.Context(), streams.EventsStream, "f"); err != nil {
				t.Fatal(err)
			}
			l.end()
		}},
		{"deleted, and counted while nobody hosts the function", func(t *testing.T, w *world) {
			t.Helper()
			w.loseLedger()
			l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Name: "g", Types: []string{"u"}}, forever, good)})
			l.account("f")
			l.end()
			if _, err := os.Stat(w.ledgerFile()); err == nil {
				t.Error("got a ledger that nobody asked for")
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				unsettledLife(t, w)
				tc.change(t, w)
				repeated := 10
				if strings.Contains(tc.name, "no consumer") {
					repeated = 0
				}
				checkUnsettledLife(t, w, repeated)
			})
		})
	}
}

// TestLedgerDamageIsToldOnceAStart: between two lives something happens to the ledger of a function with keys. The next start says so once, the one after
// it says nothing, and nothing is lost, nor handled out of order.
func TestLedgerDamageIsToldOnceAStart(t *testing.T) {
	for _, tc := range []struct {
		name, said string
		change     func(path string) error
	}{
		{"untouched", "", func(string) error { return nil }},
		{"deleted", "not there any more", os.Remove},
		{"its directory deleted", "not there any more", func(path string) error { return os.RemoveAll(filepath.Dir(path)) }},
		{"cut", "set aside", func(path string) error { return os.Truncate(path, 1000) }},
		{"random bytes", "set aside", func(path string) error {
			data, err := os.ReadFile(path)
			for i := 4096; i < len(data); i += 4001 {
				data[i] ^= 0xa5
			}
			if err == nil {
				err = os.WriteFile(path, data, 0o600)
			}
			return err
		}},
		{"of another function", "another function", func(path string) error {
			data, err := os.ReadFile(filepath.Join(filepath.Dir(path), "g.ledger"))
			if err == nil {
				err = os.WriteFile(path, data, 0o600)
			}
			return err
		}},
		{"a directory", "set aside", func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.MkdirAll(filepath.Join(path, "sub"), 0o700)
		}},
		{"a link that leads nowhere", "not there any more", func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Symlink(path+"-nowhere", path)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				live := func(ids ...string) (said []string) {
					var log bytes.Buffer
					l := w.startLogging(&log, w.function(functions.Function{Retry: every(time.Minute)}, forever, both(failTimes("b2", 1), parkOnce("c1"))),
						w.function(functions.Function{Name: "g", Types: []string{"u"}}, forever, good))
					<-l.host.started
					l.sendKeyed(ids...)
					time.Sleep(10 * time.Minute)
					l.settle("f")
					l.end()
					for line := range strings.Lines(log.String()) {
						if strings.Contains(line, "level=WARN") && strings.Contains(line, "function=f") && strings.Contains(line, "ledger") {
							said = append(said, line)
						}
					}
					return said
				}
				if said := live("a1", "b1", "b2", "c1", "b3", "c2"); len(said) > 0 {
					t.Errorf("a first start: got %q, want nothing said", said)
				}
				if err := tc.change(w.ledgerFile()); err != nil {
					t.Fatal(err)
				}
				said := live("a2", "b4", "c3")
				switch {
				case tc.said == "" && len(said) > 0:
					t.Errorf("got %q, want nothing said", said)
				case tc.said != "" && (len(said) != 1 || !strings.Contains(said[0], tc.said)):
					t.Errorf("got %q, want one line that says %q", said, tc.said)
				}
				if said := live("a3"); len(said) > 0 {
					t.Errorf("one start later: got %q, want nothing said", said)
				}
				wantOrder(t, "key a", w.orderOf("a"), "a1", "a2", "a3")
				wantOrder(t, "key b", w.orderOf("b"), "b1", "b2", "b3", "b4")
				if got := w.orderOf("c"); len(got) > 0 {
					t.Errorf("got %q of a blocked key delivered, want none", got)
				}
			})
		})
	}
}

// startLogging begins a process whose log is kept. The log may be read when the process has ended.
func (w *world) startLogging(log io.Writer, fns ...functions.Function) *life {
	w.t.Helper()
	l := w.open()
	l.host = newHost(l.store, fns, services{log: slog.New(slog.NewTextHandler(log, nil)), metrics: newMetrics(names(fns)...), timing: testTiming()})
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	go func() {
		defer close(l.done)
		l.err = l.host.run(ctx)
	}()
	return l
}
