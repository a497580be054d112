package patience

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/siding-dev/siding/functions"
)

// ShortRide is how long an outage should be ridden out before events are parked for it.
const ShortRide = 10 * time.Minute

// UntilDecided is a time that ends when a person has decided about a dead letter.
const UntilDecided time.Duration = math.MaxInt64

// Report is what a policy means in time.
type Report struct {
	// Attempts is how many attempts it allows.
	Attempts int
	// LongestUntilParked is the longest time from the start of an event's first attempt until it is parked.
	LongestUntilParked time.Duration
	// LongestBlocked is how long one failing event can block its ordering key: 0 without keys, UntilDecided where a dead letter holds later events,
	// else LongestUntilParked.
	LongestBlocked time.Duration
	// RidesOut is the shortest time from the first failure of an event to the start of its last attempt: an outage that is over by then parks
	// nothing. It is about failures that no rule is about.
	RidesOut time.Duration
	// Warnings are what a person should change or mean, and Notes what he should know.
	Warnings, Notes []string
}

// Of reports on a function, whose zero fields count as their defaults.
func Of(f functions.Function) Report {
	f = f.WithDefaults()
	r := Report{Attempts: f.Retry.Attempts, LongestUntilParked: longestUntilParked(f), RidesOut: ridesOut(f.Retry, f.Timeout)}
	r.LongestBlocked = r.LongestUntilParked
	switch {
	case f.OrderBy == functions.Unordered:
		r.LongestBlocked = 0
	case f.OnPark == functions.Hold:
		r.LongestBlocked = UntilDecided
	}
	r.short("", r.RidesOut, r.Attempts, f.Breaker.Off)
	for i, rule := range f.Rules {
		if rule.Class != functions.ClassUnavailable {
			continue // no outage: to be impatient with such a failure is what the rule is for
		}
		policy := f.Retry.For(functions.Result{Rule: &f.Rules[i]})
		if rides := ridesOut(policy, f.Timeout); rides < r.RidesOut {
			r.short(fmt.Sprintf("rule %d, %s: ", i+1, rule), rides, policy.Attempts, f.Breaker.Off)
		}
	}
	return r
}

// short says what becomes of events where an outage is not ridden out for long.
func (r *Report) short(about string, rides time.Duration, attempts int, alone bool) {
	switch {
	case rides >= ShortRide:
	case alone:
		r.Warnings = append(r.Warnings, fmt.Sprintf("%san outage of %s already parks events (%d attempts)", about, atLeast(rides), attempts))
	default:
		r.Notes = append(r.Notes, fmt.Sprintf("%sin an outage the breaker suspends the function and gives attempts back; an event that fails while others succeed is parked after %s already",
			about, atLeast(rides)))
	}
}

// String is the report on one line, without what is warned of.
func (r Report) String() string {
	s := fmt.Sprintf("rides out %s, parks within %s (%d attempts)", atLeast(r.RidesOut), atMost(r.LongestUntilParked), r.Attempts)
	switch r.LongestBlocked {
	case 0:
		s += "; no event waits for another"
	case UntilDecided:
		s += "; its key then waits until a person decides"
	default:
		s += "; its key waits that long"
	}
	return strings.Join(append([]string{s}, r.Notes...), "; ")
}

// longestUntilParked adds the longest delays and the longest attempts. The failures of an event may be of any mix of kinds.
func longestUntilParked(f functions.Function) time.Duration {
	if f.Retry.Attempts == 1 {
		return f.Timeout
	}
	var rest time.Duration // from the first failure on
	for failed := 1; failed < f.Retry.Attempts; failed++ {
		longest := f.Retry.Backoff.Delay(failed, 1)
		for i := range f.Rules {
			if policy := f.Retry.For(functions.Result{Rule: &f.Rules[i]}); !f.Rules[i].Parks() && failed < policy.Attempts {
				longest = max(longest, policy.Backoff.Delay(failed, 1))
			}
		}
		rest = sum(rest, longest, f.Timeout)
	}
	if f.Retry.Budget > 0 {
		rest = min(rest, sum(f.Retry.Budget, f.Timeout)) // the last attempt starts within the budget
	}
	return sum(f.Timeout, rest)
}

// ridesOut is the earliest start of the last attempt, since the first failure. Without a budget these are the shortest delays. With one, longer delays
// and longer attempts may end an event sooner: at each failure that can be the last one it is asked how early its attempt can have started.
func ridesOut(r functions.Retry, timeout time.Duration) time.Duration {
	least := time.Duration(math.MaxInt64)
	var shortest, longest time.Duration // since the first failure: the earliest start of an attempt, the latest end of it
	for failed := 1; failed < r.Attempts; failed++ {
		wait := r.Backoff.Delay(failed, 1)
		if r.Budget > 0 && wait > r.Budget-longest { // this failure may be the last
			start := shortest
			if failed > 1 {
				start = max(shortest, r.Budget-sum(timeout, wait))
			}
			least = min(least, start)
		}
		longest = sum(longest, wait, timeout)
		shortest = sum(shortest, r.Backoff.Delay(failed, 0))
		if r.Budget > 0 && shortest > r.Budget {
			return least // no further attempt can start
		}
	}
	return min(least, shortest)
}

// sum adds without overflow.
func sum(all ...time.Duration) time.Duration {
	var total time.Duration
	for _, d := range all {
		if d > math.MaxInt64-total {
			return math.MaxInt64
		}
		total += d
	}
	return total
}

// atLeast writes a lower bound as exactly as a person needs it, and never as more.
func atLeast(d time.Duration) string { return d.Truncate(unit(d)).String() }

// atMost writes an upper bound, and never as less.
func atMost(d time.Duration) string {
	if cut := d.Truncate(unit(d)); cut < d {
		return sum(cut, unit(d)).String()
	}
	return d.String()
}

func unit(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return time.Millisecond
	case d < time.Minute:
		return 100 * time.Millisecond
	}
	return time.Second
}
