package runtime

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

const (
	wantsDate = `{"type":"object","required":["date"],"properties":{"date":{"type":"string","format":"date"}}}`
	wantsAny  = `{"type":"object"}`
)

func TestIngressRefusesWhatViolatesASchema(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{Types: []string{"claim.*"}, Schema: []byte(wantsDate)}, forever, parkOnce(""))
		other := w.function(functions.Function{Name: "g", Types: []string{">"}}, forever, parkOnce(""))
		l := w.start(testTiming(), []functions.Function{other, fn})
		<-l.host.started
		r := l.runtime()
		r.counted = newMetrics("f", "g")
		h := newHTTPHandler(r, httpOptions{maxEvent: 1 << 20})
		one := func(kind, id, rest string) string {
			return `{"specversion":"1.0","id":"` + id + `","source":"/s","type":"` + kind + `"` + rest + `}`
		}
		post := func(contentType, body string, header ...string) (p client.Problem, status int) {
			got := ask(t, h, http.MethodPost, "/events", body, append([]string{"Content-Type", contentType}, header...)...)
			if got.Code >= 400 {
				p = wantProblem(t, got, client.Refused)
			}
			return p, got.Code
		}
		const structured, batch = "application/cloudevents+json", "application/cloudevents-batch+json"
		first, second := 0, 1
		for name, tc := range map[string]struct {
			contentType, body string
			header            []string
			path, detail      string
			index             *int
		}{
			"wrong value":   {structured, one("claim.new", "1", `,"data":{"date":"soon"}`), nil, "/date", `event "1": function f: data does not satisfy the schema: at /date: 'soon' is not valid date`, nil},
			"missing value": {structured, one("claim.new", "1", `,"data":{}`), nil, "", "missing property 'date'", nil},
			"no data":       {structured, one("claim.new", "1", ""), nil, "", "the event has no data", nil},
			"not JSON":      {structured, one("claim.new", "1", `,"datacontenttype":"text/plain","data":"{}"`), nil, "", `datacontenttype is "text/plain", not JSON`, nil},
			"cut off, binary": {"application/json", `{"date`, []string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "/s", "ce-type", "claim.new"},
				"", "the data is not JSON: unexpected EOF", nil},
			"second of a batch": {batch, "[" + one("claim.new", "0", `,"data":{"date":"2026-01-02"}`) + "," + one("claim.new", "1", `,"data":{"date":5}`) + "]", nil, "/date", "got number, want string", &second},
			"first of a batch":  {batch, "[" + one("claim.new", "1", `,"data":{"date":5}`) + "," + one("claim.new", "2", `,"data":{"date":"2026-01-02"}`) + "]", nil, "/date", "got number, want string", &first},
		} {
			p, status := post(tc.contentType, tc.body, tc.header...)
			if status != http.StatusUnprocessableEntity || p.Function != "f" || p.Path != tc.path || !strings.Contains(p.Detail, tc.detail) || !strings.Contains(p.Hint, "was not stored") {
				t.Errorf("%s: got %d %+v, want path %q and %q", name, status, p, tc.path, tc.detail)
			}
			if (p.Index == nil) != (tc.index == nil) || p.Index != nil && *p.Index != *tc.index {
				t.Errorf("%s: got index %v, want %v", name, p.Index, tc.index)
			}
		}
		if n := l.count(streams.EventsStream); n != 0 {
			t.Errorf("got %d events stored, want none", n)
		}
		for _, sound := range []string{one("claim.new", "1", `,"data":{"date":"2026-01-02"}`), one("other", "2", `,"data":{"date":5}`), one("claim.a.b", "3", "")} {
			if _, status := post(structured, sound); status != http.StatusAccepted {
				t.Errorf("%s: got %d, want it accepted", sound, status)
			}
		}
		if a := l.settle("f"); a.Delivered != 1 || a.Parked != 0 {
			t.Errorf("got %+v, want the corrected event delivered", a)
		}
	})
}

// TestWhatViolatesASchemaByNATSIsParkedAndRedriven once a schema is deployed that allows it.
func TestWhatViolatesASchemaByNATSIsParkedAndRedriven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ok := func(context.Context, string, functions.Attempt) error { return nil }
		life := func(schema string) *life {
			l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Schema: []byte(schema)}, forever, ok)})
			<-l.host.started
			return l
		}
		const data = `{"date": "soon"}`
		l := life(wantsDate)
		l.publish("events.t", nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/s"}, "ce-type": {"t"}, "ce-datacontenttype": {"application/json"}, "ce-partitionkey": {"k"}}, []byte(data))
		if a := l.settle("f"); a.Parked != 1 || len(w.calls("")) != 0 {
			t.Errorf("got %+v and %d calls, want it parked without a call", a, len(w.calls("")))
		}
		d := l.detailOf("f", 1)
		if d.Cause != string(advisories.Undecodable) || d.Class != string(functions.ClassUndecodable) || d.Attempts != 1 || d.Key != "k" || string(d.Data) != data ||
			!strings.Contains(d.Error, "data does not satisfy the schema: at /date: 'soon' is not valid date") {
			t.Errorf("got %+v, want it undecodable with its bytes", d)
		}
		l.redrive("f", 1)
		if a := l.settle("f"); a.Parked != 1 {
			t.Errorf("with the same schema: got %+v, want it parked again", a)
		}
		l.end()
		l = life(wantsAny)
		l.redrive("f", 1)
		if a := l.settle("f"); a.Delivered != 1 || a.Parked != 0 || len(w.calls("1")) != 1 {
			t.Errorf("with the new schema: got %+v and %d calls, want it delivered", a, len(w.calls("1")))
		}
	})
}

func TestASchemaThatIsNoneKeepsANodeFromStarting(t *testing.T) {
	_, err := New(Config{DataDir: t.TempDir()}, functions.Function{
		Name: "f", Types: []string{"t"}, Schema: []byte(`{"type":"strin"}`), Handle: func(context.Context, functions.Event) error { return nil },
	})
	if err == nil || !strings.Contains(err.Error(), `function "f": schema: is no JSON Schema: at /type: `) {
		t.Errorf("got %v, want an error that names the place", err)
	}
}
