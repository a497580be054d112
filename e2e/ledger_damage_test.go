package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/siding-dev/siding/streams"
)

// remembered is what the server still knows of a process that was killed: how far the acknowledgements of a function go, and which events stand in
// RETRY. A copy is asked.
func remembered(t *testing.T, p program, name string) (floor uint64, retried map[uint64]bool) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(p.dir)); err != nil {
		t.Fatal(err)
	}
	node, err := streams.Open(t.Context(), streams.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	consumer, err := node.JetStream().Consumer(t.Context(), streams.EventsStream, name)
	if err != nil {
		t.Fatal(err)
	}
	store, err := streams.OpenStore(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	refs, err := store.Standing(t.Context(), streams.InRetry, name)
	if err != nil {
		t.Fatal(err)
	}
	retried = map[uint64]bool{}
	for _, ref := range refs {
		retried[ref.Sequence] = true
	}
	return consumer.CachedInfo().AckFloor.Stream, retried
}

// ledgerWarnings counts what a process has said about the ledger of a function.
func ledgerWarnings(p *process, name string) int {
	n := 0
	for line := range strings.Lines(p.log()) {
		var said struct{ Level, Msg, Function string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Level == "WARN" && strings.Contains(said.Msg, "the ledger") && said.Function == name {
			n++
		}
	}
	return n
}

// TestLedgerDamagedBetweenRunsRepeatsOnlyTheWindow kills a node under load, spoils the ledger of one of its functions, and starts it again: it says so once,
// loses nothing and keeps the order of each key, and handles nothing again that the server has kept the acknowledgement of, but for what was being retried.
func TestLedgerDamagedBetweenRunsRepeatsOnlyTheWindow(t *testing.T) {
	for _, tc := range []struct {
		name     string
		warnings int
		change   func(path string) error
	}{
		{"untouched", 0, func(string) error { return nil }},
		{"deleted", 1, os.Remove},
		{"cut", 1, func(path string) error { return os.Truncate(path, 100_000) }},
		{"empty", 1, func(path string) error { return os.Truncate(path, 0) }},
		{"a bit flipped in each page", 1, func(path string) error {
			data, err := os.ReadFile(path)
			for at := 77; at < len(data); at += 4096 {
				data[at] ^= 0x10
			}
			if err != nil {
				return err
			}
			return os.WriteFile(path, data, 0o600)
		}},
		{"swapped with another function's", 1, func(path string) error {
			other, aside := filepath.Join(filepath.Dir(path), "g.ledger"), path+".aside"
			for _, move := range [][2]string{{path, aside}, {other, path}, {aside, other}} {
				if err := os.Rename(move[0], move[1]); err != nil {
					return err
				}
			}
			return nil
		}},
		{"read-only", 0, func(path string) error { return os.Chmod(path, 0o400) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const first, more, keys = 2000, 500, 40
			describe := func(name string) function {
				return function{
					Name: name, Types: []string{ledgerType}, Beginning: true, Attempts: 5, Delays: []time.Duration{10 * time.Millisecond}, Concurrency: 8,
					Do: "slow=300us flaky-one-in=20",
				}
			}
			program, client := newProgram(t, nil, describe("f"), describe("g")), newHTTPClient(t)
			before := program.start(t)
			batch(t, client, before, ledgerType, 1, first/2, keys, nil)
			batch(t, client, before, ledgerType, 1+first/2, first/2, keys, nil)
			awaitEnds(t, before, program.calls, 0, 1200)
			before.kill()
			floor, retried := remembered(t, program, "f")
			if err := tc.change(streams.LedgerPath(program.dir, "f")); err != nil {
				t.Fatal(err)
			}

			after := program.start(t)
			batch(t, client, after, ledgerType, 1+first, more, keys, nil)
			for _, name := range []string{"f", "g"} {
				if a := rest(t, after, name, first+more).of(name); a.Delivered != first+more || a.Gone != 0 {
					t.Errorf("%s: got %+v, want %d delivered", name, a, first+more)
				}
			}
			got := ledgerWarnings(after, "f")
			if tc.name == "read-only" && os.Geteuid() != 0 { // nothing is read-only to root
				tc.warnings = 1
			}
			if got != tc.warnings {
				t.Errorf("got %d warnings about the ledger, want %d", got, tc.warnings)
			}

			type lived struct {
				pid int
				id  string
			}
			done, repeated, last := map[lived]bool{}, 0, map[string]int{}
			for _, c := range program.read(t) {
				if c.Function != "f" || c.What != "end" || c.Outcome != "done" {
					continue
				}
				id, _ := strconv.Atoi(c.ID)
				if now := fmt.Sprint(c.PID, " ", c.Key); id <= last[now] {
					t.Errorf("key %s: event %d was handled behind %d", c.Key, id, last[now])
				} else {
					last[now] = id
				}
				done[lived{c.PID, c.ID}] = true
				if c.PID == after.pid && done[lived{before.pid, c.ID}] {
					repeated++
					if c.Sequence <= floor && !retried[c.Sequence] {
						t.Errorf("event %d was handled again, did not stand in RETRY, and everything up to %d had been acknowledged", c.Sequence, floor)
					}
				}
			}
			for id := 1; id <= first+more; id++ {
				if !done[lived{before.pid, strconv.Itoa(id)}] && !done[lived{after.pid, strconv.Itoa(id)}] {
					t.Errorf("event %d was never handled", id)
				}
			}
			t.Attr("acknowledged-at-the-kill", strconv.FormatUint(floor, 10))
			t.Attr("handled-twice", strconv.Itoa(repeated))
		})
	}
}
