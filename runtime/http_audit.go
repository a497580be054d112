package runtime

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *api) audit(w http.ResponseWriter, r *http.Request) error {
	q, err := readAuditQuery(r)
	if err != nil {
		return err
	}
	page, err := a.backend.audit(r.Context(), q)
	if err != nil {
		return err
	}
	page.Entries = each(page.Entries, client.AuditEntry.UTC)
	writeJSON(w, http.StatusOK, page)
	return nil
}

func (a *api) auditEntry(w http.ResponseWriter, r *http.Request) error {
	sequence, err := strconv.ParseUint(r.PathValue("sequence"), 10, 64)
	if err != nil || sequence == 0 {
		return newProblem(client.Usage, "audit entry %s: not a sequence", strconv.Quote(r.PathValue("sequence")))
	}
	e, err := a.backend.auditEntry(r.Context(), sequence)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, e.UTC())
	return nil
}

func readAuditQuery(r *http.Request) (client.AuditQuery, error) {
	v, err := query(r, "function", "what", "by", "event", "event_id", "since", "until", "limit", "after")
	if err != nil {
		return client.AuditQuery{}, err
	}
	q := client.AuditQuery{
		Function: v.Get("function"), What: v.Get("what"), By: v.Get("by"), Event: v.Get("event"), EventID: v.Get("event_id"),
	}
	if q.Since, err = readInstant(v, "since"); err != nil {
		return client.AuditQuery{}, err
	}
	if q.Until, err = readInstant(v, "until"); err != nil {
		return client.AuditQuery{}, err
	}
	if q.Limit, err = readLimit(v); err != nil {
		return client.AuditQuery{}, err
	}
	if s := v.Get("after"); s != "" {
		if q.After, err = strconv.ParseUint(s, 10, 64); err != nil || q.After == 0 {
			return client.AuditQuery{}, newProblem(client.Usage, "after %s: not a sequence of the audit", strconv.Quote(s)).
				WithHint("it is the next of the page before")
		}
	}
	if q.Event != "" {
		function, sequence, _ := strings.Cut(q.Event, "/")
		if _, err := strconv.ParseUint(sequence, 10, 64); err != nil || function == "" || q.Function != "" && q.Function != function {
			return client.AuditQuery{}, newProblem(client.Usage, "event %s: not an event of a function", strconv.Quote(q.Event)).
				WithHint("an id is <function>/<sequence>")
		}
		q.Function = function
	}
	// The function is looked for by its subject, in which dots and wildcards would stand for others.
	if strings.Trim(q.Function, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return client.AuditQuery{}, newProblem(client.Usage, "function %s: not a function's name", strconv.Quote(q.Function))
	}
	return q, nil
}

// readInstant reads a time, the zero one if there is none.
func readInstant(v url.Values, name string) (time.Time, error) {
	s := v.Get(name)
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, newProblem(client.Usage, "%s %s: not a time", name, strconv.Quote(s)).
			WithHint("write it as in 2026-01-02T03:04:05Z")
	}
	return t, nil
}
