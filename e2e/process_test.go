package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait for something that takes moments when all is well.
const patience = 60 * time.Second

// process is a running node.
type process struct {
	url  string // of the HTTP API
	nats string // URL for NATS clients, or off
	pid  int

	took time.Duration // until it was ready

	began time.Time
	cmd   *exec.Cmd
	ready chan struct{}
	done  chan struct{} // closed when it has ended

	mu    sync.Mutex
	lines []string // of its log
}

// start runs `serve` of a program on a directory and waits until it is ready. It is killed at the end of the test if it still runs.
func start(t *testing.T, program, dir string, env ...string) *process {
	t.Helper()
	p, err := launch(t, exec.Command(program, serveArgs(dir)...), env...)
	if err == nil {
		err = p.awaitReady(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serveArgs leaves the choice of ports to the system: one chosen beforehand could be taken by somebody else meanwhile.
func serveArgs(dir string) []string {
	return []string{"serve", "--data-dir", dir, "--http", "127.0.0.1:0", "--nats", "127.0.0.1:0", "--log-format", "json"}
}

// launch starts a process without waiting for it. Its last log lines are shown if the test fails.
func launch(t *testing.T, cmd *exec.Cmd, env ...string) (*process, error) {
	p := &process{cmd: cmd, began: time.Now(), ready: make(chan struct{}), done: make(chan struct{})}
	cmd.Env = append(os.Environ(), env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.pid = cmd.Process.Pid
	go p.read(stderr)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Logf("process %d said last:\n%s", p.pid, strings.Join(p.lines[max(0, len(p.lines)-25):], "\n"))
		}
	})
	return p, nil
}

// read takes in the log until the process ends.
func (p *process) read(stderr io.Reader) {
	defer close(p.done)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		var said struct{ Msg, HTTP, NATS string }
		_ = json.Unmarshal([]byte(line), &said)
		p.mu.Lock()
		p.lines = append(p.lines, line)
		p.mu.Unlock()
		if said.Msg == "siding is ready" {
			p.url, p.nats, p.took = "http://"+said.HTTP, said.NATS, time.Since(p.began)
			close(p.ready)
		}
	}
	_, _ = io.Copy(io.Discard, stderr)
	_ = p.cmd.Wait()
}

func (p *process) awaitReady(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-p.done:
		return fmt.Errorf("process %d ended with %d before it was ready: %s", p.pid, p.exitCode(), p.log())
	case <-time.After(patience):
		return fmt.Errorf("process %d is not ready after %s", p.pid, patience)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// exitCode of a process that has ended; -1 if a signal ended it.
func (p *process) exitCode() int { return p.cmd.ProcessState.ExitCode() }

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// said counts the log lines that contain text.
func (p *process) said(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, line := range p.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// kill ends it as kill -9 does.
func (p *process) kill() {
	select {
	case <-p.done:
		return
	default:
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// awaitExit returns the exit code of a process that was told to end.
func (p *process) awaitExit(limit time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.exitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("process %d still runs after %s", p.pid, limit)
	}
}

// result is what a command that has ended said.
type result struct {
	code           int
	stdout, stderr string
}

// command runs a program to its end.
func command(t *testing.T, program string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, stderr.String())
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// cli runs a command of the stock program against p.
func (p *process) cli(t *testing.T, args ...string) result {
	t.Helper()
	return command(t, built.siding, []string{"SIDING_SERVER=" + p.url, "USER=tester"}, args...)
}

// ask runs a command with --json that must succeed, and reads what it prints.
func ask[T any](t *testing.T, p *process, args ...string) T {
	t.Helper()
	var out T
	got := p.cli(t, append(args, "--json")...)
	if got.code != 0 {
		t.Fatalf("siding %s: got exit code %d, want 0:\n%s%s", strings.Join(args, " "), got.code, got.stdout, got.stderr)
	}
	if err := json.Unmarshal([]byte(got.stdout), &out); err != nil {
		t.Fatalf("siding %s: %v:\n%s", strings.Join(args, " "), err, got.stdout)
	}
	return out
}

// eventually waits until reached returns "", which otherwise says what is missing.
func eventually(t *testing.T, reached func() string) {
	t.Helper()
	eventuallyWithin(t, patience, reached)
}

func eventuallyWithin(t *testing.T, limit time.Duration, reached func() string) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(limit)
	for {
		missing := reached()
		if missing == "" {
			return
		}
		select {
		case <-ticker.C:
		case <-timeout:
			t.Fatalf("after %s still: %s", limit, missing)
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// pause waits for d where only the passing of time can show something.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
