package runtime

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// exhaustedEvents is how many events use up their attempts at once. Where one attempt is all, the way is the same from RETRY on,
// and fewer tell as much.
func exhaustedEvents(attempts int) int {
	if attempts == 1 {
		return 200
	}
	return 1000
}

// TestEachPathAloneParksEveryExhaustedEvent switches the other paths off: the main path has to do without recovery, and each recovery
// path without the main one.
func TestEachPathAloneParksEveryExhaustedEvent(t *testing.T) {
	for _, p := range []struct {
		name   string
		by     string
		timing func(*timing)
		lost   bool // JetStream's advisories are captured by nobody
	}{
		{"advisories alone", advisories.ByAdvisory, func(t *timing) { t.advisory, t.sweep = 0, 0 }, false},
		{"owner without advisories", advisories.ByOwner, func(t *timing) { t.sweep = 0 }, true},
		{"sweep alone", advisories.BySweep, func(t *timing) { t.deaf, t.advisory = true, 0 }, false},
	} {
		for _, attempts := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, attempts %d", p.name, attempts), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					timing := testTiming()
					p.timing(&timing)
					by := parkExhausted(t, timing, attempts, p.lost)
					if n := exhaustedEvents(attempts); by[p.by] != n {
						t.Errorf("got parked by %v, want %d by %s", by, n, p.by)
					}
				})
			})
		}
	}
}

// TestUndisturbedTheAdvisoryParks runs with every path on: the recovery must not be what does the work.
func TestUndisturbedTheAdvisoryParks(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		t.Run(fmt.Sprintf("attempts %d", attempts), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				by := parkExhausted(t, testTiming(), attempts, false)
				n := exhaustedEvents(attempts)
				t.Attr("parked_by_advisory", fmt.Sprintf("%d of %d", by[advisories.ByAdvisory], n))
				if by[advisories.ByAdvisory]*100 < n*99 {
					t.Errorf("got parked by %v, want at least 99 %% of %d by advisory", by, n)
				}
			})
		})
	}
}

// parkExhausted lets every event fail as often as it may, and says by whom they were parked.
func parkExhausted(t *testing.T, timing timing, attempts int, lost bool) map[string]int {
	t.Helper()
	w := newWorld(t)
	fn := w.function(functions.Function{Breaker: functions.Breaker{Off: true}, Retry: functions.Retry{Attempts: attempts, Backoff: functions.Delays(200 * time.Millisecond)}}, forever, alwaysFailing)
	l := w.start(timing, []functions.Function{fn})
	<-l.host.started
	if lost {
		// The stream goes on existing, but what JetStream says finds nobody.
		if _, err := l.store.JetStream().UpdateStream(t.Context(), jetstream.StreamConfig{
			Name: streams.AdvisoriesStream, Subjects: []string{"nothing"}, Retention: jetstream.WorkQueuePolicy, AllowDirect: true,
		}); err != nil {
			t.Fatal(err)
		}
	}
	n := exhaustedEvents(attempts)
	l.send(n)
	time.Sleep(90 * time.Second) // longer than a sweep takes to come
	a := l.settle("f")
	if a.Parked != int64(n) {
		t.Errorf("got %+v, want %d parked", a, n)
	}
	if got := len(w.calls("")); got != n*attempts {
		t.Errorf("got %d attempts, want %d", got, n*attempts)
	}
	by := map[string]int{}
	for id, m := range l.letters("f") {
		r, err := advisories.ReadReport(m)
		by[r.ParkedBy]++
		if err != nil || r.Cause != advisories.Exhausted || r.Attempts != attempts || len(r.History) != attempts {
			t.Fatalf("dead letter of event %s: got %+v, %v, want exhausted after %d attempts with their history", id, r, err, attempts)
		}
	}
	if left := l.count(streams.RetryStream); left != 0 {
		t.Errorf("got %d copies left in RETRY, want none", left)
	}
	time.Sleep(10 * time.Second)
	if left := l.count(streams.AdvisoriesStream); left != 0 && !timing.deaf {
		t.Errorf("got %d advisories left, want each read and acknowledged", left)
	}
	return by
}
