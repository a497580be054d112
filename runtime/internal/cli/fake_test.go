package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/siding-dev/siding/runtime/client"
)

// parkedAt is when everything of the fake node was parked.
func parkedAt() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC) }

func fakeDeadLetters() []client.DeadLetter {
	at := parkedAt()
	letter := func(function, id string, sequence uint64, text string) client.DeadLetter {
		return client.DeadLetter{
			ID: id, Function: function, EventID: "claim-1", Source: "/claims", Type: "com.insurer.claim.reported", Key: "policy-7",
			Sequence: sequence, Cause: "exhausted", Class: "transient", Code: "503", Error: text, Attempts: 3, Cycle: 1, ParkedAt: at,
			FirstFailedAt: at.Add(-time.Minute), LastFailedAt: at, ParkedBy: "advisory", TraceID: "0af7651916cd43dd8448eb211c80319c",
			Held: 2, Version: "1.4.0",
		}
	}
	out := []client.DeadLetter{
		letter("file-claim", "file-claim/42", 42, "post claims: 503"),
		letter("file-claim", "file-claim/43", 43, "post\nclaims: \x1b[31m503"),
		letter("notify", "notify/7", 7, "no address"),
	}
	for i := range 6 {
		id := uint64(i + 1)
		out = append(out, letter("report", "report/"+number(int64(id)), id, "boom"))
	}
	return out
}

// fakeNode answers as a node does, from canned values. An account of it holds
// or not; with a token it asks for it.
func fakeNode(holds bool, token string) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	refuse := func(w http.ResponseWriter, p *client.Problem) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p)
	}
	missing := func(w http.ResponseWriter, what string) {
		refuse(w, client.NewProblem(client.NotFound, what+": not found").WithHint("siding dlq ls and siding function ls name what there is"))
	}
	mux.HandleFunc("GET /api/v1/functions", func(w http.ResponseWriter, _ *http.Request) {
		if token == "empty" {
			answer(w, 200, []client.Function{})
			return
		}
		answer(w, 200, []client.Function{fakeFunction()})
	})
	mux.HandleFunc("GET /api/v1/functions/{name}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("name") == "away" {
			answer(w, 200, fakeOutage())
			return
		}
		if r.PathValue("name") != "file-claim" {
			missing(w, "function "+r.PathValue("name"))
			return
		}
		answer(w, 200, fakeFunction())
	})
	mux.HandleFunc("GET /api/v1/dlq", func(w http.ResponseWriter, r *http.Request) {
		list := []client.DeadLetter{}
		for _, d := range fakeDeadLetters() {
			f, cause := r.URL.Query().Get("function"), r.URL.Query().Get("cause")
			if (f == "" || f == d.Function) && (cause == "" || cause == d.Cause) {
				list = append(list, d)
			}
		}
		if r.URL.Query().Get("limit") == "1" {
			list = list[:1]
		}
		answer(w, 200, list)
	})
	mux.HandleFunc("GET /api/v1/dlq/tail", func(w http.ResponseWriter, r *http.Request) {
		out := json.NewEncoder(w)
		for _, d := range fakeDeadLetters()[:2] {
			_ = out.Encode(d)
			_, _ = io.WriteString(w, "\n")
		}
		if r.URL.Query().Get("function") == "open" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		_ = out.Encode(client.TailEnd{Problem: client.NewProblem(client.Unavailable, "the node is stopping")})
	})
	find := func(r *http.Request) *client.DeadLetter {
		for _, d := range fakeDeadLetters() {
			if d.ID == r.PathValue("function")+"/"+r.PathValue("sequence") {
				return &d
			}
		}
		return nil
	}
	mux.HandleFunc("GET /api/v1/dlq/{function}/{sequence}", func(w http.ResponseWriter, r *http.Request) {
		d := find(r)
		if d == nil {
			missing(w, "dead letter "+r.PathValue("function")+"/"+r.PathValue("sequence"))
			return
		}
		answer(w, 200, client.DeadLetterDetail{
			DeadLetter: *d,
			History: []client.Attempt{
				{Kind: "attempt", Cycle: 1, Attempt: 3, Charged: true, Class: "transient", Code: "503", Error: "post claims: 503",
					StartedAt: parkedAt().Add(-1500 * time.Millisecond), EndedAt: parkedAt()},
				{Kind: "attempt", Cycle: 1, Attempt: 2, Class: "stopping", StartedAt: parkedAt(), EndedAt: parkedAt()},
				{Kind: "crash", Cycle: 1, Attempt: 4, Class: "crash", Error: "the process died while the attempt ran: panic: boom", StartedAt: parkedAt(), EndedAt: parkedAt(),
					Boot: 7, Beside: "beside it ran file-claim/43"},
			},
			Tail:  fakeTail(),
			Stack: "goroutine 1\n\tmain.go:1", Stream: "DLQ_file-claim", Subject: "siding.dlq.file-claim.policy-7.42", Truncated: true,
			Attributes: map[string]string{"specversion": "1.0", "id": "claim-1", "partitionkey": "policy-7"},
			Payload:    client.PayloadOf("application/json", []byte(`{"claim":1}`)),
		})
	})
	mux.HandleFunc("POST /api/v1/dlq/{function}/{sequence}/{action}", func(w http.ResponseWriter, r *http.Request) {
		var d client.Decision
		_ = json.NewDecoder(r.Body).Decode(&d)
		stands := find(r)
		switch {
		case d.Cycle == nil || *d.Cycle != 1 || d.By == "" && token == "" || r.PathValue("action") != d.Action:
			refuse(w, client.NewProblem(client.Usage, "the command sent no cycle, no name or another action"))
		case d.Action == client.Edit && d.Reason != "sends "+strings.TrimSuffix(string(d.DataBase64), "\n")+" from "+d.Source+map[bool]string{true: " anew"}[d.ForgetSteps]:
			refuse(w, client.NewProblem(client.Usage, "the command sent "+string(d.DataBase64)+" from "+d.Source))
		case d.Tail != strings.HasSuffix(d.Reason, "and its tail"):
			refuse(w, client.NewProblem(client.Usage, "the command sent the tail where it should not, or not where it should"))
		case stands.Function == "notify":
			refuse(w, client.NewProblem(client.Conflict, "dead letter "+stands.ID+": decided already").WithHint("look again with siding dlq show"))
		case stands.ID == "report/2" && d.Action == client.Redrive:
			refuse(w, client.NewProblem(client.Conflict, "dead letter report/2: report/1 of its lane stands before it"))
		default:
			answer(w, 200, client.Decided{ID: stands.ID, Action: d.Action, Cycle: 1, Applied: d.Action == client.Redrive || d.Action == client.Edit, At: parkedAt()})
		}
	})
	fakeOperations(mux, holds, answer, refuse)
	fakeLanes(mux, token == "empty", answer, refuse)
	fakeReads(mux, token == "empty", answer, refuse)
	mux.HandleFunc("GET /api/v1/account", func(w http.ResponseWriter, _ *http.Request) {
		line := client.FunctionAccount{Function: "file-claim", Stream: "EVENTS", Accepted: 100, Delivered: 90, Pending: 5, Delivering: 1,
			Held: 2, Parked: 2, Holds: holds, Problems: []client.AccountProblem{}}
		if !holds {
			line.Delivered = 89
			line.Problems = []client.AccountProblem{{Sequence: 17, What: "accepted, but stands nowhere"}}
		}
		answer(w, 200, client.Account{Functions: []client.FunctionAccount{line}, Holds: holds})
	})
	mux.HandleFunc("GET /api/v1/events", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RawQuery {
		case "sequence=42", "id=claim-1", "id=42&source=%2Fclaims":
		default:
			missing(w, "event "+r.URL.RawQuery)
			return
		}
		answer(w, 200, client.EventLife{
			Stream: "EVENTS", Sequence: 42, ID: "claim-1", Source: "/claims", Type: "com.insurer.claim.reported",
			Subject: "events.com.insurer.claim.reported", Attributes: map[string]string{"partitionkey": "policy-7"}, StoredAt: parkedAt(),
			Payload: client.PayloadOf("text/plain", []byte("a\x1bb")),
			Functions: []client.EventState{{Function: "file-claim", State: "parked", Cycle: 1, Attempts: 3, History: []client.Attempt{
				{Kind: "attempt", Cycle: 1, Attempt: 3, Charged: true, Class: "transient", Error: "post claims: 503", StartedAt: parkedAt(), EndedAt: parkedAt()},
			}}},
		})
	})
	mux.HandleFunc("POST /events", func(w http.ResponseWriter, r *http.Request) { fakeIntake(w, r, answer, refuse) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token == "s3cret" && r.Header.Get("Authorization") != "Bearer s3cret" {
			refuse(w, client.NewProblem(client.Unauthorized, "no token").WithHint("give --token or SIDING_TOKEN"))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// fakeIntake stores every event at sequence 7, or at its id if that is a number of four digits, refuses one whose id is bad, and
// calls one whose id is old a duplicate.
func fakeIntake(w http.ResponseWriter, r *http.Request, answer func(http.ResponseWriter, int, any), refuse func(http.ResponseWriter, *client.Problem)) {
	body, _ := io.ReadAll(r.Body)
	batch := strings.HasPrefix(r.Header.Get("Content-Type"), "application/cloudevents-batch")
	if !batch {
		body = []byte("[" + string(body) + "]")
	}
	var events []map[string]any
	if err := json.Unmarshal(body, &events); err != nil {
		refuse(w, client.NewProblem(client.Invalid, err.Error()))
		return
	}
	var out []client.Accepted
	for i, e := range events {
		id, _ := e["id"].(string)
		if id == "bad" {
			p := client.NewProblem(client.Invalid, "attribute source: missing")
			p.Attribute, p.Index = "source", &i
			refuse(w, p)
			return
		}
		source, _ := e["source"].(string)
		// What of the event is worth a look travels back in the source.
		for _, name := range []string{"partitionkey", "subject", "datacontenttype", "data", "color"} {
			if v, ok := e[name]; ok {
				b, _ := json.Marshal(v)
				source += " " + name + "=" + string(b)
			}
		}
		sequence := uint64(7)
		if n, err := strconv.ParseUint(id, 10, 64); err == nil && len(id) == 4 {
			sequence = n
		}
		out = append(out, client.Accepted{ID: id, Source: source, Sequence: sequence, Duplicate: id == "old"})
	}
	if batch {
		answer(w, 202, out)
		return
	}
	answer(w, 202, out[0])
}

// fakeFunction is the one that the fake node hosts.
func fakeFunction() client.Function {
	return client.Function{
		Name: "file-claim", Types: []string{"com.insurer.claim.reported"}, Stream: "EVENTS", OrderBy: "partitionkey", AttemptsAllowed: 3,
		Timeout: "30s", Concurrency: 16, Start: "now", Owner: "claims-team", Version: "1.4.0", Hosted: true, State: "running",
		WaitingFor:    "dependency contract-system: connection\x1brefused, since 2026-01-02T03:04:05Z",
		SinceSequence: 1, Pending: 5, Delivering: 1, Held: 2, Parked: 2, OldestParkedAt: parkedAt(),
	}
}
