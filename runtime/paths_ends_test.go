package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	stdruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// coded is an error of a resource that has short codes for what went wrong.
type coded struct{ code string }

func (e coded) Error() string { return "the bank says " + e.code }
func (e coded) Code() string  { return e.code }

// panicsHere is what a stack must name.
func panicsHere() error { panic("nothing to pay") }

// TestEachEndOfAnAttemptIsExplained: dead letters that carry no cause leave nobody able to act (knative-extensions/eventing-kafka-broker#2340).
func TestEachEndOfAnAttemptIsExplained(t *testing.T) {
	t.Parallel()
	type claim struct{ Amount int }
	for _, e := range []struct {
		name     string
		handle   functions.Handler
		prepare  func(*event.Event)
		attempts int
		want     client.DeadLetter // Cause, Class, Code, Error (a part of it) and ParkedBy
		stack    string
	}{
		{name: "a bare error", attempts: 2, handle: func(context.Context, functions.Event) error { return errors.New("bank is away") },
			want: client.DeadLetter{Cause: "exhausted", Class: "transient", Error: "bank is away", ParkedBy: "advisory"}},
		{name: "an error with a code", attempts: 2, handle: func(context.Context, functions.Event) error { return fmt.Errorf("pay: %w", coded{"E42"}) },
			want: client.DeadLetter{Cause: "exhausted", Class: "transient", Code: "E42", Error: "pay: the bank says E42", ParkedBy: "advisory"}},
		{name: "unavailable", attempts: 2, handle: func(context.Context, functions.Event) error { return functions.Unavailable(errNo) },
			want: client.DeadLetter{Cause: "exhausted", Class: "unavailable", Error: "no", ParkedBy: "advisory"}},
		{name: "a panic", attempts: 2, handle: func(context.Context, functions.Event) error { return panicsHere() }, stack: "panicsHere",
			want: client.DeadLetter{Cause: "exhausted", Class: "panic", Error: "panic: nothing to pay", ParkedBy: "advisory"}},
		{name: "Goexit", attempts: 2, handle: func(context.Context, functions.Event) error { stdruntime.Goexit(); return nil },
			want: client.DeadLetter{Cause: "exhausted", Class: "panic", Error: "Goexit", ParkedBy: "advisory"}},
		{name: "a timeout", attempts: 2, handle: func(ctx context.Context, _ functions.Event) error { <-ctx.Done(); return ctx.Err() },
			want: client.DeadLetter{Cause: "exhausted", Class: "timeout", Error: "deadline", ParkedBy: "advisory"}},
		{name: "Park", attempts: 1, handle: func(context.Context, functions.Event) error { return functions.Park(coded{"E7"}) },
			want: client.DeadLetter{Cause: "permanent", Class: "permanent", Code: "E7", Error: "the bank says E7", ParkedBy: "attempt"}},
		{name: "typed data that does not decode", attempts: 1, handle: functions.Typed(func(context.Context, claim) error { return nil }),
			prepare: func(e *event.Event) { _ = e.SetData("application/json", json.RawMessage(`{"Amount":"ten"}`)) },
			want:    client.DeadLetter{Cause: "undecodable", Class: "undecodable", Error: "Amount", ParkedBy: "attempt"}},
		{name: "expired before the first attempt", attempts: 0, handle: func(context.Context, functions.Event) error { return errNo },
			prepare: func(e *event.Event) { e.SetExtension("expirytime", "1999-12-31T23:59:59Z") },
			want:    client.DeadLetter{Cause: "expired", Error: "expirytime 1999-12-31T23:59:59Z had passed", ParkedBy: "attempt"}},
		{name: "expired before a retry", attempts: 1, handle: func(context.Context, functions.Event) error { return errNo },
			prepare: func(e *event.Event) { e.SetExtension("expirytime", time.Now().Add(5*time.Second).Format(time.RFC3339)) },
			want:    client.DeadLetter{Cause: "expired", Error: "had passed", ParkedBy: "attempt"}},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fn := w.function(functions.Function{
					Version: "v1.2.3", Timeout: 3 * time.Second, Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(30 * time.Second)},
				}, forever, func(ctx context.Context, _ string, _ functions.Attempt) error {
					return e.handle(ctx, functions.EventFrom(ctx))
				})
				rec := newRecording()
				l := w.startTraced(rec.tracer, []functions.Function{fn})
				<-l.host.started
				ev := newEvent("1")
				if e.prepare != nil {
					e.prepare(&ev)
				}
				began := time.Now()
				l.sendEvent(ev)
				a := l.settle("f")
				if a.Parked != 1 {
					t.Errorf("got %+v, want 1 parked", a)
				}
				if got := len(w.calls("1")); got != e.attempts {
					t.Errorf("got %d attempts, want %d", got, e.attempts)
				}
				d := l.detail("f", "1")
				if d.Cause != e.want.Cause || d.Class != e.want.Class || d.Code != e.want.Code || d.ParkedBy != e.want.ParkedBy || !strings.Contains(d.Error, e.want.Error) {
					t.Errorf("got cause %q, class %q, code %q, by %q, error %q, want %+v", d.Cause, d.Class, d.Code, d.ParkedBy, d.Error, e.want)
				}
				if d.Attempts != e.attempts || d.Version != "v1.2.3" || d.Function != "f" || d.Stream != "EVENTS" || d.Subject != "events.t" || d.EventID != "1" || d.Source != "test" || d.Type != "t" {
					t.Errorf("got %+v", d)
				}
				if e.stack != "" && !strings.Contains(d.Stack, e.stack) || e.stack == "" && d.Class != "panic" && d.Stack != "" {
					t.Errorf("got stack %q, want one with %q", d.Stack, e.stack)
				}
				if len(d.TraceID) != 32 || d.TraceID != rec.named(t, spanPark, 1)[0].SpanContext.TraceID().String() {
					t.Errorf("got trace %q, want that of the park span", d.TraceID)
				}
				if d.FirstFailedAt.Before(began) || d.LastFailedAt.Before(d.FirstFailedAt) || d.ParkedAt.Before(d.LastFailedAt) {
					t.Errorf("got first failed %s, last %s, parked %s, sent %s", d.FirstFailedAt, d.LastFailedAt, d.ParkedAt, began)
				}
				if e.attempts == 2 && d.LastFailedAt.Sub(d.FirstFailedAt) < 30*time.Second {
					t.Errorf("got first failed %s, last %s, want a backoff between them", d.FirstFailedAt, d.LastFailedAt)
				}
				attempts := 0
				for _, h := range d.History {
					if h.Kind == string(streams.RecordAttempt) && h.Attempt > 0 {
						if attempts++; h.Attempt != attempts || !h.Charged || h.Version != "v1.2.3" || h.TraceID != d.TraceID || h.SpanID == "" || h.Error == "" {
							t.Errorf("got %+v in the history", h)
						}
					}
				}
				if attempts != e.attempts {
					t.Errorf("got history %+v, want %d attempts", d.History, e.attempts)
				}
			})
		})
	}
}

func TestADiscardIsRecordedAndLeavesNoDeadLetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}}, forever,
			func(_ context.Context, id string, a functions.Attempt) error {
				if id == "2" && a.Number == 1 {
					return errNo
				}
				return functions.Discard(errors.New("no customer of ours"))
			})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.send(2)
		a := l.settle("f")
		if a.Discarded != 2 || len(l.letters("f")) != 0 {
			t.Errorf("got %+v and %d dead letters, want 2 discarded", a, len(l.letters("f")))
		}
		w.wantAttempts(t, "1", 1)
		w.wantAttempts(t, "2", 1, 2)
		for _, seq := range []uint64{1, 2} {
			r, ok, err := l.store.LastRecord(t.Context(), "f", seq)
			if err != nil || !ok || r.Kind != streams.RecordDiscarded || r.Reason != "no customer of ours" || r.By != "f" {
				t.Errorf("event %d: got record %+v, %v, %v, want its discard with the reason", seq, r, ok, err)
			}
		}
		if n := l.count(streams.AuditStream); n != 2 {
			t.Errorf("got %d audit entries, want 2", n)
		}
	})
}

func TestARedriveOfAnExpiredEventParksItAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{}, forever, func(context.Context, string, functions.Attempt) error { return functions.Park(errNo) })
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		ev := newEvent("1")
		ev.SetExtension("expirytime", time.Now().Add(time.Minute).Format(time.RFC3339))
		seq := l.sendEvent(ev).Sequence
		l.settle("f")
		if d := l.detail("f", "1"); d.Cause != string(advisories.Permanent) || d.Cycle != 0 {
			t.Fatalf("got %+v, want it parked as permanent", d.DeadLetter)
		}
		time.Sleep(time.Hour)
		l.redrive("f", seq)
		l.settle("f")
		w.wantAttempts(t, "1", 1)
		if d := l.detail("f", "1"); d.Cause != string(advisories.Expired) || d.Cycle != 1 || d.Attempts != 0 {
			t.Errorf("got %+v, want it parked as expired in cycle 1 without an attempt", d.DeadLetter)
		}
	})
}

// TestTheLongestErrorIsCutAndParked: no error text is too long to be recorded, and the dead letter says that it was cut.
func TestTheLongestErrorIsCutAndParked(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"longer than a report":     errors.New(strings.Repeat("é", 5<<10)),
		"longer than a message":    errors.New(strings.Repeat("x", 3<<20)),
		"of control characters":    errors.New(strings.Repeat("\x00\n\r\"", 1<<18)),
		"not UTF-8":                errors.New(strings.Repeat("\xff", 1<<19)),
		"with an endless code":     coded{strings.Repeat("E", 3<<20)},
		"parked":                   functions.Park(errors.New(strings.Repeat("x", 3<<20))),
		"discarded after a reason": functions.Discard(errors.New(strings.Repeat("x", 3<<20))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}}, forever,
					func(context.Context, string, functions.Attempt) error { return err })
				l := w.start(testTiming(), []functions.Function{fn})
				<-l.host.started
				l.send(1)
				time.Sleep(10 * time.Minute)
				a := l.account("f")
				if name == "discarded after a reason" {
					if a.Discarded != 1 || !a.Holds {
						t.Errorf("got %+v, want it discarded", a)
					}
					return
				}
				if a.Parked != 1 || !a.Holds {
					t.Fatalf("got %+v, want it parked", a)
				}
				d := l.detail("f", "1")
				if !d.Truncated || d.Error == "" || len(d.Error) > 8<<10 || d.Cause == "" || d.Class == "" {
					t.Errorf("got truncated %v, %d bytes of error, cause %q, class %q, want it cut", d.Truncated, len(d.Error), d.Cause, d.Class)
				}
				if m := l.letters("f")["1"]; headerSize(m.Header) > 17<<10 {
					t.Errorf("got %d bytes of headers, want at most 16 KiB and the event's own", headerSize(m.Header))
				}
			})
		})
	}
}

func headerSize(h map[string][]string) int {
	n := 0
	for k, values := range h {
		for _, v := range values {
			n += len(k) + len(v) + 4
		}
	}
	return n
}

// TestAStopChargesNoAttempt ends the process while handlers run: those that finish within the grace time count, the rest is
// interrupted and comes back under the same number.
func TestAStopChargesNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		retry := functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}
		fn := functions.Function{Concurrency: 4, Timeout: time.Hour, Retry: retry}
		handle := func(patient time.Duration) script {
			return func(ctx context.Context, id string, a functions.Attempt) error {
				took := time.Duration(0)
				switch {
				case id == "quick":
					took = 3 * time.Second
				case id == "slow":
					took = patient
				case id == "slow again" && a.Number == 1:
					return errNo
				case id == "slow again":
					took = patient
				case id == "rude":
					time.Sleep(min(patient, 12*time.Second)) // notices nothing, and succeeds after the grace time
					return nil
				}
				select {
				case <-time.After(took):
					return nil
				case <-ctx.Done():
					return fmt.Errorf("bank call: %w", ctx.Err())
				}
			}
		}
		timing := testTiming()
		timing.grace = 10 * time.Second
		first := w.start(timing, []functions.Function{w.function(fn, forever, handle(30*time.Minute))})
		<-first.host.started
		ids := []string{"quick", "slow", "slow again", "rude", "queued 1", "queued 2", "queued 3"}
		first.sendEvent(newEvent("slow again"))
		time.Sleep(1500 * time.Millisecond) // its second attempt runs
		for _, id := range ids {
			if id != "slow again" {
				first.sendEvent(newEvent(id))
			}
		}
		time.Sleep(time.Second)
		stopped := time.Now()
		first.end()
		if took := time.Since(stopped); took < 10*time.Second || took > 14*time.Second {
			t.Errorf("got a stop of %s, want the grace time and what the last handler needs", took)
		}
		w.wantAttempts(t, "quick", 1)
		w.wantAttempts(t, "rude", 1)
		w.wantAttempts(t, "queued 1")

		second := w.start(timing, []functions.Function{w.function(fn, forever, handle(0))})
		a := second.settle("f")
		if a.Delivered != int64(len(ids)) {
			t.Errorf("got %+v, want %d delivered", a, len(ids))
		}
		w.wantAttempts(t, "quick", 1)
		w.wantAttempts(t, "rude", 1)
		w.wantAttempts(t, "slow", 1, 1)
		w.wantAttempts(t, "slow again", 1, 2, 2)
		w.wantAttempts(t, "queued 1", 1)
		records, err := second.store.Records(t.Context(), "f", 1)
		if err != nil || len(records) != 2 || records[0].Class != string(functions.ClassTransient) || records[1].Kind != streams.RecordDelivered {
			t.Errorf("got records %+v, %v, want one failed attempt and the delivery", records, err)
		}
	})
}

// TestAHandlerThatNeverReturnsIsGivenUp: its event is parked as stuck, the only worker is replaced, and its coming back changes nothing.
func TestAHandlerThatNeverReturnsIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := make(chan struct{})
		fn := w.function(functions.Function{Concurrency: 1, Timeout: 5 * time.Second}, forever,
			func(_ context.Context, id string, a functions.Attempt) error {
				if id == "1" && a.Cycle == 0 {
					<-release
				}
				return nil
			})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		sent := time.Now()
		l.send(20)
		time.Sleep(14 * time.Second)
		if got := len(w.calls("")); got != 1 {
			t.Fatalf("got %d calls of the only worker, want 1", got)
		}
		a := l.settle("f")
		if a.Delivered != 19 || a.Parked != 1 {
			t.Errorf("got %+v, want 19 delivered and 1 parked", a)
		}
		d := l.detail("f", "1")
		if d.Cause != string(advisories.Stuck) || d.Class != string(functions.ClassTimeout) || d.ParkedBy != advisories.ByAttempt || d.Attempts != 1 {
			t.Errorf("got %+v, want it parked as stuck", d.DeadLetter)
		}
		if got := d.ParkedAt.Sub(sent); got != 15*time.Second {
			t.Errorf("got it parked after %s, want timeout and grace: 15 s", got)
		}
		if got := w.calls("2")[0].at.Sub(sent); got != 15*time.Second {
			t.Errorf("got the next event after %s, want it when the first was given up", got)
		}
		wantLines(t, l.host.metrics, `siding_stuck{function="f"} 1`)
		close(release)
		time.Sleep(time.Minute)
		if a := l.settle("f"); a.Delivered != 19 || a.Parked != 1 {
			t.Errorf("got %+v after the handler had returned, want no change", a)
		}
		if again := l.detail("f", "1"); !again.ParkedAt.Equal(d.ParkedAt) || len(again.History) != len(d.History) {
			t.Errorf("got dead letter %+v, want it as before: %+v", again, d)
		}
		wantLines(t, l.host.metrics, `siding_stuck{function="f"} 0`)
		l.send(20) // duplicates
		l.sendEvent(newEvent("21"))
		if a := l.settle("f"); a.Delivered != 20 {
			t.Errorf("got %+v, want 20 delivered", a)
		}
		l.redrive("f", 1)
		if a := l.settle("f"); a.Delivered != 21 || a.Parked != 0 {
			t.Errorf("got %+v after the redrive, want 21 delivered", a)
		}
	})
}

// TestTooManyHandlersThatNeverReturnSuspendTheFunction: the backlog is not turned into dead letters, one timeout after the other.
func TestTooManyHandlersThatNeverReturnSuspendTheFunction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := make(chan struct{})
		fn := w.function(functions.Function{Concurrency: 2, Timeout: 5 * time.Second}, forever,
			func(context.Context, string, functions.Attempt) error {
				<-release
				return nil
			})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.send(12)
		time.Sleep(time.Hour)
		if got := len(w.calls("")); got != 8 {
			t.Errorf("got %d calls, want no more than the 8 that hang", got)
		}
		if a := l.account("f"); a.Parked != 8 || a.Pending != 4 || !a.Holds {
			t.Errorf("got %+v, want 8 parked and 4 pending", a)
		}
		if !l.host.owner("f").isSuspended() {
			t.Error("got a running function, want it suspended")
		}
		close(release)
		if a := l.settle("f"); a.Delivered != 4 || a.Parked != 8 {
			t.Errorf("got %+v, want the other 4 delivered after the handlers have returned", a)
		}
		if l.host.owner("f").isSuspended() {
			t.Error("got a suspended function, want it resumed")
		}
		entries, err := l.store.Subjects(t.Context(), streams.AuditStream, streams.AuditSubject("f"))
		if err != nil || entries[streams.AuditSubject("f")] != 8+2 {
			t.Errorf("got %v, %v audit entries, want 8 parked, suspended and resumed", entries, err)
		}
	})
}

// TestAHandlerThatNeverReturnsDoesNotHoldUpAStop: its event is attempted again in the next life, under the same number.
func TestAHandlerThatNeverReturnsDoesNotHoldUpAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := make(chan struct{})
		fn := functions.Function{Timeout: time.Hour}
		first := w.start(testTiming(), []functions.Function{w.function(fn, forever, func(context.Context, string, functions.Attempt) error {
			<-release
			return nil
		})})
		<-first.host.started
		first.send(2)
		time.Sleep(time.Second)
		stopped := time.Now()
		first.end()
		timing := testTiming()
		if took, most := time.Since(stopped), timing.grace+timing.stuck+time.Second; took > most {
			t.Errorf("got a stop of %s, want at most %s", took, most)
		}
		second := w.start(testTiming(), []functions.Function{w.function(fn, forever, func(context.Context, string, functions.Attempt) error { return nil })})
		a := second.settle("f")
		close(release)
		time.Sleep(time.Minute)
		if a.Delivered != 2 {
			t.Errorf("got %+v, want 2 delivered", a)
		}
		w.wantAttempts(t, "1", 1, 1)
		if records, err := second.store.Records(t.Context(), "f", 1); err != nil || len(records) != 0 {
			t.Errorf("got records %+v, %v, want none: an orderly stop is no crash", records, err)
		}
	})
}
