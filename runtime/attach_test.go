package runtime

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// foreignStream makes a stream as somebody else would, before anything of ours runs.
func (w *world) foreignStream(cfg jetstream.StreamConfig) {
	w.t.Helper()
	l := w.open()
	if _, err := l.store.JetStream().CreateStream(context.Background(), cfg); err != nil {
		w.t.Fatalf("stream %s: %v", cfg.Name, err)
	}
	l.end()
}

// order publishes CloudEvents to a subject of a stream that is not ours.
func (l *life) order(subject string, ids ...string) {
	l.w.t.Helper()
	for _, id := range ids {
		h := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-source": {"shop"}, "ce-type": {"com.shop.order"}, "ce-partitionkey": {subject}}
		if _, err := l.store.JetStream().PublishMsg(context.Background(), &nats.Msg{Subject: subject, Header: h, Data: []byte(id)}); err != nil {
			l.w.t.Fatalf("publish %s: %v", subject, err)
		}
	}
}

func attached(types ...string) functions.Function {
	return functions.Function{Stream: "ORDERS", Types: types, Retry: thrice()}
}

// TestAnAttachedStreamIsHandledLikeEvents takes events of a stream that somebody else made through retry, parking, a kill, redrive and discard. On
// the same stream a consumer that is not ours exhausts its deliveries: that makes advisories, and no dead letters.
func TestAnAttachedStreamIsHandledLikeEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.foreignStream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>", "other"}})
		fns := func() []functions.Function {
			return []functions.Function{w.function(attached("orders.*.placed"), always, scripted)}
		}
		l := w.start(testTiming(), fns())
		<-l.host.started
		stranger, err := l.store.JetStream().CreateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{
			Durable: "stranger", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second, MaxDeliver: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		l.order("other", "not-ours")
		l.order("orders.7.placed", "done-1", "twice-2", "park-3", "done-4")
		l.order("orders.8.placed", "never-5", "done-6")
		l.order("orders.8.paid", "nobodys")
		batch, err := stranger.Fetch(3, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for range batch.Messages() { // delivered once, and never acknowledged
		}
		a := l.settle("f")
		l.wantAccount("before the kill", a, client.FunctionAccount{Stream: "ORDERS", Accepted: 6, Delivered: 2, Parked: 2, Held: 2})
		wantLines(t, l.host.metrics, `siding_advisories_total{kind="max_deliveries",verdict="foreign"} 3`)
		l.kill()

		l = w.start(testTiming(), fns())
		l.wantAccount("after it", l.settle("f"), client.FunctionAccount{Stream: "ORDERS", Accepted: 6, Delivered: 2, Parked: 2, Held: 2})
		d := l.detailOf("f", 4)
		if d.Stream != "ORDERS" || d.Subject != "orders.7.placed" || d.Type != "com.shop.order" || d.EventID != "park-3" {
			t.Errorf("got %+v, want the dead letter to name stream, subject and event", d.DeadLetter)
		}
		l.decide(client.Redrive, "f", 4)
		l.decide(client.Discard, "f", 6)
		l.wantAccount("in the end", l.settle("f"), client.FunctionAccount{Stream: "ORDERS", Accepted: 6, Delivered: 5, Discarded: 1})
		order := slices.DeleteFunc(w.order(), func(id string) bool { return id == "done-6" }) // of another key
		wantOrder(t, "delivered", order, "done-1", "twice-2", "park-3", "done-4")
	})
}

// TestWhatAnAttachedStreamRemovesIsGoneAndSaid: what had left the stream stands whole; what was removed before it was handled is an alarm.
func TestWhatAnAttachedStreamRemovesIsGoneAndSaid(t *testing.T) {
	for _, tc := range []struct {
		name    string
		stream  jetstream.StreamConfig
		removes string
		gone    []uint64 // sequences that the account names
	}{
		{"by age", jetstream.StreamConfig{MaxAge: time.Hour}, "older than 1h0m0s", []uint64{3}},
		{"by number", jetstream.StreamConfig{MaxMsgs: 2}, "the oldest beyond 2 events", []uint64{3}},
		{"by size", jetstream.StreamConfig{MaxBytes: 400}, "the oldest beyond 400 bytes", []uint64{3}},
		{"by subject", jetstream.StreamConfig{MaxMsgsPerSubject: 1}, "the oldest beyond 1 of one subject", []uint64{3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tc.stream.Name, tc.stream.Subjects = "ORDERS", []string{"orders.>"}
				w.foreignStream(tc.stream)
				fns := func() []functions.Function {
					return []functions.Function{w.function(attached("orders.>"), always, scripted)}
				}
				l := w.start(testTiming(), fns())
				<-l.host.started
				l.order("orders.first", "done-0")
				l.order("orders.a", "park-1")
				l.settle("f")
				shown, err := l.runtime().functionShow(t.Context(), "f")
				if err != nil || len(shown.StreamRemoves) != 1 || shown.StreamRemoves[0] != tc.removes {
					t.Errorf("got %v, %v, want function show to say %q", shown.StreamRemoves, err, tc.removes)
				}
				l.end()

				l = w.open() // nobody handles what comes now
				l.order("orders.a", "lost-1")
				if tc.stream.MaxAge > 0 {
					time.Sleep(2 * time.Hour)
				}
				l.order("orders.a", "done-1")
				l.order("orders.b", "done-2")
				time.Sleep(time.Second)
				l.end()

				l = w.start(testTiming(), fns())
				<-l.host.started
				time.Sleep(10 * time.Minute)
				a := l.account("f")
				var named []uint64
				for _, p := range a.Problems {
					named = append(named, p.Sequence)
				}
				if a.Gone != 1 || len(named) != 1 || named[0] != tc.gone[0] || a.Parked != 1 || sum(a) != a.Accepted {
					t.Errorf("got %+v, want the sequences %v gone and 1 parked", a, tc.gone)
				}
				if letter := l.detailOf("f", 2); string(letter.DataBase64) != "park-1" {
					t.Errorf("got %+v, want the dead letter whole though its original is gone", letter.Payload)
				}
				l.decide(client.Redrive, "f", 2)
				time.Sleep(time.Minute)
				if a := l.account("f"); a.Parked != 0 || a.Held != 0 || sum(a) != a.Accepted {
					t.Errorf("got %+v after the redrive, want it handled", a)
				}
			})
		})
	}
}

// TestStreamsThatCannotBeReadAreRefusedAtTheStart names the function, the stream and the way out.
func TestStreamsThatCannotBeReadAreRefusedAtTheStart(t *testing.T) {
	for _, tc := range []struct {
		name   string
		stream jetstream.StreamConfig
		fn     functions.Function
		want   []string
	}{
		{"a work queue", jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy}, attached("orders.>"), []string{"workqueue retention", "hint: read a stream with limits retention"}},
		{"interest", jetstream.StreamConfig{Retention: jetstream.InterestPolicy}, attached("orders.>"), []string{"interest retention", "hint: "}},
		{"types instead of subjects", jetstream.StreamConfig{}, attached("com.shop.order"), []string{`no event on it can match "com.shop.order"`, "hint: ", "orders.>"}},
		{"another name", jetstream.StreamConfig{}, functions.Function{Stream: "ODERS", Types: []string{">"}}, []string{"stream ODERS: not found", "hint: did you mean ORDERS?"}},
		{"no name like it", jetstream.StreamConfig{}, functions.Function{Stream: "INVOICES", Types: []string{">"}}, []string{"stream INVOICES: not found", "hint: create the stream first"}},
		{"one of ours", jetstream.StreamConfig{}, functions.Function{Stream: "SIDING_AUDIT", Types: []string{">"}}, []string{"siding keeps for itself", "hint: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tc.stream.Name, tc.stream.Subjects = "ORDERS", []string{"orders.>"}
				w.foreignStream(tc.stream)
				l := w.start(testTiming(), []functions.Function{w.function(tc.fn, always, scripted)})
				err := l.refused()
				for _, want := range append(tc.want, "function f: stream ") {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want it to say %q", err, want)
					}
				}
			})
		})
	}
}

// TestConfiguredStreamsAreMadeOnceAndTakeWhatClientsPublish starts a node as a program does: there is no other way for a client to get a stream
// on an embedded server.
func TestConfiguredStreamsAreMadeOnceAndTakeWhatClientsPublish(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		got := make(chan string, 1)
		fn := functions.Function{Name: "f", Stream: "ORDERS", Types: []string{"orders.>"}, Handle: func(_ context.Context, e functions.Event) error {
			got <- e.ID()
			return nil
		}}
		r, err := New(Config{DataDir: dir, NATS: "127.0.0.1:0", Streams: []streams.SourceStream{{Name: "ORDERS", Subjects: []string{"orders.>"}}}}, fn)
		if err != nil {
			t.Fatal(err)
		}
		stop := runNode(t, r)
		conn, err := nats.Connect(r.NATSAddr())
		if err != nil {
			t.Fatal(err)
		}
		m := &nats.Msg{Subject: "orders.1", Header: nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"7"}, "ce-source": {"shop"}, "ce-type": {"t"}}}
		if _, err := conn.RequestMsgWithContext(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if id := <-got; id != "7" {
			t.Errorf("got event %q, want 7", id)
		}
		conn.Close()
		stop()
	}
	for name, source := range map[string]streams.SourceStream{
		"made by siding itself": {Name: "SIDING_RETRY", Subjects: []string{"x"}}, "not a name": {Name: "a.b", Subjects: []string{"x"}}, "no subjects": {Name: "A"},
		"not a NATS subject": {Name: "A", Subjects: []string{"a..b"}}, "not free": {Name: "A", Subjects: []string{"$JS.API.>"}}, "negative": {Name: "A", Subjects: []string{"a"}, MaxBytes: -1},
	} {
		if _, err := New(Config{Streams: []streams.SourceStream{source}}); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%+v: got %v, want it refused as %s, with a hint", source, err, name)
		}
	}
}

// runNode runs a node until stop is called, which waits for its end. It returns when the functions run.
func runNode(t testing.TB, r *Runtime) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	select {
	case <-r.Ready():
	case err := <-done:
		cancel()
		t.Fatalf("node: %v", err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("node: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}
