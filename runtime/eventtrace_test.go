package runtime

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// traceOf shows the trace of the event at a sequence as `+<time since the step before> <what>: <detail>`.
func (l *life) traceOf(sequence uint64) []string {
	l.w.t.Helper()
	trace, err := l.runtime().eventTrace(l.w.t.Context(), fmt.Sprint(sequence), "")
	if err != nil {
		l.w.t.Fatalf("trace of %d: %v", sequence, err)
	}
	if trace.TraceID == "" || trace.Steps[0].TraceID != trace.TraceID || trace.Partial {
		l.w.t.Errorf("got %+v, want its trace id at the top, and all of it", trace)
	}
	var lines []string
	for _, s := range trace.Steps {
		gap := "?"
		if !s.At.IsZero() {
			d, err := time.ParseDuration(s.Gap)
			if err != nil {
				l.w.t.Errorf("step %+v: %v", s, err)
			}
			gap = "+" + d.Round(time.Second).String()
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", gap, s.What, s.Detail))
	}
	return lines
}

func TestATraceTellsWhatHappenedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		repaired := false
		fn := w.function(functions.Function{OrderBy: functions.PartitionKey, Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(10 * time.Second)}}, always,
			func(_ context.Context, id string, _ functions.Attempt) error {
				if id == "1" && !repaired {
					return errNo
				}
				return nil
			})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		for _, id := range []string{"1", "2", "3"} {
			e := newEvent(id)
			if id != "3" {
				e.SetExtension("partitionkey", "k")
			}
			l.sendEvent(e)
		}
		time.Sleep(5 * time.Second)
		held := []string{"+0s stored: EVENTS sequence 2, subject events.t", "+0s held: behind f/1", "+5s now: held behind f/1"}
		if diff := cmp.Diff(held, l.traceOf(2)); diff != "" {
			t.Errorf("held (-want +got):\n%s", diff)
		}
		retrying := []string{
			"+0s stored: EVENTS sequence 1, subject events.t", "+0s attempt: attempt 1 failed after 0s: transient: no", "+5s now: retrying, attempted again in 5s",
		}
		if diff := cmp.Diff(retrying, l.traceOf(1)); diff != "" {
			t.Errorf("retrying (-want +got):\n%s", diff)
		}
		l.settle("f")
		stale := 7
		if _, err := l.host.decide(t.Context(), client.Decision{Function: "f", Sequence: 1, Action: client.Discard, Cycle: &stale, Reason: "x", By: "ben"}); err == nil {
			t.Error("got a stale decision applied, want it refused")
		}
		time.Sleep(time.Hour)
		repaired = true
		l.redrive("f", 1)
		l.settle("f")
		want := []string{
			"+0s stored: EVENTS sequence 1, subject events.t",
			"+0s attempt: attempt 1 failed after 0s: transient: no",
			"+10s waited: 10s of backoff",
			"+0s attempt: attempt 2 failed after 0s: transient: no",
			"+0s parked: exhausted, noticed by advisory",
			"+1s refused: by ben: the dead letter stands at cycle 0, not 7",
			"+1h0m0s redriven: by test: again",
			"+0s delivered: attempt 1 took 0s",
		}
		got := l.traceOf(1)
		for i := range got { // when the account had come to rest is no part of this
			if strings.Contains(got[i], "refused") {
				_, rest, _ := strings.Cut(got[i], " ")
				got[i] = "+1s " + rest
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		alone := l.traceOf(2)
		if last := alone[len(alone)-1]; len(alone) != 4 || !strings.Contains(alone[2], "waited: held for 1h0m") || !strings.HasSuffix(last, "delivered: attempt 1 took 0s") {
			t.Errorf("released: got %q, want it held for an hour and then delivered", alone)
		}
		hot := []string{"+0s stored: EVENTS sequence 3, subject events.t", "? delivered: at its first attempt, about which no record is kept"}
		if diff := cmp.Diff(hot, l.traceOf(3)); diff != "" {
			t.Errorf("hot path (-want +got):\n%s", diff)
		}
		byID, err := l.runtime().eventTrace(t.Context(), "1", "test")
		if err != nil || byID.Sequence != 1 || byID.ID != "1" || byID.Source != "test" || byID.Type != "t" {
			t.Errorf("by id: got %+v and %v, want event 1", byID, err)
		}
		_, err = l.runtime().eventTrace(t.Context(), "99", "")
		wantRefusal(t, err, client.NotFound, "event 99")
	})
}

// Between two places an event stands at none that a reader sees. It must not be taken for one that was delivered.
func TestAnEventThatMovesIsNotTakenForDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, always, scripted)})
		<-l.host.started
		l.sendIDs("ok-1")
		l.settle("f")
		if s, _, err := l.host.standing(t.Context(), "f", 1); err != nil || s.State != client.StateDelivered {
			t.Fatalf("got %+v and %v, want it delivered", s, err)
		}
		// This is what is read of an event that left EVENTS and has not been seen in RETRY yet.
		now := time.Now().UTC()
		r := streams.Record{Function: "f", Sequence: 1, Kind: streams.RecordAttempt, Attempt: 1, Charged: true, Class: "transient", Started: now, Ended: now}
		if err := l.store.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if s, _, err := l.host.standing(t.Context(), "f", 1); err != nil || s.Ended() || s.Attempts != 1 {
			t.Errorf("got %+v and %v, want it on its way", s, err)
		}
		r.Kind, r.Ended = streams.RecordDelivered, now.Add(time.Second)
		if err := l.store.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if s, _, err := l.host.standing(t.Context(), "f", 1); err != nil || s.State != client.StateDelivered {
			t.Errorf("got %+v and %v, want it delivered", s, err)
		}
	})
}
