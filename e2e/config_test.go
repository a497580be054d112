package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// writeConfig writes a file with one function behind a URL, and more.
func writeConfig(t *testing.T, url, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "siding.yaml")
	content := fmt.Sprintf("functions:\n  over-there:\n    url: %s/claims\n    types: [com.example.claim.*]\n    order_by: subject\n    retry: {attempts: 2}\n%s", url, more)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The stock program hosts what its file declares, and runs as show says.
func TestTheStockProgramHostsWhatItsFileDeclares(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/claims" {
			asked.Add(1)
		}
	}))
	t.Cleanup(server.Close)
	env := "SIDING_CONFIG=" + writeConfig(t, server.URL, "grace: 7s\n")
	p := start(t, built.siding, t.TempDir(), env)
	if got := p.cli(t, "event", "send", "--type", "com.example.claim.reported", "--data", "{}"); got.code != 0 {
		t.Fatalf("event send: got exit code %d and %s", got.code, got.stderr)
	}
	if f := rest(t, p, "over-there", 1).of("over-there"); f.Delivered != 1 || asked.Load() != 1 {
		t.Errorf("got %+v and %d requests, want one delivered by one request", f, asked.Load())
	}
	functions := ask[[]struct {
		Name            string
		OrderBy         string `json:"order_by"`
		AttemptsAllowed int    `json:"attempts_allowed"`
	}](t, p, "function", "ls")
	if len(functions) != 1 || functions[0].OrderBy != "subject" || functions[0].AttemptsAllowed != 2 {
		t.Errorf("function ls: got %+v, want over-there by subject with 2 attempts", functions)
	}
	if got := command(t, built.siding, []string{env}, "config", "show"); !strings.Contains(got.stdout, "7s") {
		t.Errorf("config show: got %s, want the grace of the file", got.stdout)
	}
}

// A file that tunes a function which nobody hosts is a mistake, and not a silent one.
func TestAStartWithAnUnknownFunctionIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "siding.yaml")
	if err := os.WriteFile(path, []byte("functions:\n  file-claim:\n    timeout: 3s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	got := command(t, built.siding, nil, "serve", "--config", path, "--data-dir", dir)
	if want := ":2:3: functions.file-claim: is neither compiled into this program nor has a url"; got.code != 2 || !strings.Contains(got.stderr, want) {
		t.Errorf("serve: got exit code %d and %s, want 2 and %s", got.code, got.stderr, want)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("serve: got a data directory, want nothing touched")
	}
}
