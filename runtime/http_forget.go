package runtime

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/runtime/client"
)

// forget ends what stands of a function that nobody hosts.
func (a *api) forget(w http.ResponseWriter, r *http.Request) error {
	f := client.ForgetRequest{Function: r.PathValue("name")}
	if err := readForm(w, r, "what is to be forgotten", maxFormBody, &f); err != nil {
		return err
	}
	f.By = decider(r, f.By)
	switch {
	case f.Function != r.PathValue("name"):
		return newProblem(client.Usage, "forget: the body names another function than the path")
	case !f.DryRun && strings.TrimSpace(f.Reason) == "":
		return newProblem(client.Usage, "forget %s: no reason", f.Function).WithHint("say why: its events will never be handled")
	case !f.DryRun && f.By == "":
		return newProblem(client.Usage, "forget %s: nobody named", f.Function).WithHint("say by whom")
	}
	forgotten, err := a.backend.forget(r.Context(), f)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, forgotten)
	return nil
}

func (r *Runtime) forget(ctx context.Context, f client.ForgetRequest) (client.Forgotten, error) {
	h, err := r.current()
	if err != nil {
		return client.Forgotten{}, err
	}
	return h.forget(ctx, f)
}

func (h *host) forget(ctx context.Context, f client.ForgetRequest) (client.Forgotten, error) {
	out := client.Forgotten{Function: f.Function}
	if h.owner(f.Function) != nil {
		return out, newProblem(client.Refused, "function %s is hosted", f.Function).WithHint("end single events with `siding dlq discard`, or start the node without it first")
	}
	if _, err := h.store.Declared(ctx, f.Function); isNotFound(err) {
		return out, newProblem(client.NotFound, "function %s: not found", f.Function).WithHint("`siding function ls` lists those that this node knows")
	} else if err != nil {
		return out, err
	}
	if err := h.notUnderWay(ctx, f.Function); err != nil {
		return out, err
	}
	left, err := h.orphans.Left(ctx, f.Function)
	if err != nil {
		return out, err
	}
	out.Parked, out.Retrying, out.Held, out.Decisions = left.Parked, left.Retrying, left.Held, left.Decisions
	if f.DryRun {
		return out, nil
	}
	// Half of it is of no use to anybody: it goes on when the caller has gone.
	err = h.orphans.Forget(context.WithoutCancel(ctx), advisories.Forgetting{Function: f.Function, By: f.By, Reason: f.Reason, At: time.Now().UTC()})
	out.Applied = err == nil
	return out, err
}
