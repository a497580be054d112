package runtime

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// stopwatch notes when each operation on a stream or the ledger began and ended.
type stopwatch struct {
	mu    sync.Mutex
	times map[string][]time.Time // of an operation, in turn: begun, ended, begun …
	wants string                 // the operation that somebody waits for
	after int                    // how many times it must have
	woken chan struct{}
}

func newStopwatch() *stopwatch {
	return &stopwatch{times: map[string][]time.Time{}, woken: make(chan struct{}, 1)}
}

func (s *stopwatch) note(op string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times[op] = append(s.times[op], now)
	if op == s.wants && len(s.times[op]) >= s.after {
		s.wants = ""
		s.woken <- struct{}{}
	}
}

// await is when an operation has ended for the n-th time, n counting from 0. It wakes up at once and no sooner, so that the machine is as
// awake, and as free, for what is measured as it is in a row of sync publishes.
func (s *stopwatch) await(op string, n int) time.Time {
	s.mu.Lock()
	wait := len(s.times[op]) < 2*n+2
	if wait {
		s.wants, s.after = op, 2*n+2
	}
	s.mu.Unlock()
	if wait {
		<-s.woken
	}
	return s.ended(op, n)
}

func (s *stopwatch) began(op string, n int) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.times[op][2*n]
}

func (s *stopwatch) ended(op string, n int) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.times[op][2*n+1]
}

func (s *stopwatch) count(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.times[op]) / 2
}

// stepCosts measures each way off the hot path, one event at a time.
type stepCosts struct {
	t         *testing.T
	l         *life
	publisher *life // whose writes the stopwatch does not see
	measure   jetstream.JetStream
	watch     *stopwatch
	sent      int

	mu               sync.Mutex
	called, returned map[string]time.Time
}

// handle parks and fails what says so, in its first cycle.
func (c *stepCosts) handle(ctx context.Context, e functions.Event) error {
	now, cycle := time.Now(), functions.AttemptFrom(ctx).Cycle
	c.mu.Lock()
	defer c.mu.Unlock()
	c.called[e.ID()] = now // the last call is what is measured
	defer func() { c.returned[e.ID()] = time.Now() }()
	switch how := e.Extensions()["how"]; {
	case how == "park" && cycle == 0:
		return functions.Park(errNo)
	case how == "fail":
		return errNo
	}
	return nil
}

// send stores an event and returns its id and its sequence.
func (c *stepCosts) send(key, how string) (string, uint64) {
	c.sent++
	e := newEvent(strconv.Itoa(c.sent))
	e.SetExtension("how", how)
	if key != "" {
		e.SetExtension("partitionkey", key)
	}
	return e.ID(), c.publisher.sendEvent(e).Sequence
}

func (c *stepCosts) since(times map[string]time.Time, id string, to time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return to.Sub(times[id]).Abs()
}

func (c *stepCosts) redrive(sequence uint64) {
	c.t.Helper()
	d := client.Decision{Function: "f", Sequence: sequence, Action: client.Redrive, Reason: "measured"}
	if _, err := c.l.host.decide(c.t.Context(), d); err != nil {
		c.t.Fatal(err)
	}
}

// publish is what everything is measured in: one message of 512 bytes into a file stream, and the answer awaited.
func (c *stepCosts) publish() time.Duration {
	c.t.Helper()
	began := time.Now()
	if _, err := c.measure.PublishMsg(c.t.Context(), &nats.Msg{Subject: "measure", Data: make([]byte, 512)}); err != nil {
		c.t.Fatal(err)
	}
	return time.Since(began)
}

// round measures everything n times, and says how many publishes the median of each costs.
func (c *stepCosts) round(n int) map[string]float64 {
	const leave = "ack " + streams.RetryStream
	took := map[string][]time.Duration{}
	add := func(what string, d time.Duration) { took[what] = append(took[what], d) }
	for range n {
		add("publish", c.publish())
	}
	for range n {
		letters, decisions, left := c.watch.count("place dlq"), c.watch.count("decide"), c.watch.count(leave)
		id, seq := c.send("", "park")
		add("park_permanent", c.since(c.returned, id, c.watch.await("place dlq", letters)))
		c.watch.await("audit parked", letters)
		c.redrive(seq)
		c.watch.await(leave, left)
		add("redrive", c.since(c.called, id, c.watch.ended("decide", decisions)))
		add("publish", c.publish())
	}
	for range n {
		letters := c.watch.count("place dlq")
		id, _ := c.send("", "fail")
		add("park_exhausted", c.since(c.returned, id, c.watch.await("place dlq", letters)))
		c.watch.await("audit parked", letters)
		add("publish", c.publish())
	}
	key, letters := "k"+strconv.Itoa(c.sent), c.watch.count("audit parked")
	_, blocker := c.send(key, "park")
	c.watch.await("audit parked", letters)
	tail := make([]string, n)
	for i := range n {
		held := c.watch.count("place held")
		tail[i], _ = c.send(key, "")
		stored := c.watch.await("place held", held)
		add("hold", stored.Sub(c.watch.began("record held", held)))
		add("publish", c.publish())
	}
	ended := c.watch.count(leave)
	c.redrive(blocker)
	c.watch.await(leave, ended+n)
	for i, id := range tail {
		before := c.watch.ended(leave, ended+i)
		add("release", c.since(c.called, id, before))
		add("release_and_end", c.watch.ended(leave, ended+1+i).Sub(before))
	}
	for range n {
		add("publish", c.publish())
	}
	costs := map[string]float64{"publish_us": float64(median(took["publish"]).Microseconds())}
	for what, all := range took {
		costs[what] = float64(median(all)) / float64(median(took["publish"]))
	}
	return costs
}

// TestCostOfEachStep states what the ways off the hot path cost in sync publishes, which are made in between: a hold until its copy is stored, a release
// from the end of what was before it until its handler is called, a redrive from the decision until then, a parking from the end of the
// handler until the dead letter is stored.
func TestCostOfEachStep(t *testing.T) {
	rounds, samples := 9, 40
	if underRace() {
		rounds, samples = 1, 10
	}
	c := &stepCosts{t: t, watch: newStopwatch(), called: map[string]time.Time{}, returned: map[string]time.Time{}}
	timing := defaultTiming()
	timing.advisory, timing.sweep = 0, 0 // nobody but the advisory parks what is exhausted
	c.l = newWorld(t).start(timing, []functions.Function{functions.Function{Breaker: functions.Breaker{Off: true},
		Name: "f", Types: []string{"t"}, Start: functions.FromBeginning, Retry: functions.Retry{Attempts: 1}, Handle: c.handle,
	}.WithDefaults()}, streams.WithGate(c.watch.note))
	c.l.started()
	c.publisher = &life{w: c.l.w, node: c.l.node, store: c.l.store.Ungated()}
	conn, err := c.l.node.Connect("measure")
	if err != nil {
		t.Fatal(err)
	}
	if c.measure, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	stream := jetstream.StreamConfig{Name: "MEASURE", Subjects: []string{"measure"}, Storage: jetstream.FileStorage}
	if _, err := c.measure.CreateStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	all := map[string][]float64{}
	for range rounds {
		for what, cost := range c.round(samples) {
			all[what] = append(all[what], cost)
		}
	}
	if held := c.l.messages(streams.HeldStream); held != 0 {
		t.Errorf("got %d events held in the end, want none", held)
	}
	t.Attr("cost_publish", fmt.Sprintf("%.0f us", median(all["publish_us"])))
	t.Attr("cost_release_and_end", fmt.Sprintf("%.2f", median(all["release_and_end"]))) // how fast what is held is worked off
	for what, bar := range map[string]float64{"hold": 3, "release": 8, "redrive": 10, "park_permanent": 5, "park_exhausted": 15} {
		ratio(t, "cost_"+what, median(all[what]), atMost, bar)
	}
}
