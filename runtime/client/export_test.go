package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestExportThatIsCutIsAnError(t *testing.T) {
	const one = `{"id":"f/1","event":{"id":"1"}}` + "\n\n"
	for name, c := range map[string]struct {
		body string
		n    int
		err  string // "" = none
	}{
		"whole":            {one + `{"total":1}`, 1, ""},
		"empty":            {`{"total":0}` + "\n", 0, ""},
		"cut":              {one, 1, "cut"},
		"nothing":          {"", 0, "cut"},
		"one is missing":   {one + `{"total":2}`, 1, "got 1 of 2"},
		"not JSON":         {one + "<html>", 1, "not JSON"},
		"problem":          {one + `{"problem":{"detail":"the store is full","code":"unavailable"}}`, 1, "the store is full"},
		"after its end":    {`{"total":0}` + "\n" + one, 0, ""},
		"only a heartbeat": {"\n\n", 0, "cut"},
	} {
		client := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.body) })
		n := 0
		err := client.Export(t.Context(), DeadLetterQuery{}, func(Exported) error { n++; return nil })
		if n != c.n || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %d and %v, want %d and %q", name, n, err, c.n, c.err)
		}
	}
	refusing := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(NewProblem(Usage, "since x: not a time"))
	})
	var p *Problem
	if err := refusing.Export(t.Context(), DeadLetterQuery{}, nil); !errors.As(err, &p) || p.Code != Usage {
		t.Errorf("got %v, want the node's problem", err)
	}
}

func TestReasonIsAddedWithoutTouchingTheEvent(t *testing.T) {
	e := Exported{
		DeadLetter: DeadLetter{ID: "f/1", Cause: "permanent", Error: "a\nb\x1b\xff" + strings.Repeat("é", 2000), Attempts: 3},
		Event:      json.RawMessage(`{"type":"t","sidingcause":"old","data":{"b": 1,  "a":"<é>"}}`),
	}
	got, err := e.WithReason()
	if err != nil {
		t.Fatal(err)
	}
	var x map[string]any
	if err := json.Unmarshal(got, &x); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	text, _ := x[ExtensionError].(string)
	if !strings.Contains(string(got), `"data":{"b": 1,  "a":"<é>"}`) || strings.Count(string(got), ExtensionCause) != 1 ||
		x[ExtensionCause] != "permanent" || x[ExtensionAttempts] != 3.0 || x[ExtensionClass] != nil || !strings.HasPrefix(text, "a b  é") || len(text) > maxReason {
		t.Errorf("got %s, want the data as it was, and the reason once, cut and without control characters", got)
	}
	e.Event = json.RawMessage(`[]`)
	if _, err := e.WithReason(); err == nil || !strings.Contains(err.Error(), "f/1") {
		t.Errorf("got %v, want it named", err)
	}
}

func TestWaitAsksAgainUntilItIsDoneOrTheTimeIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		timeout, done time.Duration
		timeouts      []string
	}{
		"done at once":           {time.Minute, 0, []string{"20s"}},
		"done in the second":     {time.Minute, 30 * time.Second, []string{"20s", "20s"}},
		"never":                  {50 * time.Second, time.Hour, []string{"20s", "20s", "10s"}},
		"no time to wait at all": {0, time.Hour, []string{"0s"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var asked []string
			client := &Client{server: "http://node", http: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				asked = append(asked, r.URL.Query().Get("timeout"))
				part, err := time.ParseDuration(asked[len(asked)-1])
				if err != nil || r.URL.Query().Get("sequence") != "42" {
					t.Errorf("got %s, want sequence 42 and a duration", r.URL)
				}
				o := Outcome{Sequence: 42, Done: true}
				if left := c.done - time.Since(began); left > part {
					o.Done = false
					time.Sleep(part)
				} else {
					time.Sleep(max(left, 0))
				}
				body, err := json.Marshal(o)
				return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(body))), Request: r}, err
			})}}
			o, err := client.Wait(t.Context(), 42, c.timeout)
			if err != nil || o.Done != (c.done <= c.timeout) || strings.Join(asked, " ") != strings.Join(c.timeouts, " ") {
				t.Errorf("%s: got %+v, %v after asking %q, want %q", name, o, err, asked, c.timeouts)
			}
		})
	}
}

// roundTrip is a transport without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOutcomeIsWellIfAllAreDeliveredOrDiscarded(t *testing.T) {
	for _, c := range []struct {
		states     []string
		done, well bool
	}{
		{nil, true, true}, {[]string{"delivered", "discarded"}, true, true}, {[]string{"delivered", "parked"}, true, false},
		{[]string{"gone"}, true, false}, {[]string{"delivered", "held"}, false, false},
	} {
		o := Outcome{Done: c.done}
		for _, s := range c.states {
			o.Functions = append(o.Functions, EventState{State: s})
		}
		if got := o.Well(); got != c.well {
			t.Errorf("%q: got %t, want %t", c.states, got, c.well)
		}
	}
}
