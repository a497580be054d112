package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// advise says what JetStream would say about a message that it will not deliver again.
func (l *life) advise(stream, consumer string, sequence uint64) {
	l.w.t.Helper()
	data, err := json.Marshal(map[string]any{
		"type": "io.nats.jetstream.advisory.v1.max_deliver", "id": "forged", "timestamp": time.Now().UTC(),
		"stream": stream, "consumer": consumer, "stream_seq": sequence, "deliveries": 9,
	})
	if err != nil {
		l.w.t.Fatal(err)
	}
	l.publish(strings.TrimSuffix(streams.MaxDeliveriesSubject, ">")+stream+"."+consumer, nil, data)
}

// copyInRetry is the sequence of the one copy that stands in RETRY.
func (l *life) copyInRetry() uint64 {
	l.w.t.Helper()
	m, err := l.store.Next(context.Background(), streams.RetryStream, 1, "siding.retry.>")
	if err != nil {
		l.w.t.Fatalf("copy in RETRY: %v", err)
	}
	return m.Sequence
}

// wantNoAdvisories fails unless every captured advisory has been read and acknowledged.
func (l *life) wantNoAdvisories() {
	l.w.t.Helper()
	time.Sleep(10 * time.Second)
	if n := l.count(streams.AdvisoriesStream); n != 0 {
		l.w.t.Errorf("got %d advisories left, want none", n)
	}
}

func TestDoubledAdvisoriesChangeNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const events = 50
		w := newWorld(t)
		fn := w.function(functions.Function{Breaker: functions.Breaker{Off: true}, Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}}, forever, alwaysFailing)
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		echo, err := l.node.Connect("echo")
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		doubled := map[string]bool{}
		if _, err := echo.Subscribe(streams.MaxDeliveriesSubject, func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			if doubled[string(m.Data)] {
				return
			}
			doubled[string(m.Data)] = true
			for range 2 {
				_ = echo.Publish(m.Subject, m.Data)
			}
		}); err != nil {
			t.Fatal(err)
		}
		l.send(events)
		a := l.settle("f")
		l.wantNoAdvisories()
		mu.Lock()
		if len(doubled) != events {
			t.Errorf("got %d advisories doubled, want %d", len(doubled), events)
		}
		mu.Unlock()
		if a.Parked != events || len(w.calls("")) != 2*events {
			t.Errorf("got %+v after %d attempts, want %d parked after 2 each", a, len(w.calls("")), events)
		}
		wantLines(t, l.host.metrics, fmt.Sprintf(`siding_parked_total{by="advisory",cause="exhausted",function="f"} %d`, events),
			fmt.Sprintf(`siding_advisories_total{kind="max_deliveries",verdict="nothing"} %d`, 2*events))
		if a := l.settle("f"); a.Parked != events || !a.Holds {
			t.Errorf("got %+v in the end, want %d parked", a, events)
		}
	})
}

// TestLateAdvisoriesChangeNothing holds every advisory back for a whole life of the process.
func TestLateAdvisoriesChangeNothing(t *testing.T) {
	t.Parallel()
	for name, parks := range map[string]bool{"everything was parked without them": true, "they are needed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const events = 50
				w := newWorld(t)
				fn := functions.Function{Breaker: functions.Breaker{Off: true}, Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}}
				deaf := testTiming()
				deaf.deaf, deaf.sweep = true, 0
				if !parks {
					deaf.advisory = 0
				}
				first := w.start(deaf, []functions.Function{w.function(fn, forever, alwaysFailing)})
				<-first.host.started
				first.send(events)
				time.Sleep(time.Minute)
				if n := first.count(streams.AdvisoriesStream); n != events {
					t.Fatalf("got %d advisories held back, want %d", n, events)
				}
				if a := first.account("f"); parks != (a.Parked == events) || !parks && a.Retrying != events {
					t.Fatalf("deaf: got %+v", a)
				}
				first.end()

				hearing := testTiming()
				hearing.advisory, hearing.sweep = 0, 0
				second := w.start(hearing, []functions.Function{w.function(fn, forever, alwaysFailing)})
				a := second.settle("f")
				second.wantNoAdvisories()
				if a.Parked != events || len(w.calls("")) != 2*events {
					t.Errorf("got %+v after %d attempts, want %d parked after 2 each", a, len(w.calls("")), events)
				}
			})
		})
	}
}

// TestAnAdvisoryForARunningAttemptCostsNone lets JetStream give a copy up while its handler runs.
func TestAnAdvisoryForARunningAttemptCostsNone(t *testing.T) {
	t.Parallel()
	for name, succeeds := range map[string]bool{"then it succeeds": true, "then it fails for good": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 4, Backoff: functions.Delays(time.Second)}}, forever,
					func(_ context.Context, _ string, a functions.Attempt) error {
						if a.Number == 2 {
							time.Sleep(10 * time.Second)
						}
						if succeeds && a.Number == 4 {
							return nil
						}
						return errNo
					})
				l := w.start(testTiming(), []functions.Function{fn})
				<-l.host.started
				l.send(1)
				time.Sleep(5 * time.Second) // the second attempt runs
				before := l.copyInRetry()
				l.advise(streams.RetryStream, "f", before)
				time.Sleep(time.Second)
				wantLines(t, l.host.metrics, `siding_advisories_total{kind="max_deliveries",verdict="mark_dead"} 1`)
				time.Sleep(5500 * time.Millisecond) // it has failed, and waits for the third
				if after := l.copyInRetry(); after == before {
					t.Errorf("got the copy %d that JetStream has given up, want a new one", after)
				}
				a := l.settle("f")
				w.wantAttempts(t, "1", 1, 2, 3, 4)
				w.wantTimes(t, "1", 0, time.Second, 12*time.Second, 13*time.Second)
				if succeeds && a.Delivered != 1 || !succeeds && a.Parked != 1 {
					t.Errorf("got %+v", a)
				}
				l.wantNoAdvisories()
			})
		})
	}
}

// TestAnAdvisoryForAWaitingEventGivesItsAttemptsBack: deliveries were used up, attempts were not.
func TestAnAdvisoryForAWaitingEventGivesItsAttemptsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Minute)}}, forever, alwaysFailing)
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.send(1)
		for range 3 { // more often than it has deliveries
			time.Sleep(5 * time.Second)
			l.advise(streams.RetryStream, "f", l.copyInRetry())
		}
		time.Sleep(3 * time.Minute)
		a := l.settle("f")
		wantLines(t, l.host.metrics, `siding_advisories_total{kind="max_deliveries",verdict="give_back"} 3`)
		w.wantTimes(t, "1", 0, time.Minute, 2*time.Minute)
		d := l.detail("f", "1")
		if a.Parked != 1 || d.Attempts != 3 || d.Cause != string(advisories.Exhausted) {
			t.Errorf("got %+v and %+v, want it parked after 3 attempts", a, d.DeadLetter)
		}
		kinds := map[string]int{}
		for _, h := range d.History {
			kinds[h.Kind]++
		}
		if kinds[string(streams.RecordGivenBack)] != 3 || kinds[string(streams.RecordAttempt)] != 3 {
			t.Errorf("got history %v, want 3 attempts and 3 times given back", kinds)
		}
		l.wantNoAdvisories()
	})
}

// TestDeliveriesThatRanOutInTheQueueCostNoAttempt holds the owner up for longer than AckWait, several times, while an event waits for
// the only worker: without heartbeats every delivery of the event runs out.
func TestDeliveriesThatRanOutInTheQueueCostNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := make(chan struct{})
		fn := w.function(functions.Function{
			Concurrency: 1, Timeout: time.Hour, Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)},
		}, forever, func(_ context.Context, id string, a functions.Attempt) error {
			if id == "2" {
				<-release
				return nil
			}
			return errNo
		})
		const ackWait = 10 * time.Second
		l := w.start(testTiming(), []functions.Function{fn}, streams.WithAckWait(ackWait))
		<-l.host.started
		l.send(2)
		time.Sleep(5 * time.Second) // event 1 has failed once and waits, delivered, behind event 2
		w.wantAttempts(t, "1", 1)
		for range 2 {
			if err := l.host.owner("f").call(t.Context(), func() { time.Sleep(6 * ackWait) }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if !slices.ContainsFunc(scrape(t, l.host.metrics), func(line string) bool {
			return strings.HasPrefix(line, `siding_advisories_total{kind="max_deliveries",verdict="mark_dead"}`)
		}) {
			t.Error("got no advisory for the event in the queue, want one")
		}
		close(release)
		a := l.settle("f")
		w.wantAttempts(t, "1", 1, 2, 3)
		w.wantAttempts(t, "2", 1)
		if a.Parked != 1 || a.Delivered != 1 {
			t.Errorf("got %+v, want 1 parked and 1 delivered", a)
		}
		l.wantNoAdvisories()
	})
}

// TestAdvisoriesAboutSomethingElseChangeNothing writes what anybody can say on the advisories' subjects.
func TestAdvisoriesAboutSomethingElseChangeNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Minute)}}, forever,
			func(_ context.Context, id string, a functions.Attempt) error {
				if id == "2" && a.Number == 1 || id == "3" {
					return errNo
				}
				return nil
			})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.send(3)
		time.Sleep(time.Second)
		moved := l.copyInRetry()
		before := l.account("f")
		if before.Retrying != 2 || before.Delivered != 1 {
			t.Fatalf("got %+v, want 1 delivered and 2 retrying", before)
		}

		l.advise(streams.RetryStream, "f", 9999)   // never existed
		l.advise(streams.EventsStream, "f", 2)     // the source stream has no such limit
		l.advise(streams.RetryStream, "g", moved)  // a function that nobody knows
		l.advise("ORDERS", "somebody", 1)          // nothing of ours
		l.advise(streams.RetryStream, "siding", 1) // nothing of ours either
		subject := strings.TrimSuffix(streams.MaxDeliveriesSubject, ">") + streams.RetryStream + ".f"
		for _, garbage := range []string{"", "{", "null", "[]", `{"type":"io.nats.jetstream.advisory.v1.max_deliver"}`, `{"stream_seq":-1}`, "\x00\xff", strings.Repeat("x", 1<<16)} {
			l.publish(subject, nil, []byte(garbage))
		}
		l.publish(strings.TrimSuffix(streams.TerminatedSubject, ">")+"SIDING_RETRY.f", nil, fmt.Appendf(nil,
			`{"type":"io.nats.jetstream.advisory.v1.terminated","stream":"SIDING_RETRY","consumer":"f","stream_seq":%d}`, moved))
		time.Sleep(5 * time.Second)
		if after := l.account("f"); after.Retrying != before.Retrying || after.Delivered != before.Delivered || !after.Holds {
			t.Errorf("got %+v, want it as before: %+v", after, before)
		}
		wantLines(t, l.host.metrics,
			`siding_advisories_total{kind="max_deliveries",verdict="nothing"} 4`,
			`siding_advisories_total{kind="max_deliveries",verdict="foreign"} 1`,
			`siding_advisories_total{kind="terminated",verdict="nothing"} 1`,
			`siding_advisories_total{kind="other",verdict="invalid"} 8`)

		a := l.settle("f")
		l.advise(streams.RetryStream, "f", moved) // gone since
		l.wantNoAdvisories()
		w.wantTimes(t, "2", 0, time.Minute)
		w.wantTimes(t, "3", 0, time.Minute)
		if a.Delivered != 2 || a.Parked != 1 {
			t.Errorf("got %+v, want 2 delivered and 1 parked", a)
		}
	})
}
