//go:build unix

package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// dev says where it is, and with --temp leaves nothing behind.
func TestDevSaysWhereItIsAndLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	p, err := launch(t, exec.Command(built.siding, "dev", "--temp", "--http", "127.0.0.1:0", "--nats", "127.0.0.1:0", "--log-format", "json"), "TMPDIR="+temp)
	if err == nil {
		err = p.awaitReady(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		for _, line := range []string{p.url, p.nats, "  siding account --server " + p.url} {
			if p.said(line) == 0 {
				return line
			}
		}
		return ""
	})
	if there, _ := filepath.Glob(filepath.Join(temp, "siding-dev-*")); len(there) != 1 {
		t.Errorf("got %v while it runs, want one directory", there)
	}
	response, err := newHTTPClient(t).Get(p.url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("/readyz: got %s, want 200", response.Status)
	}
	if code, err := p.terminate(patience); code != 0 || err != nil {
		t.Errorf("got exit code %d and %v, want 0", code, err)
	}
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("got %v left, want nothing", left)
	}
}

// A stop gives running attempts as long as the configuration says, and no longer.
func TestAStopGivesTheGraceThatTheFileSays(t *testing.T) {
	began, end := make(chan struct{}, 8), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-end:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(end) })
	p := start(t, built.siding, t.TempDir(), "SIDING_CONFIG="+writeConfig(t, server.URL, "grace: 2s\n"))
	if got := p.cli(t, "event", "send", "--type", "com.example.claim.reported", "--data", "{}"); got.code != 0 {
		t.Fatalf("event send: got exit code %d and %s", got.code, got.stderr)
	}
	select {
	case <-began:
	case <-time.After(patience):
		t.Fatal("got no request")
	}
	asked := time.Now()
	code, err := p.terminate(patience)
	if took := time.Since(asked); code != 0 || err != nil || took < 2*time.Second || took > 15*time.Second {
		t.Errorf("got exit code %d and %v after %s, want 0 after the grace of 2 s and before the default of 20 s", code, err, took)
	}
	if strings.Contains(p.log(), "panic") {
		t.Errorf("got %s", p.log())
	}
}
