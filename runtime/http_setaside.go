package runtime

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/where"
	"github.com/siding-dev/siding/streams"
)

// setAside makes a rule by which events are parked before they run, or ends it.
func (a *api) setAside(w http.ResponseWriter, r *http.Request) error {
	s := client.SetAsideRequest{Function: r.PathValue("name")}
	if err := readForm(w, r, "a request about what is set aside", maxFormBody, &s); err != nil {
		return err
	}
	if s.Function != r.PathValue("name") {
		return newProblem(client.Usage, "set-aside: the body names another function than the path")
	}
	if s.By = decider(r, s.By); s.By == "" {
		return newProblem(client.Usage, "set-aside of %s: nobody named", s.Function).WithHint("say by whom")
	}
	if !s.End && strings.TrimSpace(s.Reason) == "" {
		return newProblem(client.Usage, "set-aside of %s: no reason", s.Function).WithHint("say why: whoever finds them parked will ask")
	}
	for name, text := range map[string]string{"reason": s.Reason, "name": s.By} {
		if len(text) > maxPauseText {
			return newProblem(client.TooLarge, "%s of %d bytes: longer than %d", name, len(text), maxPauseText)
		}
	}
	conditions, err := where.Parse(s.Where)
	if err != nil {
		return newProblem(client.Usage, "set-aside of %s: %v", s.Function, err).WithHint(`write conditions as in where=source=/partners/acme/*,size>65536; all of them must hold`)
	}
	s.Where = conditions.String()
	f, err := a.backend.setAside(r.Context(), s)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, f.UTC())
	return nil
}

func (r *Runtime) setAside(ctx context.Context, s client.SetAsideRequest) (client.Function, error) {
	return r.changeFunction(ctx, s.Function, func(o *owner) error {
		return o.changeSetAside(ctx, streams.SetAside{Where: s.Where, By: s.By, Reason: s.Reason, At: time.Now().UTC()}, s.End)
	})
}
