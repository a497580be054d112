package torture_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/e2e/torture"
)

// plain is a consumer as anybody would write it: workers that pull, handle, and nak with a delay what failed. Its log has the shape
// of a node's.
type plain struct {
	mu    sync.Mutex
	lines []torture.Line
}

func (p *plain) write(l torture.Line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.At, l.PID, l.Function = time.Now(), 1, "plain"
	p.lines = append(p.lines, l)
}

// handle makes one attempt. The first event of each key fails once.
func (p *plain) handle(ctx context.Context, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	id := string(m.Data())
	key, _, _ := strings.Cut(id, "-")
	l := torture.Line{What: torture.Begin, ID: id, Key: key, Sequence: meta.Sequence.Stream, Attempt: int(meta.NumDelivered)}
	p.write(l)
	l.What, l.Outcome = torture.Finish, torture.Done
	if strings.HasSuffix(id, "-0") && l.Attempt == 1 {
		l.Outcome = torture.Failed
	}
	p.write(l)
	if l.Outcome == torture.Failed {
		return m.NakWithDelay(1500 * time.Millisecond)
	}
	return m.DoubleAck(ctx)
}

// count counts the attempts that ended with an outcome.
func (p *plain) count(outcome string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return torture.Measure(p.lines).Outcomes["plain"][outcome]
}

// A consumer with redelivery and without lanes lets later events of a key pass the one that failed. A checker that did not see it would
// see nothing in a node either.
func TestCheckFindsThatAPlainConsumerOvertakes(t *testing.T) {
	const keys, each, workers = 10, 5, 4
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	js := serve(t)
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}}); err != nil {
		t.Fatal(err)
	}
	consumer, err := js.CreateConsumer(ctx, "EVENTS", jetstream.ConsumerConfig{Durable: "plain", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 100})
	if err != nil {
		t.Fatal(err)
	}
	p := &plain{}
	publish := func(id string) {
		key, _, _ := strings.Cut(id, "-")
		p.write(torture.Line{What: torture.Sent, ID: id, Key: key})
		ack, err := js.Publish(ctx, "events."+key, []byte(id))
		if err != nil {
			t.Fatal(err)
		}
		p.write(torture.Line{What: torture.Accepted, ID: id, Key: key, Sequence: ack.Sequence})
	}
	working, stop := context.WithCancel(ctx)
	var busy sync.WaitGroup
	defer func() { stop(); busy.Wait() }()
	for range workers {
		busy.Go(func() {
			for working.Err() == nil {
				m, err := consumer.Next(jetstream.FetchMaxWait(100 * time.Millisecond))
				if errors.Is(err, nats.ErrTimeout) {
					continue
				}
				if err == nil {
					err = p.handle(ctx, m)
				}
				if err != nil {
					t.Errorf("plain consumer: %v", err)
					return
				}
			}
		})
	}
	// The first event of each key has failed before the second one exists, so that nothing is left to chance but the delay, and
	// what overtakes does not run beside what it overtakes.
	for k := range keys {
		publish(fmt.Sprintf("k%d-0", k))
	}
	await(ctx, t, p, torture.Failed, keys)
	for n := 1; n < each; n++ {
		for k := range keys {
			publish(fmt.Sprintf("k%d-%d", k, n))
		}
	}
	await(ctx, t, p, torture.Done, keys*each)
	stop()
	busy.Wait()

	v := torture.Check(torture.Log{Functions: map[string]torture.Rules{"plain": {Ordered: true, Allowed: 5}}, Lines: p.lines})
	if v == nil || v.Kind != torture.Overtaken {
		t.Fatalf("got %v, want something overtaken", v)
	}
	t.Log(v)
	// Without the promise of order it keeps all the others.
	for i := range p.lines {
		if w := p.lines[i].What; w == torture.Begin || w == torture.Finish {
			p.lines[i].Key = ""
		}
	}
	if v := torture.Check(torture.Log{
		Functions: map[string]torture.Rules{"plain": {Allowed: 5}}, Lines: p.lines,
		End: &torture.End{Accounts: map[string]torture.Counts{"plain": {Accepted: keys * each, Delivered: keys * each}}},
	}); v != nil {
		t.Errorf("without order: got %v, want no violation", v)
	}
}

// serve starts a server without a listener and returns a client of it.
func serve(t *testing.T) jetstream.JetStream {
	t.Helper()
	ns, err := server.NewServer(&server.Options{JetStream: true, StoreDir: t.TempDir(), DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server is not ready")
	}
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func await(ctx context.Context, t *testing.T, p *plain, outcome string, n int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for p.count(outcome) < n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("got %d attempts that ended with %s, want %d", p.count(outcome), outcome, n)
		}
	}
}
