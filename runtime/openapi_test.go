package runtime

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/runtime/client"
)

var updateOpenAPI = flag.Bool("update", false, "rewrite openapi.json")

// operation is what the routes and the types cannot say about one method of a path.
type operation struct {
	summary string
	query   []parameter
	in      any // the body, application/json
	out     any // the answer
	media   string
	status  int           // of the answer; 0 = 200
	also    int           // another status with the same answer
	codes   []client.Code // beyond those that every operation may answer with
}

type parameter struct{ name, about, kind string } // kind is empty for a string

// events is the body of POST /events, which is no type of package client.
type events struct{}

var (
	filters = []parameter{
		{"function", "of this function", ""}, {"cause", "parked for this cause: exhausted, permanent, undecodable, crash, stuck, expired or set-aside", ""},
		{"class", "whose last attempt failed with this class", ""}, {"source", "of events of this source", ""},
		{"type", "of events of this type", ""}, {"key", "of this ordering key", ""}, {"outage", "that this outage exhausted before it was recognised: the id of a suspension", ""}, {"since", "parked at this time or later", "time"},
	}
	limit    = parameter{"limit", "largest number of answers, from 1 to 1000; 100 if not given", "integer"}
	sequence = parameter{"sequence", "its sequence in the stream; instead of id and source", "integer"}
	naming   = []parameter{sequence, {"id", "its id; one that could be a sequence needs the source", ""}, {"source", "its source, where an id alone is not enough", ""}}
)

// operations describes every method of every route. Whoever adds a route adds it here, and runs
// `go test ./runtime -run OpenAPI -update`.
var operations = map[string]operation{
	"GET /healthz": {summary: "The process answers", media: "text/plain"},
	"GET /readyz":  {summary: "The node takes events", media: "text/plain", codes: []client.Code{client.Unavailable}},
	"POST /events": {
		summary: "Store CloudEvents: one in binary or structured mode, or a batch. The answer comes after the store has them; 200 says that all were stored before.",
		in:      events{}, out: events{}, status: 202, also: 200,
		codes: []client.Code{client.Invalid, client.Conflict, client.TooLarge, client.UnsupportedMedia, client.StreamFull},
	},
	"OPTIONS /events":       {summary: "Consent to a CloudEvents webhook", media: "none"},
	"GET /metrics":          {summary: "Metrics for Prometheus", media: "text/plain"},
	"GET /":                 {summary: "What there is, for a person", media: "text/plain"},
	"GET /api/v1/functions": {summary: "List the functions that the node knows", out: []client.Function{}, codes: []client.Code{client.Usage}},
	"GET /api/v1/functions/{name}": {
		summary: "Show a function", out: client.Function{}, codes: []client.Code{client.NotFound},
	},
	"POST /api/v1/functions/{name}/forget": {
		summary: "End as discarded what stands of a function that nobody hosts, and forget it; needs a reason unless dry_run only counts",
		in:      client.ForgetRequest{}, out: client.Forgotten{},
		codes: []client.Code{client.Usage, client.NotFound, client.Refused, client.UnsupportedMedia, client.TooLarge},
	},
	"POST /api/v1/functions/{name}/set-aside": {
		summary: "Park events that conditions pick before they run, or end that; needs a reason unless it ends", in: client.SetAsideRequest{}, out: client.Function{},
		codes: []client.Code{client.Usage, client.NotFound, client.Conflict, client.Refused, client.Unavailable, client.UnsupportedMedia, client.TooLarge},
	},
	"POST /api/v1/functions/{name}/suspend": suspending("Make a function begin no attempt until it is resumed; needs a reason"),
	"POST /api/v1/functions/{name}/resume":  suspending("End a suspension, whatever its cause"),
	"GET /api/v1/dlq": {
		summary: "List dead letters by function and sequence", out: []client.DeadLetter{},
		query: append(slices.Clone(filters), limit, parameter{"after", "id of the last one of the page before", ""}),
		codes: []client.Code{client.Usage, client.NotFound},
	},
	"GET /api/v1/dlq/tail": {
		summary: "Follow dead letters: those that stand, then each new one, as JSON lines; an empty line is a heartbeat, and a line with a problem ends it",
		out:     client.DeadLetter{}, media: "application/x-ndjson", query: append(slices.Clone(filters), parameter{"from", "now leaves out those that stand", ""}),
		codes: []client.Code{client.Usage},
	},
	"GET /api/v1/dlq/export": {
		summary: "The events of dead letters as JSON lines, by function and sequence; an empty line is a heartbeat, and the last line is an ExportEnd",
		out:     client.Exported{}, media: "application/x-ndjson", query: filters, codes: []client.Code{client.Usage},
	},
	"GET /api/v1/dlq/{function}/{sequence}": {
		summary: "Show a dead letter with its history and its event", out: client.DeadLetterDetail{}, codes: []client.Code{client.Usage, client.NotFound},
	},
	"POST /api/v1/dlq/{function}/{sequence}/redrive": decision("Send a dead letter through its function again"),
	"POST /api/v1/dlq/{function}/{sequence}/edit":    editing(),
	"POST /api/v1/dlq/{function}/{sequence}/discard": decision("Decide that a dead letter will never be handled; needs a reason"),
	"POST /api/v1/dlq/{function}/{sequence}/release": decision("Let what is held behind a dead letter go on without it, out of order; needs a reason"),
	"GET /api/v1/lanes": {
		summary: "List the lanes that have something in them or are paused", out: []client.Lane{}, codes: []client.Code{client.Usage, client.NotFound},
		query: []parameter{
			{"function", "of this function", ""}, {"state", "in this state: blocked, paused or running", ""}, limit,
			{"after", "<function>/<lane> of the last one of the page before", ""},
		},
	},
	"GET /api/v1/lanes/{function}": {
		summary: "Show a lane with what is held in it", out: client.LaneDetail{}, query: []parameter{{"key", "the ordering key", ""}},
		codes: []client.Code{client.Usage, client.NotFound, client.Refused},
	},
	"POST /api/v1/lanes/{function}/pause":  pausing("Make a lane start nothing until it is resumed; needs a reason"),
	"POST /api/v1/lanes/{function}/resume": pausing("Let a paused lane go on"),
	"GET /api/v1/events": {
		summary: "Show an event and what became of it at each function", out: client.EventLife{}, query: naming,
		codes: []client.Code{client.Usage, client.NotFound},
	},
	"GET /api/v1/events/trace": {
		summary: "The life of an event as a list, the oldest step first", out: client.EventTrace{}, query: naming,
		codes: []client.Code{client.Usage, client.NotFound},
	},
	"GET /api/v1/events/wait": {
		summary: "Wait until every function that takes an event has an end for it, or the time is over", out: client.Outcome{},
		query: []parameter{{"sequence", "of the event in the stream", "integer"}, {"timeout", "as Go writes a duration, up to 20s, which is the default", ""}},
		codes: []client.Code{client.Usage, client.NotFound},
	},
	"GET /api/v1/audit": {
		summary: "One page of the audit, the newest entry first", out: client.AuditPage{}, codes: []client.Code{client.Usage},
		query: []parameter{
			{"function", "of this function", ""}, {"what", "of this kind, such as parked or discarded", ""}, {"by", "by this person, or part of the node", ""},
			{"event", "about this event, <function>/<sequence>", ""}, {"event_id", "about the events whose sender called them so", ""},
			{"since", "not older than this", "time"}, {"until", "not younger than this", "time"}, limit,
			{"after", "next of the page before", "integer"},
		},
	},
	"GET /api/v1/audit/{sequence}": {
		summary: "Show an entry of the audit", out: client.AuditEntry{}, codes: []client.Code{client.Usage, client.NotFound},
	},
	"GET /api/v1/account":      {summary: "The account of all functions: the sum that must hold", out: client.Account{}},
	"GET /api/v1/doctor":       {summary: "What is wrong with the node", out: client.Doctor{}},
	"GET /api/v1/backup":       {summary: "Everything that is stored, as one tar file; one at a time", media: "application/x-tar", codes: []client.Code{client.Conflict}},
	"GET /api/v1/version":      {summary: "What the node is built from", out: client.Version{}},
	"GET /api/v1/openapi.json": {summary: "This description", out: json.RawMessage{}},
}

func decision(summary string) operation {
	return operation{
		summary: summary + ". 202 says that the decision stands and is not applied yet.", in: client.Decision{}, out: client.Decided{}, also: 202,
		codes: []client.Code{client.Usage, client.NotFound, client.Conflict, client.Refused, client.UnsupportedMedia, client.TooLarge},
	}
}

func editing() operation {
	o := decision("Give a dead letter new data, data or data_base64, and send it through its function again; needs a reason")
	o.codes = append(o.codes, client.Invalid)
	return o
}

func pausing(summary string) operation {
	return operation{
		summary: summary, in: client.PauseRequest{}, out: client.Lane{},
		codes: []client.Code{client.Usage, client.NotFound, client.Conflict, client.Refused, client.UnsupportedMedia, client.TooLarge},
	}
}

func suspending(summary string) operation {
	return operation{
		summary: summary, in: client.SuspendRequest{}, out: client.Function{},
		codes: []client.Code{client.Usage, client.NotFound, client.Conflict, client.Refused, client.Unavailable, client.UnsupportedMedia, client.TooLarge},
	}
}

// requests are the types that callers send, and what must be in them. What the path says need not be said again.
var requests = map[string][]string{"Decision": {"by"}, "PauseRequest": {"by", "key"}, "SuspendRequest": {"by"}, "SetAsideRequest": {"by", "where"}, "ForgetRequest": nil}

// servedRoutes lists the routes as "GET /path", and whether each asks for a token.
func servedRoutes() map[string]bool {
	b := newFakeBackend()
	all := map[string]bool{}
	for _, r := range (&api{backend: b}).routes(newIntake(b, httpOptions{})) {
		for method, e := range map[string]endpoint{"GET": r.methods.get, "POST": r.methods.post, "OPTIONS": r.methods.options} {
			if e != nil {
				all[method+" "+strings.TrimSuffix(r.pattern, "{$}")] = !r.open && method != "OPTIONS"
			}
		}
	}
	return all
}

func TestOpenAPIDescribesEveryRouteAndNoOther(t *testing.T) {
	routes := servedRoutes()
	for name := range routes {
		if _, ok := operations[name]; !ok {
			t.Errorf("%s is served and not described: add it to `operations` in openapi_test.go, then run go test ./runtime -run OpenAPI -update", name)
		}
	}
	for name := range operations {
		if _, ok := routes[name]; !ok {
			t.Errorf("%s is described and not served: take it out of `operations` in openapi_test.go", name)
		}
	}
}

func TestOpenAPIIsWhatRoutesAndTypesSay(t *testing.T) {
	want := describe(t)
	if *updateOpenAPI {
		if err := os.WriteFile("openapi.json", want, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(openAPI), "\n")); diff != "" {
		t.Errorf("openapi.json is stale: run go test ./runtime -run OpenAPI -update (-what the code says +what the file says):\n%s", diff)
	}
	w := ask(t, newHTTPHandler(newFakeBackend(), httpOptions{}), http.MethodGet, "/api/v1/openapi.json", "")
	if !bytes.Equal(w.Body.Bytes(), openAPI) || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("got %d bytes of %s, want the file as JSON", w.Body.Len(), w.Header().Get("Content-Type"))
	}
}

// Every endpoint with a query refuses names that it does not know, and says those that it does.
func TestOpenAPINamesTheParametersThatEndpointsRead(t *testing.T) {
	h := newHTTPHandler(newFakeBackend(), httpOptions{})
	fill := strings.NewReplacer("{function}", "file-claim", "{name}", "file-claim", "{sequence}", "42")
	known := regexp.MustCompile(`known are (.*)$`)
	for name, o := range operations {
		method, path, _ := strings.Cut(name, " ")
		if method != http.MethodGet {
			continue
		}
		var want []string
		for _, p := range o.query {
			want = append(want, p.name)
		}
		w := ask(t, h, method, fill.Replace(path)+"?nobody-knows=1", "")
		var p client.Problem
		var got []string
		if json.Unmarshal(w.Body.Bytes(), &p) == nil {
			if said := known.FindStringSubmatch(p.Hint); said != nil {
				got = strings.Split(said[1], ", ")
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s: the parameters differ: change its query in `operations` (-what it reads +what is described):\n%s", name, diff)
		}
	}
}

func TestOpenAPINamesWhatARequestMustHave(t *testing.T) {
	h := newHTTPHandler(newFakeBackend(), httpOptions{})
	full := map[string]any{"by": "ana", "reason": "test", "key": "k", "where": "size>1", "end": true}
	optional := map[string]string{"key": "PauseRequest", "where": "SetAsideRequest", "end": "SetAsideRequest"} // what only one of them has
	for name, path := range map[string]string{"Decision": "/api/v1/dlq/file-claim/42/redrive", "PauseRequest": "/api/v1/lanes/file-claim/resume", "SuspendRequest": "/api/v1/functions/file-claim/resume", "SetAsideRequest": "/api/v1/functions/file-claim/set-aside"} {
		for left := range full {
			body := map[string]any{}
			for k, v := range full {
				if k != left && (optional[k] == "" || optional[k] == name) {
					body[k] = v
				}
			}
			text, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			w := ask(t, h, http.MethodPost, path, string(text), "Content-Type", "application/json")
			if refused := w.Code == client.Usage.Status(); refused != slices.Contains(requests[name], left) && (optional[left] == "" || optional[left] == name) {
				t.Errorf("%s without %s: got %d %s, want it refused exactly if it is required", name, left, w.Code, w.Body)
			}
		}
	}
}
