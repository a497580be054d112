package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/runtime/client"
)

func (b *fakeBackend) audit(_ context.Context, q client.AuditQuery) (client.AuditPage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.auditOf = q
	return client.AuditPage{}, nil
}

func (b *fakeBackend) auditEntry(_ context.Context, sequence uint64) (client.AuditEntry, error) {
	if sequence != 42 {
		return client.AuditEntry{}, newProblem(client.NotFound, "audit entry %d: not found", sequence)
	}
	return client.AuditEntry{Sequence: sequence, At: fakeDeadLetter().ParkedAt, What: "parked", Event: "file-claim/42"}, nil
}

func (b *fakeBackend) eventTrace(_ context.Context, ref, source string) (client.EventTrace, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ref = [2]string{ref, source}
	return client.EventTrace{ID: ref}, nil
}

// eventStates knows event 42, which is handled when b.handled has passed.
func (b *fakeBackend) eventStates(_ context.Context, sequence uint64) ([]client.EventState, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	if sequence != 42 {
		return nil, newProblem(client.NotFound, "event %d: not found in EVENTS", sequence)
	}
	states := []client.EventState{{Function: "audit-claim", State: "delivered"}, {Function: "file-claim", State: "retrying"}}
	if !time.Now().Before(b.handled) {
		states[1].State = "parked"
	}
	return states, nil
}

func (b *fakeBackend) export(_ context.Context, q deadLetterQuery, yield func(client.Exported) error) error {
	b.mu.Lock()
	b.query = q
	b.mu.Unlock()
	if q.Function == "broken" {
		return errors.New("secret disk path")
	}
	for _, e := range []client.Exported{
		{DeadLetter: fakeDeadLetter(), Event: json.RawMessage(`{"id":"<1>","data":{"b": 1,  "a":"<é>"}}`)},
		{DeadLetter: fakeDeadLetter(), NotEvent: "not a CloudEvent"},
	} {
		if err := yield(e); err != nil {
			return err
		}
	}
	return nil
}

func TestAuditQueryIsStrict(t *testing.T) {
	b := newFakeBackend()
	h := newHTTPHandler(b, httpOptions{})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := ask(t, h, http.MethodGet, "/api/v1/audit?function=f&what=parked&by=ana&event=f/7&event_id=e&since=2026-01-02T03:04:05Z&until=2026-01-02T05:04:05%2B02:00&limit=7&after=9", "")
	want := client.AuditQuery{Function: "f", What: "parked", By: "ana", Event: "f/7", EventID: "e", Since: at, Until: at, Limit: 7, After: 9}
	if diff := cmp.Diff(want, b.auditOf); diff != "" || w.Code != http.StatusOK {
		t.Errorf("got %d %s (-want +got):\n%s", w.Code, w.Body, diff)
	}
	if got, want := strings.TrimSpace(w.Body.String()), `{"entries":[],"next":0,"examined":0}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	ask(t, h, http.MethodGet, "/api/v1/audit?event=f/7", "")
	if b.auditOf.Limit != client.DefaultLimit || b.auditOf.Function != "f" {
		t.Errorf("got %+v, want the default limit, and the function of the event", b.auditOf)
	}
	for _, bad := range []string{
		"type=parked", "limit=0", "limit=1001", "after=0", "after=x", "since=yesterday", "until=1", "event=7", "event=f/x", "event=f/7&function=g",
		"function=f.*", "function=%3E", "function=a%00b", "by=a&by=b",
	} {
		wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/audit?"+bad, ""), client.Usage)
	}
	if w := ask(t, h, http.MethodGet, "/api/v1/audit/42", ""); !strings.Contains(w.Body.String(), `"at":"2026-01-02T03:04:05.000000678Z"`) || !strings.Contains(w.Body.String(), `"detail":{}`) {
		t.Errorf("got %s, want its time in UTC and no null", w.Body)
	}
	wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/audit/43", ""), client.NotFound)
	wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/audit/0", ""), client.Usage)
	wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/audit/x", ""), client.Usage)
}

func TestDeadLettersAreSelectedByTheTimeOfTheirPark(t *testing.T) {
	b := newFakeBackend()
	h := newHTTPHandler(b, httpOptions{})
	ask(t, h, http.MethodGet, "/api/v1/dlq?since=2026-01-02T03:04:05Z", "")
	if want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC); !b.query.Since.Equal(want) {
		t.Errorf("got %s, want %s", b.query.Since, want)
	}
	wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/dlq?since=2h", ""), client.Usage)
	d := fakeDeadLetter()
	for offset, want := range map[time.Duration]bool{0: true, -time.Second: true, time.Nanosecond: false} {
		if got := selects(deadLetterQuery{Since: d.ParkedAt.Add(offset)}, d); got != want {
			t.Errorf("since %s after its park: got %t, want %t", offset, got, want)
		}
	}
}

func TestTraceIsAskedForAsAnEventIs(t *testing.T) {
	b := newFakeBackend()
	h := newHTTPHandler(b, httpOptions{})
	w := ask(t, h, http.MethodGet, "/api/v1/events/trace?id=7&source=/claims", "")
	if want := [2]string{"7", "/claims"}; b.ref != want || w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"steps":[]`) {
		t.Errorf("got %d %q %s, want %q and a list", w.Code, b.ref, w.Body, want)
	}
	for _, bad := range []string{"", "id=7", "sequence=x", "ref=1"} {
		wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/events/trace?"+bad, ""), client.Usage)
	}
}

func TestWaitEndsWithTheEventOrWithTheTime(t *testing.T) {
	for name, c := range map[string]struct {
		handled time.Duration // after the start
		timeout string
		after   time.Duration // at most
		done    bool
	}{
		"handled before":        {0, "20s", 0, true},
		"handled meanwhile":     {3 * time.Second, "20s", 3*time.Second + laterLook, true},
		"not handled in time":   {time.Hour, "5s", 5 * time.Second, false},
		"without a time, 20 s":  {time.Hour, "", client.MaxWait, false},
		"no time, what is so":   {time.Hour, "0s", 0, false},
		"a moment, not a storm": {time.Hour, "10s", 10 * time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newFakeBackend()
			began := time.Now()
			b.handled = began.Add(c.handled)
			w := ask(t, newHTTPHandler(b, httpOptions{}), http.MethodGet, "/api/v1/events/wait?sequence=42&timeout="+c.timeout, "")
			var got client.Outcome
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			if got.Done != c.done || took > c.after || took < min(c.handled, c.after) || got.Sequence != 42 || len(got.Functions) != 2 {
				t.Errorf("%s: got %+v after %s, want done %t after at most %s", name, got, took, c.done, c.after)
			}
			if most := 8 + int(took/laterLook); b.looks > most {
				t.Errorf("%s: got %d looks in %s, want at most %d", name, b.looks, took, most)
			}
		})
	}
	h := newHTTPHandler(newFakeBackend(), httpOptions{})
	for _, bad := range []string{"", "sequence=0", "sequence=x", "sequence=42&timeout=1", "sequence=42&timeout=21s", "sequence=42&timeout=-1s", "id=1"} {
		wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/events/wait?"+bad, ""), client.Usage)
	}
	wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/events/wait?sequence=43", ""), client.NotFound)
}

func TestWaitEndsWhenTheServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBackend()
		b.handled = time.Now().Add(time.Hour)
		stopping := make(chan struct{})
		time.AfterFunc(2*time.Second, func() { close(stopping) })
		began := time.Now()
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), shutdownKey{}, (<-chan struct{})(stopping)), http.MethodGet, "/api/v1/events/wait?sequence=42", nil)
		w := httptest.NewRecorder()
		newHTTPHandler(b, httpOptions{}).ServeHTTP(w, r)
		if took := time.Since(began); took != 2*time.Second || !strings.Contains(w.Body.String(), `"done":false`) {
			t.Errorf("got %s after %s, want what is known after 2s", w.Body, took)
		}
	})
}

func TestExportKeepsBytesAndEndsWithItsTotal(t *testing.T) {
	b := newFakeBackend()
	server := httptest.NewServer(newHTTPHandler(b, httpOptions{}))
	defer server.Close()
	c, err := client.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []client.Exported
	err = c.Export(t.Context(), client.DeadLetterQuery{Source: "/s", Since: fakeDeadLetter().ParkedAt}, func(e client.Exported) error {
		got = append(got, e)
		return nil
	})
	if err != nil || len(got) != 2 || string(got[0].Event) != `{"id":"<1>","data":{"b": 1,  "a":"<é>"}}` || got[0].ID != "file-claim/42" || got[1].Event != nil || got[1].NotEvent == "" {
		t.Errorf("got %+v and %v, want an event byte for byte and one that is none", got, err)
	}
	if b.query.Source != "/s" || !b.query.Since.Equal(fakeDeadLetter().ParkedAt) {
		t.Errorf("got %+v, want the filters", b.query)
	}
	if err := c.Export(t.Context(), client.DeadLetterQuery{Function: "broken"}, func(client.Exported) error { return nil }); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want a problem that does not tell everything", err)
	}
	stop := errors.New("enough")
	if err := c.Export(t.Context(), client.DeadLetterQuery{}, func(client.Exported) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the reader's own error", err)
	}
	wantProblem(t, ask(t, newHTTPHandler(b, httpOptions{}), http.MethodGet, "/api/v1/dlq/export?limit=1", ""), client.Usage)
}
