package functions

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Backoff says how long to wait between attempts. It is made by [Exponential]
// or [Delays], never changes, and behaves as the default backoff
// (1 s, 2 s, 4 s … 5 min, jitter 0.2) when zero, so that a forgotten backoff
// never means to retry without a pause.
type Backoff struct {
	shape    shape
	min, max time.Duration
	delays   []time.Duration // owned: copied when given, never handed out
	jitter   float64         // width of the band around a delay, as a share of it
}

type shape int

const (
	shapeUnset shape = iota
	shapeExponential
	shapeDelays
)

// Exponential waits min, then 2, 4, 8 … times min, and never longer than max.
// The delays are exact until [Backoff.WithJitter] says otherwise.
func Exponential(min, max time.Duration) Backoff {
	return Backoff{shape: shapeExponential, min: min, max: max}
}

// Delays waits d[0] after the first failed attempt, d[1] after the second, and
// so on; the last one repeats. A delay of 0 is allowed. The delays are exact
// until [Backoff.WithJitter] says otherwise.
func Delays(d ...time.Duration) Backoff {
	return Backoff{shape: shapeDelays, delays: slices.Clone(d)}
}

// WithJitter returns b with each delay spread evenly over a band around it, so
// that events which failed together do not come back together. share, from 0
// to 1, is the width of the band: 0.2 is from 90 % to 110 % of the delay.
func (b Backoff) WithJitter(share float64) Backoff {
	b = b.orDefault()
	b.jitter = share
	return b
}

// Delay returns the wait after the failed-th attempt (from 1). random is in
// [0,1) and chooses the place within the jitter's band; without jitter it has
// no effect. The delay is never negative, and a cap holds before jitter: see
// [Backoff.Longest] for what it can reach.
func (b Backoff) Delay(failed int, random float64) time.Duration {
	b = b.orDefault()
	return spread(b.exact(max(failed, 1)), b.jitter, random)
}

// Longest returns the largest single delay that can occur within so many
// attempts, jitter included. There is no delay after the last attempt, so it
// is 0 for one.
func (b Backoff) Longest(attempts int) time.Duration {
	b = b.orDefault()
	if attempts <= 1 {
		return 0
	}
	longest := b.exact(attempts - 1)
	if b.shape == shapeDelays {
		longest = 0
		for _, d := range b.delays[:min(len(b.delays), attempts-1)] {
			longest = max(longest, d)
		}
	}
	return spread(longest, b.jitter, 1)
}

// String describes b for a person: "exponential 1s to 5m0s, jitter 0.2" or
// "delays 1s 10s".
func (b Backoff) String() string {
	b = b.orDefault()
	var s strings.Builder
	if b.shape == shapeExponential {
		fmt.Fprintf(&s, "exponential %v to %v", b.min, b.max)
	} else {
		s.WriteString("delays")
		for _, d := range b.delays {
			fmt.Fprintf(&s, " %v", d)
		}
	}
	if b.jitter != 0 {
		fmt.Fprintf(&s, ", jitter %g", b.jitter)
	}
	return s.String()
}

// unset says whether b is the zero value, which may mean another default than
// that of a policy.
func (b Backoff) unset() bool { return b.shape == shapeUnset }

func (b Backoff) orDefault() Backoff {
	if b.unset() {
		return Exponential(defaultMin, defaultMax).WithJitter(defaultJitter)
	}
	return b
}

// exact is the delay before jitter. It is 0 for a backoff that Validate
// refuses because it has no delay at all.
func (b Backoff) exact(failed int) time.Duration {
	if b.shape == shapeDelays {
		if len(b.delays) == 0 {
			return 0
		}
		return max(0, b.delays[min(failed, len(b.delays))-1])
	}
	d := max(0, min(b.min, b.max))
	if d == 0 {
		return 0
	}
	// At most 63 rounds: a positive duration doubled more often than that is
	// past every cap. The comparison with half the cap is what cannot overflow.
	for range failed - 1 {
		if d > b.max/2 {
			return b.max
		}
		d *= 2
	}
	return d
}

// spread puts d at the place that random chooses in the band around it.
func spread(d time.Duration, share, random float64) time.Duration {
	if !(share > 0) { // also when it is not a number
		return d
	}
	if !(random > 0) {
		random = 0
	}
	factor := 1 - share/2 + share*min(random, 1)
	wide := float64(d) * factor
	switch {
	case wide >= math.MaxInt64:
		return math.MaxInt64
	case wide > 0:
		return time.Duration(wide)
	}
	return 0
}

// problems lists what is wrong with b, which is the value of this field.
func (b Backoff) problems(field string) []problem {
	var ps []problem
	switch b.shape {
	case shapeExponential:
		if b.min <= 0 {
			ps = append(ps, problemf(field, "the first delay %v is not positive; without a pause all attempts are used up within milliseconds", b.min))
		}
		if b.max < b.min {
			ps = append(ps, problemf(field, "the longest delay %v is shorter than the first, %v; write Exponential(first, longest)", b.max, b.min))
		}
	case shapeDelays:
		if len(b.delays) == 0 {
			ps = append(ps, problemf(field, "there is no delay; write Delays(d1, d2, …), or leave the backoff out for the default"))
		}
		for i, d := range b.delays {
			if d < 0 {
				ps = append(ps, problemf(field, "delay %d is negative: %v", i+1, d))
			}
		}
	}
	if !(b.jitter >= 0 && b.jitter <= 1) {
		ps = append(ps, problemf(field, "jitter %g is out of range; write a share from 0 to 1", b.jitter))
	}
	return ps
}
