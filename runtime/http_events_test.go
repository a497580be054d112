package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

const (
	structuredType = "application/cloudevents+json"
	batchType      = "application/cloudevents-batch+json; charset=UTF-8"
)

func testEvent(id string) event.Event {
	e := event.New()
	e.SetID(id)
	e.SetSource("/claims")
	e.SetType("com.insurer.claim.reported")
	return e
}

func structuredEvent(id string) string {
	return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/claims","type":"com.insurer.claim.reported","data":{"n":1}}`, id)
}

func TestPostTakesTheThreeModes(t *testing.T) {
	h := newHTTPHandler(newFakeBackend(), httpOptions{})
	for _, c := range []struct {
		name, body string
		header     []string
		status     int
		want       string
	}{
		{"binary", `{"n":1}`, []string{"Content-Type", "application/json", "ce-specversion", "1.0", "ce-id", "a", "ce-source", "/claims", "ce-type", "t"},
			202, `{"id":"a","source":"/claims","sequence":1,"duplicate":false}`},
		{"structured", structuredEvent("b"), []string{"Content-Type", structuredType}, 202, `{"id":"b","source":"/claims","sequence":2,"duplicate":false}`},
		{"structured again", structuredEvent("b"), []string{"Content-Type", structuredType}, 200, `{"id":"b","source":"/claims","sequence":2,"duplicate":true}`},
		{"batch of old and new", "[" + structuredEvent("b") + "," + structuredEvent("c") + "]", []string{"Content-Type", batchType}, 202,
			`[{"id":"b","source":"/claims","sequence":2,"duplicate":true},{"id":"c","source":"/claims","sequence":3,"duplicate":false}]`},
		{"batch of one is a list", "[" + structuredEvent("c") + "]", []string{"Content-Type", batchType}, 200, `[{"id":"c","source":"/claims","sequence":3,"duplicate":true}]`},
		{"empty batch", "[]", []string{"Content-Type", batchType}, 200, `[]`},
	} {
		w := ask(t, h, http.MethodPost, "/events", c.body, c.header...)
		if w.Code != c.status || strings.TrimSpace(w.Body.String()) != c.want {
			t.Errorf("%s: got %d %s, want %d %s", c.name, w.Code, w.Body, c.status, c.want)
		}
	}
}

func TestPostNamesWhatIsWrong(t *testing.T) {
	b := newFakeBackend()
	h := newHTTPHandler(b, httpOptions{maxEvent: 1000})
	one := 1
	long := strings.Repeat("x", 1001)
	for _, c := range []struct {
		name, body string
		header     []string
		code       client.Code
		attribute  string
		index      *int
	}{
		{"no id, binary", "", []string{"ce-specversion", "1.0", "ce-source", "/s", "ce-type", "t"}, client.Invalid, "id", nil},
		{"no source, structured", `{"specversion":"1.0","id":"1","type":"t"}`, []string{"Content-Type", structuredType}, client.Invalid, "source", nil},
		{"second of a batch", "[" + structuredEvent("1") + `,{"specversion":"1.0","id":"2","source":"/s"}]`, []string{"Content-Type", batchType}, client.Invalid, "type", &one},
		{"not JSON", `{"specversion`, []string{"Content-Type", structuredType}, client.Invalid, "", nil},
		{"no event", `{"a":1}`, []string{"Content-Type", "application/json"}, client.UnsupportedMedia, "", nil},
		{"XML", `<a/>`, []string{"Content-Type", "application/cloudevents+xml"}, client.UnsupportedMedia, "", nil},
		{"compressed", structuredEvent("1"), []string{"Content-Type", structuredType, "Content-Encoding", "gzip"}, client.UnsupportedMedia, "", nil},
		{"binary too large", long, []string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "/s", "ce-type", "t"}, client.TooLarge, "", nil},
		{"structured too large", `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":"` + long + `"}`, []string{"Content-Type", structuredType}, client.TooLarge, "", nil},
		{"body far too large", long + long + long, []string{"Content-Type", structuredType}, client.TooLarge, "", nil},
		{"second of a batch too large", "[" + structuredEvent("1") + `,{"specversion":"1.0","id":"1","source":"/s","type":"t","data":"` + long + `"}]`, []string{"Content-Type", batchType}, client.TooLarge, "", &one},
		{"batch too long", "[" + strings.Repeat(structuredEvent("1")+",", 1000) + structuredEvent("1") + "]", []string{"Content-Type", batchType}, client.TooLarge, "", nil},
	} {
		w := ask(t, h, http.MethodPost, "/events", c.body, c.header...)
		p := wantProblem(t, w, c.code)
		if p.Attribute != c.attribute || !cmp.Equal(p.Index, c.index) {
			t.Errorf("%s: got %s, want attribute %q and index %v", c.name, w.Body, c.attribute, c.index)
		}
		if c.code == client.TooLarge && p.Hint == "" {
			t.Errorf("%s: got no hint in %s", c.name, w.Body)
		}
	}
	if len(b.stored) > 0 {
		t.Errorf("got %v stored, want none of a refused request", b.stored)
	}
}

func TestPostTellsRefusalsOfTheStore(t *testing.T) {
	b := newFakeBackend()
	h := newHTTPHandler(b, httpOptions{})
	for code, err := range map[client.Code]error{
		client.StreamFull:  fmt.Errorf("stream EVENTS: %w", streams.ErrFull),
		client.Conflict:    fmt.Errorf("stream EVENTS: sequence 7: %w", streams.ErrDifferent),
		client.TooLarge:    fmt.Errorf("event: %w", streams.ErrTooLarge),
		client.Unavailable: context.DeadlineExceeded,
		client.Refused:     newProblem(client.Refused, "type: cannot be stored"),
		client.Internal:    fmt.Errorf("disk on fire"),
	} {
		b.onAccept = func(context.Context, http.Header) error { return err }
		w := ask(t, h, http.MethodPost, "/events", structuredEvent("1"), "Content-Type", structuredType)
		wantProblem(t, w, code)
		if got, want := w.Header().Get("Retry-After") != "", w.Code == http.StatusServiceUnavailable; got != want {
			t.Errorf("%s: got Retry-After %t, want %t", code, got, want)
		}
	}
}

func TestPostHandsOverTheTraceContext(t *testing.T) {
	b := newFakeBackend()
	var got string
	b.onAccept = func(_ context.Context, h http.Header) error {
		got = h.Get("traceparent")
		return nil
	}
	const want = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ask(t, newHTTPHandler(b, httpOptions{}), http.MethodPost, "/events", structuredEvent("1"), "Content-Type", structuredType, "Traceparent", want)
	if got != want {
		t.Errorf("got traceparent %q, want %q", got, want)
	}
}

func TestWebhookSenderGetsConsentWithoutToken(t *testing.T) {
	h := newHTTPHandler(newFakeBackend(), httpOptions{tokens: tokens("ana", secret)})
	w := ask(t, h, http.MethodOptions, "/events", "", "WebHook-Request-Origin", "eventemitter.example.com", "WebHook-Request-Rate", "120")
	got := map[string]string{}
	for _, name := range []string{"WebHook-Allowed-Origin", "WebHook-Allowed-Rate", "Allow"} {
		got[name] = w.Header().Get(name)
	}
	want := map[string]string{"WebHook-Allowed-Origin": "eventemitter.example.com", "WebHook-Allowed-Rate": "*", "Allow": "OPTIONS, POST"}
	if diff := cmp.Diff(want, got); diff != "" || w.Code != http.StatusNoContent {
		t.Errorf("got %d, want 204; headers (-want +got):\n%s", w.Code, diff)
	}
	if w := ask(t, h, http.MethodOptions, "/events", ""); w.Header().Get("WebHook-Allowed-Origin") != "" {
		t.Errorf("got consent for nobody: %v", w.Header())
	}
	wantProblem(t, ask(t, h, http.MethodOptions, "/api/v1/account", ""), client.Unauthorized)
}

func TestPostBeyondTheSlotsIsToldToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBackend()
		finish := make(chan struct{})
		b.onAccept = func(context.Context, http.Header) error {
			<-finish
			return nil
		}
		h := newHTTPHandler(b, httpOptions{})
		var busy sync.WaitGroup
		for i := range singleSlots {
			busy.Go(func() {
				r := httptest.NewRequest(http.MethodPost, "/events", strings.NewReader(structuredEvent(fmt.Sprint(i))))
				r.Header.Set("Content-Type", structuredType)
				h.ServeHTTP(httptest.NewRecorder(), r)
			})
		}
		synctest.Wait()
		start := time.Now()
		w := ask(t, h, http.MethodPost, "/events", structuredEvent("late"), "Content-Type", structuredType)
		wantProblem(t, w, client.Unavailable)
		if got := time.Since(start); got != slotWait || w.Header().Get("Retry-After") == "" {
			t.Errorf("got refused after %s with Retry-After %q, want after %s with one", got, w.Header().Get("Retry-After"), slotWait)
		}
		// A batch has slots of its own.
		if w := ask(t, h, http.MethodPost, "/events", "[]", "Content-Type", batchType); w.Code != http.StatusOK {
			t.Errorf("batch: got %d, want 200", w.Code)
		}
		close(finish)
		busy.Wait()
		if w := ask(t, h, http.MethodPost, "/events", structuredEvent("late"), "Content-Type", structuredType); w.Code != http.StatusAccepted {
			t.Errorf("after the rush: got %d, want 202", w.Code)
		}
	})
}

// The CloudEvents SDK's receiver hands requests to one shared channel, where
// cancelled ones stay and stall the others: cloudevents/sdk-go#1332.
func TestCancelledPostsDelayNoOthersAndLeakNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const posts, fifth = 200, 5
	b := newFakeBackend()
	stuck := make(chan struct{}, posts)
	b.onAccept = func(ctx context.Context, h http.Header) error {
		if h.Get("X-Cancel") == "" {
			return nil
		}
		stuck <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	server := newHTTPServer(newHTTPHandler(b, httpOptions{}), slog.New(slog.DiscardHandler))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	transport := &http.Transport{MaxIdleConnsPerHost: posts}
	post := func(ctx context.Context, id string, cancel bool) (int, []byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+listener.Addr().String()+"/events", strings.NewReader(structuredEvent(id)))
		if err != nil {
			return 0, nil, err
		}
		r.Header.Set("Content-Type", structuredType)
		if cancel {
			r.Header.Set("X-Cancel", "1")
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return 0, nil, err
		}
		defer resp.Body.Close()
		var accepted json.RawMessage
		err = json.NewDecoder(resp.Body).Decode(&accepted)
		return resp.StatusCode, accepted, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var cancelled, healthy sync.WaitGroup
	for i := range posts {
		if i%fifth == 0 {
			cancelled.Go(func() {
				if status, _, err := post(ctx, fmt.Sprint(i), true); err == nil {
					t.Errorf("post %d: got %d, want it cancelled", i, status)
				}
			})
			continue
		}
		healthy.Go(func() {
			start := time.Now()
			status, body, err := post(t.Context(), fmt.Sprint(i), false)
			if err != nil || status != http.StatusAccepted || !strings.Contains(string(body), fmt.Sprintf(`"id":"%d"`, i)) {
				t.Errorf("post %d: got %d %s %v, want 202 and its own id", i, status, body, err)
			}
			if took := time.Since(start); took > 4*time.Second {
				t.Errorf("post %d: took %s beside requests that are stuck", i, took)
			}
		})
	}
	for range posts / fifth {
		<-stuck
	}
	healthy.Wait() // While a fifth of the posts is still stuck.
	cancel()
	cancelled.Wait()
	if got, want := len(b.stored), posts-posts/fifth; got != want {
		t.Errorf("got %d events stored, want %d", got, want)
	}
	transport.CloseIdleConnections()
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	<-served
}
