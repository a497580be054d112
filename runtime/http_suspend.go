package runtime

import (
	"context"
	"net/http"
	"strings"

	"github.com/siding-dev/siding/runtime/client"
)

// suspendFunction makes a function begin no attempt until it is resumed.
func (a *api) suspendFunction(w http.ResponseWriter, r *http.Request) error {
	s, err := readSuspend(w, r)
	if err != nil {
		return err
	}
	if strings.TrimSpace(s.Reason) == "" {
		return newProblem(client.Usage, "suspension of %s: no reason", s.Function).WithHint("say why: whoever finds it suspended will ask")
	}
	return a.changedFunction(w, r, s, a.backend.suspendFunction)
}

// resumeFunction ends a suspension.
func (a *api) resumeFunction(w http.ResponseWriter, r *http.Request) error {
	s, err := readSuspend(w, r)
	if err != nil {
		return err
	}
	return a.changedFunction(w, r, s, a.backend.resumeFunction)
}

func (a *api) changedFunction(w http.ResponseWriter, r *http.Request, s client.SuspendRequest, change func(context.Context, client.SuspendRequest) (client.Function, error)) error {
	f, err := change(r.Context(), s)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, f.UTC())
	return nil
}

// readSuspend reads what a person wants of a function.
func readSuspend(w http.ResponseWriter, r *http.Request) (client.SuspendRequest, error) {
	s := client.SuspendRequest{Function: r.PathValue("name")}
	if err := readForm(w, r, "a request about a suspension", maxFormBody, &s); err != nil {
		return client.SuspendRequest{}, err
	}
	if s.Function != r.PathValue("name") {
		return client.SuspendRequest{}, newProblem(client.Usage, "suspension: the body names another function than the path")
	}
	if s.By = decider(r, s.By); s.By == "" {
		return client.SuspendRequest{}, newProblem(client.Usage, "suspension of %s: nobody named", s.Function).WithHint("say by whom")
	}
	for name, text := range map[string]string{"reason": s.Reason, "name": s.By} {
		if len(text) > maxPauseText {
			return client.SuspendRequest{}, newProblem(client.TooLarge, "%s of %d bytes: longer than %d", name, len(text), maxPauseText)
		}
	}
	return s, nil
}

func (r *Runtime) suspendFunction(ctx context.Context, s client.SuspendRequest) (client.Function, error) {
	return r.changeFunction(ctx, s.Function, func(o *owner) error { return o.suspend(ctx, s) })
}

func (r *Runtime) resumeFunction(ctx context.Context, s client.SuspendRequest) (client.Function, error) {
	return r.changeFunction(ctx, s.Function, func(o *owner) error { return o.resumeFunction(ctx, s) })
}

// changeFunction has the owner of a function change something about it.
func (r *Runtime) changeFunction(ctx context.Context, name string, change func(*owner) error) (client.Function, error) {
	h, err := r.current()
	if err != nil {
		return client.Function{}, err
	}
	o := h.owner(name)
	if o == nil {
		if _, err := r.functionShow(ctx, name); err != nil {
			return client.Function{}, err
		}
		return client.Function{}, newProblem(client.Refused, "function %s: is not hosted, so nothing of it is attempted", name)
	}
	if err := change(o); err != nil {
		return client.Function{}, err
	}
	return r.functionShow(ctx, name)
}
