package functions

import "time"

// What Retry.WithDefaults fills in: together with the default backoff it rides
// out an outage of a quarter of an hour and more before an event is parked.
const (
	DefaultAttempts = 12
	defaultMin      = time.Second
	defaultMax      = 5 * time.Minute
	defaultJitter   = 0.2
)

// Retry is the retry policy of a function. Its zero value is the default:
// 12 attempts, waiting 1 s, 2 s, 4 s … up to 5 min, each with a jitter of 0.2.
type Retry struct {
	Attempts int           // attempts in all, the first included; 1 to 1000; 0 is 12, 1 is never again
	Backoff  Backoff       // how long to wait before the next one; the zero value is the default backoff
	Budget   time.Duration // longest time since the first failure within which a further attempt may start; 0 is no such limit
}

// Quick is the policy for a caller who would rather look at the event soon:
// 3 attempts within seconds, waiting 1 s and 2 s with a jitter of 0.2. It is a
// function because Go has no constants of a struct type.
func Quick() Retry {
	return Retry{Attempts: 3, Backoff: Exponential(time.Second, 5*time.Second).WithJitter(defaultJitter)}
}

// Patient is the policy for work that can wait for a night: 38 attempts over 12
// to 15 hours, waiting 1 s, 2 s, 4 s … up to 30 min, each with a jitter of 0.2.
// It rides out an outage of 12 hours. Until then a failing event blocks its
// ordering key, so that it suits events that nobody waits for.
func Patient() Retry {
	return Retry{Attempts: 38, Backoff: Exponential(time.Second, 30*time.Minute).WithJitter(defaultJitter)}
}

// WithDefaults returns r with the default for every field that is zero.
func (r Retry) WithDefaults() Retry {
	if r.Attempts == 0 {
		r.Attempts = DefaultAttempts
	}
	r.Backoff = r.Backoff.orDefault()
	return r
}

// Next decides what follows the failed-th attempt (from 1) of a cycle: whether
// there is another attempt, and how long after now it may start. again is
// false when all attempts are used, or when the next one would start later
// than the budget allows; delay is then 0.
//
// firstFailed is when the first attempt of the cycle failed; the zero time
// means just now. asked, if positive, is the delay that the handler wanted (see
// [RetryAfter]) and replaces the policy's; it is obeyed to the nanosecond, and
// neither jitter nor a cap of the backoff apply. random is in [0,1) and drives
// the jitter. A zero r decides as its defaults do.
func (r Retry) Next(failed int, firstFailed, now time.Time, asked time.Duration, random float64) (delay time.Duration, again bool) {
	r = r.WithDefaults()
	if failed >= r.Attempts {
		return 0, false
	}
	delay = asked
	if asked <= 0 {
		delay = r.Backoff.Delay(failed, random)
	}
	if r.Budget > 0 {
		var elapsed time.Duration
		if !firstFailed.IsZero() {
			// A clock that was set back must not lengthen the budget.
			elapsed = max(0, now.Sub(firstFailed))
		}
		// Written as a difference because elapsed+delay may overflow.
		if delay > r.Budget-elapsed {
			return 0, false
		}
	}
	return delay, true
}

// problems lists what is wrong with r, each with the field it is about. It
// expects r with its defaults.
func (r Retry) problems() []problem {
	var ps []problem
	if r.Attempts < 1 || r.Attempts > maxAttempts {
		ps = append(ps, problemf("retry.attempts", "%d is out of range; write 1 to %d", r.Attempts, maxAttempts))
	}
	if r.Budget < 0 {
		ps = append(ps, problemf("retry.budget", "%v is negative; write 0 for no budget", r.Budget))
	}
	return append(ps, r.Backoff.problems("retry.backoff")...)
}
