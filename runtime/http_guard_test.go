package runtime

import (
	"context"
	"net/http"
	"regexp"
	"testing"

	"github.com/siding-dev/siding/runtime/client"
)

// TestTokenIsAskedForOnEveryRouteButForHealth takes its routes from the handler itself: a new one is looked at without being named here, and is
// refused here if it is open.
func TestTokenIsAskedForOnEveryRouteButForHealth(t *testing.T) {
	b := newFakeBackend()
	b.onTail = func(context.Context, bool, func(client.DeadLetter) error) error { return nil }
	h, routes := newRoutes(b, httpOptions{tokens: append(tokens("ana", secret), tokens("ben", secret+"2")...)})
	if len(routes) < 20 {
		t.Fatalf("got %d routes, want all that there are", len(routes))
	}
	open := map[string]bool{"/healthz": true, "/readyz": true}
	wildcard := regexp.MustCompile(`\{[^}]*\}`)
	for pattern, m := range routes {
		target := pattern
		if target == "/{$}" {
			target = "/"
		}
		target = wildcard.ReplaceAllString(target, "42")
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions, http.MethodDelete, http.MethodPut, "MADE-UP"} {
			if method == http.MethodOptions && m.options != nil {
				continue // a question for consent, which is no access
			}
			for header, good := range map[string]bool{
				"": false, "Bearer": false, "Bearer ": false, "Bearer wrong": false, "Bearer " + secret[1:]: false, "Bearer " + secret + "3": false,
				"Basic " + secret: false, secret: false, "Bearer " + secret + ", Bearer x": false,
				"Bearer " + secret: true, "bearer " + secret: true, "Bearer " + secret + "2": true,
			} {
				w := ask(t, h, method, target, "", "Authorization", header)
				if got, want := w.Code == http.StatusUnauthorized, !good && !open[pattern]; got != want {
					t.Errorf("%s %s with %q: got %d, want it refused: %v", method, target, header, w.Code, want)
				}
				if w.Code != http.StatusUnauthorized {
					continue
				}
				if p := wantProblem(t, w, client.Unauthorized); p.Hint == "" || w.Header().Get("WWW-Authenticate") != `Bearer realm="siding"` {
					t.Errorf("%s %s with %q: got %+v and %v, want a hint and a challenge", method, target, header, p, w.Header())
				}
			}
		}
	}
	wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/version?access_token="+secret, ""), client.Unauthorized)
	for pattern := range open {
		if _, there := routes[pattern]; !there {
			t.Errorf("route %s: got none, want it open", pattern)
		}
	}
}

// TestWhoeverSaysNothingDecidesAsTheOwnerOfTheToken: a program that has a token of its own need not say who it is.
func TestWhoeverSaysNothingDecidesAsTheOwnerOfTheToken(t *testing.T) {
	for name, c := range map[string]struct{ body, token, want string }{
		"nothing said":      {`{}`, secret, "ana"},
		"blank":             {`{"by":" "}`, secret, "ana"},
		"somebody else":     {`{"by":"ben"}`, secret, "ben"},
		"no token, nothing": {`{}`, "", ""},
	} {
		b := newFakeBackend()
		opts := httpOptions{}
		if c.token != "" {
			opts.tokens = tokens("ana", c.token)
		}
		h := newHTTPHandler(b, opts)
		w := ask(t, h, http.MethodPost, "/api/v1/dlq/file-claim/42/redrive", c.body, "Content-Type", "application/json", "Authorization", "Bearer "+c.token)
		if c.want == "" {
			wantProblem(t, w, client.Usage)
			continue
		}
		if len(b.decided) != 1 || b.decided[0].By != c.want {
			t.Errorf("%s: got %d and decisions %+v, want one by %s", name, w.Code, b.decided, c.want)
		}
		body := `{"key":"k","reason":"r"}`
		if c.body != `{}` {
			body = `{"key":"k","reason":"r",` + c.body[1:]
		}
		w = ask(t, h, http.MethodPost, "/api/v1/lanes/file-claim/pause", body, "Content-Type", "application/json", "Authorization", "Bearer "+c.token)
		if len(b.paused) != 1 || b.paused[0].By != c.want {
			t.Errorf("%s: got %d and pauses %+v, want one by %s", name, w.Code, b.paused, c.want)
		}
	}
}
