package runtime

import (
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/siding-dev/siding/runtime/client"
)

// maxFormBody bounds what a person may write: a reason, and a key.
const maxFormBody = 64 << 10

// maxEditBody bounds an edit: the data of an event of the largest size, as base64.
const maxEditBody = 2 << 20

// api serves /api/v1 and /readyz.
type api struct {
	backend backend
	log     *slog.Logger
}

func (a *api) ready(w http.ResponseWriter, _ *http.Request) error {
	if err := a.backend.ready(); err != nil {
		if p, ok := errors.AsType[*problem](err); ok {
			return p
		}
		return newProblem(client.Unavailable, "not ready: %v", err)
	}
	return text(w, "ready\n")
}

func (a *api) functions(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	list, err := a.backend.functionList(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, each(list, client.Function.UTC))
	return nil
}

func (a *api) function(w http.ResponseWriter, r *http.Request) error {
	f, err := a.backend.functionShow(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, f.UTC())
	return nil
}

func (a *api) deadLetters(w http.ResponseWriter, r *http.Request) error {
	q, _, err := readDeadLetterQuery(r, "limit", "after")
	if err != nil {
		return err
	}
	list, err := a.backend.deadLetters(r.Context(), q)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, each(list, client.DeadLetter.UTC))
	return nil
}

func (a *api) deadLetter(w http.ResponseWriter, r *http.Request) error {
	function, sequence, err := deadLetterID(r)
	if err != nil {
		return err
	}
	d, err := a.backend.deadLetter(r.Context(), function, sequence)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, d.UTC())
	return nil
}

func (a *api) decide(action string) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		d, err := readDecision(w, r, action)
		if err != nil {
			return err
		}
		decided, err := a.backend.decide(r.Context(), d)
		if err != nil {
			return err
		}
		status := http.StatusOK
		if !decided.Applied {
			status = http.StatusAccepted
		}
		writeJSON(w, status, decided.UTC())
		return nil
	}
}

func (a *api) event(w http.ResponseWriter, r *http.Request) error {
	ref, source, err := readEventRef(r)
	if err != nil {
		return err
	}
	life, err := a.backend.eventShow(r.Context(), ref, source)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, life.UTC())
	return nil
}

func (a *api) trace(w http.ResponseWriter, r *http.Request) error {
	ref, source, err := readEventRef(r)
	if err != nil {
		return err
	}
	t, err := a.backend.eventTrace(r.Context(), ref, source)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, t.UTC())
	return nil
}

// readEventRef reads which event is meant: its sequence, or its id and source.
func readEventRef(r *http.Request) (ref, source string, err error) {
	v, err := query(r, "id", "source", "sequence")
	if err != nil {
		return "", "", err
	}
	ref, source = v.Get("id"), v.Get("source")
	digits := func(s string) bool { _, err := strconv.ParseUint(s, 10, 64); return err == nil }
	switch sequence := v.Get("sequence"); {
	case sequence != "" && (ref != "" || source != ""):
		return "", "", newProblem(client.Usage, "sequence and id: one of them names an event")
	case sequence != "" && !digits(sequence):
		return "", "", newProblem(client.Usage, "sequence %s: not a number", strconv.Quote(sequence))
	case sequence != "":
		return sequence, "", nil
	case ref == "":
		return "", "", newProblem(client.Usage, "no event named").WithHint("use ?sequence=, or ?id= and &source=")
	case source == "" && digits(ref):
		return "", "", newProblem(client.Usage, "id %s: could be a sequence", ref).WithHint("add the event's source")
	}
	return ref, source, nil
}

func (a *api) account(w http.ResponseWriter, r *http.Request) error {
	account, err := a.backend.account(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, account.WithLists())
	return nil
}

func (a *api) version(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, a.backend.version())
	return nil
}

// query returns the request's query, which may hold only the known names: a
// filter that is spelled wrong must not select everything.
func query(r *http.Request, known ...string) (url.Values, error) {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, newProblem(client.Usage, "query: %v", err)
	}
	for name, values := range v {
		if !slices.Contains(known, name) {
			p := newProblem(client.Usage, "query parameter %s: unknown", strconv.Quote(name))
			if len(known) > 0 {
				p = p.WithHint("known are %s", strings.Join(known, ", "))
			}
			return nil, p
		}
		if len(values) > 1 {
			return nil, newProblem(client.Usage, "query parameter %s: given twice", name)
		}
	}
	return v, nil
}

// readDeadLetterQuery reads the filters, and of the other parameters those named.
func readDeadLetterQuery(r *http.Request, more ...string) (deadLetterQuery, url.Values, error) {
	v, err := query(r, append([]string{"function", "cause", "class", "source", "type", "key", "outage", "since"}, more...)...)
	if err != nil {
		return deadLetterQuery{}, nil, err
	}
	q := deadLetterQuery{
		Function: v.Get("function"), Cause: v.Get("cause"), Class: v.Get("class"),
		Source: v.Get("source"), Type: v.Get("type"), Key: v.Get("key"), Outage: v.Get("outage"),
		After: v.Get("after"),
	}
	if q.Since, err = readInstant(v, "since"); err != nil {
		return deadLetterQuery{}, nil, err
	}
	if q.Limit, err = readLimit(v); err != nil {
		return deadLetterQuery{}, nil, err
	}
	if q.After != "" {
		function, sequence, _ := strings.Cut(q.After, "/")
		if _, err := strconv.ParseUint(sequence, 10, 64); err != nil || function == "" {
			return deadLetterQuery{}, nil, newProblem(client.Usage, "after %s: not a dead letter's id", strconv.Quote(q.After)).
				WithHint("an id is <function>/<sequence>")
		}
		if err := functionNames(function); err != nil {
			return deadLetterQuery{}, nil, err
		}
	}
	return q, v, functionNames(q.Function)
}

// readLimit reads the size of a page.
func readLimit(v url.Values) (int, error) {
	s := v.Get("limit")
	if s == "" {
		return client.DefaultLimit, nil
	}
	limit, err := strconv.Atoi(s)
	if err != nil || limit < 1 || limit > client.MaxLimit {
		return 0, newProblem(client.Usage, "limit %s: not a number from 1 to %d", strconv.Quote(s), client.MaxLimit)
	}
	return limit, nil
}

func deadLetterID(r *http.Request) (string, uint64, error) {
	sequence, err := strconv.ParseUint(r.PathValue("sequence"), 10, 64)
	if err != nil {
		return "", 0, newProblem(client.Usage, "dead letter %s/%s: %s is not a sequence",
			r.PathValue("function"), r.PathValue("sequence"), strconv.Quote(r.PathValue("sequence"))).
			WithHint("an id is <function>/<sequence>")
	}
	return r.PathValue("function"), sequence, nil
}

// readForm reads the body of a call that changes something; what names it in
// errors. It insists on the JSON content type: a page that a browser shows
// cannot send that to a node without being asked.
func readForm(w http.ResponseWriter, r *http.Request, what string, limit int64, into any) error {
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "application/json" {
		return newProblem(client.UnsupportedMedia, "%s is application/json", what)
	}
	body, err := readBody(w, r, limit)
	if err != nil {
		return err
	}
	in := json.NewDecoder(strings.NewReader(string(body)))
	in.DisallowUnknownFields()
	if err := in.Decode(into); err != nil {
		return newProblem(client.Usage, "%s: %v", what, err)
	}
	return nil
}

// readDecision reads what is decided.
func readDecision(w http.ResponseWriter, r *http.Request, action string) (client.Decision, error) {
	function, sequence, err := deadLetterID(r)
	if err != nil {
		return client.Decision{}, err
	}
	d := client.Decision{Function: function, Sequence: sequence, Action: action}
	limit := int64(maxFormBody)
	if action == client.Edit {
		limit = maxEditBody
	}
	if err := readForm(w, r, "a decision", limit, &d); err != nil {
		return client.Decision{}, err
	}
	d.By = decider(r, d.By)
	switch {
	case d.Function != function || d.Sequence != sequence || d.Action != action:
		return client.Decision{}, newProblem(client.Usage, "decision: the body names another dead letter or action than the path")
	case action == client.Discard && strings.TrimSpace(d.Reason) == "":
		return client.Decision{}, newProblem(client.Usage, "discard %s/%d: no reason", function, sequence).
			WithHint("say why: the event will never be handled")
	case action == client.Release && strings.TrimSpace(d.Reason) == "":
		return client.Decision{}, newProblem(client.Usage, "release %s/%d: no reason", function, sequence).
			WithHint("say why: what is held behind it goes on out of order")
	case action == client.Edit && (len(d.Data) == 0) == (len(d.DataBase64) == 0):
		return client.Decision{}, newProblem(client.Usage, "edit %s/%d: one of data and data_base64 is needed", function, sequence).
			WithHint("give the event's new data, whole")
	case action == client.Edit && strings.TrimSpace(d.Reason) == "":
		return client.Decision{}, newProblem(client.Usage, "edit %s/%d: no reason", function, sequence).
			WithHint("say why: the event says something else from here on")
	case action != client.Edit && (len(d.Data) > 0 || len(d.DataBase64) > 0 || d.Source != ""):
		return client.Decision{}, newProblem(client.Usage, "%s %s/%d: only an edit has data", action, function, sequence).
			WithHint("use edit, or leave them out")
	case d.Tail && action != client.Discard:
		return client.Decision{}, newProblem(client.Usage, "%s %s/%d: only a discard takes the tail along", action, function, sequence).
			WithHint("leave tail out: what is held behind it goes on in order")
	case d.ForgetSteps && action != client.Edit:
		return client.Decision{}, newProblem(client.Usage, "%s %s/%d: only an edit forgets steps", action, function, sequence).
			WithHint("leave forget_steps out: steps that were done are not done again")
	case d.By == "":
		return client.Decision{}, newProblem(client.Usage, "%s %s/%d: nobody named", action, function, sequence).
			WithHint("say by whom")
	}
	return d, nil
}

// each applies f to every element; no elements are an empty list, not null.
func each[T any](list []T, f func(T) T) []T {
	out := make([]T, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}
