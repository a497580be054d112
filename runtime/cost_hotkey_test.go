package runtime

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

const (
	costWarm   = time.Second
	costWindow = 2500 * time.Millisecond
)

// costRound is what one process makes of a backlog in a window of time.
func costRound(t *testing.T, dir string, takes time.Duration, line int) rates {
	t.Helper()
	var calls tallied
	l, _ := hostCost(t, dir, takes, line, &calls)
	defer l.remove()
	<-time.After(costWarm)
	return calls.rate(costWindow)
}

// hostCost begins a process on a copy of a directory. The time that handlers take may be changed.
func hostCost(t testing.TB, dir string, takes time.Duration, line int, calls *tallied) (*life, *atomic.Int64) {
	t.Helper()
	var now atomic.Int64
	now.Store(int64(takes))
	timing := defaultTiming()
	timing.line = line
	l := onCopy(t, dir).start(timing, []functions.Function{costFunction(calls, &now)})
	l.started()
	return l, &now
}

// TestCostOfAHotKey drains backlogs of which one key has nothing, half and all.
func TestCostOfAHotKey(t *testing.T) {
	events, rounds := costSize(100_000), 3
	if underRace() {
		rounds = 1
	}
	others := func(i int) string { return "k" + strconv.Itoa(i%5_000) }
	hot := func(int) string { return hotKey }
	none := backlog(t, events/2, others)
	mixed := func(i int) string {
		if i%2 == 0 {
			return hotKey
		}
		return others(i / 2)
	}
	half := backlog(t, events, mixed)
	all := backlog(t, events, hot)
	const unbounded = 1 << 30
	var memories []float64
	for _, takes := range []time.Duration{0, costHandler} {
		memories = nil
		if underRace() {
			break
		}
		var keep, halfRate, allRate, alone, with []float64
		for round := range rounds {
			if takes == 0 && round > 0 {
				break // not gated
			}
			without, memory := costRound(t, none, takes, 0), costRound(t, all, takes, unbounded)
			beside, only := costRound(t, half, takes, 0), costRound(t, all, takes, 0)
			alone, with = append(alone, without.others), append(with, beside.others)
			keep = append(keep, beside.others/without.others)
			halfRate = append(halfRate, beside.hot/memory.hot)
			allRate = append(allRate, only.hot/memory.hot)
			memories = append(memories, memory.hot)
			t.Attr("cost_hot_round", fmt.Sprintf("%s: others alone %.0f/s, beside %.0f/s; hot in memory %.0f/s, half %.0f/s, all %.0f/s",
				takes, without.others, beside.others, memory.hot, beside.hot, only.hot))
		}
		if takes == 0 {
			t.Attr("cost_hot_empty_others_keep", fmt.Sprintf("%.2f", median(keep)))
			t.Attr("cost_hot_empty_half", fmt.Sprintf("%.2f", median(halfRate)))
			t.Attr("cost_hot_empty_all", fmt.Sprintf("%.2f", median(allRate)))
			continue
		}
		t.Attr("cost_others_alone", perSecond(median(alone)))
		t.Attr("cost_others_beside", perSecond(median(with)))
		ratio(t, "cost_hot_others_keep", median(keep), atLeast, 0.9)
		ratio(t, "cost_hot_half", median(halfRate), atLeast, 0.5)
		ratio(t, "cost_hot_all_while_spilling", median(allRate), atLeast, 0.5)
	}
	held := leavesHeld(t, "all", backlog(t, events/5, hot), events/5)
	leavesHeld(t, "half", backlog(t, events/5, mixed), events/5)
	if !underRace() {
		ratio(t, "cost_hot_all_held", held/median(memories), atLeast, 0.5)
	}
}

// leavesHeld drains a backlog to its end, and looks whether the hot key is on the hot path again. It returns the hot key's rate when all of
// its backlog is held.
func leavesHeld(t *testing.T, name, dir string, events int) float64 {
	t.Helper()
	var calls tallied
	l, takes := hostCost(t, dir, costHandler, 0, &calls)
	defer l.remove()
	o := l.host.owner("f")
	until(t, time.Minute, "the whole backlog has been seen", func() bool {
		seen := false
		err := o.call(t.Context(), func() { seen = o.cursor == uint64(events) && o.departed == 0 })
		return seen && err == nil
	})
	if l.messages(streams.HeldStream) == 0 {
		t.Errorf("%s: got nothing held, want most of the hot key's events", name)
	}
	rate := calls.rate(costWindow / 2).hot
	takes.Store(0)
	began, before := time.Now(), calls.hot.Load()+calls.others.Load()
	handled := func() int64 { return calls.hot.Load() + calls.others.Load() }
	until(t, 2*time.Minute, "every event handled", func() bool { return handled() == int64(events) })
	t.Attr("cost_drain_of_held_"+name, perSecond(float64(handled()-before)/time.Since(began).Seconds()))
	until(t, 10*time.Second, "HELD and RETRY are empty", func() bool { return l.messages(streams.HeldStream)+l.messages(streams.RetryStream) == 0 })
	records := l.messages(streams.AttemptsStream)
	l.fillWith(lane.DefaultBound, func(i int) nats.Header { return keyed(events+i, hotKey) })
	until(t, 10*time.Second, "the new ones handled", func() bool { return handled() == int64(events+lane.DefaultBound) })
	l.wantDelivered(int64(events + lane.DefaultBound))
	if after := l.messages(streams.AttemptsStream); after != records {
		t.Errorf("%s: got %d records of events that came when nothing was held any more, want none", name, after-records)
	}
	return rate
}

// BenchmarkOrderedHotPath drains b.N events whose keys are many or one, with a handler that does nothing.
func BenchmarkOrderedHotPath(b *testing.B) {
	for name, keys := range map[string]int{"one key": 1, "5000 keys": 5_000} {
		b.Run(name, func(b *testing.B) {
			dir := backlog(b, b.N, func(i int) string { return "k" + strconv.Itoa(i%keys) })
			var calls tallied
			b.ResetTimer()
			l, _ := hostCost(b, dir, 0, 1<<30, &calls)
			until(b, 5*time.Minute, "every event handled", func() bool { return calls.others.Load() == int64(b.N) })
			b.StopTimer()
			l.remove()
		})
	}
}
