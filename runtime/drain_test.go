package runtime

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

func drainHeader(i int) nats.Header {
	return nats.Header{"ce-specversion": {"1.0"}, "ce-id": {strconv.Itoa(i)}, "ce-source": {"drain"}, "ce-type": {"t"}}
}

// fill stores n events of 100 bytes.
func (l *life) fill(n int) { l.fillWith(n, drainHeader) }

// fillWith stores n events of 100 bytes and waits for the answers only at the end.
func (l *life) fillWith(n int, header func(int) nats.Header) {
	l.w.t.Helper()
	conn, err := l.node.Connect("fill")
	if err != nil {
		l.w.t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		l.w.t.Fatal(err)
	}
	before, data := l.count(streams.EventsStream), make([]byte, 100)
	for i := range n {
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: "events.t", Header: header(i), Data: data}, jetstream.WithStallWait(time.Minute)); err != nil {
			l.w.t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		l.w.t.Fatalf("got %d of %d events unanswered within a minute", js.PublishAsyncPending(), n)
	}
	if stored := l.count(streams.EventsStream) - before; stored != uint64(n) {
		l.w.t.Fatalf("got %d events stored, want %d", stored, n)
	}
}

// drainCalls says when a handler was called, and how many calls ran at once.
type drainCalls struct {
	mu            sync.Mutex
	n             int
	last          time.Time
	gap           time.Duration
	running, most atomic.Int64
}

func (c *drainCalls) begin() {
	now, running := time.Now(), c.running.Add(1)
	for most := c.most.Load(); running > most && !c.most.CompareAndSwap(most, running); most = c.most.Load() {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n > 1 {
		c.gap = max(c.gap, now.Sub(c.last))
	}
	c.last = now
}

// TestADrainHasNoGap drains a large backlog with a handler that does nothing, in real time: a pull request that got lost shows itself
// as a pause of seconds.
func TestADrainHasNoGap(t *testing.T) {
	events := 300_000
	if underRace() {
		events = 40_000 // about as long
	}
	w := newWorld(t)
	l := w.open()
	l.fill(events)
	l.end()
	var calls drainCalls
	all := make(chan struct{})
	fn := functions.Function{
		Name: "f", Types: []string{"t"}, Start: functions.FromBeginning,
		Handle: func(context.Context, functions.Event) error {
			calls.begin()
			if calls.running.Add(-1); calls.total() == events {
				close(all)
			}
			return nil
		},
	}.WithDefaults()
	l = w.start(defaultTiming(), []functions.Function{fn})
	<-l.host.started
	began := time.Now()
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		t.Fatalf("got %d of %d events handled within two minutes", calls.total(), events)
	}
	took := time.Since(began)
	t.Attr("drain_events", strconv.Itoa(events))
	t.Attr("drain_rate", fmt.Sprintf("%.0f/s", float64(events)/took.Seconds()))
	t.Attr("drain_longest_gap", calls.gap.String())
	if calls.gap > 2*time.Second {
		t.Errorf("got a gap of %s between two calls, want none over 2 s", calls.gap)
	}
	if most := calls.most.Load(); most > functions.DefaultConcurrency {
		t.Errorf("got %d calls at once, want at most %d", most, functions.DefaultConcurrency)
	}
	l.wantDelivered(int64(events))
}

// underRace reports whether the race detector watches, which makes everything here many times slower.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func (c *drainCalls) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (l *life) wantDelivered(n int64) {
	l.w.t.Helper()
	a := l.account("f")
	for range 50 {
		if a.Delivered == n {
			break
		}
		<-time.After(100 * time.Millisecond) // the last acknowledgements
		a = l.account("f")
	}
	if a.Delivered != n || !a.Holds {
		l.w.t.Errorf("got %+v, want %d delivered", a, n)
	}
}
