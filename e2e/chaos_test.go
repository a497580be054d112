package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// rehearsal starts `dev --chaos` of the stock program with one function behind a URL.
func rehearsal(t *testing.T, dir, config, rules string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chaos.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"dev"}, serveArgs(dir)[1:], []string{"--config", config, "--chaos", file})
	p, err := launch(t, exec.Command(built.siding, args...))
	if err == nil {
		err = p.awaitReady(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if p.said("warning: functions fail on purpose") != 1 || p.said("  rule 1: ") != 1 {
		t.Errorf("got %s, want a warning with a line for the rule", p.log())
	}
	return p
}

// counted is a receiver that takes everything, and its number of requests.
func counted(t *testing.T) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// A rehearsed kill is one of the process, and what it hit is handled after the next start, under the same rules.
func TestARehearsedKillEndsTheProcessAndLosesNothing(t *testing.T) {
	url, asked := counted(t)
	dir, config := t.TempDir(), writeConfig(t, url, "")
	const once = "rules: [{function: over-there, do: kill, times: 1}]\n"
	p := rehearsal(t, dir, config, once)
	// The process may be gone before it has answered.
	p.cli(t, "event", "send", "--type", "com.example.claim.reported", "--id", "c1", "--data", "{}")
	if code, err := p.awaitExit(patience); code != 137 || err != nil {
		t.Fatalf("got exit code %d and %v, want 137, as after kill -9", code, err)
	}
	if asked.Load() != 0 {
		t.Errorf("got %d requests, want none of an attempt that was killed", asked.Load())
	}
	p = rehearsal(t, dir, config, once)
	if f := rest(t, p, "over-there", 1).of("over-there"); f.Delivered != 1 || asked.Load() != 1 {
		t.Errorf("got %+v and %d requests, want one delivered by one request", f, asked.Load())
	}
}

// An outage begins and ends with the window; what it hit has its code, and the function says that it fails on purpose.
func TestARehearsedOutageIsOverAfterItsWindow(t *testing.T) {
	url, asked := counted(t)
	config := filepath.Join(t.TempDir(), "siding.yaml")
	content := "functions:\n  over-there:\n    url: " + url + "/claims\n    types: [com.example.claim.*]\n    retry: {attempts: 1000, backoff: {delays: [100ms]}}\n"
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	p := rehearsal(t, t.TempDir(), config, "rules:\n  - do: unavailable\n    error: \"contract system: connection refused\"\n    window: {for: 4s}\n")
	if got := p.cli(t, "event", "send", "--type", "com.example.claim.reported", "--id", "c1", "--data", "{}"); got.code != 0 {
		t.Fatalf("event send: got exit code %d and %s", got.code, got.stderr)
	}
	if shown := ask[struct{ Chaos bool }](t, p, "function", "show", "over-there"); !shown.Chaos {
		t.Error("function show: got chaos false, want it marked")
	}
	if text := p.cli(t, "function", "show", "over-there"); !strings.Contains(text.stdout, "fails on purpose") {
		t.Errorf("function show: got %s, want it said to a person", text.stdout)
	}
	if f := rest(t, p, "over-there", 1).of("over-there"); f.Delivered != 1 || asked.Load() != 1 {
		t.Errorf("got %+v and %d requests, want one delivered by one request", f, asked.Load())
	}
	life := ask[struct {
		Functions []struct {
			History []struct{ Class, Code, Error string }
		}
	}](t, p, "event", "show", "c1")
	if len(life.Functions) != 1 || len(life.Functions[0].History) < 2 {
		t.Fatalf("event show: got %+v, want failures before the delivery", life)
	}
	if first := life.Functions[0].History[0]; first.Class != "unavailable" || first.Code != "chaos" || first.Error != "contract system: connection refused" {
		t.Errorf("event show: got %+v, want the failure that the rule states", first)
	}
}

// What is wrong with the rules is said with its line, and nothing is started; and only dev knows the flag.
func TestARehearsalWithWrongRulesDoesNotStart(t *testing.T) {
	url, _ := counted(t)
	config, file := writeConfig(t, url, ""), filepath.Join(t.TempDir(), "chaos.yaml")
	if err := os.WriteFile(file, []byte("rules:\n  - do: fial\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	line, hint := refusal(t, built.siding, 2, nil, "dev", "--data-dir", dir, "--config", config, "--chaos", file)
	if want := file + `:2:9: rules[0].do: "fial" is unknown`; line != "siding: "+want || hint != "hint: did you mean fail?" {
		t.Errorf("got %q and %q, want %q", line, hint, want)
	}
	if line, _ := refusal(t, built.siding, 2, nil, "serve", "--data-dir", dir, "--config", config, "--chaos", file); line != "siding: unknown flag --chaos" {
		t.Errorf("serve: got %q", line)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("got a data directory, want nothing touched")
	}
}
