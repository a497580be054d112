package cli

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/siding-dev/siding/runtime/client"
)

// fakeAudit has five entries, the newest first, of which a page holds two at most.
func fakeAudit() []client.AuditEntry {
	entry := func(sequence uint64, what, by, reason string) client.AuditEntry {
		return client.AuditEntry{
			Sequence: sequence, At: parkedAt().Add(time.Duration(sequence) * time.Minute), What: what, Function: "file-claim", Event: "file-claim/42",
			EventID: "claim-1", Source: "/claims", Type: "com.insurer.claim.reported", Cycle: 1, By: by, Reason: reason, Detail: map[string]string{},
		}
	}
	pause := client.AuditEntry{Sequence: 13, At: parkedAt(), What: "paused", Function: "file-claim", Key: "policy-7", By: "bo", Reason: "a\x1bb",
		Detail: map[string]string{"key": "policy-7", "lane": "policy-7"}}
	return []client.AuditEntry{pause, entry(12, "discarded", "ana", "test data"), entry(11, "refused", "bo", "the dead letter stands at cycle 1, not 0"),
		entry(10, "redriven", "ana", ""), entry(9, "parked", "advisory", "exhausted")}
}

// fakeReads answers for the audit, traces, waits and exports.
func fakeReads(mux *http.ServeMux, empty bool, answer func(http.ResponseWriter, int, any), refuse func(http.ResponseWriter, *client.Problem)) {
	mux.HandleFunc("GET /api/v1/audit", func(w http.ResponseWriter, r *http.Request) {
		q, page := r.URL.Query(), client.AuditPage{Entries: []client.AuditEntry{}}
		after, _ := strconv.ParseUint(q.Get("after"), 10, 64)
		limit, _ := strconv.Atoi(q.Get("limit"))
		since, _ := time.Parse(time.RFC3339Nano, q.Get("since"))
		for _, e := range fakeAudit() {
			if empty || after != 0 && e.Sequence >= after {
				continue
			}
			if page.Examined == 2 || len(page.Entries) == limit {
				answer(w, 200, page)
				return
			}
			page.Examined, page.Next = page.Examined+1, e.Sequence
			if (q.Get("by") == "" || q.Get("by") == e.By) && (q.Get("event") == "" || q.Get("event") == e.Event) && !e.At.Before(since) {
				page.Entries = append(page.Entries, e)
			}
		}
		page.Next = 0
		answer(w, 200, page)
	})
	mux.HandleFunc("GET /api/v1/audit/{sequence}", func(w http.ResponseWriter, r *http.Request) {
		for _, e := range fakeAudit() {
			if strconv.FormatUint(e.Sequence, 10) == r.PathValue("sequence") {
				answer(w, 200, e)
				return
			}
		}
		refuse(w, client.NewProblem(client.NotFound, "audit entry "+r.PathValue("sequence")+": not found").WithHint("siding audit ls lists what is kept"))
	})
	mux.HandleFunc("GET /api/v1/events/trace", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RawQuery {
		case "sequence=42", "id=claim-1", "id=42&source=%2Fclaims":
		default:
			refuse(w, client.NewProblem(client.NotFound, "event "+r.URL.RawQuery+": not found"))
			return
		}
		const trace = "0af7651916cd43dd8448eb211c80319c"
		at := func(d time.Duration) time.Time { return parkedAt().Add(d) }
		answer(w, 200, client.EventTrace{
			Stream: "EVENTS", Sequence: 42, ID: "claim-1", Source: "/claims", Type: "com.insurer.claim.reported", StoredAt: parkedAt(), TraceID: trace,
			Partial: r.URL.RawQuery == "id=claim-1",
			Steps: []client.TraceStep{
				{At: at(0), Gap: "0s", What: "stored", Detail: "EVENTS sequence 42, subject events.com.insurer.claim.reported", TraceID: trace},
				{At: at(12345678), Gap: "12.345678ms", Function: "file-claim", What: "attempt", Detail: "attempt 1 failed after 12ms: transient: post\nclaims", TraceID: trace},
				{At: at(3 * time.Hour), Gap: "2h59m59.987654322s", Function: "file-claim", What: "redriven", Detail: "by ana: the system is back", TraceID: trace},
				{Function: "notify", What: "delivered", Detail: "at its first attempt, about which no record is kept"},
			},
		})
	})
	mux.HandleFunc("GET /api/v1/events/wait", func(w http.ResponseWriter, r *http.Request) {
		sequence, _ := strconv.ParseUint(r.URL.Query().Get("sequence"), 10, 64)
		answer(w, 200, fakeOutcome(sequence))
	})
	mux.HandleFunc("GET /api/v1/dlq/export", func(w http.ResponseWriter, r *http.Request) {
		function := r.URL.Query().Get("function")
		letters, total := fakeDeadLetters(), 0
		for i, e := range []client.Exported{
			{DeadLetter: letters[0], Event: json.RawMessage(`{"specversion":"1.0","id":"claim-1","source":"/claims","type":"t","data":{"b": 1,  "a":"<é>"}}`)},
			{DeadLetter: letters[1], NotEvent: "not a CloudEvent: no ce- header\x1b"},
			{DeadLetter: letters[2], Event: json.RawMessage(`{"specversion":"1.0","id":"claim-2","source":"/claims","type":"t"}`)},
		} {
			if empty || function != "" && function != "cut" && function != e.Function {
				continue
			}
			if i == 1 && function == "cut" {
				return
			}
			total++
			line, _ := e.Line()
			_, _ = w.Write(append(line, "\n\n"...))
		}
		_ = json.NewEncoder(w).Encode(client.ExportEnd{Total: &total})
	})
}

// fakeOutcome is what became of an event, by its sequence. Those of the fake intake are stored at 7, but for those called so.
func fakeOutcome(sequence uint64) client.Outcome {
	state := func(function, state string, attempts int) client.EventState {
		return client.EventState{Function: function, State: state, Attempts: attempts, History: []client.Attempt{}}
	}
	o := client.Outcome{Sequence: sequence, Done: true, Functions: []client.EventState{state("audit-claim", "delivered", 0)}}
	switch sequence {
	case 1001:
		parked := state("file-claim", "parked", 3)
		parked.History = []client.Attempt{{Kind: "attempt", Attempt: 3, Error: "post claims: 503"}, {Kind: "parked"}}
		o.Functions = append(o.Functions, parked)
	case 1002:
		held := state("file-claim", "held", 0)
		held.Behind = "file-claim/42"
		o.Done, o.Functions = false, append(o.Functions, held)
	case 1003:
		retrying := state("file-claim", "retrying", 1)
		retrying.DueAt = parkedAt()
		o.Done, o.Functions = false, append(o.Functions, retrying)
	case 1004:
		o.Functions = append(o.Functions, state("file-claim", "gone", 0))
	case 1005:
		o.Functions = []client.EventState{}
	default:
		o.Functions = append(o.Functions, state("file-claim", "discarded", 1))
	}
	return o
}
