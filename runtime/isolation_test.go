package runtime

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
)

// TestAHangingAndAFailingFunctionCostAThirdOneNothing compares the rate of a function with and without two others on the same events, of
// which one never returns and one always fails. It runs in real time: what it measures is whether they share a queue, a lock or a
// worker, not who gets the processor, so their handlers wait more than they work.
func TestAHangingAndAFailingFunctionCostAThirdOneNothing(t *testing.T) {
	const rounds = 5
	var alone, together []float64
	for range rounds { // alternating, so that the machine's moods meet both alike
		alone = append(alone, steadyRate(t, false))
		together = append(together, steadyRate(t, true))
	}
	ratio := median(together) / median(alone)
	t.Attr("rate_alone", fmt.Sprintf("%.0f/s", median(alone)))
	t.Attr("rate_beside_a_hanging_and_a_failing_function", fmt.Sprintf("%.0f/s", median(together)))
	t.Attr("isolation_ratio", fmt.Sprintf("%.3f", ratio))
	if ratio < 0.9 {
		t.Errorf("got %.3f of the rate alone, want at least 0.9 (alone %.0f, together %.0f)", ratio, alone, together)
	}
}

// steadyRate is how many events a second the third function handles.
func steadyRate(t *testing.T, others bool) float64 {
	t.Helper()
	// What is measured begins when every function has filled its window.
	const events, warm = 1200, 500
	w := newWorld(t)
	var handled, failed, hung atomic.Int64
	var first time.Time
	done := make(chan time.Duration, 1)
	release := make(chan struct{})
	types, retry := []string{"t"}, functions.Retry{Attempts: 100, Backoff: functions.Delays(time.Second)}
	fns := []functions.Function{{
		Name: "steady", Types: types, Start: functions.FromBeginning, Concurrency: 8,
		Handle: func(context.Context, functions.Event) error {
			<-time.After(8 * time.Millisecond)
			switch handled.Add(1) {
			case warm:
				first = time.Now()
			case events:
				done <- time.Since(first)
			}
			return nil
		},
	}}
	if others {
		fns = append(fns, functions.Function{
			Name: "hanging", Types: types, Start: functions.FromBeginning, Timeout: time.Hour,
			Handle: func(context.Context, functions.Event) error { hung.Add(1); <-release; return nil },
		}, functions.Function{
			Name: "failing", Types: types, Start: functions.FromBeginning, Retry: retry, Concurrency: 1,
			Handle: func(context.Context, functions.Event) error {
				<-time.After(40 * time.Millisecond)
				failed.Add(1)
				return errNo
			},
		})
	}
	for i := range fns {
		fns[i] = fns[i].WithDefaults()
	}
	filling := w.open()
	filling.fill(events)
	filling.end()
	timing := defaultTiming()
	l := w.start(timing, fns)
	defer l.end()
	defer close(release)
	select {
	case took := <-done:
		if others && (hung.Load() != functions.DefaultConcurrency || failed.Load() == 0) {
			t.Errorf("got %d attempts hanging and %d failed, want %d and more than none", hung.Load(), failed.Load(), functions.DefaultConcurrency)
		}
		return (events - warm) / took.Seconds()
	case <-time.After(time.Minute):
		t.Fatalf("got %d of %d events handled within a minute", handled.Load(), events)
	}
	return 0
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
