package runtime

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// guard lets requests through that present one of the tokens, and all if there are none. It stands before everything that shows or changes
// something, also before GET / and /metrics: the names of functions and how much of their work fails are nobody else's business, and
// every scraper can send a token. /healthz and /readyz say one word to whoever probes, who often cannot.
type guard struct{ tokens streams.Tokens }

// callerKey is the context key of the name of the token that a request presented.
type callerKey struct{}

// check returns the request, as one that knows whose token it presented.
func (g guard) check(r *http.Request) (*http.Request, error) {
	if len(g.tokens) == 0 {
		return r, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, newProblem(client.Unauthorized, "no token").WithHint("send it as Authorization: Bearer <token>")
	}
	name, ok := g.tokens.Find(strings.TrimSpace(token))
	if !ok {
		return nil, newProblem(client.Unauthorized, "wrong token").WithHint("it must be one whose hash stands in the node's --token-file")
	}
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, name)), nil
}

// decider is who decides: whom the caller names, or else the name of the token.
func decider(r *http.Request, by string) string {
	caller, _ := r.Context().Value(callerKey{}).(string)
	return cmp.Or(strings.TrimSpace(by), caller)
}
