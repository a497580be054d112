package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/runtime/client"
)

func fakeDeadLetter() client.DeadLetter {
	east := time.FixedZone("east", 2*3600)
	at := time.Date(2026, 1, 2, 5, 4, 5, 678, east)
	return client.DeadLetter{
		ID: "file-claim/42", Function: "file-claim", EventID: "<1>", Sequence: 42, Cause: "exhausted", Class: "transient",
		Attempts: 3, ParkedAt: at, FirstFailedAt: at, LastFailedAt: at, ParkedBy: "advisory",
	}
}

func TestEmptyAnswersAreListsNotNull(t *testing.T) {
	h := newHTTPHandler(newFakeBackend(), httpOptions{})
	for target, want := range map[string]string{
		"/api/v1/functions": `[]`,
		"/api/v1/dlq":       `[]`,
		"/api/v1/lanes":     `[]`,
		"/api/v1/account": `{"functions":[{"function":"file-claim","stream":"","accepted":0,"delivered":0,"pending":0,"delivering":0,` +
			`"retrying":0,"held":0,"parked":0,"discarded":0,"gone":0,"holds":true,"problems":[]}],"holds":true}`,
		"/api/v1/version": `{"version":"1.2.3","go":"","nats_server":"","commit":""}`,
	} {
		w := ask(t, h, http.MethodGet, target, "")
		if got := strings.TrimSpace(w.Body.String()); got != want || w.Code != http.StatusOK {
			t.Errorf("%s: got %d %s, want %s", target, w.Code, got, want)
		}
	}
}

func TestDeadLetterIsShownInUTCWithAllItsFields(t *testing.T) {
	h := newHTTPHandler(newFakeBackend(), httpOptions{})
	w := ask(t, h, http.MethodGet, "/api/v1/dlq/file-claim/42", "")
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	for name := range strings.FieldsSeq(`id function event_id source type key sequence cause class code error attempts cycle
		parked_at first_failed_at last_failed_at parked_by trace_id held version history stack stream subject truncated attributes data tail`) {
		if _, ok := got[name]; !ok {
			t.Errorf("field %s: got none in %s", name, w.Body)
		}
	}
	if want := "2026-01-02T03:04:05.000000678Z"; got["parked_at"] != want {
		t.Errorf("parked_at: got %v, want %s", got["parked_at"], want)
	}
	if !strings.Contains(w.Body.String(), `"event_id":"<1>"`) {
		t.Errorf("got %s, want characters as they are", w.Body)
	}
	wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/dlq/file-claim/43", ""), client.NotFound)
	wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/dlq/file-claim/x", ""), client.Usage)
}

func TestDeadLetterQueryIsStrict(t *testing.T) {
	b := newFakeBackend()
	h := newHTTPHandler(b, httpOptions{})
	w := ask(t, h, http.MethodGet, "/api/v1/dlq?function=f&cause=crash&class=panic&source=/s&type=t&key=k&limit=7&after=f/9", "")
	want := deadLetterQuery{Function: "f", Cause: "crash", Class: "panic", Source: "/s", Type: "t", Key: "k", Limit: 7, After: "f/9"}
	if diff := cmp.Diff(want, b.query); diff != "" || w.Code != http.StatusOK {
		t.Errorf("got %d (-want +got):\n%s", w.Code, diff)
	}
	ask(t, h, http.MethodGet, "/api/v1/dlq", "")
	if b.query.Limit != client.DefaultLimit {
		t.Errorf("got limit %d, want %d", b.query.Limit, client.DefaultLimit)
	}
	for _, bad := range []string{"funktion=f", "limit=0", "limit=x", "limit=1001", "after=9", "after=f/x", "cause=a&cause=b", "from=now", "%zz"} {
		wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/dlq?"+bad, ""), client.Usage)
	}
	wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/dlq/tail?from=then", ""), client.Usage)
}

func TestEventIsNamedBySequenceOrByID(t *testing.T) {
	b := newFakeBackend()
	h := newHTTPHandler(b, httpOptions{})
	for q, want := range map[string][2]string{
		"sequence=42":          {"42", ""},
		"id=a%2Fb":             {"a/b", ""},
		"id=42&source=/claims": {"42", "/claims"},
	} {
		if w := ask(t, h, http.MethodGet, "/api/v1/events?"+q, ""); w.Code != http.StatusOK || b.ref != want {
			t.Errorf("%s: got %d and %q, want %q", q, w.Code, b.ref, want)
		}
	}
	for _, bad := range []string{"", "id=42", "sequence=x", "sequence=1&id=a", "source=/claims", "ref=1"} {
		wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/events?"+bad, ""), client.Usage)
	}
}

func TestDecisionIsCheckedBeforeItIsMade(t *testing.T) {
	b := newFakeBackend()
	h := newHTTPHandler(b, httpOptions{})
	const path, asJSON = "/api/v1/dlq/file-claim/42/", "application/json"
	for _, c := range []struct {
		action, contentType, body string
		status                    int
		code                      client.Code
	}{
		{"redrive", asJSON, `{"by":"ana","cycle":1}`, 200, ""},
		{"discard", asJSON, `{"by":"ana","reason":"test data"}`, 202, ""},
		{"discard", asJSON, `{"by":"ana"}`, 0, client.Usage},
		{"discard", asJSON, `{"by":"ana","reason":" "}`, 0, client.Usage},
		{"discard", asJSON, `{"by":"ana","reason":"test data","tail":true}`, 202, ""},
		{"release", asJSON, `{"by":"ana","reason":"cannot wait"}`, 202, ""},
		{"release", asJSON, `{"by":"ana"}`, 0, client.Usage},
		{"release", asJSON, `{"by":"ana","reason":"cannot wait","tail":true}`, 0, client.Usage},
		{"redrive", asJSON, `{"by":"ana","tail":true}`, 0, client.Usage},
		{"redrive", asJSON, `{"by":"ana","forget_steps":true}`, 0, client.Usage},
		{"redrive", asJSON, `{}`, 0, client.Usage},
		{"redrive", asJSON, `{"by":"ana","cycl":1}`, 0, client.Usage},
		{"redrive", asJSON, ``, 0, client.Usage},
		{"redrive", asJSON, `{"by":"ana","action":"discard"}`, 0, client.Usage},
		{"redrive", asJSON, `{"by":"ana","sequence":43}`, 0, client.Usage},
		{"redrive", asJSON, `{"by":"` + strings.Repeat("x", 65<<10) + `"}`, 0, client.TooLarge},
		{"redrive", asJSON, `{"by":"ana","cycle":0}`, 0, client.Conflict},
		{"redrive", "text/plain", `{"by":"ana"}`, 0, client.UnsupportedMedia},
	} {
		w := ask(t, h, http.MethodPost, path+c.action, c.body, "Content-Type", c.contentType)
		if c.code != "" {
			wantProblem(t, w, c.code)
		} else if w.Code != c.status {
			t.Errorf("%s %s: got %d %s, want %d", c.action, c.body, w.Code, w.Body, c.status)
		}
	}
	one := 1
	want := []client.Decision{
		{Function: "file-claim", Sequence: 42, Action: "redrive", By: "ana", Cycle: &one},
		{Function: "file-claim", Sequence: 42, Action: "discard", By: "ana", Reason: "test data"},
		{Function: "file-claim", Sequence: 42, Action: "discard", By: "ana", Reason: "test data", Tail: true},
		{Function: "file-claim", Sequence: 42, Action: "release", By: "ana", Reason: "cannot wait"},
	}
	if diff := cmp.Diff(want, b.decided); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func TestTailBeatsWhenThereIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBackend()
		b.onTail = func(ctx context.Context, fromNow bool, yield func(client.DeadLetter) error) error {
			if !fromNow {
				return errors.New("want from now")
			}
			time.Sleep(time.Second)
			if err := yield(fakeDeadLetter()); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/dlq/tail?from=now", nil)
			newHTTPHandler(b, httpOptions{}).ServeHTTP(w, r)
		}()
		time.Sleep(3*client.HeartbeatInterval + time.Second)
		cancel()
		<-done
		lines := strings.Split(w.Body.String(), "\n")
		// The first line is empty: it says at once that the tail stands.
		if len(lines) != 6 || lines[0] != "" || !strings.HasPrefix(lines[1], `{"id":"file-claim/42"`) || lines[2]+lines[3]+lines[4] != "" {
			t.Errorf("got lines %q, want an empty one, a dead letter and three heartbeats", lines)
		}
		if got := w.Header().Get("Content-Type"); got != "application/x-ndjson" || !w.Flushed {
			t.Errorf("got content type %q, flushed %t", got, w.Flushed)
		}
	})
}

func TestTailSaysInItsLastLineWhyItEnds(t *testing.T) {
	b := newFakeBackend()
	h := newHTTPHandler(b, httpOptions{})
	for want, err := range map[client.Code]error{
		client.NotFound: newProblem(client.NotFound, "function x: not found"),
		client.Internal: fmt.Errorf("secret"),
	} {
		b.onTail = func(context.Context, bool, func(client.DeadLetter) error) error { return err }
		w := ask(t, h, http.MethodGet, "/api/v1/dlq/tail", "")
		var end client.TailEnd
		if err := json.Unmarshal(w.Body.Bytes(), &end); err != nil || end.Problem == nil || end.Problem.Code != want {
			t.Errorf("got %q (%v), want problem %s", w.Body, err, want)
		}
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("got %q, want nothing of an internal error", w.Body)
		}
	}
}
