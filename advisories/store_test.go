package advisories

import (
	"context"
	"fmt"
	stdruntime "runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

func openStore(t *testing.T, options ...streams.StoreOption) *streams.Store {
	t.Helper()
	s, err := streams.OpenStore(t.Context(), streamstest.New(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// store1 stores one event, the only one of its stream, which function f then cannot handle: it returns where it stands.
func store1(t *testing.T, s *streams.Store) (streams.Ref, streams.Copy) {
	t.Helper()
	header := nats.Header{"ce-id": {"1"}, "ce-specversion": {"1.0"}, "ce-source": {"/test"}, "ce-type": {"t"}}
	_, err := s.JetStream().PublishMsg(t.Context(), &nats.Msg{Subject: "events.t", Header: header, Data: []byte("body")})
	must(t, err)
	ref := streams.Ref{Function: "f", Lane: streams.Lane("k"), Sequence: 1}
	return ref, streams.Copy{Key: "k", Source: streams.EventsStream, Header: header, Data: []byte("body")}
}

// exhaust puts the event into RETRY and uses up what JetStream delivers, with an attempt record for each of the first attempts ones.
// It returns the sequence in RETRY.
func exhaust(t *testing.T, s *streams.Store, ref streams.Ref, c streams.Copy, attempts, deliveries int) uint64 {
	t.Helper()
	must(t, s.Declare(t.Context(), streams.Declared{Name: ref.Function, Stream: streams.EventsStream, Types: []string{"t"}, Attempts: 2}))
	placed, err := s.Place(t.Context(), streams.InRetry, ref, c)
	must(t, err)
	for i := range attempts {
		must(t, s.Append(t.Context(), streams.Record{
			Function: ref.Function, Sequence: ref.Sequence, Kind: streams.RecordAttempt, Cycle: c.Cycle, Attempt: i + 1, Charged: true, Class: "transient",
			Error: fmt.Sprintf("no %d", i+1), Started: time.Now(), Ended: time.Now(), TraceID: "trace",
		}))
	}
	consumer, err := s.RetryConsumer(t.Context(), ref.Function, deliveries)
	must(t, err)
	useUp(t, consumer, deliveries)
	return placed.Sequence
}

// useUp naks everything that a consumer delivers, and has a request waiting afterwards, without which the server says nothing.
func useUp(t *testing.T, c jetstream.Consumer, deliveries int) {
	t.Helper()
	for range deliveries {
		batch, err := c.FetchNoWait(1)
		must(t, err)
		n := 0
		for m := range batch.Messages() {
			must(t, m.Nak())
			n++
		}
		if n != 1 {
			t.Fatalf("got %d deliveries, want 1", n)
		}
		time.Sleep(10 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	batch, err := c.Fetch(1, jetstream.FetchContext(ctx))
	must(t, err)
	for m := range batch.Messages() {
		t.Errorf("got a delivery of %s, want it exhausted", m.Subject())
	}
}

// counted is what a Reader said that became of advisories.
type counted struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *counted) count(kind Kind, verdict string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	c.seen[string(kind)+" "+verdict]++
}

func (c *counted) want(t *testing.T, want map[string]int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(want, c.seen); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// captured is how many advisories wait to be handled.
func captured(t *testing.T, s *streams.Store) uint64 {
	t.Helper()
	stream, err := s.JetStream().Stream(t.Context(), streams.AdvisoriesStream)
	must(t, err)
	return stream.CachedInfo().State.Msgs
}

// kinds lists the records of an event, and the audit of a function, by what they are about.
func kinds(t *testing.T, s *streams.Store, ref streams.Ref) (records, audit []string) {
	t.Helper()
	all, err := s.Records(t.Context(), ref.Function, ref.Sequence)
	must(t, err)
	for _, r := range all {
		records = append(records, fmt.Sprintf("%s %d/%d", r.Kind, r.Cycle, r.Attempt))
	}
	for seq := uint64(1); ; {
		m, err := s.Next(t.Context(), streams.AuditStream, seq, streams.AuditSubject(ref.Function))
		if err != nil {
			return records, audit
		}
		e, err := streams.Decode(m.Header, m.Data)
		must(t, err)
		audit, seq = append(audit, e.Type()+" "+e.Subject()), m.Sequence+1
	}
}

func wantKinds(t *testing.T, s *streams.Store, ref streams.Ref, wantRecords, wantAudit []string) {
	t.Helper()
	records, audit := kinds(t, s, ref)
	if diff := cmp.Diff(wantRecords, records); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantAudit, audit); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

// standing counts the messages of function f at each place.
func standing(t *testing.T, s *streams.Store) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, p := range []streams.Place{streams.InRetry, streams.InHeld, streams.InDeadLetters, streams.InDecisions} {
		refs, err := s.Standing(t.Context(), p, "f")
		must(t, err)
		if len(refs) > 0 {
			counts[p.String()] = len(refs)
		}
	}
	return counts
}

func wantStanding(t *testing.T, s *streams.Store, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, standing(t, s)); diff != "" {
		t.Errorf("standing (-want +got):\n%s", diff)
	}
}

// cut is a gate behind which nothing happens any more from its n-th call on: whoever comes there is gone, as at a kill.
type cut struct {
	mu    sync.Mutex
	at    int // 0 = never
	calls int
	hit   bool
}

func (c *cut) gate(string) {
	c.mu.Lock()
	c.calls++
	c.hit = c.hit || c.calls == c.at
	dead := c.hit
	c.mu.Unlock()
	if dead {
		stdruntime.Goexit()
	}
}

// life runs f until it returns or is cut off.
func life(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}
