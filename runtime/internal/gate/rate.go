package gate

import (
	"fmt"
	"math"
	"time"
)

// smooth is how much of a rate may begin at once: timers are not finer than milliseconds, and a fast rate would lose what lies between two of them.
const smooth = 10 * time.Millisecond

// rate spaces starts evenly: each one reserves an interval, and one may come early by slack. It is the generic cell rate algorithm of ATM networks.
type rate struct {
	interval, slack time.Duration
	reserved        time.Time // up to when starts so far have used the rate up
	text            string
}

func newRate(perSecond float64) rate {
	if perSecond == 0 {
		return rate{}
	}
	interval := time.Duration(math.Ceil(float64(time.Second) / perSecond))
	return rate{interval: interval, slack: max(0, smooth-interval), text: fmt.Sprintf("rate %g/s", perSecond)}
}

// next is the first instant at which one more may start; the zero time is any.
func (r *rate) next() time.Time {
	if r.reserved.IsZero() {
		return time.Time{}
	}
	return r.reserved.Add(-r.slack)
}

func (r *rate) start(now time.Time) {
	if r.interval == 0 {
		return
	}
	if now.After(r.reserved) {
		r.reserved = now
	}
	r.reserved = r.reserved.Add(r.interval)
}
