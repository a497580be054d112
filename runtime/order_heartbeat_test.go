package runtime

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// TestWhatWaitsInItsLaneIsKeptAlive: with an AckWait of a second, events wait for ten behind one that runs, in the line, in RETRY or paused. No
// delivery expires, so none is counted as an attempt, and nothing runs twice.
func TestWhatWaitsInItsLaneIsKeptAlive(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script script
		do     func(*life)
	}{
		{"in the line", slowly("a1", 10*time.Second), func(l *life) {
			l.sendKeyed("a1", "a2", "a3")
		}},
		{"in RETRY", both(slowly("a1", 10*time.Second), parkEach("a1", "a2", "a3")), func(l *life) {
			l.sendKeyed("a1", "a2", "a3")
			time.Sleep(15 * time.Second)
			for _, seq := range []uint64{3, 2, 1} {
				l.state(seq, streams.Decision{Action: streams.ActionRedrive})
			}
		}},
		{"paused", parkEach("a1", "a2", "a3"), func(l *life) {
			l.sendKeyed("a1", "a2", "a3")
			time.Sleep(time.Second)
			l.pause("a")
			for _, seq := range []uint64{3, 2, 1} {
				l.state(seq, streams.Decision{Action: streams.ActionRedrive})
			}
			l.sendKeyed("a4")
			time.Sleep(time.Minute)
			l.resume("a")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fn := functions.Function{OnPark: functions.Continue, Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}, Timeout: time.Minute}
				l := w.start(testTiming(), []functions.Function{w.function(fn, forever, tc.script)}, streams.WithAckWait(time.Second))
				<-l.host.started
				tc.do(l)
				time.Sleep(time.Minute)
				a := l.settle("f")
				if a.Delivered != a.Accepted {
					t.Errorf("got %+v, want all delivered", a)
				}
				for i := 1; i <= 3; i++ {
					id := "a" + strconv.Itoa(i)
					if n := w.successes(id); n != 1 {
						t.Errorf("%s was delivered %d times, want 1", id, n)
					}
					for _, c := range w.calls(id) {
						if c.attempt.Number != 1 {
							t.Errorf("%s: got attempt %d, want the first only", id, c.attempt.Number)
						}
					}
					records, err := l.store.Records(t.Context(), "f", uint64(i))
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range records {
						if r.Kind == streams.RecordGivenBack {
							t.Errorf("%s: deliveries had to be given back: they were not kept alive", id)
						}
					}
				}
				got := w.orderOf("a")
				for i := 1; i < len(got); i++ {
					if got[i] < got[i-1] && tc.name != "in RETRY" { // where the first one to come back goes first
						t.Errorf("delivered %v, want them in order", got)
					}
				}
				l.nothingPending()
			})
		})
	}
}

// TestLimitsLoweredOverARestartKeepTheOrder: what stands in a lane goes on under the new policy of its function.
func TestLimitsLoweredOverARestartKeepTheOrder(t *testing.T) {
	never := func(_ context.Context, id string, a functions.Attempt) error {
		if id[1:] == "1" && a.Cycle == 0 {
			return errNo
		}
		return nil
	}
	before := functions.Function{Retry: functions.Retry{Attempts: 5, Backoff: functions.Delays(time.Second, time.Second, time.Hour)}, Concurrency: 16, Timeout: time.Hour}
	for name, after := range map[string]functions.Function{
		"attempts":    {Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}},
		"concurrency": {Retry: functions.Retry{Attempts: 5, Backoff: functions.Delays(time.Second)}, Concurrency: 1},
		"timeout":     {Retry: functions.Retry{Attempts: 5, Backoff: functions.Delays(time.Second)}, Timeout: time.Second},
		"unordered":   {Retry: functions.Retry{Attempts: 5, Backoff: functions.Delays(time.Second)}, OrderBy: functions.Unordered},
		"by source":   {Retry: functions.Retry{Attempts: 5, Backoff: functions.Delays(time.Second)}, OrderBy: functions.BySource},
	} {
		t.Run(name, func(t *testing.T) {
			lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
				l := start(before, never)
				l.sendKeyed("a1", "b1", "a2", "b2", "a3")
				time.Sleep(time.Minute)
				if a := l.account("f"); a.Retrying != 2 || a.Held != 3 {
					t.Fatalf("got %+v, want 2 retrying and 3 held", a)
				}
				l.end()
				l = start(after, never)
				time.Sleep(2 * time.Hour)
				if a := l.settle("f"); a.Parked != 2 || a.Held != 3 {
					t.Errorf("got %+v, want 2 parked and 3 held", a)
				}
				l.decideAbout("b1", client.Redrive)
				l.decideAbout("a1", client.Redrive)
				l.settle("f")
				wantOrder(t, "key a", w.orderOf("a"), "a1", "a2", "a3")
				wantOrder(t, "key b", w.orderOf("b"), "b1", "b2")
				l.sendKeyed("a4", "b3")
				if a := l.settle("f"); a.Delivered != 7 {
					t.Errorf("got %+v, want 7 delivered", a)
				}
			})
		})
	}
}
