package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/functions"
)

// The tests named TestCost… say what order costs. They run in real time and gate only counts, and ratios of medians within one run, because
// machines differ; under the race detector, which distorts every ratio, they run small and gate the counts alone.

// costHandler is how long a handler takes that does what handlers are for: it waits for somebody else.
const costHandler = 5 * time.Millisecond

// costSize is n, or a small part of it under the race detector.
func costSize(n int) int {
	if underRace() {
		return max(n/100, 20)
	}
	return n
}

// ratio states a ratio and, unless the race detector watches, holds it against its bar. SIDING_COST_SLACK widens the bars by a factor, for
// machines that have something else to do as well.
func ratio(t *testing.T, name string, got float64, within func(got, bar, slack float64) bool, bar float64) {
	t.Helper()
	t.Attr(name, fmt.Sprintf("%.2f (bar %.2f)", got, bar))
	slack := 1.0
	if s := os.Getenv("SIDING_COST_SLACK"); s != "" {
		var err error
		if slack, err = strconv.ParseFloat(s, 64); err != nil || slack < 1 {
			t.Fatalf("SIDING_COST_SLACK=%s: not a factor of 1 or more", s)
		}
	}
	if !underRace() && !within(got, bar, slack) {
		t.Errorf("%s: got %.2f, bar %.2f, slack %.2f", name, got, bar, slack)
	}
}

func atLeast(got, bar, slack float64) bool { return got >= bar/slack }
func atMost(got, bar, slack float64) bool  { return got <= bar*slack }

// keyed is the header of an event with an ordering key.
func keyed(id int, key string) nats.Header {
	h := drainHeader(id)
	if key != "" {
		h["ce-partitionkey"] = []string{key}
	}
	return h
}

// backlog is a directory with a backlog of n events, in which nothing has been hosted yet.
func backlog(t testing.TB, n int, key func(i int) string) string {
	t.Helper()
	w := newWorld(t)
	l := w.open()
	l.fillWith(n, func(i int) nats.Header { return keyed(i, key(i)) })
	l.end()
	return w.dir
}

// onCopy is a world on a copy of a directory.
func onCopy(t testing.TB, dir string) *world {
	t.Helper()
	w := newWorld(t)
	if err := copyDirectory(w.dir, dir); err != nil {
		t.Fatal(err)
	}
	return w
}

// remove ends a process and its directory, which takes memory.
func (l *life) remove() {
	l.end()
	if err := os.RemoveAll(l.w.dir); err != nil {
		l.w.t.Errorf("remove: %v", err)
	}
}

// until waits for a condition in real time.
func until(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("within %s not: %s", limit, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (l *life) started() {
	l.w.t.Helper()
	select {
	case <-l.host.started:
	case <-l.done:
		l.w.t.Fatalf("host ended: %v", l.err)
	case <-time.After(2 * time.Minute):
		l.w.t.Fatal("the host does not start within two minutes")
	}
}

// tallied counts what a handler was called for.
type tallied struct{ hot, others atomic.Int64 }

// hotKey is the key that much of a backlog has.
const hotKey = "hot"

// costFunction waits for a time that may be changed, and counts its calls when they end.
func costFunction(calls *tallied, takes *atomic.Int64) functions.Function {
	return functions.Function{
		Name: "f", Types: []string{"t"}, Start: functions.FromBeginning, Breaker: functions.Breaker{Off: true},
		Handle: func(_ context.Context, e functions.Event) error {
			if d := time.Duration(takes.Load()); d > 0 {
				<-time.After(d)
			}
			if e.Extensions()["partitionkey"] == hotKey {
				calls.hot.Add(1)
			} else {
				calls.others.Add(1)
			}
			return nil
		},
	}.WithDefaults()
}

// rates are events per second.
type rates struct{ hot, others float64 }

// rate counts for a window of time.
func (c *tallied) rate(window time.Duration) rates {
	hot, others, from := c.hot.Load(), c.others.Load(), time.Now()
	<-time.After(window)
	took := time.Since(from).Seconds()
	return rates{float64(c.hot.Load()-hot) / took, float64(c.others.Load()-others) / took}
}

func perSecond(n float64) string { return strconv.FormatFloat(n, 'f', 0, 64) + "/s" }

// messages is how many messages a stream has; one that does not exist has none.
func (l *life) messages(stream string) uint64 {
	l.w.t.Helper()
	s, err := l.store.JetStream().Stream(context.Background(), stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0
	}
	if err != nil {
		l.w.t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}
