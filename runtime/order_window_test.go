package runtime

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// fillKeyed stores events <key><from> … <key><to> and waits for the answers only at the end.
func (l *life) fillKeyed(kind, key string, from, to int) {
	l.w.t.Helper()
	var acks []jetstream.PubAckFuture
	for i := from; i <= to; i++ {
		h := nats.Header{
			"ce-specversion": {"1.0"}, "ce-id": {key + strconv.Itoa(i)}, "ce-source": {"test"}, "ce-type": {kind}, "ce-partitionkey": {key},
		}
		ack, err := l.store.JetStream().PublishMsgAsync(&nats.Msg{Subject: "events." + kind, Header: h})
		if err != nil {
			l.w.t.Fatal(err)
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			l.w.t.Fatal(err)
		}
	}
}

// wantAscending checks that events of a key were delivered from first to last, each once.
func (w *world) wantAscending(key string, first, last int) {
	w.t.Helper()
	got := w.orderOf(key)
	if len(got) != last-first+1 {
		w.t.Fatalf("got %d events of key %s delivered, want %d", len(got), key, last-first+1)
	}
	for i, id := range got {
		if want := key + strconv.Itoa(first+i); id != want {
			w.t.Fatalf("delivery %d of key %s: got %s, want %s", i, key, id, want)
		}
	}
}

// TestMoreRetriesThanTheWindowWaitForALowerOne: RETRY delivers in the order of moves, and dead letters that were redriven in descending order stand
// there so that the lowest comes behind more deliveries than the owner takes at once.
func TestMoreRetriesThanTheWindowWaitForALowerOne(t *testing.T) {
	const events = window + 60
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		l := w.open()
		l.fillKeyed("t", "a", 1, events)
		for seq := uint64(events); seq >= 1; seq-- {
			ref := streams.Ref{Function: "f", Lane: streams.Lane("a"), Sequence: seq}
			c := streams.Copy{Cycle: 1, Key: "a", Source: streams.EventsStream, Header: nats.Header{
				"ce-specversion": {"1.0"}, "ce-id": {"a" + strconv.FormatUint(seq, 10)}, "ce-source": {"test"}, "ce-type": {"t"},
			}}
			if _, err := l.store.Place(t.Context(), streams.InRetry, ref, c); err != nil {
				t.Fatal(err)
			}
		}
		l.end()
		l = start(functions.Function{}, parkOnce(""))
		time.Sleep(time.Minute)
		w.wantAscending("a", 1, events)
		l.nothingPending()
	})
}

// TestAFarConsumerLetsALaneWaitForWhatMayComeBeforeIt: after a kill the source consumer has more events to bring again than the window takes, of which most are
// of other functions and keys. A lane whose event stands in RETRY, or in HELD, waits until it is sure that nothing lower comes.
func TestAFarConsumerLetsALaneWaitForWhatMayComeBeforeIt(t *testing.T) {
	const many = window + 100
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := newMortal(w, 0, false)
		slow := slowly("s1", time.Hour)
		fn := functions.Function{Concurrency: 1, Timeout: 2 * time.Hour, Retry: every(time.Minute)}
		l := w.start(testTiming(), []functions.Function{w.function(fn, m.alive, both(slow, both(failTimes("a3", 1), parkOnce("c1"))))}, streams.WithGate(m.gate))
		<-l.host.started
		outside := &life{w: w, store: l.store.Ungated(), node: l.node}
		outside.sendKeyed("a3", "c1", "c2", "s1") // 1 … 4, and then the only worker is busy
		time.Sleep(time.Second)
		outside.fillKeyed("t", "s", 2, many)
		outside.sendKeyed("a4", "b1", "c3")
		outside.fillKeyed("u", "x", 1, 50)
		time.Sleep(time.Second)
		m.kill()
		l.bury(m)

		l = w.start(testTiming(), []functions.Function{w.function(fn, forever, parkOnce(""))})
		<-l.host.started
		l.decideAbout("c1", client.Redrive)
		time.Sleep(3 * time.Minute)
		if a := l.settle("f"); a.Delivered != many+6 || a.Held != 0 {
			t.Errorf("got %+v, want %d delivered", a, many+6)
		}
		wantOrder(t, "key a", w.orderOf("a"), "a3", "a4")
		wantOrder(t, "key b", w.orderOf("b"), "b1")
		wantOrder(t, "key c", w.orderOf("c"), "c1", "c2", "c3")
		w.wantAscending("s", 1, many)
	})
}

// TestALaneThatWaitsForTheCursorGoesOnBeyondGaps: after a restart, nothing is delivered that would show that nothing lower comes: what lies
// between is of other types, or has been deleted, or purged.
func TestALaneThatWaitsForTheCursorGoesOnBeyondGaps(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*testing.T, *life)
	}{
		{"of other types", func(t *testing.T, l *life) { t.Helper(); l.fillKeyed("u", "x", 1, 30) }},
		{"of other types and of its own", func(t *testing.T, l *life) {
			t.Helper()
			l.fillKeyed("u", "x", 1, 30)
			l.sendKeyed("b1")
			l.fillKeyed("u", "x", 31, 60)
		}},
		{"deleted", func(t *testing.T, l *life) {
			t.Helper()
			for seq := uint64(1); seq <= 3; seq++ {
				if err := l.store.Delete(t.Context(), streams.EventsStream, seq); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"purged", func(t *testing.T, l *life) {
			t.Helper()
			st, err := l.store.JetStream().Stream(t.Context(), streams.EventsStream)
			if err == nil {
				err = st.Purge(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		for _, lost := range []bool{false, true} {
			t.Run(tc.name+", ledger lost "+strconv.FormatBool(lost), func(t *testing.T) {
				lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
					fn := functions.Function{Retry: every(time.Hour)}
					l := start(fn, both(parkOnce("a1"), failTimes("c1", 1)))
					l.fillKeyed("u", "x", 101, 102)
					l.sendKeyed("a1", "a2", "c1", "c2", "a3")
					time.Sleep(time.Second)
					l.end()
					l = w.open()
					tc.do(t, l)
					l.end()
					if lost {
						w.loseLedger()
					}
					l = start(fn, both(parkOnce("a1"), failTimes("c1", 1)))
					l.decideAbout("a1", client.Redrive)
					time.Sleep(2 * time.Second)
					wantOrder(t, "within a moment", w.orderOf("a"), "a1", "a2", "a3")
					time.Sleep(time.Hour)
					wantOrder(t, "after its delay", w.orderOf("c"), "c1", "c2")
					l.sendKeyed("a4", "c3")
					time.Sleep(time.Second)
					wantOrder(t, "key a", w.orderOf("a"), "a1", "a2", "a3", "a4")
					wantOrder(t, "key c", w.orderOf("c"), "c1", "c2", "c3")
				})
			})
		}
	}
}

// TestALaneWaitsForTheReplayToPassIt: at a start, positions become known in any order. What stands in HELD is there before the source stream has
// brought what comes before it, and waits for that; and when only other keys had something there, it goes on as soon as that is known.
func TestALaneWaitsForTheReplayToPassIt(t *testing.T) {
	const others = 300 // so many that anything which does not wait is sure to be first
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := newMortal(w, 0, false)
		timing := testTiming()
		timing.line = 1
		fn := functions.Function{Concurrency: others + 10, Timeout: time.Hour}
		l := w.start(timing, []functions.Function{w.function(fn, m.alive, func(ctx context.Context, id string, a functions.Attempt) error {
			if id[:1] == "b" {
				return parkOnce("b1")(ctx, id, a)
			}
			return slowly(id, time.Hour)(ctx, id, a)
		})}, streams.WithGate(m.gate))
		<-l.host.started
		outside := &life{w: w, store: l.store.Ungated()}
		for i := range others {
			e := newEvent("k" + strconv.Itoa(i))
			e.SetExtension("partitionkey", e.ID())
			outside.sendEvent(e)
		}
		outside.sendKeyed("b1", "b2", "a1", "a2", "a3", "a4") // a1 runs, a2 is lined, and the bound sends the others to HELD
		time.Sleep(time.Minute)
		if a := l.account("f"); a.Held != 3 || a.Parked != 1 {
			t.Fatalf("got %+v, want 3 held and 1 parked", a)
		}
		m.kill()
		l.bury(m)
		l = w.open()
		l.state(others+1, streams.Decision{Action: streams.ActionRelease})
		l.end()
		l = w.start(timing, []functions.Function{w.function(fn, forever, parkOnce(""))})
		time.Sleep(time.Minute)
		if a := l.account("f"); a.Delivered != others+5 || a.Parked != 1 {
			t.Errorf("got %+v, want %d delivered", a, others+5)
		}
		wantOrder(t, "attempted", w.beganOf("a"), "a1", "a1", "a2", "a3", "a4")
		for _, c := range w.calls("") {
			if want := c.event[:1]; want != "k" && c.attempt.Key != want {
				t.Errorf("%s was attempted with key %q, want %q", c.event, c.attempt.Key, want)
			}
		}
		wantOrder(t, "delivered", w.orderOf("b"), "b2")
	})
}
