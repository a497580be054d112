package streams_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

// send stores one event of each type, by NATS as any client can.
func send(t *testing.T, s *streams.Store, types ...string) {
	t.Helper()
	for _, eventType := range types {
		subject, err := streams.EventSubject(eventType)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.JetStream().Publish(t.Context(), subject, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// delivery is what matters about a message that was delivered.
type delivery struct {
	Stream, Consumer uint64 // sequences
	Count            uint64 // how often it has been delivered
}

func deliveries(t *testing.T, ms []jetstream.Msg) []delivery {
	t.Helper()
	all := make([]delivery, len(ms))
	for i, m := range ms {
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		all[i] = delivery{meta.Sequence.Stream, meta.Sequence.Consumer, meta.NumDelivered}
	}
	return all
}

func wantDeliveries(t *testing.T, what string, ms []jetstream.Msg, want ...delivery) {
	t.Helper()
	if diff := cmp.Diff(want, deliveries(t, ms)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// wantNone checks that nothing waits for a consumer now.
func wantNone(t *testing.T, what string, c jetstream.Consumer) {
	t.Helper()
	batch, err := c.FetchNoWait(10)
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		t.Errorf("%s: got a delivery of %s", what, m.Subject())
	}
}

func TestASourceConsumerIsMadeOnceBehindItsFloorAndKeepsItsPlace(t *testing.T) {
	s := openStore(t)
	send(t, s, "a.x", "b", "a.y", "a.z")
	d := streams.Declared{Name: "f", Stream: streams.EventsStream, Types: []string{"a.x", "a.*"}}
	c, made, floor, err := s.SourceConsumer(t.Context(), d, 1)
	if err != nil || !made || floor != 0 {
		t.Fatalf("got made %v, floor %d, %v, want it made", made, floor, err)
	}
	ms := take(t, c, 1)
	wantDeliveries(t, "first behind the floor", ms, delivery{3, 1, 1})
	if err := ms[0].DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Another floor does not move one that exists; other types do change what it selects.
	d.Types = []string{"a.*", "b", "*.x"}
	s = reopen(t, s)
	c, made, floor, err = s.SourceConsumer(t.Context(), d, 0)
	if err != nil || made || floor != 3 {
		t.Fatalf("got made %v, floor %d, %v, want it kept with everything up to 3 acknowledged", made, floor, err)
	}
	send(t, s, "b", "c.x", "c")
	if err := s.Reset(t.Context(), streams.EventsStream, "f"); err != nil {
		t.Fatal(err)
	}
	wantDeliveries(t, "after the change", take(t, c, 3), delivery{4, 1, 1}, delivery{5, 2, 1}, delivery{6, 3, 1})
	wantNone(t, "after the change", c)
	if cfg := c.CachedInfo().Config; cfg.MaxDeliver != -1 || cfg.MaxAckPending != -1 || cfg.AckWait != streams.DefaultAckWait || cfg.AckPolicy != jetstream.AckExplicitPolicy {
		t.Errorf("got %+v, want no bound on deliveries, none on what is pending", cfg)
	}
	if err := s.JetStream().DeleteConsumer(t.Context(), streams.EventsStream, "f"); err != nil {
		t.Fatal(err)
	}
	c, made, _, err = s.SourceConsumer(t.Context(), d, 4)
	if err != nil || !made {
		t.Fatalf("got made %v, %v after it was deleted by hand, want it made again", made, err)
	}
	wantDeliveries(t, "made again", take(t, c, 2), delivery{5, 1, 1}, delivery{6, 2, 1})
	d.Stream = "ORDERS"
	if _, _, _, err := s.SourceConsumer(t.Context(), d, 0); err == nil || !strings.HasPrefix(err.Error(), "stream ORDERS: consumer f: ") {
		t.Errorf("got %v, want an error that names stream and consumer", err)
	}
}

// The server refuses filters of which one is inside another, and takes those that only overlap.
func TestAnEventThatSeveralPatternsSelectIsDeliveredOnce(t *testing.T) {
	s := openStore(t)
	d := streams.Declared{Name: "f", Stream: streams.EventsStream, Types: []string{"a.*", "*.b", "a.b", "a.>", "*.b"}}
	c, _, _, err := s.SourceConsumer(t.Context(), d, 0)
	if err != nil {
		t.Fatal(err)
	}
	send(t, s, "a.b", "a", "b.b", "a.b.c")
	wantDeliveries(t, "overlapping patterns", take(t, c, 3), delivery{1, 1, 1}, delivery{3, 2, 1}, delivery{4, 3, 1})
	wantNone(t, "overlapping patterns", c)
}

func TestCountsAreExactAmongForeignTypesAndGaps(t *testing.T) {
	s := openStore(t)
	const n = 60
	gone := map[int]bool{3: true, 4: true, 40: true}
	var types [n + 1]string
	for i := 1; i <= n; i++ {
		types[i] = []string{"a.x", "a.y", "b", "a.x.z", "c.x"}[i*7%5]
		send(t, s, types[i])
	}
	for seq := range gone {
		if err := s.Delete(t.Context(), streams.EventsStream, uint64(seq)); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		patterns := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{">", "a.*", "a.>", "b", "*.x", "a.x", "nothing"}), 1, 4, rapid.ID).Draw(rt, "patterns")
		from := rapid.IntRange(0, n+2).Draw(rt, "from")
		filters, err := streams.TypeFilters(patterns)
		if err != nil {
			rt.Fatal(err)
		}
		want := uint64(0)
		for i := max(from, 1); i <= n; i++ {
			for _, f := range filters {
				if !gone[i] && streams.MatchesType(f, "events."+types[i]) {
					want++
					break
				}
			}
		}
		if got, err := s.CountFrom(t.Context(), streams.EventsStream, patterns, uint64(from)); err != nil || got != want {
			rt.Errorf("%q from %d: got %d, %v, want %d", patterns, from, got, err, want)
		}
	})
	stream, err := s.JetStream().Stream(t.Context(), streams.EventsStream)
	if err != nil || stream.CachedInfo().State.Consumers != 0 {
		t.Errorf("got %v, %d consumers left behind, want none", err, stream.CachedInfo().State.Consumers)
	}
}

// After a kill the owner relies on it: without a reset the pending ones come back one AckWait later, behind newer ones.
func TestResetBringsBackEverythingAboveTheAckFloorInOrderAndCountsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		for range 6 {
			send(t, s, "a")
		}
		c, _, _, err := s.SourceConsumer(t.Context(), streams.Declared{Name: "f", Stream: streams.EventsStream, Types: []string{"a"}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		ms := take(t, c, 5)
		for _, m := range []jetstream.Msg{ms[0], ms[1], ms[3]} { // the third is missing: the floor is 2
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.Nak(ms[2], 0)
		synctest.Wait() // nobody answers a nak, and the next request could overtake it
		again := take(t, c, 1)
		wantDeliveries(t, "before the reset", again, delivery{3, 6, 2})
		s.Nak(again[0], time.Hour) // a delay is forgotten as well
		time.Sleep(time.Second)
		if err := s.Reset(t.Context(), streams.EventsStream, "f"); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		wantDeliveries(t, "after the reset", take(t, c, 4), delivery{3, 1, 1}, delivery{4, 2, 1}, delivery{5, 3, 1}, delivery{6, 4, 1})
		if took := time.Since(begun); took != 0 {
			t.Errorf("got them after %s, want them at once", took)
		}
		if err := s.Reset(t.Context(), streams.EventsStream, "nobody"); err == nil || !strings.HasPrefix(err.Error(), "stream EVENTS: consumer nobody: reset: ") {
			t.Errorf("got %v, want an error that names the consumer", err)
		}
	})
}

// A gap in the consumer's own sequence is how an owner sees that a delivery was lost on its way.
func TestConsumerSequencesAreContiguousWhateverIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		for _, eventType := range []string{"a", "b", "a", "b", "b", "a"} {
			send(t, s, eventType)
		}
		if err := s.Delete(t.Context(), streams.EventsStream, 3); err != nil {
			t.Fatal(err)
		}
		c, _, _, err := s.SourceConsumer(t.Context(), streams.Declared{Name: "f", Stream: streams.EventsStream, Types: []string{"a"}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		ms := take(t, c, 2)
		wantDeliveries(t, "new ones", ms, delivery{1, 1, 1}, delivery{6, 2, 1})
		s.Nak(ms[1], 0)
		s.Nak(ms[0], time.Second)
		synctest.Wait() // nobody answers a nak, and the next request could overtake it
		send(t, s, "a")
		wantDeliveries(t, "redeliveries among new ones", take(t, c, 3), delivery{6, 3, 2}, delivery{7, 4, 1}, delivery{1, 5, 2})
	})
}

// advisoriesOf reads the types of all captured advisories.
func advisoriesOf(t *testing.T, s *streams.Store) []string {
	t.Helper()
	var all []string
	for seq := uint64(1); ; {
		m, err := s.Next(t.Context(), streams.AdvisoriesStream, seq, ">")
		if err != nil {
			return all
		}
		all, seq = append(all, fmt.Sprintf("%s %s", strings.TrimPrefix(m.Subject, "$JS.EVENT.ADVISORY.CONSUMER."), reason(m.Data))), m.Sequence+1
	}
}

// reason cuts the sequence, the number of deliveries and the reason out of an advisory.
func reason(data []byte) string {
	var kept []string
	for field := range strings.SplitSeq(strings.Trim(string(data), "{}"), ",") {
		if strings.HasPrefix(field, `"stream_seq"`) || strings.HasPrefix(field, `"deliveries"`) || strings.HasPrefix(field, `"reason"`) {
			kept = append(kept, strings.ReplaceAll(field, `"`, ""))
		}
	}
	return strings.Join(kept, " ")
}

func wantAdvisories(t *testing.T, s *streams.Store, what string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, advisoriesOf(t, s)); diff != "" {
		t.Errorf("%s: advisories (-want +got):\n%s", what, diff)
	}
}

// pulling keeps a pull request waiting, as an owner does: without one the server says nothing.
func pulling(t *testing.T, c jetstream.Consumer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	batch, err := c.Fetch(1, jetstream.FetchContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		cancel()
		for m := range batch.Messages() {
			t.Errorf("got a delivery of %s", m.Subject())
		}
	}
}

// The owner waits for this advisory after the last allowed attempt.
func TestTheLastNakRaisesTheAdvisoryAtOnceAndTheMessageStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		r := ref("f", "", 7)
		place(t, s, streams.InRetry, r, streams.Copy{})
		c, err := s.RetryConsumer(t.Context(), "f", 2)
		if err != nil {
			t.Fatal(err)
		}
		s.Nak(next(t, c), time.Second)
		last := next(t, c)
		wantDeliveries(t, "the last one", []jetstream.Msg{last}, delivery{1, 2, 2})
		stop := pulling(t, c)
		time.Sleep(time.Minute)
		wantAdvisories(t, s, "while it runs")
		s.Nak(last, 0)
		time.Sleep(time.Millisecond)
		wantAdvisories(t, s, "after the last nak", "MAX_DELIVERIES.SIDING_RETRY.f stream_seq:1 deliveries:2")
		time.Sleep(time.Hour)
		wantAdvisories(t, s, "an hour later", "MAX_DELIVERIES.SIDING_RETRY.f stream_seq:1 deliveries:2")
		stop()
		stands(t, s, streams.InRetry, r)
		wantNone(t, "exhausted", c)
		// Parking deletes it, which says nothing more.
		if err := s.Delete(t.Context(), streams.RetryStream, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		wantAdvisories(t, s, "after it was deleted", "MAX_DELIVERIES.SIDING_RETRY.f stream_seq:1 deliveries:2")
	})
}

// A function that does not fetch hears nothing: the owner goes on fetching whatever else it waits for.
func TestNobodyPullingMeansNoAdvisoryUntilSomebodyDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		place(t, s, streams.InRetry, ref("f", "", 7), streams.Copy{})
		c, err := s.RetryConsumer(t.Context(), "f", 2)
		if err != nil {
			t.Fatal(err)
		}
		s.Nak(next(t, c), 0)
		s.Nak(next(t, c), 0)
		time.Sleep(time.Hour)
		wantAdvisories(t, s, "nobody pulls")
		stop := pulling(t, c)
		time.Sleep(time.Second)
		stop()
		wantAdvisories(t, s, "somebody pulls", "MAX_DELIVERIES.SIDING_RETRY.f stream_seq:1 deliveries:2")
	})
}

// Attempts are given back by writing the copy anew.
func TestAReplacedMessageIsCountedFromOneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		r := ref("f", "", 7)
		seq := place(t, s, streams.InRetry, r, streams.Copy{Attempts: 1})
		c, err := s.RetryConsumer(t.Context(), "f", 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, exhausted := range []bool{false, true} {
			s.Nak(next(t, c), 0)
			m := next(t, c)
			if exhausted {
				stop := pulling(t, c)
				s.Nak(m, 0)
				time.Sleep(time.Second)
				stop()
			} else {
				s.Nak(m, time.Hour) // waits for its delay, which goes with it
				time.Sleep(time.Second)
			}
			if seq, err = s.Replace(t.Context(), streams.InRetry, r, streams.Copy{Attempts: 1}, seq); err != nil {
				t.Fatal(err)
			}
			again := next(t, c)
			if got := deliveries(t, []jetstream.Msg{again})[0]; got.Count != 1 || got.Stream != seq {
				t.Errorf("exhausted %v: got %+v, want the first delivery of sequence %d", exhausted, got, seq)
			}
			s.Nak(again, 0)
			wantDeliveries(t, "counts on", []jetstream.Msg{next(t, c)}, delivery{seq, deliveries(t, []jetstream.Msg{again})[0].Consumer + 1, 2})
			if seq, err = s.Replace(t.Context(), streams.InRetry, r, streams.Copy{Attempts: 1}, seq); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What somebody removes under a running attempt is told, and is no poison.
func TestDeletingAMessageInFlightRaisesTerminated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storeOn(t, streamstest.New(t))
		place(t, s, streams.InRetry, ref("f", "", 7), streams.Copy{})
		c, err := s.RetryConsumer(t.Context(), "f", 2)
		if err != nil {
			t.Fatal(err)
		}
		m := next(t, c)
		if err := s.Delete(t.Context(), streams.RetryStream, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		wantAdvisories(t, s, "deleted in flight", "MSG_TERMINATED.SIDING_RETRY.f stream_seq:1 deliveries:1 reason:Unacknowledged message was deleted")
		s.Nak(m, 0)
		time.Sleep(time.Second)
		wantNone(t, "deleted in flight", c)
	})
}

func TestWorkConsumersAreOfOneFunctionAndFollowItsPolicy(t *testing.T) {
	s := openStore(t)
	for _, r := range []streams.Ref{ref("f", "", 1), ref("g", "", 1), ref("f-2", "", 1)} {
		place(t, s, streams.InRetry, r, streams.Copy{})
		if _, err := s.Decide(t.Context(), r, streams.Decision{Action: streams.ActionDiscard}); err != nil {
			t.Fatal(err)
		}
	}
	for _, attempts := range []int{2, 5, 1} {
		c, err := s.RetryConsumer(t.Context(), "f", attempts)
		if err != nil || c.CachedInfo().Config.MaxDeliver != attempts || c.CachedInfo().NumPending != 1 {
			t.Errorf("got %v, %+v, want %d deliveries of one message", err, c.CachedInfo(), attempts)
		}
	}
	c, err := s.DecisionConsumer(t.Context(), "f")
	if err != nil || c.CachedInfo().Config.MaxDeliver != -1 || c.CachedInfo().NumPending != 1 {
		t.Errorf("got %v, %+v, want one decision, delivered without end", err, c.CachedInfo())
	}
	for range 2 {
		if c, err := s.AdvisoryConsumer(t.Context()); err != nil || c.CachedInfo().Config.MaxDeliver != -1 {
			t.Errorf("got %v, %+v, want advisories delivered without end", err, c.CachedInfo())
		}
	}
}
