package patience_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/patience"
)

const (
	s = time.Second
	m = time.Minute
)

func TestBoundsOfPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		retry          functions.Retry
		rides, parksIn time.Duration
	}{
		"one attempt":             {functions.Retry{Attempts: 1}, 0, 30 * s},
		"the last delay repeats":  {functions.Retry{Attempts: 4, Backoff: functions.Delays(s, m)}, 121 * s, 121*s + 4*30*s},
		"jitter":                  {functions.Retry{Attempts: 2, Backoff: functions.Delays(100 * s).WithJitter(0.2)}, 90 * s, 110*s + 2*30*s},
		"a budget cuts":           {functions.Retry{Attempts: 4, Backoff: functions.Delays(m), Budget: 90 * s}, 60 * s, 90*s + 2*30*s},
		"a budget of no use":      {functions.Retry{Attempts: 4, Backoff: functions.Delays(m), Budget: 30 * s}, 0, 30*s + 2*30*s},
		"an ample budget":         {functions.Retry{Attempts: 3, Backoff: functions.Delays(m), Budget: time.Hour}, 2 * m, 2*m + 3*30*s},
		"time used up by waiting": {functions.Retry{Attempts: 9, Backoff: functions.Delays(m), Budget: 5 * m}, 210 * s, 5*m + 2*30*s},
		"jitter against a budget": {functions.Retry{Attempts: 3, Backoff: functions.Delays(100 * s).WithJitter(1), Budget: 140 * s}, 0, 140*s + 2*30*s},
		"for ever":                {functions.Retry{Attempts: 3, Backoff: functions.Delays(math.MaxInt64), Budget: math.MaxInt64}, math.MaxInt64, math.MaxInt64},
	} {
		got := patience.Of(functions.Function{Retry: c.retry})
		if got.RidesOut != c.rides || got.LongestUntilParked != c.parksIn {
			t.Errorf("%s: got it to ride out %v and to park within %v, want %v and %v", name, got.RidesOut, got.LongestUntilParked, c.rides, c.parksIn)
		}
	}
	// A rule's delay counts only where the rule lets an event have it.
	slow := functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(s)}, Rules: []functions.Rule{
		functions.OnText("x", "").WithAttempts(2).WithBackoff(functions.Delays(time.Hour)), functions.OnText("y", functions.ClassPermanent),
	}}
	if got, want := patience.Of(slow).LongestUntilParked, time.Hour+s+3*30*s; got != want {
		t.Errorf("got %v with a slow rule, want %v", got, want)
	}
	if got := patience.Of(functions.Function{Retry: functions.Patient()}).RidesOut; got < 12*time.Hour {
		t.Errorf("got %v for Patient, want 12h and more", got)
	}
}

func TestWhatBlocksAKeyForHowLong(t *testing.T) {
	short := functions.Retry{Attempts: 2, Backoff: functions.Delays(s)}
	for _, c := range []struct {
		f    functions.Function
		want time.Duration
		says string
	}{
		{functions.Function{Retry: short}, patience.UntilDecided, "rides out 1s, parks within 1m1s (2 attempts); its key then waits until a person decides; in an outage"},
		{functions.Function{Retry: functions.Quick()}, patience.UntilDecided, "rides out 2.7s, parks within 1m34s (3 attempts)"},
		{functions.Function{Retry: short, OnPark: functions.Continue}, 61 * s, "(2 attempts); its key waits that long; in an outage"},
		{functions.Function{Retry: short, OrderBy: functions.Unordered}, 0, "(2 attempts); no event waits for another; in an outage"},
	} {
		got := patience.Of(c.f)
		if got.LongestBlocked != c.want || !strings.Contains(got.String(), c.says) {
			t.Errorf("got %v: %s; want %v: … %s …", got.LongestBlocked, got, c.want, c.says)
		}
	}
}

func TestShortRidesAreWarnedOfUnlessTheBreakerHelps(t *testing.T) {
	refused := functions.OnText("refused", functions.ClassUnavailable).WithAttempts(2)
	slow := functions.Retry{Attempts: 3, Backoff: functions.Delays(5*m - s)}
	for name, c := range map[string]struct {
		f               functions.Function
		warnings, notes []string
	}{
		"default":                           {functions.Function{}, nil, nil},
		"long enough":                       {functions.Function{Breaker: functions.Breaker{Off: true}, Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(5 * m)}}, nil, nil},
		"just too short":                    {functions.Function{Breaker: functions.Breaker{Off: true}, Retry: slow}, []string{"an outage of 9m58s already parks events (3 attempts)"}, nil},
		"with a breaker":                    {functions.Function{Retry: slow}, nil, []string{"in an outage the breaker suspends the function and gives attempts back; an event that fails while others succeed is parked after 9m58s already"}},
		"a rule's outage":                   {functions.Function{Breaker: functions.Breaker{Off: true}, Rules: []functions.Rule{refused.WithBackoff(functions.Delays(s))}}, []string{`rule 1, "refused": unavailable, 2 attempts, delays 1s: an outage of 1s already parks events (2 attempts)`}, nil},
		"a rule no shorter than the policy": {functions.Function{Breaker: functions.Breaker{Off: true}, Retry: slow, Rules: []functions.Rule{functions.OnText("x", functions.ClassUnavailable)}}, []string{"an outage of 9m58s already parks events (3 attempts)"}, nil},
		"no outage's rule":                  {functions.Function{Breaker: functions.Breaker{Off: true}, Rules: []functions.Rule{functions.OnText("x", functions.ClassTransient).WithAttempts(1)}}, nil, nil},
		"with a rule":                       {functions.Function{Rules: []functions.Rule{functions.OnText("x", functions.ClassTransient).WithAttempts(1), refused.WithBackoff(functions.Delays(m))}}, nil, []string{`rule 2, "refused": unavailable, 2 attempts, delays 1m0s: in an outage the breaker suspends the function and gives attempts back; an event that fails while others succeed is parked after 1m0s already`}},
	} {
		if got := patience.Of(c.f); !slices.Equal(got.Warnings, c.warnings) || !slices.Equal(got.Notes, c.notes) {
			t.Errorf("%s: got warnings %q and notes %q, want %q and %q", name, got.Warnings, got.Notes, c.warnings, c.notes)
		}
	}
}

func drawBackoff(t *rapid.T) functions.Backoff {
	delay := rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.IntRange(0, 200).Draw(t, "seconds")) * s })
	b := functions.Delays(rapid.SliceOfN(delay, 1, 4).Draw(t, "delays")...)
	if rapid.Bool().Draw(t, "exponential") {
		first := delay.Draw(t, "first") + 1
		b = functions.Exponential(first, first+delay.Draw(t, "longest"))
	}
	return b.WithJitter(rapid.SampledFrom([]float64{0, 0.2, 1}).Draw(t, "jitter"))
}

func drawFunction(t *rapid.T) functions.Function {
	f := functions.Function{Timeout: time.Duration(rapid.IntRange(1, 60).Draw(t, "timeout")) * s, Retry: functions.Retry{
		Attempts: rapid.IntRange(1, 6).Draw(t, "attempts"), Backoff: drawBackoff(t), Budget: time.Duration(rapid.IntRange(0, 600).Draw(t, "budget")) * s,
	}}
	for range rapid.IntRange(0, 2).Draw(t, "rules") {
		f.Rules = append(f.Rules, functions.Rule{Text: "x", Attempts: rapid.IntRange(0, f.Retry.Attempts).Draw(t, "rule's attempts"), Backoff: drawBackoff(t)})
	}
	return f
}

// live lets an event of f fail until it is parked, each time for a reason that a rule may be about, after a time and with a random number that choose
// gives. It returns when the last attempt started since the first failure, and when the event was parked since its start.
func live(f functions.Function, rule func() *functions.Rule, took func() time.Duration, random func() float64) (last, parked time.Duration) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	began, firstFailed := start, time.Time{}
	for failed := 1; ; failed++ {
		ended := began.Add(took())
		if firstFailed.IsZero() {
			firstFailed = ended
		}
		delay, again := f.Retry.For(functions.Result{Rule: rule()}).Next(failed, firstFailed, ended, 0, random())
		if !again {
			return max(0, began.Sub(firstFailed)), ended.Sub(start)
		}
		began = ended.Add(delay)
	}
}

// Whatever an event meets, it is parked within the bound; and where no rule is about its failures, it is attempted once more after the other one.
func TestEveryLifeStaysWithinTheBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFunction(t)
		report := patience.Of(f)
		random := func() float64 { return float64(rapid.IntRange(0, 1).Draw(t, "random")) }
		took := func() time.Duration {
			return f.Timeout * time.Duration(rapid.IntRange(0, 4).Draw(t, "quarters")) / 4
		}
		none := func() *functions.Rule { return nil }
		last, parked := live(f, none, took, random)
		if last < report.RidesOut || parked > report.LongestUntilParked {
			t.Errorf("got the last attempt after %v, parked after %v; want at least %v, at most %v", last, parked, report.RidesOut, report.LongestUntilParked)
		}
		some := func() *functions.Rule {
			if i := rapid.IntRange(-1, len(f.Rules)-1).Draw(t, "rule"); i >= 0 {
				return &f.Rules[i]
			}
			return nil
		}
		if _, parked := live(f, some, took, random); parked > report.LongestUntilParked {
			t.Errorf("got it parked after %v by rules %v, want at most %v", parked, f.Rules, report.LongestUntilParked)
		}
	})
}

// The bounds are reached: a report that only exaggerates would be as sound.
func TestTheBoundsAreReachedWithoutABudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFunction(t)
		f.Retry.Budget, f.Rules = 0, nil
		report := patience.Of(f)
		none := func() *functions.Rule { return nil }
		last, _ := live(f, none, func() time.Duration { return 0 }, func() float64 { return 0 })
		_, parked := live(f, none, func() time.Duration { return f.Timeout }, func() float64 { return 1 })
		if last != report.RidesOut || parked != report.LongestUntilParked {
			t.Errorf("got %v and %v, want %v and %v", last, parked, report.RidesOut, report.LongestUntilParked)
		}
	})
}
