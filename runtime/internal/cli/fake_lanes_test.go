package cli

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/siding-dev/siding/runtime/client"
)

// fakeTail is held behind file-claim/42 and in the lane of policy-7; the lane holds one more than is shown.
func fakeTail() []client.HeldEvent {
	held := func(id string, sequence uint64, event string) client.HeldEvent {
		return client.HeldEvent{ID: id, Sequence: sequence, EventID: event, Source: "/claims", Type: "com.insurer.claim.reported", HeldAt: parkedAt().Add(time.Second)}
	}
	return []client.HeldEvent{held("file-claim/45", 45, "claim-4"), held("file-claim/47", 47, "claim\n5")}
}

// fakeLaneList has a blocked lane, a paused one with a slash in its key, and one of which only a hash is known.
func fakeLaneList() []client.Lane {
	return []client.Lane{
		{Function: "file-claim", Key: "policy-7", Lane: "policy-7", State: client.LaneBlocked, Held: 3, Events: 4, HeldSince: parkedAt(),
			Blocker: &client.LaneEvent{ID: "file-claim/42", Sequence: 42, State: "parked"}},
		{Function: "file-claim", Key: "policy/\x1b9", Lane: "policy/%1B9", State: client.LanePaused, Events: 1,
			PausedBy: "bo", PausedAt: parkedAt(), PauseReason: "audit"},
		{Function: "notify", Lane: "#00ff", State: client.LaneRunning, Events: 1},
	}
}

// fakeLanes answers for lanes. A function called orphan is not hosted.
func fakeLanes(mux *http.ServeMux, empty bool, answer func(http.ResponseWriter, int, any), refuse func(http.ResponseWriter, *client.Problem)) {
	find := func(function, key string) *client.Lane {
		for _, l := range fakeLaneList() {
			if l.Function == function && l.Key == key {
				return &l
			}
		}
		return nil
	}
	mux.HandleFunc("GET /api/v1/lanes", func(w http.ResponseWriter, r *http.Request) {
		q, list := r.URL.Query(), []client.Lane{}
		for _, l := range fakeLaneList() {
			after := q.Get("after") == "" || l.Function+"/"+l.Lane > q.Get("after")
			if (q.Get("function") == "" || q.Get("function") == l.Function) && (q.Get("state") == "" || q.Get("state") == l.State) && after && !empty {
				list = append(list, l)
			}
		}
		if q.Get("limit") == "2" {
			list = list[:2]
		}
		answer(w, 200, list)
	})
	mux.HandleFunc("GET /api/v1/lanes/{function}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("function") == "orphan" {
			refuse(w, client.NewProblem(client.Refused, "function orphan is not hosted here, so nobody keeps its lanes").WithHint("start a node that hosts orphan"))
			return
		}
		l := find(r.PathValue("function"), r.URL.Query().Get("key"))
		if l == nil {
			refuse(w, client.NewProblem(client.NotFound, "lane of key "+r.URL.Query().Get("key")+": nothing is in it").WithHint("siding lane ls lists those that are"))
			return
		}
		detail := client.LaneDetail{Lane: *l, Tail: []client.HeldEvent{}}
		if l.Held > 0 {
			detail.Tail = fakeTail()
		}
		answer(w, 200, detail)
	})
	mux.HandleFunc("POST /api/v1/lanes/{function}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		var p client.PauseRequest
		_ = json.NewDecoder(r.Body).Decode(&p)
		l := client.Lane{Function: p.Function, Key: p.Key, Lane: "l", State: client.LaneRunning}
		if known := find(p.Function, p.Key); known != nil {
			l = *known
		}
		paused := l.State == client.LanePaused
		switch {
		case p.By == "" || p.Function != r.PathValue("function"):
			refuse(w, client.NewProblem(client.Usage, "the command sent no name or another function"))
		case r.PathValue("verb") == "pause" && paused:
			refuse(w, client.NewProblem(client.Conflict, "lane of key "+p.Key+": paused by bo").WithHint("resume it first"))
		case r.PathValue("verb") == "resume" && !paused:
			refuse(w, client.NewProblem(client.Conflict, "lane of key "+p.Key+": it is not paused").WithHint("siding lane ls --state paused lists those that are"))
		case r.PathValue("verb") == "pause":
			l.State, l.PausedBy, l.PausedAt, l.PauseReason = client.LanePaused, p.By, parkedAt(), p.Reason
			answer(w, 200, l)
		default:
			l.State, l.PausedBy, l.PausedAt, l.PauseReason = client.LaneRunning, "", time.Time{}, ""
			answer(w, 200, l)
		}
	})
}
