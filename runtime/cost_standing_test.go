package runtime

import (
	"context"
	"fmt"
	stdruntime "runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// parksBlockers parks the events of keys that begin with "b", and takes its time for the others.
func parksBlockers(calls *tallied, takes *atomic.Int64) functions.Function {
	f := costFunction(calls, takes)
	handle := f.Handle
	f.Handle = func(ctx context.Context, e functions.Event) error {
		if key, _ := e.Extensions()["partitionkey"].(string); strings.HasPrefix(key, "b") {
			return functions.Park(errNo)
		}
		return handle(ctx, e)
	}
	return f
}

// hostBlocked begins a process whose function parks the blockers.
func hostBlocked(t *testing.T, w *world, calls *tallied, takes time.Duration) *life {
	t.Helper()
	var now atomic.Int64
	now.Store(int64(takes))
	l := w.start(defaultTiming(), []functions.Function{parksBlockers(calls, &now)})
	l.started()
	return l
}

// blockedKeys is a directory in which keys are blocked by a dead letter each, with held events behind each.
func blockedKeys(t *testing.T, keys, held int) string {
	t.Helper()
	w := newWorld(t)
	l := hostBlocked(t, w, &tallied{}, 0)
	l.fillWith(keys, func(i int) nats.Header { return keyed(i, "b"+strconv.Itoa(i)) })
	l.fillBlocked(keys, keys, held)
	l.end()
	return w.dir
}

// fillBlocked stores events of blocked keys and waits until they are held.
func (l *life) fillBlocked(from, keys, n int) {
	l.w.t.Helper()
	before := l.messages(streams.HeldStream)
	l.fillWith(n, func(i int) nats.Header { return keyed(from+i, "b"+strconv.Itoa(i%keys)) })
	until(l.w.t, 2*time.Minute, "everything is held", func() bool { return l.messages(streams.HeldStream) == before+uint64(n) })
}

// TestCostOfBlockedKeys drains a backlog beside many blocked keys, for which some of the arriving events are.
func TestCostOfBlockedKeys(t *testing.T) {
	keys, events, rounds := costSize(5_000), costSize(40_000), 3
	others := func(i int) string { return "k" + strconv.Itoa(i%5_000) }
	none := backlog(t, events, others)
	dir := blockedKeys(t, keys, keys)
	w := onCopy(t, dir)
	l := w.open()
	l.fillWith(events, func(i int) nats.Header {
		if i%10 == 0 {
			return keyed(1_000_000+i, "b"+strconv.Itoa(i/10%keys))
		}
		return keyed(1_000_000+i, others(i))
	})
	l.end()
	if underRace() {
		var calls tallied
		l := hostBlocked(t, onCopy(t, w.dir), &calls, 0)
		until(t, time.Minute, "the others are handled", func() bool { return int(calls.others.Load()) == events*9/10 })
		until(t, time.Minute, "the rest is held", func() bool { return l.messages(streams.HeldStream) == uint64(keys+events/10) })
		return
	}
	var keep []float64
	for range rounds {
		var r [2]rates
		for i, from := range []string{none, w.dir} {
			var calls tallied
			l := hostBlocked(t, onCopy(t, from), &calls, costHandler)
			<-time.After(costWarm)
			r[i] = calls.rate(costWindow)
			l.remove()
		}
		keep = append(keep, r[1].others/r[0].others)
		t.Attr("cost_blocked_round", fmt.Sprintf("%.0f/s beside, %.0f/s alone", r[1].others, r[0].others))
	}
	ratio(t, "cost_blocked_others_keep", median(keep), atLeast, 0.9)
}

// serverForgets waits until the server has let go of the blocks that it wrote last: it keeps them for some seconds, whatever stands in them.
func serverForgets() {
	if !underRace() {
		<-time.After(15 * time.Second)
	}
}

// reachable is what is reachable after two collections.
func reachable() float64 {
	var m stdruntime.MemStats
	stdruntime.GC()
	stdruntime.GC()
	stdruntime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// TestCostOfHeldEvents measures the memory of a held event, and a start with all of them.
func TestCostOfHeldEvents(t *testing.T) {
	few, many, keys := costSize(10_000), costSize(100_000), costSize(1_000)
	w := newWorld(t)
	l := hostBlocked(t, w, &tallied{}, 0)
	l.fillWith(keys, func(i int) nats.Header { return keyed(i, "b"+strconv.Itoa(i)) })
	l.fillBlocked(keys, keys, few)
	serverForgets()
	before := reachable()
	began := time.Now()
	l.fillBlocked(keys+few, keys, many-few)
	t.Attr("cost_hold_rate", perSecond(float64(many-few)/time.Since(began).Seconds()))
	serverForgets()
	after := reachable()
	ratio(t, "cost_bytes_of_a_held_event", (after-before)/float64(many-few), atMost, 500)
	l.end()

	var bare, full []time.Duration
	for range 3 {
		copied, again := onCopy(t, w.dir), onCopy(t, w.dir)
		began := time.Now()
		node, err := streams.Open(t.Context(), streams.Config{Dir: copied.dir, MaxStore: 1 << 30, Logger: testLog()})
		if err != nil {
			t.Fatal(err)
		}
		bare = append(bare, time.Since(began))
		if err := node.Close(); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		l := hostBlocked(t, again, &tallied{}, 0)
		full = append(full, time.Since(began))
		if held := l.messages(streams.HeldStream); held != uint64(many) {
			t.Errorf("got %d events held after a restart, want %d", held, many)
		}
		l.remove()
	}
	t.Attr("cost_start_bare", median(bare).String())
	t.Attr("cost_start_hosting", median(full).String())
	ratio(t, "cost_start", float64(median(full))/float64(median(bare)), atMost, 3)
}

// TestCostOfBlockedKeysInMemory measures the memory of a key that a dead letter blocks. The dead letters are written by many hands at once,
// because an owner parks them one after the other.
func TestCostOfBlockedKeysInMemory(t *testing.T) {
	var took [2]float64
	sizes := [2]int{costSize(10_000), costSize(100_000)}
	for i, n := range sizes {
		w := newWorld(t)
		before := reachable()
		l := w.open()
		l.fillWith(n, func(i int) nats.Header { return keyed(i, "b"+strconv.Itoa(i)) })
		var g errgroup.Group
		g.SetLimit(32)
		for i := range n {
			g.Go(func() error { return l.parkByHand(i) })
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		l.end()
		l = hostBlocked(t, w, &tallied{}, 0)
		o := l.host.owner("f")
		until(t, time.Minute, "every key is blocked", func() bool {
			blocked := 0
			err := o.call(t.Context(), func() { blocked = o.lanes.blocked })
			return err == nil && blocked == n
		})
		took[i] = reachable() - before
		l.remove()
	}
	ratio(t, "cost_bytes_of_a_blocked_key", (took[1]-took[0])/float64(sizes[1]-sizes[0]), atMost, 2000)
}

// parkByHand stores what an owner stores of a permanent failure.
func (l *life) parkByHand(i int) error {
	ctx, key, now := context.Background(), "b"+strconv.Itoa(i), time.Now().UTC()
	ref := streams.Ref{Function: "f", Lane: streams.Lane(key), Sequence: uint64(i) + 1}
	r := streams.Record{
		Function: "f", Sequence: ref.Sequence, Kind: streams.RecordAttempt, Attempt: 1, Charged: true, Outcome: "park", Class: "permanent",
		Error: errNo.Error(), Cause: string(advisories.Permanent), Started: now, Ended: now,
	}
	report := advisories.NewReport(advisories.Fold([]streams.Record{r}), advisories.Permanent, advisories.ByAttempt, now)
	report.Stream, report.Subject, report.StoredAt = streams.EventsStream, "events.t", now
	c := streams.Copy{Key: key, Source: streams.EventsStream, Header: keyed(i, key), Data: make([]byte, 100), Attempts: 1}
	if err := l.store.Append(ctx, r); err != nil {
		return err
	}
	if _, err := l.store.Place(ctx, streams.InDeadLetters, ref, advisories.Letter(c, report)); err != nil {
		return err
	}
	return l.store.Append(ctx, advisories.ParkedRecord(ref, report))
}
