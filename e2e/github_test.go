package e2e_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	cloudevents "github.com/cloudevents/sdk-go/v2"
)

// githubEvents reads the real events, and takes the content type from some of them so that its absence travels too.
func githubEvents(t *testing.T) []sample {
	t.Helper()
	file, err := os.Open("testdata/github-events.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	var all []sample
	for lines.Scan() {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(lines.Bytes(), &members); err != nil {
			t.Fatal(err)
		}
		s := sample{attributes: map[string]string{}, data: members["data"]}
		for name, raw := range members {
			var value string
			if name == "data" || name == "specversion" || len(all)%10 == 3 && name == "datacontenttype" {
				continue
			}
			if err := json.Unmarshal(raw, &value); err != nil {
				t.Fatal(err)
			}
			s.attributes[name] = value
		}
		// What the payloads have in plenty, these attributes have only since this line: text that headers cannot carry as it is.
		s.attributes["note"] = `naïve "100 %" — ` + s.attributes["subject"]
		all = append(all, s)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(all) != 329 {
		t.Fatalf("got %d real events, want 329", len(all))
	}
	return all
}

// A way is one way in which events reach a node.
type way struct {
	name string
	send func(t *testing.T, p *process, events []sample)
	// json says that the JSON format was used, in which data without a content type is JSON.
	json bool
}

func ways(t *testing.T, client *http.Client) []way {
	accepted := func(t *testing.T, got answer, err error, n int) {
		t.Helper()
		if err != nil || got.status != http.StatusAccepted {
			t.Fatalf("got %d %s (%v), want 202", got.status, got.body, err)
		}
		if stored := strings.Count(string(got.body), `"duplicate":false`); stored != n {
			t.Fatalf("got %s, want %d events stored", got.body, n)
		}
	}
	return []way{
		{name: "binary", send: func(t *testing.T, p *process, events []sample) {
			for _, s := range events {
				got, err := post(t.Context(), client, p.url, s.headers(true), s.data)
				accepted(t, got, err, 1)
			}
		}},
		{name: "structured", json: true, send: func(t *testing.T, p *process, events []sample) {
			header := map[string][]string{"Content-Type": {"application/cloudevents+json; charset=utf-8"}}
			for _, s := range events {
				got, err := post(t.Context(), client, p.url, header, s.structured(t))
				accepted(t, got, err, 1)
			}
		}},
		{name: "batch", json: true, send: func(t *testing.T, p *process, events []sample) {
			header := map[string][]string{"Content-Type": {"application/cloudevents-batch+json"}}
			for chunk := range slices.Chunk(events, 50) {
				var all []json.RawMessage
				for _, s := range chunk {
					all = append(all, s.structured(t))
				}
				body := []byte{'['}
				for i, one := range all {
					if i > 0 {
						body = append(body, ',')
					}
					body = append(body, one...)
				}
				got, err := post(t.Context(), client, p.url, header, append(body, ']'))
				accepted(t, got, err, len(chunk))
			}
		}},
		{name: "nats-binary", send: func(t *testing.T, p *process, events []sample) {
			publish(t, p, events, func(s sample) *nats.Msg { return &nats.Msg{Header: s.headers(false), Data: s.data} })
		}},
		{name: "nats-structured", json: true, send: func(t *testing.T, p *process, events []sample) {
			publish(t, p, events, func(s sample) *nats.Msg {
				return &nats.Msg{Header: nats.Header{"Content-Type": {"application/cloudevents+json"}}, Data: s.structured(t)}
			})
		}},
		{name: "sdk", send: sendWithSDK},
	}
}

// publish stores events as any NATS client may: the subject is the type.
func publish(t *testing.T, p *process, events []sample, render func(sample) *nats.Msg) {
	t.Helper()
	conn, err := nats.Connect(p.nats)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, s := range events {
		m := render(s)
		m.Subject = "events." + s.attributes["type"]
		ack, err := conn.RequestMsgWithContext(t.Context(), m)
		if err != nil || !strings.Contains(string(ack.Data), `"stream":"EVENTS"`) {
			t.Fatalf("event %s: got %v (%v), want the store's ack", s.attributes["id"], ack, err)
		}
	}
}

// sendWithSDK sends as a program does that knows CloudEvents and nothing of Siding.
func sendWithSDK(t *testing.T, p *process, events []sample) {
	t.Helper()
	protocol, err := cloudevents.NewHTTP(cloudevents.WithTarget(p.url + "/events"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := cloudevents.NewClient(protocol)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range events {
		e := cloudevents.NewEvent()
		for name, value := range s.attributes {
			switch name {
			case "id":
				e.SetID(value)
			case "source":
				e.SetSource(value)
			case "type":
				e.SetType(value)
			case "subject":
				e.SetSubject(value)
			case "datacontenttype":
				e.SetDataContentType(value)
			default:
				e.SetExtension(name, value)
			}
		}
		e.DataEncoded = s.data
		if result := client.Send(t.Context(), e); !cloudevents.IsACK(result) {
			t.Fatalf("event %s: got %v, want it acknowledged", e.ID(), result)
		}
	}
}

func TestRealEventsReachEveryFunctionOnceAndUnchangedWhicheverWayTheyCome(t *testing.T) {
	const parkedType = "com.github.pull_request.labeled"
	program := newProgram(t, nil,
		function{Name: "all", Types: []string{"com.github.>"}},
		function{Name: "issues", Types: []string{"com.github.issues.*"}},
		function{Name: "pulls", Types: []string{"com.github.pull_request.>"}, OrderBy: "unordered", Do: "park-type=" + parkedType},
	)
	subscribed := map[string]func(kind string) bool{
		"all":    func(string) bool { return true },
		"issues": func(kind string) bool { return strings.HasPrefix(kind, "com.github.issues.") },
		"pulls":  func(kind string) bool { return strings.HasPrefix(kind, "com.github.pull_request.") },
	}
	p := program.start(t)
	client := newHTTPClient(t)
	events := githubEvents(t)
	type wanted struct {
		attributes map[string]string
		hash       string
	}
	want := map[string]wanted{} // by id
	for _, w := range ways(t, client) {
		sent := make([]sample, len(events))
		for i, s := range events {
			sent[i] = s.with(s.attributes["id"] + "-" + w.name)
			attributes := maps.Clone(sent[i].attributes)
			attributes["specversion"] = "1.0"
			if w.json && attributes["datacontenttype"] == "" {
				attributes["datacontenttype"] = "application/json"
			}
			want[attributes["id"]] = wanted{attributes, s.hash()}
		}
		w.send(t, p, sent)
	}
	a := rest(t, p, "all", len(want))

	handled := map[string]map[string]call{} // begins by function and id
	outcomes := map[string]map[string]int{} // by function and outcome
	for _, c := range program.read(t) {
		if handled[c.Function] == nil {
			handled[c.Function], outcomes[c.Function] = map[string]call{}, map[string]int{}
		}
		if c.What == "end" {
			outcomes[c.Function][c.Outcome]++
			continue
		}
		if before, twice := handled[c.Function][c.ID]; twice {
			t.Errorf("%s: event %s: got attempt %d after attempt %d, want one", c.Function, c.ID, c.Attempt, before.Attempt)
		}
		handled[c.Function][c.ID] = c
		if diff := cmp.Diff(want[c.ID], wanted{c.Attributes, c.SHA256}, cmp.AllowUnexported(wanted{})); diff != "" {
			t.Errorf("%s: event %s has changed on its way (-sent +handled):\n%s", c.Function, c.ID, diff)
		}
	}
	for name, subscribes := range subscribed {
		expected, parked := 0, 0
		for id, w := range want {
			if !subscribes(w.attributes["type"]) {
				continue
			}
			expected++
			if _, ok := handled[name][id]; !ok {
				t.Errorf("%s: event %s was not handled", name, id)
			}
			if name == "pulls" && w.attributes["type"] == parkedType {
				parked++
			}
		}
		if len(handled[name]) != expected {
			t.Errorf("%s: got %d events handled, want %d", name, len(handled[name]), expected)
		}
		got := a.of(name)
		if got.Accepted != expected || got.Delivered != outcomes[name]["done"] || got.Delivered != expected-parked || got.Parked != parked || got.Parked != outcomes[name]["park"] {
			t.Errorf("%s: got the account %+v, want %d delivered and %d parked as in the calls %v", name, got, expected-parked, parked, outcomes[name])
		}
		t.Attr("events-of-"+name, strconv.Itoa(expected))
	}

	letters := ask[[]deadLetter](t, p, "dlq", "ls", "--function", "pulls")
	for _, letter := range letters {
		if letter.Type != parkedType || letter.Cause != "permanent" {
			t.Errorf("got the dead letter %+v, want one of %s", letter, parkedType)
		}
		shown := ask[deadLetterDetail](t, p, "dlq", "show", letter.ID)
		w := want[letter.EventID]
		if diff := cmp.Diff(w.attributes, shown.Attributes); diff != "" {
			t.Errorf("dead letter %s has other attributes than its event (-event +dead letter):\n%s", letter.ID, diff)
		}
	}
	if want := outcomes["pulls"]["park"]; len(letters) != want {
		t.Errorf("got %d dead letters, want %d", len(letters), want)
	}
	if got := p.cli(t, "account"); got.code != 0 {
		t.Errorf("siding account: got exit code %d, want 0: %s", got.code, fmt.Sprint(got))
	}
}

// deadLetter is what `siding dlq ls --json` prints, as far as these tests look at it.
type deadLetter struct {
	ID, Function, Type, Key, Cause, Class, Code, Error, Version string
	EventID                                                     string `json:"event_id"`
	ParkedBy                                                    string `json:"parked_by"`
	TraceID                                                     string `json:"trace_id"`
	Sequence                                                    uint64
	Attempts, Cycle                                             int
}

// deadLetterDetail is what `siding dlq show --json` adds.
type deadLetterDetail struct {
	deadLetter
	Attributes map[string]string
	History    []struct {
		Kind, Class, Error string
		Attempt, Cycle     int
		Charged            bool
	}
	Stream, Subject, Stack string
	Truncated              bool
	Data                   json.RawMessage
	DataBase64             []byte `json:"data_base64"`
}
