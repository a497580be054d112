package runtime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// audited lists the audit entries of a function about one event, as `<action> by <who>`.
func (l *life) audited(function string, sequence uint64) []string {
	l.w.t.Helper()
	var all []string
	for next := uint64(1); ; {
		m, err := l.store.Next(context.Background(), streams.AuditStream, next, streams.AuditSubject(function))
		if errors.Is(err, streams.ErrNotFound) {
			return all
		}
		if err != nil {
			l.w.t.Fatalf("audit: %v", err)
		}
		next = m.Sequence + 1
		e, err := streams.Decode(m.Header, m.Data)
		if err != nil {
			l.w.t.Fatalf("audit %d: %v", m.Sequence, err)
		}
		var entry struct {
			Sequence uint64 `json:"sequence"`
			By       string `json:"by"`
		}
		if err := e.DataAs(&entry); err != nil {
			l.w.t.Fatalf("audit %d: %v", m.Sequence, err)
		}
		if entry.Sequence == sequence {
			all = append(all, strings.TrimPrefix(e.Type(), "siding.")+" by "+entry.By)
		}
	}
}

// wantRefusal checks a refusal: its code, and what it says.
func wantRefusal(t *testing.T, err error, code client.Code, says ...string) {
	t.Helper()
	var p *client.Problem
	if !errors.As(err, &p) || p.Code != code {
		t.Errorf("got %v, want a problem of code %s", err, code)
		return
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) && !strings.Contains(p.Hint, text) {
			t.Errorf("got %q with hint %q, want it to say %q", err, p.Hint, text)
		}
	}
}

func TestASecondDecisionIsRefusedWhileTheFirstWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, always, scripted)})
		<-l.host.started
		l.sendIDs("park-1")
		l.settle("f")
		lift := l.limit(streams.AuditStream) // the first one cannot be applied
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first, err := l.host.decide(ctx, client.Decision{Function: "f", Sequence: 1, Action: client.Discard, Reason: "no", By: "anna"})
		if err != nil || first.Applied {
			t.Fatalf("first: got %+v, %v; want it stated and waiting", first, err)
		}
		_, err = l.host.decide(t.Context(), client.Decision{Function: "f", Sequence: 1, Action: client.Redrive, By: "ben"})
		wantRefusal(t, err, client.Conflict, "f/1", "discard", "anna", first.At.Format(time.RFC3339))
		lift()
		applied := l.await("f", "the first is applied", func(a client.FunctionAccount) bool { return a.Discarded == 1 })
		l.wantAccount("applied", applied, client.FunctionAccount{Accepted: 1, Discarded: 1})
		if got := l.audited("f", 1); !slices.Equal(got, []string{"parked by attempt", "discarded by anna"}) {
			t.Errorf("audit: got %q, want what anna decided and nothing of ben", got)
		}
		_, err = l.host.decide(t.Context(), client.Decision{Function: "f", Sequence: 1, Action: client.Redrive, By: "ben"})
		wantRefusal(t, err, client.Conflict, "f/1", "discarded by anna at "+first.At.Format(time.RFC3339))
	})
}

// TestAStaleDecisionIsAConflictAndRecorded states decisions about a cycle that a dead letter does not stand at, by the API and behind it.
func TestAStaleDecisionIsAConflictAndRecorded(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			fn := w.function(functions.Function{}, always, func(context.Context, string, functions.Attempt) error { return functions.Park(errNo) })
			l := w.start(testTiming(), []functions.Function{fn})
			<-l.host.started
			l.sendIDs("park-1")
			l.settle("f")
			l.decide(client.Redrive, "f", 1)
			l.settle("f") // parked again, in cycle 1
			if !hosted {
				l.end()
				l = w.start(testTiming(), []functions.Function{w.function(functions.Function{Name: "g"}, always, scripted)})
				<-l.host.started
			}
			before := l.audited("f", 1)
			for _, cycle := range []int{0, 2} {
				_, err := l.host.decide(t.Context(), client.Decision{Function: "f", Sequence: 1, Action: client.Discard, Cycle: &cycle, By: "anna"})
				wantRefusal(t, err, client.Conflict, "f/1", "cycle 1")
			}
			time.Sleep(time.Second)
			ref, err := l.store.Find(t.Context(), streams.InDeadLetters, "f", 1)
			if err == nil {
				_, err = l.store.Decide(t.Context(), ref, streams.Decision{Action: streams.ActionDiscard, Cycle: 0, By: "ben", At: time.Now().UTC()})
			}
			if err != nil {
				t.Fatalf("decide: %v", err)
			}
			time.Sleep(2 * time.Minute)
			if got, want := l.audited("f", 1)[len(before):], []string{"refused by anna", "refused by anna", "refused by ben"}; !slices.Equal(got, want) {
				t.Errorf("hosted %v: audit: got %q, want %q", hosted, got, want)
			}
			if refs, err := l.store.Standing(t.Context(), streams.InDecisions, "f"); err != nil || len(refs) != 0 {
				t.Errorf("hosted %v: got decisions %v, %v; want none left", hosted, refs, err)
			}
			l.wantAccount("afterwards", l.account("f"), client.FunctionAccount{Accepted: 1, Parked: 1})
		})
	}
}

// TestOrphansAreEndedWithoutTheirHandler: what JetStream said about a function that is no longer compiled in still counts, and a person
// can end what stands.
func TestOrphansAreEndedWithoutTheirHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g := func() []functions.Function {
			return []functions.Function{w.function(functions.Function{Name: "g", Types: []string{"u"}}, always, scripted)}
		}
		timing := testTiming()
		timing.deaf, timing.advisory, timing.sweep = true, 0, 0
		l := w.start(timing, append(g(), w.function(functions.Function{Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}}, always, scripted)))
		<-l.host.started
		l.sendIDs("never-1", "never-2", "park-3", "done-4", "park-5")
		time.Sleep(time.Minute)
		l.wantAccount("exhausted and not parked", l.account("f"), client.FunctionAccount{Accepted: 5, Delivered: 1, Retrying: 2, Parked: 2})
		l.end()

		l = w.start(testTiming(), g())
		<-l.host.started
		time.Sleep(10 * time.Second)
		l.wantAccount("parked without an owner", l.account("f"), client.FunctionAccount{Accepted: 5, Delivered: 1, Parked: 4})
		for id, m := range l.letters("f") {
			r, err := advisories.ReadReport(m)
			if strings.HasPrefix(id, "never") && (err != nil || r.Cause != advisories.Exhausted || r.ParkedBy != advisories.ByAdvisory || r.Attempts != 2) {
				t.Errorf("event %s: got report %+v, %v; want exhausted after 2 attempts, by advisory", id, r, err)
			}
		}
		_, err := l.host.decide(t.Context(), client.Decision{Function: "f", Sequence: 1, Action: client.Redrive, By: "anna"})
		wantRefusal(t, err, client.Refused, "f", "not hosted")
		var p *client.Problem
		if errors.As(err, &p) && p.Hint == "" {
			t.Errorf("got %v without a hint, want one", err)
		}
		l.decide(client.Discard, "f", 1)
		ref, err := l.store.Find(t.Context(), streams.InDeadLetters, "f", 3)
		if err == nil {
			_, err = l.store.Decide(t.Context(), ref, streams.Decision{Action: streams.ActionDiscard, By: "ben", At: time.Now().UTC()})
		}
		if err != nil {
			t.Fatalf("decide: %v", err)
		}
		time.Sleep(2 * time.Minute) // nobody waits for this one
		l.wantAccount("after two discards", l.account("f"), client.FunctionAccount{Accepted: 5, Delivered: 1, Parked: 2, Discarded: 2})
		if got := l.audited("f", 3); !slices.Equal(got, []string{"parked by attempt", "discarded by ben"}) {
			t.Errorf("audit of f/3: got %q", got)
		}
		l.nothingPending()
		if got := len(w.calls("")); got != 7 {
			t.Errorf("got %d attempts, want 7, all in the first life", got)
		}
		l.end()

		// Hosted again, it goes on with what stands.
		l = w.start(testTiming(), append(g(), w.function(functions.Function{}, always, scripted)))
		l.wantAccount("hosted again", l.settle("f"), client.FunctionAccount{Accepted: 5, Delivered: 1, Parked: 2, Discarded: 2})
		l.decide(client.Redrive, "f", 2)
		l.wantAccount("and redriven", l.settle("f"), client.FunctionAccount{Accepted: 5, Delivered: 2, Parked: 1, Discarded: 2})
	})
}
