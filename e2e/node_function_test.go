package e2e_test

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// nodeFunction is a function on Node.js, made with the packages that people there use.
type nodeFunction struct {
	url   string
	mu    sync.Mutex
	posts []nodePost
}

// nodePost is what the function says about one post.
type nodePost struct {
	Port        int
	Attributes  map[string]string
	Data        json.RawMessage
	SHA256      string
	Status      int
	Traceparent string
	Attempt     string
	Cycle       string
}

// startNodeFunction installs the packages at the versions of the lock file and starts the function.
func startNodeFunction(t *testing.T) *nodeFunction {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: hint: this test has events handled by a function on Node.js; install Node.js 20 to 24 with npm", err)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "node-function"))); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v: hint: it needs the npm registry\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), "node", "server.js")
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f, ready, done := &nodeFunction{}, make(chan int, 1), make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			var said nodePost
			if json.Unmarshal(lines.Bytes(), &said) != nil {
				continue
			}
			if said.Port != 0 {
				ready <- said.Port
				continue
			}
			f.mu.Lock()
			f.posts = append(f.posts, said)
			f.mu.Unlock()
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if t.Failed() {
			t.Logf("the function on Node.js said:\n%s", stderr.String())
		}
	})
	select {
	case port := <-ready:
		f.url = fmt.Sprintf("http://127.0.0.1:%d/", port)
	case <-done:
		t.Fatalf("the function on Node.js ended before it was ready:\n%s", stderr.String())
	case <-time.After(patience):
		t.Fatal("the function on Node.js is not ready")
	}
	return f
}

// of returns the posts of one event, in order.
func (f *nodeFunction) of(id string) []nodePost {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []nodePost
	for _, p := range f.posts {
		if p.Attributes["id"] == id {
			found = append(found, p)
		}
	}
	return found
}

// TestAFunctionOnNodeGetsEventsByHTTP has events handled by a program that knows nothing of Siding.
func TestAFunctionOnNodeGetsEventsByHTTP(t *testing.T) {
	const kind = "com.example.claim.reported"
	f, traces := startNodeFunction(t), newSink(t)
	p := newProgram(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + traces.URL, "OTEL_BSP_SCHEDULE_DELAY=100"},
		function{Name: "f", Types: []string{kind}, Attempts: 4, Delays: []time.Duration{10 * time.Millisecond}, URL: f.url},
	).start(t)
	plain := newSample("plain", kind, `{"policy": "7",  "damage":"Wasser im Keller €"}`,
		"subject", `Schaden "Grüße" 100% 😀`, "time", "2026-01-02T03:04:05.678Z", "dataschema", "https://example.com/claim?v=1%202",
		"partitionkey", "policy 7/ä", "tenant", "a,b;c=d")
	events := []sample{
		plain,
		newSample("flaky", kind, `[1,2]`, "answer", "503,503,200"),
		newSample("refused", kind, `{}`, "answer", "422"),
		newSample("busy", kind, `{}`, "answer", "429,200"),
		newSample("broken", kind, `{}`, "answer", "500"),
	}
	send(t, newHTTPClient(t), p, events...)
	if a := rest(t, p, "f", len(events)).of("f"); a.Delivered != 3 || a.Parked != 2 {
		t.Errorf("got %+v, want 3 delivered and 2 parked", a)
	}

	for id, want := range map[string][]int{"plain": {204}, "flaky": {503, 503, 200}, "refused": {422}, "busy": {429, 200}, "broken": {500, 500, 500, 500}} {
		statuses := []int{}
		for i, post := range f.of(id) {
			statuses = append(statuses, post.Status)
			if post.Attempt != fmt.Sprint(i+1) || post.Cycle != "0" {
				t.Errorf("%s: got post %d as attempt %s of cycle %s", id, i+1, post.Attempt, post.Cycle)
			}
		}
		if !slices.Equal(statuses, want) {
			t.Errorf("%s: got the answers %v, want %v", id, statuses, want)
		}
	}
	got := f.of("plain")[0]
	if got.SHA256 != plain.hash() || string(got.Data) != `{"policy":"7","damage":"Wasser im Keller €"}` {
		t.Errorf("got data %s with hash %s, want %s unchanged", got.Data, got.SHA256, plain.data)
	}
	traceparent := got.Attributes["traceparent"]
	delete(got.Attributes, "traceparent") // of the event's creation: nobody gave one
	want := map[string]string{"specversion": "1.0"}
	maps.Copy(want, plain.attributes)
	if diff := cmp.Diff(want, got.Attributes); diff != "" {
		t.Errorf("attributes: (-want +got)\n%s", diff)
	}

	eventually(t, func() string {
		sent := []string{}
		for _, post := range f.of("flaky") {
			sent = append(sent, post.Traceparent)
		}
		recorded := []string{}
		for _, span := range traces.of("flaky") {
			if span.GetName() == "process f" {
				recorded = append(recorded, fmt.Sprintf("00-%s-%s-01", hex.EncodeToString(span.GetTraceId()), hex.EncodeToString(span.GetSpanId())))
			}
		}
		if !slices.Equal(sent, recorded) {
			return fmt.Sprintf("got the trace contexts %q, want those of the attempts %q", sent, recorded)
		}
		return ""
	})
	if id := strings.Split(got.Traceparent, "-"); len(id) != 4 || !strings.Contains(traceparent, id[1]) {
		t.Errorf("got traceparent %s and the event's own %s, want one trace", got.Traceparent, traceparent)
	}

	for _, letter := range ask[[]deadLetter](t, p, "dlq", "ls") {
		detail := ask[deadLetter](t, p, "dlq", "show", letter.ID)
		switch letter.EventID {
		case "refused":
			if detail.Cause != "permanent" || detail.Code != "http_422" || !strings.Contains(detail.Error, "422 Unprocessable Entity: no policy has this number") || detail.Attempts != 1 {
				t.Errorf("got %+v, want it permanent with the function's own words", detail)
			}
		case "broken":
			if detail.Cause != "exhausted" || detail.Code != "http_500" || detail.Attempts != 4 {
				t.Errorf("got %+v, want it exhausted", detail)
			}
		default:
			t.Errorf("got the dead letter %+v, want none of this event", letter)
		}
	}
}
