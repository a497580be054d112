package functions_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/siding-dev/siding/functions"
)

func drawDuration(t *rapid.T, least, most time.Duration, label string) time.Duration {
	return time.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(t, label))
}

// drawBackoff draws one that Validate accepts.
func drawBackoff(t *rapid.T) functions.Backoff {
	var b functions.Backoff
	switch rapid.IntRange(0, 2).Draw(t, "shape") {
	case 1:
		least := drawDuration(t, 1, time.Hour, "min")
		b = functions.Exponential(least, drawDuration(t, least, 24*time.Hour, "max"))
	case 2:
		b = functions.Delays(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return drawDuration(t, 0, time.Hour, "delay")
		}), 1, 8).Draw(t, "delays")...)
	}
	if rapid.Bool().Draw(t, "jittered") {
		b = b.WithJitter(rapid.Float64Range(0, 1).Draw(t, "share"))
	}
	return b
}

func TestDelay(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		name    string
		backoff functions.Backoff
		random  float64
		want    []time.Duration // after the first, second … failed attempt
	}{
		{"exponential", functions.Exponential(s, time.Minute), 0.9, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}},
		{"cap on a power", functions.Exponential(s, 4*s), 0, []time.Duration{s, 2 * s, 4 * s, 4 * s}},
		{"odd cap", functions.Exponential(1, 5), 0, []time.Duration{1, 2, 4, 5, 5}},
		{"cap at once", functions.Exponential(s, s), 0, []time.Duration{s, s}},
		{"cap below the first", functions.Exponential(4*s, s), 0, []time.Duration{s, s}},
		{"nothing to double", functions.Exponential(0, s), 0, []time.Duration{0, 0, 0}},
		{"negative", functions.Exponential(-s, s), 0, []time.Duration{0, 0}},
		{"delays", functions.Delays(s, 0, 3*s), 0, []time.Duration{s, 0, 3 * s, 3 * s, 3 * s}},
		{"negative delays", functions.Delays(-s), 0, []time.Duration{0, 0}},
		{"no delays", functions.Delays(), 0, []time.Duration{0, 0}},
		{"low end of the jitter", functions.Exponential(10*s, time.Minute).WithJitter(0.2), 0, []time.Duration{9 * s, 18 * s, 36 * s, 54 * s}},
		{"middle of the jitter", functions.Exponential(10*s, time.Minute).WithJitter(0.2), 0.5, []time.Duration{10 * s, 20 * s, 40 * s, 60 * s}},
		{"high end of the jitter", functions.Delays(10 * s).WithJitter(1), 1, []time.Duration{15 * s, 15 * s}},
		{"random out of range", functions.Delays(10 * s).WithJitter(1), 77, []time.Duration{15 * s}},
		{"random is not a number", functions.Delays(10 * s).WithJitter(1), math.NaN(), []time.Duration{5 * s}},
		{"jitter is not a number", functions.Delays(10 * s).WithJitter(math.NaN()), 0.1, []time.Duration{10 * s}},
		{"jitter too wide", functions.Delays(10 * s).WithJitter(9), 0, []time.Duration{0}},
		{"nothing overflows", functions.Delays(math.MaxInt64).WithJitter(1), 1, []time.Duration{math.MaxInt64}},
		{"zero value is the default", functions.Backoff{}, 0.5, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s, 128 * s, 256 * s, 300 * s, 300 * s}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []time.Duration
			for failed := 1; failed <= len(tc.want); failed++ {
				got = append(got, tc.backoff.Delay(failed, tc.random))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("delays (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDelayTakesNonsenseForTheFirstFailure(t *testing.T) {
	b := functions.Exponential(time.Second, time.Minute)
	for _, failed := range []int{math.MinInt, -1, 0} {
		if got := b.Delay(failed, 0); got != time.Second {
			t.Errorf("failed %d: got %v, want 1s", failed, got)
		}
	}
	if got := functions.Exponential(1, math.MaxInt64).Delay(math.MaxInt, 0); got != math.MaxInt64 {
		t.Errorf("got %v, want the cap", got)
	}
}

func TestDelaysCannotBeChangedFromOutside(t *testing.T) {
	d := []time.Duration{time.Second}
	b := functions.Delays(d...)
	d[0] = time.Hour
	if got := b.Delay(1, 0); got != time.Second {
		t.Errorf("got %v, want 1s", got)
	}
	_ = b.WithJitter(1)
	if got := b.Delay(1, 0); got != time.Second {
		t.Errorf("after WithJitter on a copy: got %v, want 1s", got)
	}
}

func TestLongest(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		name     string
		backoff  functions.Backoff
		attempts int
		want     time.Duration
	}{
		{"one attempt never waits", functions.Exponential(s, 8*s), 1, 0},
		{"no attempt never waits", functions.Delays(s), 0, 0},
		{"before the cap", functions.Exponential(s, time.Minute), 4, 4 * s},
		{"at the cap", functions.Exponential(s, time.Minute), 1000, time.Minute},
		{"delays may fall", functions.Delays(9*s, s), 5, 9 * s},
		{"a delay that is never reached", functions.Delays(s, 2*s, 9*s), 3, 2 * s},
		{"jitter", functions.Delays(10 * s).WithJitter(0.2), 2, 11 * s},
		{"default", functions.Backoff{}, 12, 330 * s},
	} {
		if got := tc.backoff.Longest(tc.attempts); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestDelayStaysWithinItsJitterAndBelowTheLongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBackoff(t)
		share := rapid.Float64Range(0, 1).Draw(t, "jitter")
		jittered, exact := b.WithJitter(share), b.WithJitter(0)
		attempts := rapid.IntRange(2, 100).Draw(t, "attempts")
		failed := rapid.IntRange(1, attempts-1).Draw(t, "failed")
		random := rapid.Float64Range(0, 0.999999).Draw(t, "random")

		delay := jittered.Delay(failed, random)
		middle := float64(exact.Delay(failed, random))
		// A nanosecond each way for what floating point rounds.
		low, high := middle*(1-share/2)-1, middle*(1+share/2)+1
		if delay < 0 || float64(delay) < low || float64(delay) > high {
			t.Fatalf("got %v, want from %v to %v", delay, time.Duration(low), time.Duration(high))
		}
		if longest := jittered.Longest(attempts); delay > longest {
			t.Fatalf("got %v, longer than the longest, %v", delay, longest)
		}
	})
}

func TestExponentialGrowsUntilItsCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := drawDuration(t, 1, math.MaxInt64, "min")
		most := drawDuration(t, least, math.MaxInt64, "max")
		b := functions.Exponential(least, most)
		last := time.Duration(0)
		for failed := 1; failed <= 70; failed++ {
			d := b.Delay(failed, 0)
			if d < last || d < least || d > most {
				t.Fatalf("after %d failed attempts: got %v, before it %v", failed, d, last)
			}
			if last > 0 && d != most && d != 2*last {
				t.Fatalf("after %d failed attempts: got %v, want the cap or twice %v", failed, d, last)
			}
			last = d
		}
		if last != most {
			t.Fatalf("got %v in the end, want the cap, %v", last, most)
		}
	})
}

func TestBackoffDescribesItself(t *testing.T) {
	for want, b := range map[string]functions.Backoff{
		"exponential 1s to 5m0s, jitter 0.2": {},
		"exponential 2s to 1m0s":             functions.Exponential(2*time.Second, time.Minute),
		"delays 1s 10s, jitter 0.5":          functions.Delays(time.Second, 10*time.Second).WithJitter(0.5),
	} {
		if got := b.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
