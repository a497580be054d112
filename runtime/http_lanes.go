package runtime

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// maxPauseText bounds a pause's reason and name, which are kept with the function's declaration as long as the lane is paused.
const maxPauseText = 1 << 10

func (a *api) lanes(w http.ResponseWriter, r *http.Request) error {
	q, err := readLaneQuery(r)
	if err != nil {
		return err
	}
	list, err := a.backend.lanes(r.Context(), q)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, each(list, client.Lane.UTC))
	return nil
}

func (a *api) lane(w http.ResponseWriter, r *http.Request) error {
	v, err := query(r, "key")
	if err != nil {
		return err
	}
	if err := checkKey(v.Get("key"), "use ?key="); err != nil {
		return err
	}
	l, err := a.backend.lane(r.Context(), r.PathValue("function"), v.Get("key"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, l.UTC())
	return nil
}

func (a *api) pauseLane(w http.ResponseWriter, r *http.Request) error {
	p, err := readPause(w, r)
	if err != nil {
		return err
	}
	if strings.TrimSpace(p.Reason) == "" {
		return newProblem(client.Usage, "pause of a lane of %s: no reason", p.Function).WithHint("say why: whoever finds it paused will ask")
	}
	l, err := a.backend.pauseLane(r.Context(), p)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, l.UTC())
	return nil
}

func (a *api) resumeLane(w http.ResponseWriter, r *http.Request) error {
	p, err := readPause(w, r)
	if err != nil {
		return err
	}
	l, err := a.backend.resumeLane(r.Context(), p)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, l.UTC())
	return nil
}

func readLaneQuery(r *http.Request) (client.LaneQuery, error) {
	v, err := query(r, "function", "state", "limit", "after")
	if err != nil {
		return client.LaneQuery{}, err
	}
	q := client.LaneQuery{Function: v.Get("function"), State: v.Get("state"), After: v.Get("after")}
	if q.Limit, err = readLimit(v); err != nil {
		return client.LaneQuery{}, err
	}
	if q.State != "" && !slices.Contains(client.LaneStates(), q.State) {
		return client.LaneQuery{}, newProblem(client.Usage, "state %s: unknown", strconv.Quote(q.State)).
			WithHint("known are %s", strings.Join(client.LaneStates(), ", "))
	}
	// A lane's token may have slashes in it, a function's name has none.
	function, token, _ := strings.Cut(q.After, "/")
	if q.After != "" && (function == "" || token == "") {
		return client.LaneQuery{}, newProblem(client.Usage, "after %s: not a lane", strconv.Quote(q.After)).
			WithHint("it is the function and the lane of the last one that was shown, <function>/<lane>")
	}
	return q, functionNames(q.Function, function)
}

// checkKey refuses what names no lane.
func checkKey(key, hint string) error {
	if key == "" {
		return newProblem(client.Usage, "no key: an event without one has no lane").WithHint("%s", hint)
	}
	if len(key) > streams.MaxEventHeader {
		return newProblem(client.Usage, "a key of %d bytes: no event has a longer one than %d", len(key), streams.MaxEventHeader)
	}
	return nil
}

// readPause reads what a person wants of a lane.
func readPause(w http.ResponseWriter, r *http.Request) (client.PauseRequest, error) {
	p := client.PauseRequest{Function: r.PathValue("function")}
	if err := readForm(w, r, "a request about a lane", maxFormBody, &p); err != nil {
		return client.PauseRequest{}, err
	}
	if p.Function != r.PathValue("function") {
		return client.PauseRequest{}, newProblem(client.Usage, "lane: the body names another function than the path")
	}
	if err := checkKey(p.Key, `send {"key": "…"}`); err != nil {
		return client.PauseRequest{}, err
	}
	if p.By = decider(r, p.By); p.By == "" {
		return client.PauseRequest{}, newProblem(client.Usage, "lane of key %s: nobody named", strconv.Quote(p.Key)).WithHint("say by whom")
	}
	for name, text := range map[string]string{"reason": p.Reason, "name": p.By} {
		if len(text) > maxPauseText {
			return client.PauseRequest{}, newProblem(client.TooLarge, "%s of %d bytes: longer than %d", name, len(text), maxPauseText)
		}
	}
	return p, nil
}
