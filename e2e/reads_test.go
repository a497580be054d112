package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a sender and an operator read of the same events: the outcome of a send, the life of an event as a list, the file for the sender, and
// who decided what.
func TestWhatIsReadOfEventsThatAreParkedExportedAndSentAgain(t *testing.T) {
	const kind = "com.insurer.claim.reported"
	repaired := filepath.Join(t.TempDir(), "repaired")
	program := newProgram(t, nil, function{Name: "file-claim", Types: []string{kind}, Attempts: 2, Delays: []time.Duration{10 * time.Millisecond}})
	p := program.start(t)
	send := func(id, key, do string, more ...string) result {
		return p.cli(t, append([]string{"event", "send", "--type", kind, "--id", id, "--source", "/portal", "--key", key, "--attribute", "do=" + do,
			"--data", `{"claim": 1,  "by":"<é>"}`}, more...)...)
	}

	// Wait: one that is handled, one that is parked, one that is held behind it.
	if got := send("good", "policy-1", "slow=1ms", "--wait"); got.code != 0 || !strings.Contains(got.stdout, "delivered") {
		t.Errorf("send --wait: got exit code %d, %s%s, want it delivered", got.code, got.stdout, got.stderr)
	}
	if got := send("fails", "policy-2", "fail-until="+repaired, "--wait=30s"); got.code != 1 || !strings.Contains(got.stderr, "file-claim/2 was parked after 2 attempts") {
		t.Errorf("send --wait: got exit code %d, %s%s, want it parked", got.code, got.stdout, got.stderr)
	}
	if got := send("behind", "policy-2", "slow=1ms", "--wait=200ms"); got.code != 1 || !strings.Contains(got.stderr, "held behind file-claim/2") {
		t.Errorf("send --wait: got exit code %d, %s%s, want it held", got.code, got.stdout, got.stderr)
	}

	// Export, for the sender; what is exported is what was sent, so that the node knows it.
	file := filepath.Join(t.TempDir(), "portal.jsonl")
	if got := p.cli(t, "dlq", "export", "--source", "/portal", "--out", file); got.code != 0 {
		t.Errorf("export: got exit code %d, %s", got.code, got.stderr)
	}
	lines, err := os.ReadFile(file)
	if err != nil || strings.Count(string(lines), "\n") != 1 || !strings.Contains(string(lines), `{"claim": 1,  "by":"<é>"}`) {
		t.Errorf("export: got %s and %v, want one event with its data as it was", lines, err)
	}
	if got := p.cli(t, "event", "send", file); got.code != 0 || !strings.Contains(got.stdout, "duplicate") {
		t.Errorf("send what was exported: got exit code %d, %s%s, want a duplicate", got.code, got.stdout, got.stderr)
	}
	if got := p.cli(t, "dlq", "export", "--with-reason"); got.code != 0 || !strings.Contains(got.stdout, `"sidingcause":"exhausted"`) {
		t.Errorf("export --with-reason: got exit code %d, %s%s", got.code, got.stdout, got.stderr)
	}

	// Another node takes the file, too.
	other := newProgram(t, nil).start(t)
	if got := other.cli(t, "event", "send", file, "--wait"); got.code != 0 || !strings.Contains(got.stderr, "no function takes fails") {
		t.Errorf("send to another node: got exit code %d, %s%s, want it stored", got.code, got.stdout, got.stderr)
	}

	// Decide, and read who did.
	if err := os.WriteFile(repaired, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := p.cli(t, "dlq", "redrive", "file-claim/2", "--yes", "--by", "anna", "--reason", "the bank is known"); got.code != 0 {
		t.Errorf("redrive: got exit code %d, %s", got.code, got.stderr)
	}
	rest(t, p, "file-claim", 3)
	var whats []string
	for _, s := range ask[[]struct{ What, Gap, Detail string }](t, p, "event", "trace", "fails") {
		whats = append(whats, s.What)
	}
	if got, want := strings.Join(whats, " "), "stored attempt waited attempt parked redriven delivered"; got != want {
		t.Errorf("event trace: got %s, want %s", got, want)
	}
	if got := p.cli(t, "event", "trace", "fails"); !strings.HasPrefix(got.stdout, "trace ") || !strings.Contains(got.stdout, "by anna: the bank is known") {
		t.Errorf("event trace: got %s, want the trace at the top and who decided why", got.stdout)
	}
	entries := ask[[]struct {
		What, Event, By, Reason string
		EventID                 string `json:"event_id"`
	}](t, p, "audit", "ls", "--event", "file-claim/2")
	for i := range entries {
		if entries[i].What == "parked" {
			entries[i].By = "" // the advisory, unless the machine is busy
		}
	}
	if got, want := fmt.Sprint(entries), "[{redriven file-claim/2 anna the bank is known fails} {parked file-claim/2  exhausted fails}]"; got != want {
		t.Errorf("audit ls: got %s, want %s", got, want)
	}
	if got := p.cli(t, "audit", "ls", "--by", "anna", "--since", "1h"); got.code != 0 || strings.Count(got.stdout, "\n") != 2 {
		t.Errorf("audit ls --by: got exit code %d, %s, want one entry", got.code, got.stdout)
	}
}
