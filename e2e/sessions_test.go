package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// eventLife is what `siding event show --json` prints, as far as these tests look at it.
type eventLife struct {
	Stream, ID, Source, Type, Subject string
	Sequence                          uint64
	Attributes                        map[string]string
	Data                              json.RawMessage
	Functions                         []struct {
		Function, State string
		Cycle, Attempts int
		History         []struct{ Kind string }
	}
}

// decided is what `siding dlq redrive --json` prints.
type decided struct {
	ID, Action string
	Cycle      int
	Applied    bool
}

// What a person does at night: look, understand, repair, redrive, discard, and see that the sum holds.
func TestSessionFromADeadLetterToABalancedAccount(t *testing.T) {
	const kind = "com.insurer.claim.reported"
	repaired := filepath.Join(t.TempDir(), "repaired")
	program := newProgram(t, nil,
		function{Name: "file-claim", Types: []string{kind}, Attempts: 3, Delays: []time.Duration{10 * time.Millisecond}},
		function{Name: "audit-claim", Types: []string{"com.insurer.>"}, Do: "slow=0s"},
	)
	p := program.start(t)
	tail := p.follow(t)

	// Send: one that is handled, one that fails until something is repaired, one that no retry can help; and a file of two.
	for id, do := range map[string]string{"good": "slow=1ms", "fails": "fail-until=" + repaired, "refused": "park-until=/never"} {
		accepted := ask[struct {
			ID       string
			Sequence uint64
		}](t, p, "event", "send", "--type", kind, "--id", id, "--source", "/portal", "--key", "policy-"+id, "--data", `{"claim":1}`, "--attribute", "do="+do)
		if accepted.ID != id || accepted.Sequence == 0 {
			t.Errorf("event send: got %+v, want %s stored", accepted, id)
		}
	}
	file := filepath.Join(t.TempDir(), "claims.jsonl")
	lines := string(newSample("l1", kind, `{"n":1}`).structured(t)) + "\n" + string(newSample("l2", kind, `{"n":2}`).structured(t)) + "\n"
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, duplicate := range []bool{false, true} {
		sent := ask[[]struct {
			ID        string
			Duplicate bool
		}](t, p, "event", "send", file)
		if len(sent) != 2 || sent[1].ID != "l2" || sent[1].Duplicate != duplicate {
			t.Errorf("event send FILE: got %+v, want l1 and l2, duplicate %t", sent, duplicate)
		}
	}
	rest(t, p, "file-claim", 5)

	// Look.
	functions := ask[[]struct {
		Name, State, Version string
		Hosted               bool
		AttemptsAllowed      int `json:"attempts_allowed"`
		Parked               int
	}](t, p, "function", "ls")
	if len(functions) != 2 || functions[1].Name != "file-claim" || functions[1].State != "running" || !functions[1].Hosted ||
		functions[1].AttemptsAllowed != 3 || functions[1].Parked != 2 || functions[1].Version != "1.0.0" {
		t.Errorf("function ls: got %+v, want audit-claim and file-claim with 2 parked", functions)
	}
	letters := map[string]deadLetter{}
	for _, l := range ask[[]deadLetter](t, p, "dlq", "ls", "--function", "file-claim") {
		letters[l.EventID] = l
	}
	fails, refused := letters["fails"], letters["refused"]
	if len(letters) != 2 || fails.Cause != "exhausted" || fails.Class != "transient" || fails.Attempts != 3 || fails.Key != "policy-fails" ||
		fails.Error != "attempt 3 fails as the script asks" || fails.ID != fmt.Sprintf("file-claim/%d", fails.Sequence) {
		t.Errorf("dlq ls: got %+v, want it exhausted after 3 attempts", fails)
	}
	if refused.Cause != "permanent" || refused.Class != "permanent" || refused.Attempts != 1 {
		t.Errorf("dlq ls: got %+v, want it permanent after the first attempt", refused)
	}
	for range 2 {
		if id := tail.next(t); id != fails.ID && id != refused.ID {
			t.Errorf("dlq tail: got %s, want %s and %s", id, fails.ID, refused.ID)
		}
	}
	shown := ask[deadLetterDetail](t, p, "dlq", "show", fails.ID)
	attempts := 0
	for _, h := range shown.History {
		if h.Kind == "attempt" {
			attempts++
		}
	}
	if attempts != 3 || compact(t, shown.Data) != `{"claim":1}` || shown.Attributes["source"] != "/portal" || shown.Stream == "" || shown.TraceID == "" {
		t.Errorf("dlq show: got %+v, want 3 attempts, the data and where it stands", shown)
	}
	if text := p.cli(t, "dlq", "show", fails.ID); text.code != 0 || !strings.Contains(text.stdout, "exhausted") || !strings.Contains(text.stdout, `{"claim":1}`) {
		t.Errorf("dlq show: got exit code %d and %s, want cause and data for a person", text.code, text.stdout)
	}
	if life := ask[eventLife](t, p, "event", "show", "fails"); len(life.Functions) != 2 || life.Functions[1].State != "parked" || life.Functions[0].State != "delivered" {
		t.Errorf("event show: got %+v, want it delivered to audit-claim and parked by file-claim", life)
	}

	// Decide. What is not repaired comes back in the next cycle; a decision about the old one is then a conflict.
	if got := p.cli(t, "dlq", "redrive", fails.ID, "--reason", "try"); got.code != 4 || !strings.Contains(got.stderr, "--yes") {
		t.Errorf("dlq redrive without --yes: got exit code %d and %s, want it refused with a hint", got.code, got.stderr)
	}
	if done := ask[[]decided](t, p, "dlq", "redrive", fails.ID, "--reason", "try", "--yes"); len(done) != 1 || !done[0].Applied || done[0].Cycle != 0 {
		t.Errorf("dlq redrive: got %+v, want it applied to cycle 0", done)
	}
	if id := tail.next(t); id != fails.ID {
		t.Errorf("dlq tail: got %s, want %s again", id, fails.ID)
	}
	rest(t, p, "file-claim", 5)
	again := ask[deadLetterDetail](t, p, "dlq", "show", fails.ID)
	if again.Cycle != 1 || again.Attempts != 3 || again.Cause != "exhausted" {
		t.Errorf("dlq show after a redrive in vain: got %+v, want 3 attempts of cycle 1", again.deadLetter)
	}
	if err := os.WriteFile(repaired, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dry := ask[[]deadLetter](t, p, "dlq", "redrive", "--function", "file-claim", "--cause", "exhausted", "--all", "--dry-run")
	if len(dry) != 1 || dry[0].ID != fails.ID {
		t.Errorf("dlq redrive --dry-run: got %+v, want %s", dry, fails.ID)
	}
	if done := ask[[]decided](t, p, "dlq", "redrive", "--function", "file-claim", "--cause", "exhausted", "--all", "--reason", "repaired", "--yes"); len(done) != 1 || !done[0].Applied {
		t.Errorf("dlq redrive --all: got %+v, want one applied", done)
	}
	if done := ask[[]decided](t, p, "dlq", "discard", refused.ID, "--reason", "not ours", "--by", "eve", "--yes"); len(done) != 1 || !done[0].Applied || done[0].Action != "discard" {
		t.Errorf("dlq discard: got %+v, want it applied", done)
	}
	if got := p.cli(t, "dlq", "discard", refused.ID, "--reason", "again", "--yes"); got.code != 3 {
		t.Errorf("dlq discard of what is gone: got exit code %d and %s, want 3", got.code, got.stderr)
	}
	a := rest(t, p, "file-claim", 5)
	if f := a.of("file-claim"); f.Delivered != 4 || f.Discarded != 1 || f.Parked != 0 || !f.Holds {
		t.Errorf("account: got %+v, want 4 delivered and 1 discarded", f)
	}
	if f := a.of("audit-claim"); f.Delivered != 5 {
		t.Errorf("account: got %+v, want all 5 delivered", f)
	}
	life := ask[eventLife](t, p, "event", "show", "refused")
	if f := life.Functions[1]; f.State != "discarded" || life.Attributes["partitionkey"] != "policy-refused" {
		t.Errorf("event show: got %+v, want it discarded", life)
	}
	if got := p.cli(t, "dlq", "ls"); got.code != 0 || got.stdout != "" || !strings.Contains(got.stderr, "no dead letters") {
		t.Errorf("dlq ls: got exit code %d, %q and %q, want it to say that there are none", got.code, got.stdout, got.stderr)
	}
	if n := count(program.read(t), call{What: "begin", Function: "file-claim", ID: "fails"}); n != 3+3+1 {
		t.Errorf("got %d attempts, want 3 of cycle 0, 3 of cycle 1 and one of cycle 2", n)
	}
	if v := ask[struct{ Version, Go string }](t, p, "version"); !strings.HasPrefix(v.Go, "go1.") {
		t.Errorf("version: got %+v", v)
	}
}

// compact takes the spaces out of JSON that was laid out for a person.
func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// follower is a running `siding dlq tail --json`.
type follower struct{ ids chan string }

func (p *process) follow(t *testing.T) follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, built.siding, "dlq", "tail", "--json", "--server", p.url)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	f := follower{ids: make(chan string, 64)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var l deadLetter
			if json.Unmarshal(lines.Bytes(), &l) == nil {
				select {
				case f.ids <- l.ID:
				case <-ctx.Done():
				}
			}
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// next returns the id of the next dead letter that the tail prints.
func (f follower) next(t *testing.T) string {
	t.Helper()
	select {
	case id := <-f.ids:
		return id
	case <-time.After(patience):
		t.Fatalf("dlq tail: got nothing in %s", patience)
		return ""
	}
}
