package runtime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// fakeBackend is a node in memory: it knows one function and two dead letters.
type fakeBackend struct {
	mu      sync.Mutex
	stored  map[string]uint64 // source and id to sequence
	decided []client.Decision
	query   deadLetterQuery
	lanesOf client.LaneQuery
	paused  []client.PauseRequest
	ref     [2]string
	auditOf client.AuditQuery
	handled time.Time // when event 42 is
	looks   int       // how often somebody looked where it stands
	notYet  error     // what ready says

	copies     int // backups that have not been closed
	brokenCopy bool
	onBackup   error

	onAccept func(context.Context, http.Header) error
	onTail   func(ctx context.Context, fromNow bool, yield func(client.DeadLetter) error) error
}

func newFakeBackend() *fakeBackend { return &fakeBackend{stored: map[string]uint64{}} }

func (b *fakeBackend) functionList(context.Context) ([]client.Function, error) { return nil, nil }

func (b *fakeBackend) functionShow(_ context.Context, name string) (client.Function, error) {
	switch name {
	case "file-claim":
		return client.Function{Name: name, State: "running"}, nil
	case "broken":
		return client.Function{}, errors.New("secret disk path")
	}
	return client.Function{}, newProblem(client.NotFound, "function %s: not found", name).WithHint("siding function ls")
}

func (b *fakeBackend) setAside(ctx context.Context, s client.SetAsideRequest) (client.Function, error) {
	f, err := b.functionShow(ctx, s.Function)
	f.SetAside = []client.SetAsideRule{{Where: s.Where, By: s.By, Reason: s.Reason}}
	return f, err
}

func (b *fakeBackend) suspendFunction(ctx context.Context, s client.SuspendRequest) (client.Function, error) {
	return b.functionShow(ctx, s.Function)
}

func (b *fakeBackend) resumeFunction(ctx context.Context, s client.SuspendRequest) (client.Function, error) {
	return b.functionShow(ctx, s.Function)
}

func (b *fakeBackend) deadLetters(_ context.Context, q deadLetterQuery) ([]client.DeadLetter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.query = q
	return nil, nil
}

func (b *fakeBackend) deadLetter(_ context.Context, function string, sequence uint64) (client.DeadLetterDetail, error) {
	if function != "file-claim" || sequence != 42 {
		return client.DeadLetterDetail{}, newProblem(client.NotFound, "dead letter %s/%d: not found", function, sequence)
	}
	return client.DeadLetterDetail{DeadLetter: fakeDeadLetter(), Payload: client.PayloadOf("", []byte(`{"a":"<b>"}`))}, nil
}

func (b *fakeBackend) tail(ctx context.Context, _ deadLetterQuery, fromNow bool, yield func(client.DeadLetter) error) error {
	if b.onTail != nil {
		return b.onTail(ctx, fromNow, yield)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (b *fakeBackend) decide(_ context.Context, d client.Decision) (client.Decided, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.Cycle != nil && *d.Cycle != 1 {
		return client.Decided{}, newProblem(client.Conflict, "dead letter %s/%d: stands at cycle 1, not %d", d.Function, d.Sequence, *d.Cycle)
	}
	b.decided = append(b.decided, d)
	return client.Decided{ID: "file-claim/42", Action: d.Action, Cycle: 1, Applied: d.Action == client.Redrive}, nil
}

func (b *fakeBackend) account(context.Context) (client.Account, error) {
	return client.Account{Holds: true, Functions: []client.FunctionAccount{{Function: "file-claim", Holds: true}}}, nil
}

func (b *fakeBackend) eventShow(_ context.Context, ref, source string) (client.EventLife, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ref = [2]string{ref, source}
	return client.EventLife{ID: ref}, nil
}

func (b *fakeBackend) accept(ctx context.Context, header http.Header, events []event.Event) ([]client.Accepted, error) {
	if b.onAccept != nil {
		if err := b.onAccept(ctx, header); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []client.Accepted
	for _, e := range events {
		key := e.Source() + " " + e.ID()
		sequence, duplicate := b.stored[key]
		if !duplicate {
			sequence = uint64(len(b.stored) + 1)
			b.stored[key] = sequence
		}
		out = append(out, client.Accepted{ID: e.ID(), Source: e.Source(), Sequence: sequence, Duplicate: duplicate})
	}
	return out, nil
}

func (b *fakeBackend) ready() error { return b.notYet }

func (b *fakeBackend) version() client.Version { return client.Version{Version: "1.2.3"} }

func (b *fakeBackend) metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("siding_up 1\n")) })
}

// ask sends one request to a handler and returns the answer.
func ask(t *testing.T, h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wantProblem checks that an answer is a problem of a code and returns it.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, code client.Code) client.Problem {
	t.Helper()
	var p client.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("got body %q, want a problem: %v", w.Body, err)
	}
	if p.Code != code || w.Code != code.Status() || p.Status != w.Code {
		t.Errorf("got status %d and problem %+v, want code %s and status %d", w.Code, p, code, code.Status())
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("got content type %q, want application/problem+json", got)
	}
	if p.Detail == "" || p.Title == "" || p.Type == "" {
		t.Errorf("got %+v, want type, title and detail", p)
	}
	return p
}

func TestWrongMethodNamesTheAllowedOnes(t *testing.T) {
	h := newHTTPHandler(newFakeBackend(), httpOptions{})
	for target, allow := range map[string]string{
		"/events":                             "OPTIONS, POST",
		"/healthz":                            "GET, HEAD",
		"/metrics":                            "GET, HEAD",
		"/":                                   "GET, HEAD",
		"/api/v1/functions":                   "GET, HEAD",
		"/api/v1/dlq/tail":                    "GET, HEAD",
		"/api/v1/dlq/export":                  "GET, HEAD",
		"/api/v1/dlq/file-claim/42":           "GET, HEAD",
		"/api/v1/dlq/file-claim/42/redrive":   "POST",
		"/api/v1/dlq/file-claim/42/discard":   "POST",
		"/api/v1/dlq/file-claim/42/release":   "POST",
		"/api/v1/lanes":                       "GET, HEAD",
		"/api/v1/lanes/file-claim":            "GET, HEAD",
		"/api/v1/lanes/file-claim/pause":      "POST",
		"/api/v1/lanes/file-claim/resume":     "POST",
		"/api/v1/functions/file-claim?x=y":    "GET, HEAD",
		"/api/v1/events?sequence=1&source=%2": "GET, HEAD",
		"/api/v1/events/trace":                "GET, HEAD",
		"/api/v1/events/wait":                 "GET, HEAD",
		"/api/v1/audit":                       "GET, HEAD",
		"/api/v1/audit/42":                    "GET, HEAD",
		"/api/v1/openapi.json":                "GET, HEAD",
	} {
		w := ask(t, h, http.MethodDelete, target, "")
		wantProblem(t, w, client.Method)
		if got := w.Header().Get("Allow"); got != allow {
			t.Errorf("%s: got Allow %q, want %q", target, got, allow)
		}
	}
	wantProblem(t, ask(t, h, http.MethodPost, "/api/v2/nothing", ""), client.NotFound)
}

func TestReadinessSaysWhyNot(t *testing.T) {
	b := newFakeBackend()
	h := newHTTPHandler(b, httpOptions{})
	if w := ask(t, h, http.MethodGet, "/readyz", ""); w.Code != http.StatusOK {
		t.Errorf("got %d, want 200", w.Code)
	}
	b.notYet = errors.New("function file-claim: replaying")
	w := ask(t, h, http.MethodGet, "/readyz", "")
	if p := wantProblem(t, w, client.Unavailable); !strings.Contains(p.Detail, "replaying") || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %+v, want the reason and Retry-After", p)
	}
	if w := ask(t, h, http.MethodGet, "/healthz", ""); w.Code != http.StatusOK {
		t.Errorf("healthz: got %d, want 200 while not ready", w.Code)
	}
}

func TestUnknownErrorIsLoggedOnceAndNotTold(t *testing.T) {
	var log bytes.Buffer
	h := newHTTPHandler(newFakeBackend(), httpOptions{log: slog.New(slog.NewTextHandler(&log, nil))})
	w := ask(t, h, http.MethodGet, "/api/v1/functions/broken", "")
	wantProblem(t, w, client.Internal)
	if strings.Contains(w.Body.String(), "secret") {
		t.Errorf("got body %s, want nothing of the error", w.Body)
	}
	if got := strings.Count(log.String(), "secret disk path"); got != 1 {
		t.Errorf("got the error %d times in the log, want once:\n%s", got, &log)
	}
	log.Reset()
	wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/functions/nobody", ""), client.NotFound)
	if log.Len() > 0 {
		t.Errorf("got log %q, want none for a known problem", &log)
	}
}

func TestShutdownEndsTailsAndLetsAPostFinish(t *testing.T) {
	b := newFakeBackend()
	entered, finish := make(chan struct{}), make(chan struct{})
	b.onAccept = func(context.Context, http.Header) error {
		close(entered)
		<-finish
		return nil
	}
	server := newHTTPServer(newHTTPHandler(b, httpOptions{}), slog.New(slog.DiscardHandler))
	if server.ReadHeaderTimeout == 0 || server.IdleTimeout == 0 || server.MaxHeaderBytes != 64<<10 || server.WriteTimeout != 0 {
		t.Errorf("got %+v, want header and idle timeouts, 64 KiB of headers and no write timeout", server)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	c, err := client.New(listener.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	sent, tailed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := c.Send(t.Context(), testEvent("1"))
		sent <- err
	}()
	b.onTail = func(ctx context.Context, _ bool, yield func(client.DeadLetter) error) error {
		if err := yield(fakeDeadLetter()); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	standing := make(chan struct{})
	go func() {
		tailed <- c.Tail(t.Context(), client.DeadLetterQuery{}, false, func(client.DeadLetter) error {
			close(standing)
			return nil
		})
	}()
	<-entered
	<-standing
	stopped := make(chan error, 1)
	go func() { stopped <- server.Shutdown(t.Context()) }()
	if err := <-tailed; !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("tail: got %v, want unreachable", err)
	}
	close(finish)
	if err := <-sent; err != nil {
		t.Errorf("post in flight: got %v, want it answered", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("shutdown: got %v, want nil", err)
	}
}

// secret is a token, and tokens makes whoever presents it known by a name.
const secret = "siding_TESTTESTTESTTESTTESTTEST"

func tokens(name, secret string) streams.Tokens {
	return streams.Tokens{{Name: name, Hash: sha256.Sum256([]byte(secret))}}
}
