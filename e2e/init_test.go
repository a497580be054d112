package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	stdruntime "runtime"
	"strings"
	"testing"
)

// What init writes builds, passes its own test and is a node, without a network and before anything is edited.
func TestAProgramThatInitWroteRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "claims")
	if got := command(t, built.siding, nil, "init", dir, "--siding", ".."); got.code != 0 || strings.Count(got.stdout, "\n") != 7 {
		t.Fatalf("init: got exit code %d and %s%s, want 7 files", got.code, got.stdout, got.stderr)
	}
	program := filepath.Join(t.TempDir(), "claims")
	if stdruntime.GOOS == "windows" {
		program += ".exe"
	}
	for _, args := range [][]string{{"vet", "./..."}, {"test", "./..."}, {"build", "-o", program, "."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		// Everything it needs has been built for this test, so that nothing may be asked for. No vendor or workspace of ours counts there.
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}

	p := start(t, program, t.TempDir())
	for id, data := range map[string]string{"good": `{"policy":"P-1","lost_on":"2026-11-30"}`, "undated": `{"policy":"P-1"}`, "test": `{"test":true}`} {
		if got := p.cli(t, "event", "send", "--type", "com.example.claim.reported", "--id", id, "--key", id, "--data", data); got.code != 0 {
			t.Fatalf("event send: got exit code %d and %s", got.code, got.stderr)
		}
	}
	if f := rest(t, p, "file-claim", 3).of("file-claim"); f.Delivered != 1 || f.Parked != 1 || f.Discarded != 1 {
		t.Errorf("account: got %+v, want one each delivered, parked and discarded", f)
	}
	letters := ask[[]deadLetter](t, p, "dlq", "ls")
	if len(letters) != 1 || letters[0].EventID != "undated" || letters[0].Error != "the date of loss is missing" {
		t.Errorf("dlq ls: got %+v, want the claim without a date", letters)
	}
}
