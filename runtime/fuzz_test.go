package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// fuzzed is the HTTP surface of a node that runs, with a function that parks what it gets.
func fuzzed(f *testing.F) (*Runtime, http.Handler) {
	f.Helper()
	r, err := New(Config{DataDir: scratch(f), Logger: testLog()}, functions.Function{
		Name: "f", Types: []string{"t"}, Handle: func(context.Context, functions.Event) error { return functions.Park(errNo) },
	})
	if err != nil {
		f.Fatal(err)
	}
	runNode(f, r)
	return r, newHTTPHandler(r, httpOptions{maxEvent: int64(streams.MaxEventSize(1 << 20))})
}

// request serves one request and fails for what no request may cause.
func request(t *testing.T, h http.Handler, method string, target *url.URL, header http.Header, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // a tail would go on for ever
	defer cancel()
	r := (&http.Request{
		Method: method, URL: target, Header: header, Body: http.NoBody, ContentLength: int64(len(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "node", RequestURI: target.RequestURI(),
	}).WithContext(ctx)
	if len(body) > 0 {
		r = r.Clone(ctx)
		r.Body = http.MaxBytesReader(nil, nopCloser{bytes.NewReader(body)}, 64<<20)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code == http.StatusInternalServerError || w.Code < 200 || w.Code > 599 {
		t.Fatalf("%s %q with %q and %q: got %d %s", method, target, header, body, w.Code, w.Body)
	}
	if w.Code >= 400 {
		var p client.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Detail == "" {
			t.Fatalf("%s %q: got %d %q, want a problem", method, target, w.Code, w.Body)
		}
	}
	return w
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

// FuzzPostEvents posts arbitrary headers and bodies: no panic, no internal error, and what is accepted stands in the store as it was sent.
func FuzzPostEvents(f *testing.F) {
	r, h := fuzzed(f)
	f.Add("application/cloudevents+json", "", []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"a":1}}`))
	f.Add("application/cloudevents-batch+json", "", []byte(`[{"specversion":"1.0","id":"2","source":"s","type":"a..b","partitionkey":"k"},{"specversion":"1.0","id":"3","source":"s","type":"t","data_base64":"AA=="}]`))
	f.Add("text/plain", "ce-specversion: 1.0\nce-id: 4\nce-source: /s\nce-type: a b\nce-partitionkey: %C3%A4", []byte("data\x00\xff"))
	f.Add("application/json; charset=x", "ce-specversion:1.0\nce-id:\"5\"\nce-source:%\nce-type:.a\nce-time:2026-01-02T03:04:05Z\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", []byte(`1`))
	f.Fuzz(func(t *testing.T, contentType, headers string, body []byte) {
		header := http.Header{"Content-Type": {contentType}}
		for line := range strings.Lines(headers) {
			if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
				header.Add(name, strings.TrimSpace(value))
			}
		}
		w := request(t, h, http.MethodPost, &url.URL{Path: "/events"}, header, body)
		if w.Code != http.StatusAccepted {
			return
		}
		sent, err := streams.FromHTTP(header, body)
		if err != nil {
			t.Fatalf("accepted what cannot be read again: %v", err)
		}
		var accepted []client.Accepted
		answer := w.Body.Bytes()
		if !bytes.HasPrefix(answer, []byte("[")) {
			answer = append(append([]byte("["), bytes.TrimSpace(answer)...), ']')
		}
		if err := json.Unmarshal(answer, &accepted); err != nil || len(accepted) != len(sent) {
			t.Fatalf("got %s for %d events: %v", w.Body, len(sent), err)
		}
		for i, a := range accepted {
			m, err := r.host.Load().store.Get(t.Context(), streams.EventsStream, a.Sequence)
			if err != nil {
				t.Fatal(err)
			}
			stored, err := streams.Decode(m.Header, m.Data)
			if err != nil || !streams.Same(stored, sent[i]) {
				t.Fatalf("stored %v (%v), want %v", stored, err, sent[i])
			}
		}
	})
}

// FuzzAPI asks anything of any path: no panic and no internal error, and the node answers afterwards.
func FuzzAPI(f *testing.F) {
	_, h := fuzzed(f)
	event := `{"specversion":"1.0","id":"1","source":"s","type":"t","partitionkey":"k"}`
	h.ServeHTTP(httptest.NewRecorder(), func() *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/events", strings.NewReader(event))
		r.Header.Set("Content-Type", "application/cloudevents+json")
		return r
	}())
	for _, target := range []string{"/", "/healthz", "/readyz", "/metrics", "/api/v1/functions/f", "/api/v1/dlq?function=f&after=f/0", "/api/v1/dlq/f/1", "/api/v1/lanes/f?key=k", "/api/v1/lanes?after=f/k", "/api/v1/events?id=1&source=s", "/api/v1/events?sequence=1", "/api/v1/account", "/api/v1/version", "/api/v1/dlq/tail?function=f"} {
		path, query, _ := strings.Cut(target, "?")
		f.Add("GET", path, query, []byte(nil))
	}
	for _, target := range []string{"/api/v1/dlq/f/1/redrive", "/api/v1/dlq/f/1/discard", "/api/v1/dlq/f/1/release", "/api/v1/lanes/f/pause", "/api/v1/lanes/f/resume"} {
		f.Add("POST", target, "", []byte(`{"by":"a","reason":"b","key":"k","cycle":0}`))
	}
	f.Add("OPTIONS", "/events", "", []byte(nil))
	f.Add("GET", "/api/v1/functions/"+strings.Repeat("k", 5000), "", []byte(nil))
	f.Fuzz(func(t *testing.T, method, path, query string, body []byte) {
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		request(t, h, method, &url.URL{Path: path, RawQuery: query}, http.Header{"Content-Type": {"application/json"}}, body)
		if w := request(t, h, http.MethodGet, &url.URL{Path: "/readyz"}, http.Header{}, nil); w.Code != http.StatusOK {
			t.Fatalf("%s %q %q: got %d %s afterwards, want the node ready", method, path, query, w.Code, w.Body)
		}
	})
}
