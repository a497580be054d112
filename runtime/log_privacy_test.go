package runtime

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
)

// wholeLog is a log that is kept, for goroutines to write to.
type wholeLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (k *wholeLog) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.Write(b)
}

func (k *wholeLog) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.String()
}

// TestNeitherDataNorTokensAreLogged sends data and tokens every way there is, right and wrong, to a node that logs all it can, and looks for them in
// its log, in its metrics and in its audit.
func TestNeitherDataNorTokensAreLogged(t *testing.T) {
	const marker, wrong = "MARKER-of-the-data", "siding_WRONGWRONGWRONGWRONGWRONG"
	var log wholeLog
	r, err := New(Config{
		DataDir: t.TempDir(), HTTP: "127.0.0.1:0", NATS: "127.0.0.1:0", Tokens: tokens("ana", secret), Getenv: func(string) string { return "" },
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, functions.Function{
		Name: "f", Types: []string{"t"}, Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Millisecond)},
		Schema: []byte(`{"required":["way"]}`),
		Handle: func(_ context.Context, e functions.Event) error {
			switch {
			case strings.Contains(string(e.Data()), "parks"):
				return functions.Park(errNo)
			case strings.Contains(string(e.Data()), "fails"):
				return errNo
			case strings.Contains(string(e.Data()), "panics"):
				panic(errNo)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	select {
	case <-r.Ready():
	case err := <-done:
		t.Fatalf("run: %v", err)
	}

	post := func(token, contentType, body string, header ...string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.HTTPAddr()+"/events", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", contentType)
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	event := func(id, way string) string {
		return `{"specversion":"1.0","id":"` + id + `","source":"/s","type":"t","data":{"way":"` + way + `","secret":"` + marker + `"}}`
	}
	const one = "application/cloudevents+json"
	for want, codes := range map[int][]int{
		202: {
			post(secret, one, event("1", "parks")), post(secret, one, event("2", "fails")), post(secret, one, event("3", "panics")), post(secret, one, event("4", "")),
			post(secret, "application/json", `{"way":"","secret":"`+marker+`"}`, "ce-specversion", "1.0", "ce-id", "5", "ce-source", "/s", "ce-type", "t"),
			post(secret, "application/cloudevents-batch+json", "["+event("6", "")+"]"),
		},
		422: {post(secret, one, strings.Replace(event("7", ""), "way", marker, 1))},
		400: {post(secret, one, marker), post(secret, one, `{"data":"`+marker+`"}`)},
		401: {post(wrong, one, event("8", ""))},
		413: {post(secret, one, event("9", strings.Repeat(marker, 100_000)))},
	} {
		for i, code := range codes {
			if code != want {
				t.Errorf("post %d: got %d, want %d", i, code, want)
			}
		}
	}
	if _, err := nats.Connect(r.NATSAddr(), nats.Token(wrong)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("got %v, want the wrong token refused", err)
	}
	conn, err := nats.Connect(r.NATSAddr(), nats.Token(secret))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Publish("events.t", []byte(marker)); err != nil { // no event: parked as undecodable
		t.Fatal(err)
	}
	node, err := client.New("http://"+r.HTTPAddr(), secret)
	if err != nil {
		t.Fatal(err)
	}
	parked(t, node, 4)
	if _, err := node.Decide(t.Context(), client.Decision{Function: "f", Sequence: 1, Action: client.Edit, Data: []byte(`{"way":"parks","secret":"` + marker + `"}`), Reason: "r", By: "b"}); err != nil {
		t.Error(err)
	}
	if _, err := node.Decide(t.Context(), client.Decision{Function: "f", Sequence: 2, Action: client.Edit, Data: []byte(`{"` + marker + `":1}`), Reason: "r", By: "b"}); err == nil {
		t.Error("got an edit against the schema applied")
	}
	if err := node.Export(t.Context(), client.DeadLetterQuery{}, func(client.Exported) error { return nil }); err != nil {
		t.Error(err)
	}
	var metrics strings.Builder
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.HTTPAddr()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+secret)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(&metrics, answer.Body)
	_ = answer.Body.Close()
	audit, err := node.Audit(t.Context(), client.AuditQuery{Limit: 1000})
	if err != nil || len(audit.Entries) == 0 {
		t.Errorf("got %d entries of the audit, %v, want some", len(audit.Entries), err)
	}
	for _, e := range audit.Entries {
		for _, text := range e.Detail {
			metrics.WriteString(text)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
	for what, text := range map[string]string{"log": log.String(), "metrics and audit": metrics.String()} {
		if len(text) == 0 {
			t.Errorf("%s: got nothing, want something to look at", what)
		}
		for _, private := range []string{marker, secret, wrong} {
			if i := strings.Index(text, private); i >= 0 {
				t.Errorf("%s: got %q in …%s…", what, private, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}
}
