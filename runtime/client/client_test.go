package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
)

// answering returns a client of a server that answers everything with h.
func answering(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := New(server.URL+"/", "s3cret")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServerIsAnHTTPURL(t *testing.T) {
	for server, want := range map[string]string{
		"127.0.0.1:4280":           "http://127.0.0.1:4280",
		"https://siding.example/x": "https://siding.example/x",
		"http://h:1/":              "http://h:1",
		"ftp://h":                  "",
		"http://":                  "",
		"http://user:pw@h":         "",
		"http://h?x=y":             "",
		"":                         "",
		"http://h\x7f":             "",
	} {
		c, err := New(server, "")
		if want == "" {
			if err == nil {
				t.Errorf("%q: got %s, want it refused", server, c.Server())
			}
			continue
		}
		if err != nil || c.Server() != want {
			t.Errorf("%q: got %v and %v, want %s", server, c, err, want)
		}
	}
}

func TestProblemOfTheNodeIsTheError(t *testing.T) {
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.Header.Get("Authorization"), "Bearer s3cret"; got != want {
			t.Errorf("got authorization %q, want %q", got, want)
		}
		if got, want := r.URL.EscapedPath(), "/api/v1/dlq/a%2Fb/7"; got != want {
			t.Errorf("got path %q, want %q", got, want)
		}
		w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"type":"about:blank","status":404,"code":"not_found","detail":"dead letter a/7: not found","hint":"siding dlq ls","new":1}`)
	})
	_, err := c.DeadLetter(t.Context(), "a/b", 7)
	var p *Problem
	if !errors.As(err, &p) || p.Code != NotFound || p.Code.ExitCode() != ExitNotFound || p.Hint != "siding dlq ls" {
		t.Errorf("got %v, want the node's problem", err)
	}
	if errors.Is(err, ErrUnreachable) {
		t.Error("got unreachable for a node that answered")
	}
}

func TestAnswerOfAStrangerIsNoAnswerOfANode(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"404 in HTML": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<h1>404</h1>", http.StatusNotFound) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("got the redirect followed, with the token")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		},
		"problem without detail": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{}`)
		},
	} {
		_, err := answering(t, h).Account(t.Context())
		var p *Problem
		if !errors.As(err, &p) || p.Code != Internal || !strings.Contains(p.Hint, "siding node") {
			t.Errorf("%s: got %v, want an internal problem that doubts the server", name, err)
		}
	}
	_, err := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"functions":`) }).Account(t.Context())
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("cut answer: got %v, want unreachable", err)
	}
}

func TestNobodyThereIsUnreachableAndOwnCancelIsNot(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	c, err := New(address, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Version(t.Context())
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), address) || strings.Contains(err.Error(), "Get ") {
		t.Errorf("got %v, want unreachable with the address, once", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Version(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want canceled", err)
	}
}

// transport is a server inside the bubble.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestCallWithoutAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{server: "http://node", http: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}}
		start := time.Now()
		_, err := c.Account(t.Context())
		if got := time.Since(start); got != callTimeout || !errors.Is(err, ErrUnreachable) {
			t.Errorf("got %v after %s, want unreachable after %s", err, got, callTimeout)
		}
	})
}

func TestSilentTailIsGivenUpAndABeatingOneIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{server: "http://node", http: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			body, w := io.Pipe()
			context.AfterFunc(r.Context(), func() { w.CloseWithError(r.Context().Err()) })
			go func() {
				for range 10 {
					time.Sleep(HeartbeatInterval)
					_, _ = io.WriteString(w, "\n")
				}
				_, _ = io.WriteString(w, `{"id":"f/1","function":"f","sequence":1}`+"\n")
			}()
			return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
		})}}
		start, got := time.Now(), []string{}
		err := c.Tail(t.Context(), DeadLetterQuery{}, false, func(d DeadLetter) error {
			got = append(got, d.ID)
			return nil
		})
		if !errors.Is(err, ErrUnreachable) || len(got) != 1 || got[0] != "f/1" {
			t.Errorf("got %v and %q, want f/1 and then unreachable", err, got)
		}
		if took, want := time.Since(start), 13*HeartbeatInterval; took != want {
			t.Errorf("got given up after %s, want %s", took, want)
		}
	})
}

func TestTailEndsWithTheReasonOfEitherSide(t *testing.T) {
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("from") != "now" || r.URL.Query().Get("function") != "f" {
			t.Errorf("got query %s, want from=now and function=f", r.URL.RawQuery)
		}
		_, _ = io.WriteString(w, "\n"+`{"id":"f/1"}`+"\n\n"+`{"problem":{"code":"unavailable","detail":"stopping"}}`+"\n")
	})
	var p *Problem
	err := c.Tail(t.Context(), DeadLetterQuery{Function: "f"}, true, func(DeadLetter) error { return nil })
	if !errors.As(err, &p) || p.Code != Unavailable {
		t.Errorf("got %v, want the node's problem", err)
	}
	enough := errors.New("enough")
	if err := c.Tail(t.Context(), DeadLetterQuery{Function: "f"}, true, func(DeadLetter) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v, want the caller's error", err)
	}
}

func TestStructuredEventKeepsItsData(t *testing.T) {
	base := `"id":"1","source":"/s","specversion":"1.0","type":"t"`
	for _, c := range []struct{ contentType, data, want string }{
		{"", "", `{` + base + `}`},
		{"application/json", `{"b": 1,  "a":"<é>"}`, `{"datacontenttype":"application/json",` + base + `,"data":{"b": 1,  "a":"<é>"}}`},
		{"application/vnd.x+json; charset=utf-8", `[1]`, `{"datacontenttype":"application/vnd.x+json; charset=utf-8",` + base + `,"data":[1]}`},
		{"application/json", `{"cut`, `{"data_base64":"eyJjdXQ=","datacontenttype":"application/json",` + base + `}`},
		{"text/plain", `a "b"`, `{"datacontenttype":"text/plain",` + base + `,"data":"a \"b\""}`},
		{"application/octet-stream", "\xff\x00", `{"data_base64":"/wA=","datacontenttype":"application/octet-stream",` + base + `}`},
	} {
		e := event.New()
		e.SetID("1")
		e.SetSource("/s")
		e.SetType("t")
		if c.contentType != "" {
			e.SetDataContentType(c.contentType)
		}
		e.DataEncoded = []byte(c.data)
		got, err := structured(e, false)
		if err != nil || string(got) != c.want {
			t.Errorf("%s %q: got %s and %v, want %s", c.contentType, c.data, got, err, c.want)
		}
	}
}

func TestPayloadIsJSONOnlyWhereItSaysSoAndIs(t *testing.T) {
	for _, c := range []struct {
		contentType, data string
		json              bool
	}{
		{"", `{"a":1}`, true}, {"Application/JSON; charset=utf-8", `1`, true}, {"application/x+json", `[]`, true}, {"text/json", `{}`, true},
		{"application/json", `{"a`, false}, {"text/plain", `{"a":1}`, false}, {"application/jsonish", `1`, false},
	} {
		p := PayloadOf(c.contentType, []byte(c.data))
		if got := p.Data != nil; got != c.json || (p.DataBase64 != nil) == c.json || string(p.Bytes()) != c.data {
			t.Errorf("%s %s: got %+v, want JSON %t", c.contentType, c.data, p, c.json)
		}
	}
	if p := PayloadOf("text/plain", nil); p.Bytes() != nil {
		t.Errorf("no data: got %q", p.Bytes())
	}
}
