package functions_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/siding-dev/siding/functions"
)

var failedAt = time.Date(2025, 3, 30, 1, 59, 0, 0, time.UTC)

// starts returns when each attempt of an event that always fails starts, as
// time since the first, for attempts that take no time themselves.
func starts(r functions.Retry, random float64) []time.Duration {
	now := failedAt
	at := []time.Duration{0}
	for failed := 1; ; failed++ {
		delay, again := r.Next(failed, failedAt, now, 0, random)
		if !again {
			return at
		}
		now = now.Add(delay)
		at = append(at, now.Sub(failedAt))
	}
}

func TestFiveAttemptsDoubleTheirDelayExactly(t *testing.T) {
	r := functions.Retry{Attempts: 5, Backoff: functions.Exponential(time.Second, time.Minute)}
	want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}
	if diff := cmp.Diff(want, starts(r, 0.7)); diff != "" {
		t.Errorf("attempts start at (-want +got):\n%s", diff)
	}
}

func TestAttemptsAreUsedUpWhateverTheOrderOfTheOptions(t *testing.T) {
	backoff := functions.Delays(time.Second)
	for name, r := range map[string]functions.Retry{
		"attempts alone":       {Attempts: 3},
		"defaults":             functions.Retry{Attempts: 3}.WithDefaults(),
		"attempts and backoff": {Attempts: 3, Backoff: backoff},
		"backoff and attempts": {Backoff: backoff, Attempts: 3},
		"jitter":               {Backoff: backoff.WithJitter(1), Attempts: 3},
		"jitter of nothing":    {Backoff: functions.Backoff{}.WithJitter(1), Attempts: 3},
		"ample budget":         {Budget: time.Hour, Attempts: 3},
		"quick":                functions.Quick(),
	} {
		if got := len(starts(r, 0.5)); got != 3 {
			t.Errorf("%s: got %d attempts, want 3", name, got)
		}
	}
}

func TestDefaultPolicyRidesOutAQuarterOfAnHour(t *testing.T) {
	for _, random := range []float64{0, 0.5, 0.999} {
		at := starts(functions.Retry{}, random)
		if len(at) != functions.DefaultAttempts {
			t.Errorf("random %v: got %d attempts, want %d", random, len(at), functions.DefaultAttempts)
		}
		if last := at[len(at)-1]; last < 15*time.Minute || last > 30*time.Minute {
			t.Errorf("random %v: got the last attempt after %v, want 15 to 30 min", random, last)
		}
	}
}

func TestQuickEndsWithinSeconds(t *testing.T) {
	at := starts(functions.Quick(), 0.999)
	if last := at[len(at)-1]; last > 10*time.Second {
		t.Errorf("got the last attempt after %v, want at most 10s", last)
	}
}

func TestPatientRidesOutTwelveHours(t *testing.T) {
	for _, random := range []float64{0, 0.5, 0.999} {
		at := starts(functions.Patient(), random)
		if last := at[len(at)-1]; len(at) != 38 || last < 12*time.Hour || last > 15*time.Hour {
			t.Errorf("random %v: got the last of %d attempts after %v, want 38 within 12 to 15 h", random, len(at), last)
		}
		if at[1] > 2*time.Second || at[len(at)-1]-at[len(at)-2] > 33*time.Minute {
			t.Errorf("random %v: got waits of %v first and %v last, want 1s and 30m", random, at[1], at[len(at)-1]-at[len(at)-2])
		}
	}
}

func TestNext(t *testing.T) {
	exact := functions.Retry{Attempts: 4, Backoff: functions.Delays(10*time.Second, 20*time.Second)}
	budget := exact
	budget.Budget = time.Minute
	forever := functions.Retry{Attempts: 4, Backoff: functions.Delays(math.MaxInt64), Budget: math.MaxInt64}
	for _, tc := range []struct {
		name   string
		retry  functions.Retry
		failed int
		since  time.Duration // from the first failure to now
		asked  time.Duration
		delay  time.Duration
		again  bool
	}{
		{"first failure", exact, 1, 0, 0, 10 * time.Second, true},
		{"second failure", exact, 2, 0, 0, 20 * time.Second, true},
		{"the last delay repeats", exact, 3, 0, 0, 20 * time.Second, true},
		{"all attempts used", exact, 4, 0, 0, 0, false},
		{"more than all attempts used", exact, 5, 0, 0, 0, false},
		{"all attempts used although the handler asks", exact, 4, 0, time.Second, 0, false},
		{"one attempt is never again", functions.Retry{Attempts: 1}, 1, 0, 0, 0, false},
		{"asked replaces the policy's delay", exact, 1, 0, 7 * time.Second, 7 * time.Second, true},
		{"asked may be shorter", exact, 2, 0, time.Nanosecond, time.Nanosecond, true},
		{"asked below zero is not asked", exact, 1, 0, -time.Second, 10 * time.Second, true},
		{"within budget", budget, 2, 39 * time.Second, 0, 20 * time.Second, true},
		{"exactly at the budget", budget, 2, 40 * time.Second, 0, 20 * time.Second, true},
		{"a nanosecond past the budget", budget, 2, 40*time.Second + 1, 0, 0, false},
		{"asked past the budget", budget, 1, 0, time.Minute + 1, 0, false},
		{"long past the budget", budget, 1, 24 * time.Hour, 0, 0, false},
		{"clock set back does not lengthen the budget", budget, 1, -time.Hour, 2 * time.Minute, 0, false},
		{"clock set back leaves the budget", budget, 1, -time.Hour, 0, 10 * time.Second, true},
		{"nothing overflows", forever, 1, time.Hour, 0, 0, false},
		{"nothing overflows at once", forever, 1, 0, 0, math.MaxInt64, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			delay, again := tc.retry.Next(tc.failed, failedAt, failedAt.Add(tc.since), tc.asked, 0.5)
			if delay != tc.delay || again != tc.again {
				t.Errorf("got %v, %v; want %v, %v", delay, again, tc.delay, tc.again)
			}
		})
	}
}

func TestUnknownFirstFailureIsJustNow(t *testing.T) {
	r := functions.Retry{Backoff: functions.Delays(time.Minute), Budget: time.Minute}
	if delay, again := r.Next(1, time.Time{}, failedAt, 0, 0); delay != time.Minute || !again {
		t.Errorf("got %v, %v; want 1m0s, true", delay, again)
	}
}

func TestWithDefaultsKeepsWhatIsSet(t *testing.T) {
	r := functions.Retry{Attempts: 7, Backoff: functions.Delays(time.Second), Budget: time.Hour}
	got := r.WithDefaults()
	if got.Attempts != 7 || got.Budget != time.Hour || got.Backoff.Delay(1, 0) != time.Second {
		t.Errorf("got %+v, want it unchanged", got)
	}
	if got := (functions.Retry{}).WithDefaults(); got.Attempts != 12 || got.Backoff.String() != "exponential 1s to 5m0s, jitter 0.2" {
		t.Errorf("got %+v, want 12 attempts from 1s to 5m0s with jitter 0.2", got)
	}
}

// However an event fails and whatever its handler asks for, the number of
// attempts is the policy's, and no attempt starts outside the budget.
func TestAttemptsAndBudgetHoldForEveryPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := functions.Retry{
			Attempts: rapid.IntRange(1, 60).Draw(t, "attempts"),
			Backoff:  drawBackoff(t),
			Budget:   time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "budget")),
		}
		now, attempts, outOfBudget := failedAt, 1, false
		for {
			asked := time.Duration(rapid.Int64Range(-1, int64(time.Minute)).Draw(t, "asked"))
			random := rapid.Float64Range(0, 0.999999).Draw(t, "random")
			delay, again := r.Next(attempts, failedAt, now, asked, random)
			if delay < 0 || (asked > 0 && again && delay != asked) {
				t.Fatalf("got delay %v, asked for %v", delay, asked)
			}
			if !again {
				outOfBudget = r.Budget > 0 && attempts < r.Attempts
				break
			}
			attempts++
			now = now.Add(delay)
			if r.Budget > 0 && now.Sub(failedAt) > r.Budget {
				t.Fatalf("attempt %d starts %v after the first failure, budget %v", attempts, now.Sub(failedAt), r.Budget)
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "ran")))
		}
		if attempts != r.Attempts && !outOfBudget {
			t.Fatalf("got %d attempts, want %d", attempts, r.Attempts)
		}
	})
}
