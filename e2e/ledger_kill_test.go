package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/siding-dev/siding/streams"
)

const ledgerType = "com.example.ledger"

// streamCreated reads when the stream of events was made from its own file, as a ledger's key needs it.
func streamCreated(t *testing.T, dir string) time.Time {
	t.Helper()
	var meta struct{ Created time.Time }
	content, err := os.ReadFile(filepath.Join(dir, "store", "jetstream", "$G", "streams", streams.EventsStream, "meta.inf"))
	if err == nil {
		err = json.Unmarshal(content, &meta)
	}
	if err != nil || meta.Created.IsZero() {
		t.Fatalf("meta.inf: got %v, %v", meta, err)
	}
	return meta.Created
}

// readLedger reads what the ledger of a dead process says.
func readLedger(t *testing.T, p program, name string) *streams.Ledger {
	t.Helper()
	key := streams.LedgerKey{Function: name, Stream: streams.EventsStream, Created: streamCreated(t, p.dir)}
	ledger, state := streams.ReadLedger(streams.LedgerPath(p.dir, name), key)
	if !state.Kept() {
		t.Fatalf("ledger after a kill: got %+v, want it intact", state)
	}
	return ledger
}

// awaitEnds returns as soon as the file of calls, which has grown to size before, tells of n more ends.
func awaitEnds(t *testing.T, p *process, path string, from int64, n int) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	end, seen, buffer := []byte(`"what":"end"`), []byte{}, make([]byte, 64<<10)
	for limit := time.Now().Add(patience); ; {
		read, _ := file.ReadAt(buffer, from)
		from += int64(read)
		if seen = append(seen, buffer[:read]...); bytes.Count(seen, end) >= n {
			return
		}
		select {
		case <-p.done:
			t.Fatalf("process %d ended by itself: %s", p.pid, p.log())
		default:
			if time.Now().After(limit) {
				t.Fatalf("got no %d ends within %s", n, patience)
			}
		}
	}
}

// ledgerKills is how many kills TestLedgerKilledBehindTheHandler makes: 100 where SIDING_LEDGER_KILLS says full, or the number that it gives.
func ledgerKills(t *testing.T) int {
	t.Helper()
	switch text := os.Getenv("SIDING_LEDGER_KILLS"); text {
	case "":
		return 25
	case "full":
		return 100
	default:
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("SIDING_LEDGER_KILLS=%s: hint: full, or a number of kills", text)
		}
		return n
	}
}

// TestLedgerKilledBehindTheHandler kills a node as soon as a handler has said that it is done, again and again, and looks into the ledger that the dead
// process left: what is marked there is never handled again, what is not is handled once more, and the audit says of each that it may be. A step of
// functions.Once that was recorded is not done again, by no attempt of any cycle. What two kills in a row caught alone is parked, and redriven.
//
//	SIDING_LEDGER_KILLS  full for 100 kills, or a number; 25 if it is not set
func TestLedgerKilledBehindTheHandler(t *testing.T) {
	const each, keys = 48, 12
	kills := ledgerKills(t)
	program := newProgram(t, nil, function{Name: "f", Types: []string{ledgerType}, Beginning: true, Attempts: 5, Concurrency: 8, Do: "once slow=300us"})
	client, random := newHTTPClient(t), rand.New(rand.NewPCG(1, 2))
	marked, unmarked := map[uint64]int{}, map[uint64]int{} // sequence of what had ended at a kill, and how many calls there were then
	cut := map[uint64]bool{}                               // what a start found to have been attempted when the process died
	before, after, running := 0, 0, 0
	p := program.start(t)
	for kill := range kills {
		size := int64(0)
		if info, err := os.Stat(program.calls); err == nil {
			size = info.Size()
		}
		batch(t, client, p, ledgerType, 1+kill*each, each, keys, nil)
		awaitEnds(t, p, program.calls, size, 1+random.IntN(each/2))
		p.kill()
		ledger := readLedger(t, program, "f")
		running += len(ledger.Running())
		calls := program.read(t)
		for _, c := range calls {
			if c.What != "end" || c.Outcome != "done" || c.PID != p.pid {
				continue
			}
			if ledger.Settled(c.Sequence) {
				marked[c.Sequence] = count(calls, call{What: "begin", ID: c.ID})
			} else {
				unmarked[c.Sequence] = count(calls, call{What: "begin", ID: c.ID})
			}
		}
		p = program.start(t)
		for line := range strings.Lines(p.log()) {
			var said struct{ Msg, Event string }
			var seq uint64
			if json.Unmarshal([]byte(line), &said) == nil && strings.HasPrefix(said.Msg, "the process died ") {
				if _, err := fmt.Sscanf(said.Event, "f/%d", &seq); err == nil {
					cut[seq] = true
				}
			}
		}
	}
	total := kills * each
	letters := ask[[]deadLetter](t, p, "dlq", "ls")
	redriven := map[uint64]bool{}
	for _, letter := range letters {
		redriven[letter.Sequence] = true
	}
	if len(letters) > 0 {
		if got := p.cli(t, "dlq", "redrive", "--function", "f", "--all", "--reason", "killed from outside", "--yes"); got.code != 0 {
			t.Fatalf("siding dlq redrive: got exit code %d: %s", got.code, got.stderr)
		}
	}
	if a := rest(t, p, "f", total).of("f"); a.Delivered != total || a.Gone != 0 {
		t.Errorf("got %+v, want %d delivered", a, total)
	}

	begins, last := map[uint64]int{}, map[string]int{}
	done, recorded := map[string]bool{}, map[string]bool{}
	steps, unrecorded := map[string]int{}, 0
	for _, c := range program.read(t) {
		switch {
		case c.What == "begin":
			begins[c.Sequence]++
		case c.What == "step":
			if recorded[c.ID] {
				t.Errorf("event %s: its step was done again though it was recorded", c.ID)
			}
			if steps[c.ID]++; steps[c.ID] > 1 {
				unrecorded++
			}
		case c.What == "stepped":
			recorded[c.ID] = true
		case c.Outcome == "done":
			id, _ := strconv.Atoi(c.ID)
			if id < last[c.Key] {
				t.Errorf("key %s: event %d was handled behind %d", c.Key, id, last[c.Key])
			}
			last[c.Key], done[c.ID] = id, true
		}
	}
	if len(done) != total {
		t.Errorf("got %d events done, want %d", len(done), total)
	}
	for seq, then := range marked {
		if begins[seq] > then {
			after++
			t.Errorf("event %d was marked at a kill, and handled again", seq)
		}
	}
	told := possiblyTwice(t, p)
	for seq, then := range unmarked {
		switch {
		case begins[seq] > then:
			if before++; !told[seq] && !redriven[seq] {
				t.Errorf("event %d was handled twice, and the audit does not tell of it", seq)
			}
		case !cut[seq]: // one that an earlier kill had cut has records, and a final one ends it before the mark does
			t.Errorf("event %d had ended at a kill, was not marked, and was not handled again", seq)
		}
	}
	t.Attr("kills", strconv.Itoa(kills))
	t.Attr("twice-before-the-mark", strconv.Itoa(before))
	t.Attr("twice-after-the-mark", strconv.Itoa(after))
	t.Attr("convicted-and-redriven", strconv.Itoa(len(letters)))
	t.Attr("steps-recorded", strconv.Itoa(len(recorded)))
	t.Attr("steps-again-before-their-record", strconv.Itoa(unrecorded))
	t.Attr("possibly-twice-by-the-audit", strconv.Itoa(len(told)))
	t.Attr("running-at-the-kills", strconv.Itoa(running))
	if running == 0 {
		t.Error("got no event that ran at a kill: these kills prove nothing")
	}
}

// possiblyTwice are the sequences of the events of which the audit says that they may have been handled twice.
func possiblyTwice(t *testing.T, p *process) map[uint64]bool {
	t.Helper()
	told := map[uint64]bool{}
	for after := ""; ; {
		args := []string{"audit", "ls", "--limit", "1000"}
		if after != "" {
			args = append(args, "--after", after)
		}
		page := ask[[]struct {
			Sequence    uint64
			What, Event string
		}](t, p, args...)
		if len(page) == 0 {
			return told
		}
		for _, entry := range page {
			after = strconv.FormatUint(entry.Sequence, 10)
			var seq uint64
			if _, err := fmt.Sscanf(entry.Event, "f/%d", &seq); err == nil && entry.What == "possibly_delivered_twice" {
				told[seq] = true
			}
			if entry.What == "delivered_again" {
				t.Errorf("got %+v in the audit, want nothing handled twice for certain", entry)
			}
		}
	}
}
