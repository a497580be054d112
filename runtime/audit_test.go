package runtime

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// pages reads the audit page by page and shows each entry as `<what> <event> by <who>`.
func (l *life) pages(q client.AuditQuery) (shown []string, pages int) {
	l.w.t.Helper()
	for {
		page, err := l.runtime().audit(l.w.t.Context(), q)
		if err != nil {
			l.w.t.Fatalf("audit: %v", err)
		}
		pages++
		for _, e := range page.Entries {
			shown = append(shown, fmt.Sprintf("%s %s by %s", e.What, e.Event, e.By))
		}
		if q.After = page.Next; q.After == 0 {
			return shown, pages
		}
	}
}

func TestTheAuditIsFilteredAndPaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{
			w.function(functions.Function{Concurrency: 1}, always, func(context.Context, string, functions.Attempt) error { return functions.Park(errNo) }),
		})
		<-l.host.started
		l.send(3)
		l.settle("f")
		parked := time.Now().UTC()
		time.Sleep(time.Hour)
		for i, by := range []string{"anna", "ben"} {
			d := client.Decision{Function: "f", Sequence: uint64(i + 1), Action: client.Discard, Reason: "a test", By: by}
			if _, err := l.host.decide(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.store.Audit(t.Context(), streams.AuditEntry{Action: "paused", Function: "g", By: "anna", At: time.Now(), Detail: map[string]string{"key": "k"}}); err != nil {
			t.Fatal(err)
		}
		park := func(n int) string { return fmt.Sprintf("parked f/%d by attempt", n) }
		all := []string{"paused  by anna", "discarded f/2 by ben", "discarded f/1 by anna", park(3), park(2), park(1)}
		for _, c := range []struct {
			name  string
			q     client.AuditQuery
			want  []string
			pages int
		}{
			{"all", client.AuditQuery{Limit: 100}, all, 1},
			{"in pages", client.AuditQuery{Limit: 4}, all, 2},
			{"in pages that come out even", client.AuditQuery{Limit: 3}, all, 2},
			{"of a function", client.AuditQuery{Function: "g", Limit: 9}, all[:1], 1},
			{"of nobody", client.AuditQuery{Function: "h", Limit: 9}, nil, 1},
			{"of a kind", client.AuditQuery{What: "parked", Limit: 9}, all[3:], 1},
			{"by a person", client.AuditQuery{By: "anna", Limit: 9}, []string{all[0], all[2]}, 1},
			{"about an event", client.AuditQuery{Function: "f", Event: "f/2", Limit: 9}, []string{all[1], all[4]}, 1},
			{"by the sender's id", client.AuditQuery{EventID: "1", Limit: 9}, []string{all[2], all[5]}, 1},
			{"since", client.AuditQuery{Since: parked.Add(time.Minute), Limit: 9}, all[:3], 1},
			{"until", client.AuditQuery{Until: parked, Limit: 9}, all[3:], 1},
		} {
			got, pages := l.pages(c.q)
			if diff := cmp.Diff(c.want, got); diff != "" || pages != c.pages {
				t.Errorf("%s: got %d pages, want %d (-want +got):\n%s", c.name, pages, c.pages, diff)
			}
		}
		page, err := l.runtime().audit(t.Context(), client.AuditQuery{Limit: 1, Function: "f"})
		if err != nil {
			t.Fatal(err)
		}
		one, err := l.runtime().auditEntry(t.Context(), page.Entries[0].Sequence)
		if diff := cmp.Diff(page.Entries[0], one); diff != "" || err != nil {
			t.Errorf("one entry: got %v (-in the list +alone):\n%s", err, diff)
		}
		if one.EventID != "2" || one.Source != "test" || one.Type != "t" || one.Reason != "a test" {
			t.Errorf("got %+v, want the names of its event", one)
		}
		_, err = l.runtime().auditEntry(t.Context(), 1000)
		wantRefusal(t, err, client.NotFound, "audit entry 1000", "audit ls")
	})
}

func TestWhatIsRareInTheAuditIsPagesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, always, scripted)})
		<-l.host.started
		if err := l.store.Audit(t.Context(), streams.AuditEntry{Action: "discarded", Function: "f", Sequence: 1, By: "anna", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		for i := range maxExamined + 10 {
			if _, err := l.store.JetStream().PublishAsync(streams.AuditSubject("f"), fmt.Appendf(nil, `{"sequence":%d}`, i)); err != nil {
				t.Fatal(err)
			}
		}
		<-l.store.JetStream().PublishAsyncComplete()
		got, pages := l.pages(client.AuditQuery{By: "anna", Limit: 5})
		if !slices.Equal(got, []string{"discarded f/1 by anna"}) || pages != 2 {
			t.Errorf("got %q in %d pages, want the one in 2", got, pages)
		}
	})
}
