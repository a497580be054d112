package runtime

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// forever is the life of a process that is not killed.
func forever() bool { return true }

// alwaysFailing is a script whose every attempt fails without saying why.
func alwaysFailing(context.Context, string, functions.Attempt) error { return errNo }

// startTraced begins a process whose owners record spans.
func (w *world) startTraced(tr *tracer, fns []functions.Function, opts ...streams.StoreOption) *life {
	w.t.Helper()
	l := w.open(opts...)
	l.host = newHost(l.store, fns, services{log: testLog(), tracer: tr, metrics: newMetrics(names(fns)...), timing: testTiming()})
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	go func() {
		defer close(l.done)
		l.err = l.host.run(ctx)
	}()
	return l
}

// runtime is a Runtime that shows what the life's host knows.
func (l *life) runtime() *Runtime {
	r := &Runtime{fns: l.host.fns}
	r.host.Store(l.host)
	return r
}

// detail reads the dead letter of the event with an id as an operator does.
func (l *life) detail(function, id string) client.DeadLetterDetail {
	l.w.t.Helper()
	m, ok := l.letters(function)[id]
	if !ok {
		l.w.t.Fatalf("event %s of function %s: got no dead letter, want one", id, function)
	}
	_, ref, err := streams.ParseSubject(m.Subject)
	if err != nil {
		l.w.t.Fatalf("dead letter of event %s: %v", id, err)
	}
	return l.detailOf(function, ref.Sequence)
}

func (l *life) detailOf(function string, sequence uint64) client.DeadLetterDetail {
	l.w.t.Helper()
	d, err := l.runtime().deadLetter(context.Background(), function, sequence)
	if err != nil {
		l.w.t.Fatalf("dead letter %s/%d: %v", function, sequence, err)
	}
	return d
}

// redrive sends the dead letter of an event through its function again and fails unless that is applied.
func (l *life) redrive(function string, sequence uint64) {
	l.w.t.Helper()
	d, err := l.host.decide(context.Background(), client.Decision{Function: function, Sequence: sequence, Action: client.Redrive, Reason: "again", By: "test"})
	if err != nil || !d.Applied {
		l.w.t.Fatalf("redrive %s/%d: got %+v, %v, want it applied", function, sequence, d, err)
	}
}

// count is how many messages a stream holds.
func (l *life) count(stream string) uint64 {
	l.w.t.Helper()
	s, err := l.store.JetStream().Stream(context.Background(), stream)
	if err != nil {
		l.w.t.Fatalf("stream %s: %v", stream, err)
	}
	return s.CachedInfo().State.Msgs
}

// publish writes a message as any NATS client can, past everything that Siding checks.
func (l *life) publish(subject string, header nats.Header, data []byte) {
	l.w.t.Helper()
	if err := l.node.Conn().PublishMsg(&nats.Msg{Subject: subject, Header: header, Data: data}); err != nil {
		l.w.t.Fatalf("publish %s: %v", subject, err)
	}
}

// wantAttempts fails unless an event's attempts had exactly these numbers.
func (w *world) wantAttempts(t testing.TB, id string, want ...int) {
	t.Helper()
	var got []int
	for _, c := range w.calls(id) {
		got = append(got, c.attempt.Number)
	}
	if !slices.Equal(got, want) {
		t.Errorf("event %s: got attempts %v, want %v", id, got, want)
	}
}

// wantTimes fails unless an event's attempts began exactly so long after the first one.
func (w *world) wantTimes(t testing.TB, id string, want ...time.Duration) {
	t.Helper()
	var got []time.Duration
	calls := w.calls(id)
	for _, c := range calls {
		got = append(got, c.at.Sub(calls[0].at))
	}
	if !slices.Equal(got, want) {
		t.Errorf("event %s: got attempts at %v, want %v", id, got, want)
	}
}
