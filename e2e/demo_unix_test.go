//go:build unix

package e2e_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The commands that the kept demo prints are typed as they stand, by a shell.
func TestKeptDemoAnswersWhatItSaysToTypeUntilInterrupted(t *testing.T) {
	tmp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), built.siding, "demo", "--keep")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	var said strings.Builder
	var typed []string
	lines := bufio.NewScanner(out)
	for last := false; !last && lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if line, ok := strings.CutPrefix(lines.Text(), "   $ siding "); ok && strings.Contains(line, "--server") {
			typed = append(typed, line)
			last = strings.HasPrefix(line, "event trace 4")
		}
	}
	if len(typed) < 8 {
		t.Fatalf("got %d commands to type, want at least 8:\n%s", len(typed), &said)
	}
	for _, line := range typed {
		args := strings.TrimSpace(line)
		if strings.HasPrefix(args, "dlq edit") {
			args += " --yes" // there is no terminal to ask on
		}
		if strings.HasPrefix(args, "event send") {
			args += " --wait --json"
		}
		got := command(t, "sh", nil, "-c", strconv.Quote(built.siding)+" "+args)
		if strings.HasPrefix(args, "event send") {
			var sent struct {
				Functions []struct{ State string }
			}
			if err := json.Unmarshal([]byte(got.stdout), &sent); err != nil || len(sent.Functions) != 1 || sent.Functions[0].State != "parked" {
				t.Errorf("%s: got %s%s, want it parked", args, got.stdout, got.stderr)
			}
			continue
		}
		if got.code != 0 {
			t.Errorf("siding %s: got exit code %d, want 0: %s%s", args, got.code, got.stdout, got.stderr)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil || !strings.Contains(string(rest), "its directory is removed: "+tmp) {
		t.Errorf("got %v and %q, want exit code 0 and the directory removed", err, rest)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("got %v (%v) left behind, want nothing", left, err)
	}
}

// Whoever pages through the story and leaves gets his directory tidied up all the same.
func TestDemoThatNobodyReadsLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	got := command(t, "sh", []string{"TMPDIR=" + tmp}, "-c", strconv.Quote(built.siding)+" demo | head -n 1")
	if got.code != 0 || !strings.HasPrefix(got.stdout, "A node runs on http://127.0.0.1:") || !strings.Contains(got.stderr, "siding: output: ") {
		t.Errorf("got exit code %d, %q and %q, want one line and a word about the rest", got.code, got.stdout, got.stderr)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("got %v (%v) left behind, want nothing", left, err)
	}
}
