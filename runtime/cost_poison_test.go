package runtime

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
)

// TestCostOfPoisonedKeys drains a backlog of which 5 % of the keys fail for good: the others keep their rate, and the function is not suspended.
func TestCostOfPoisonedKeys(t *testing.T) {
	events, rounds := costSize(40_000), 3
	others := func(i int) string { return "k" + strconv.Itoa(i%5_000) }
	sound := backlog(t, events, others)
	poisoned := backlog(t, events, func(i int) string {
		if i%20 == 0 {
			return "b" + strconv.Itoa(i/20%250)
		}
		return others(i)
	})
	host := func(dir string, calls *tallied, takes time.Duration) *life {
		var now atomic.Int64
		now.Store(int64(takes))
		fn := parksBlockers(calls, &now)
		fn.Breaker = functions.Breaker{}
		l := onCopy(t, dir).start(defaultTiming(), []functions.Function{fn})
		l.started()
		return l
	}
	check := func(l *life) {
		if l.host.owner("f").isSuspended() {
			t.Error("got the function suspended, want it to go on beside its dead letters")
		}
		l.remove()
	}
	if underRace() {
		var calls tallied
		l := host(poisoned, &calls, 0)
		until(t, time.Minute, "the others are handled", func() bool { return int(calls.others.Load()) == events*19/20 })
		check(l)
		return
	}
	var keep []float64
	for range rounds {
		var r [2]rates
		for i, dir := range []string{sound, poisoned} {
			var calls tallied
			l := host(dir, &calls, costHandler)
			<-time.After(costWarm)
			r[i] = calls.rate(costWindow)
			check(l)
		}
		keep = append(keep, r[1].others/r[0].others)
		t.Attr("cost_poison_round", fmt.Sprintf("%.0f/s beside, %.0f/s alone", r[1].others, r[0].others))
	}
	ratio(t, "cost_poison_others_keep", median(keep), atLeast, 0.9)
}
