package streams_test

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/streams"
)

func notice(id, function string, audit uint64) streams.Notice {
	return streams.Notice{ID: id, Kind: "suspended", Function: function, At: time.Now().UTC(), Audit: audit, Data: json.RawMessage(`{"text":"x"}`)}
}

func tellOf(t *testing.T, s *streams.Store, n streams.Notice) {
	t.Helper()
	if err := s.Tell(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

func TestANoticeIsACloudEventThatReadsBack(t *testing.T) {
	s := openStore(t)
	for _, function := range []string{"f", ""} {
		want := notice("id-of-"+function, function, 7)
		tellOf(t, s, want)
		tellOf(t, s, want) // again, as after a lost answer
		m, err := s.Last(t.Context(), streams.OpsStream, streams.OpsSubject(function))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := streams.ReadNotice(m.Subject, m.Header, m.Data)
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("%v, notice (-want +got):\n%s", ok, diff)
		}
		stored, err := streams.Decode(m.Header, m.Data)
		if err != nil {
			t.Fatalf("got %v, want a CloudEvent", err)
		}
		structured, err := got.Structured()
		if err != nil {
			t.Fatal(err)
		}
		var e event.Event
		if err := json.Unmarshal(structured, &e); err != nil || e.Validate() != nil {
			t.Fatalf("got %s, %v, want a CloudEvent", structured, err)
		}
		if diff := cmp.Diff(stored.String(), e.String()); diff != "" {
			t.Errorf("structured (-stored +structured):\n%s", diff)
		}
	}
	if info, err := s.Source(t.Context(), streams.OpsStream); err != nil || info.Last != 2 {
		t.Errorf("got %d messages, %v, want each notice once", info.Last, err)
	}
}

func TestWhatIsNoNoticeIsNotReadAsOne(t *testing.T) {
	good := nats.Header{"ce-id": {"1"}, "ce-type": {"siding.x"}, "ce-time": {"2026-12-01T02:10:00Z"}, "ce-sidingaudit": {"7"}}
	if _, ok := streams.ReadNotice("siding.ops.f", good, []byte("{}")); !ok {
		t.Fatal("got a notice refused")
	}
	for name, value := range map[string]string{"ce-id": "", "ce-type": "other.x", "ce-time": "now", "ce-sidingaudit": "-1"} {
		bad := nats.Header{}
		for k, v := range good {
			bad[k] = slices.Clone(v)
		}
		bad.Set(name, value)
		bad[name] = []string{value}
		if n, ok := streams.ReadNotice("siding.ops.f", bad, []byte("{}")); ok {
			t.Errorf("%s %q: got %+v", name, value, n)
		}
	}
	for _, data := range []string{"", "x"} {
		if _, ok := streams.ReadNotice("siding.ops.f", good, []byte(data)); ok {
			t.Errorf("data %q: got a notice", data)
		}
	}
	if _, ok := streams.ReadNotice("siding.ops.f", nil, []byte(`{"stream":"EVENTS"}`)); ok {
		t.Error("got a bare answer of the server read as a notice")
	}
}

func TestWhatHasBeenToldIsRememberedAndIsNoFunction(t *testing.T) {
	s := openStore(t)
	if _, ok, err := s.Told(t.Context()); ok || err != nil {
		t.Errorf("got %v, %v, want nothing told yet", ok, err)
	}
	if function, node, err := s.LastTold(t.Context()); function.ID != "" || node.ID != "" || err != nil {
		t.Errorf("got %+v, %+v, %v, want nothing told yet", function, node, err)
	}
	if err := s.SetTold(t.Context(), 42); err != nil {
		t.Fatal(err)
	}
	tellOf(t, s, notice("1", "f", 40))
	tellOf(t, s, notice("2", "g", 41))
	tellOf(t, s, notice("3", "", 42))
	s = reopen(t, s)
	if got, ok, err := s.Told(t.Context()); got != 42 || !ok || err != nil {
		t.Errorf("got %d, %v, %v, want 42", got, ok, err)
	}
	if function, node, err := s.LastTold(t.Context()); function.Audit != 41 || node.Audit != 42 || err != nil {
		t.Errorf("got %+v, %+v, %v, want the newest of each", function, node, err)
	}
	if names, err := s.DeclaredNames(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("got functions %q, %v, want none", names, err)
	}
}

func TestTheWebhookBeginsWithWhatIsNewAndGetsOneNoticeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		tellOf(t, s, notice("old", "f", 1))
		c, err := s.NoticeConsumer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tellOf(t, s, notice("first", "f", 2))
		tellOf(t, s, notice("second", "", 3))
		ms := take(t, c, 1)
		if got := ms[0].Headers().Get("ce-id"); got != "first" {
			t.Errorf("got %s, want the first one after the beginning", got)
		}
		batch, err := c.FetchNoWait(1)
		if err != nil {
			t.Fatal(err)
		}
		for range batch.Messages() { // to its end: a request that is still open would get what the next one asks for
			t.Error("got another one beside it")
		}
		// The next process gets it at once.
		begun := time.Now()
		if c, err = s.NoticeConsumer(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := take(t, c, 1)
		if got := again[0].Headers().Get("ce-id"); got != "first" || time.Since(begun) > 0 {
			t.Errorf("got %s after %s, want the one that was not ended, at once", got, time.Since(begun))
		}
		if err := s.AckNotice(t.Context(), again[0]); err != nil {
			t.Fatal(err)
		}
		if got := take(t, c, 1)[0].Headers().Get("ce-id"); got != "second" {
			t.Errorf("got %s, want the next one", got)
		}
		for range 2 {
			if err := s.DropNoticeConsumer(t.Context()); err != nil {
				t.Errorf("drop: %v", err)
			}
		}
	})
}
