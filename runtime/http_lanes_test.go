package runtime

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/runtime/client"
)

// fakeLane is the one lane of the fake node, whatever key it is asked for.
func fakeLane(function, key string) client.Lane {
	at := time.Date(2026, 1, 2, 5, 4, 5, 678, time.FixedZone("east", 2*3600))
	return client.Lane{
		Function: function, Key: key, Lane: "l", State: client.LanePaused, Blocker: &client.LaneEvent{ID: function + "/42", Sequence: 42, State: "parked"},
		Held: 2, Events: 3, HeldSince: at, PausedBy: "ana", PausedAt: at, PauseReason: "audit",
	}
}

func (b *fakeBackend) lanes(_ context.Context, q client.LaneQuery) ([]client.Lane, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lanesOf = q
	if q.Function == "" {
		return nil, nil
	}
	return []client.Lane{fakeLane(q.Function, "k")}, nil
}

func (b *fakeBackend) lane(_ context.Context, function, key string) (client.LaneDetail, error) {
	return client.LaneDetail{Lane: fakeLane(function, key)}, nil
}

func (b *fakeBackend) pauseLane(_ context.Context, p client.PauseRequest) (client.Lane, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = append(b.paused, p)
	return fakeLane(p.Function, p.Key), nil
}

func (b *fakeBackend) resumeLane(ctx context.Context, p client.PauseRequest) (client.Lane, error) {
	return b.pauseLane(ctx, p)
}

func TestLaneIsShownInUTCWithAllItsFields(t *testing.T) {
	h := newHTTPHandler(newFakeBackend(), httpOptions{})
	const lane = `"function":"f","key":"k","lane":"l","state":"paused","blocker":{"id":"f/42","sequence":42,"state":"parked"},"held":2,"events":3,` +
		`"held_since":"2026-01-02T03:04:05.000000678Z","paused_by":"ana","paused_at":"2026-01-02T03:04:05.000000678Z","pause_reason":"audit"`
	for target, want := range map[string]string{
		"/api/v1/lanes?function=f": `[{` + lane + `}]`,
		"/api/v1/lanes/f?key=k":    `{` + lane + `,"tail":[]}`,
	} {
		w := ask(t, h, http.MethodGet, target, "")
		if got := strings.TrimSpace(w.Body.String()); got != want || w.Code != http.StatusOK {
			t.Errorf("%s: got %d %s, want %s", target, w.Code, got, want)
		}
	}
	bare, err := json.Marshal(client.Lane{Function: "f", Key: "k", Lane: "k", State: client.LaneRunning, Events: 1}.UTC())
	if want := `{"function":"f","key":"k","lane":"k","state":"running","held":0,"events":1}`; string(bare) != want || err != nil {
		t.Errorf("got %s, %v, want no fields of a pause or a blocker that do not exist: %s", bare, err, want)
	}
}

func TestLaneQueryIsStrict(t *testing.T) {
	b := newFakeBackend()
	h := newHTTPHandler(b, httpOptions{})
	w := ask(t, h, http.MethodGet, "/api/v1/lanes?function=f&state=blocked&limit=7&after=f/a%2Fb", "")
	want := client.LaneQuery{Function: "f", State: "blocked", Limit: 7, After: "f/a/b"}
	if diff := cmp.Diff(want, b.lanesOf); diff != "" || w.Code != http.StatusOK {
		t.Errorf("got %d (-want +got):\n%s", w.Code, diff)
	}
	ask(t, h, http.MethodGet, "/api/v1/lanes", "")
	if b.lanesOf.Limit != client.DefaultLimit {
		t.Errorf("got limit %d, want %d", b.lanesOf.Limit, client.DefaultLimit)
	}
	for _, bad := range []string{"funktion=f", "state=parked", "state=Blocked", "limit=0", "limit=1001", "after=f", "after=/a", "after=f/", "key=k"} {
		if p := wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/lanes?"+bad, ""), client.Usage); p.Hint == "" && !strings.HasPrefix(bad, "limit") {
			t.Errorf("%s: got %+v, want a hint", bad, p)
		}
	}
	for _, bad := range []string{"", "key=", "key=a&key=b", "key=a&state=blocked", "key=" + strings.Repeat("x", 32<<10+1)} {
		wantProblem(t, ask(t, h, http.MethodGet, "/api/v1/lanes/f?"+bad, ""), client.Usage)
	}
}

func TestPauseIsCheckedBeforeItIsMade(t *testing.T) {
	b := newFakeBackend()
	h := newHTTPHandler(b, httpOptions{})
	const asJSON = "application/json"
	for _, c := range []struct {
		verb, contentType, body string
		code                    client.Code
	}{
		{"pause", asJSON, `{"key":"policy 7/€","reason":"audit","by":"ana"}`, ""},
		{"resume", asJSON, `{"function":"f","key":"k","by":"ana"}`, ""},
		{"pause", asJSON, `{"key":"k","by":"ana"}`, client.Usage},
		{"pause", asJSON, `{"key":"k","reason":" ","by":"ana"}`, client.Usage},
		{"pause", asJSON, `{"key":"","reason":"audit","by":"ana"}`, client.Usage},
		{"resume", asJSON, `{"by":"ana"}`, client.Usage},
		{"resume", asJSON, `{"key":"k","by":" "}`, client.Usage},
		{"resume", asJSON, `{"key":"k","by":"ana","function":"g"}`, client.Usage},
		{"resume", asJSON, `{"key":"k","by":"ana","until":"noon"}`, client.Usage},
		{"resume", asJSON, ``, client.Usage},
		{"pause", asJSON, `{"key":"k","by":"ana","reason":"` + strings.Repeat("x", 1025) + `"}`, client.TooLarge},
		{"resume", asJSON, `{"key":"k","by":"` + strings.Repeat("x", 1025) + `"}`, client.TooLarge},
		{"resume", asJSON, `{"key":"` + strings.Repeat("x", 65<<10) + `"}`, client.TooLarge},
		{"resume", "text/plain", `{"key":"k","by":"ana"}`, client.UnsupportedMedia},
	} {
		w := ask(t, h, http.MethodPost, "/api/v1/lanes/f/"+c.verb, c.body, "Content-Type", c.contentType)
		if c.code != "" {
			wantProblem(t, w, c.code)
		} else if w.Code != http.StatusOK {
			t.Errorf("%s %s: got %d %s, want 200", c.verb, c.body, w.Code, w.Body)
		}
	}
	want := []client.PauseRequest{{Function: "f", Key: "policy 7/€", Reason: "audit", By: "ana"}, {Function: "f", Key: "k", By: "ana"}}
	if diff := cmp.Diff(want, b.paused); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
}

func TestClientNamesALaneByAnyKey(t *testing.T) {
	b := newFakeBackend()
	server := httptest.NewServer(newHTTPHandler(b, httpOptions{}))
	defer server.Close()
	c, err := client.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"policy-7", "a/b?c&d=e#f g+h%", "€\n", "_"} {
		l, err := c.Lane(t.Context(), "f", key)
		if err != nil || l.Key != key || l.Function != "f" || l.Tail == nil {
			t.Errorf("%q: got %+v, %v", key, l, err)
		}
		if paused, err := c.PauseLane(t.Context(), client.PauseRequest{Function: "f", Key: key, Reason: "audit", By: "ana"}); err != nil || paused.Key != key {
			t.Errorf("%q: got paused %+v, %v", key, paused, err)
		}
		if resumed, err := c.ResumeLane(t.Context(), client.PauseRequest{Function: "f", Key: key, By: "ana"}); err != nil || resumed.Key != key {
			t.Errorf("%q: got resumed %+v, %v", key, resumed, err)
		}
	}
	list, err := c.Lanes(t.Context(), client.LaneQuery{Function: "f", State: client.LaneBlocked, Limit: 7, After: "f/a/b"})
	if diff := cmp.Diff(client.LaneQuery{Function: "f", State: "blocked", Limit: 7, After: "f/a/b"}, b.lanesOf); diff != "" || err != nil || len(list) != 1 {
		t.Errorf("got %+v, %v, query (-want +got):\n%s", list, err, diff)
	}
	for _, d := range []client.Decision{{Action: "free"}, {Action: client.Redrive, Tail: true}, {Action: client.Release, Tail: true}, {Action: client.Redrive, ForgetSteps: true}} {
		if got, err := c.Decide(t.Context(), d); err == nil {
			t.Errorf("%+v: got %+v, want it refused before it is sent", d, got)
		}
	}
}
