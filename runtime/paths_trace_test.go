package runtime

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// acceptTraced stores an event as the HTTP API does.
func (l *life) acceptTraced(tr *tracer, incoming http.Header, id string) streams.Accepted {
	l.w.t.Helper()
	e := newEvent(id)
	ctx, hop, end := tr.publish(context.Background(), incoming, &e)
	a, err := l.store.Accept(ctx, e, hop)
	end(a.Sequence, a.Duplicate, err)
	if err != nil {
		l.w.t.Fatalf("accept %s: %v", id, err)
	}
	return a
}

// TestTheOwnerKeepsOneEventInOneTrace lets an event fail three times, park, be redriven and succeed, in one life and with a restart
// behind its first attempt. Elsewhere each retry began a trace of its own and the traceparent was doubled
// (spring-projects/spring-kafka#3816, JasperFx/wolverine#4398).
func TestTheOwnerKeepsOneEventInOneTrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		incoming http.Header
		restart  bool
	}{
		{"from a traced caller", http.Header{"Traceparent": {sampledParent}}, false},
		{"from an untraced caller", http.Header{}, false},
		{"from a traced caller, with restarts", http.Header{"Traceparent": {sampledParent}}, true},
		{"from an untraced caller, with restarts", http.Header{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fn := functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Minute)}}
				handle := func(_ context.Context, _ string, a functions.Attempt) error {
					if a.Cycle == 0 {
						return errNo
					}
					return nil
				}
				var recordings []recording
				var l *life
				life := func() recording {
					rec := newRecording()
					recordings = append(recordings, rec)
					l = w.startTraced(rec.tracer, []functions.Function{w.function(fn, forever, handle)})
					<-l.host.started
					return rec
				}
				again := func() {
					if c.restart {
						l.end()
						life()
					}
				}
				rec := life()
				seq := l.acceptTraced(rec.tracer, c.incoming, "1").Sequence
				time.Sleep(time.Second)
				again() // behind the first attempt
				time.Sleep(time.Minute)
				again() // behind the second
				time.Sleep(time.Minute)
				l.settle("f")
				trace := l.detail("f", "1").TraceID
				again() // behind the parking
				l.redrive("f", seq)
				if a := l.settle("f"); a.Delivered != 1 {
					t.Errorf("got %+v, want it delivered", a)
				}

				var spans []tracetest.SpanStub
				for _, r := range recordings {
					spans = append(spans, r.exporter.GetSpans()...)
				}
				// The first attempt may well end before the publisher has its answer.
				if spans[0].Name != spanPublish {
					spans[0], spans[1] = spans[1], spans[0]
				}
				want := []struct {
					name, role string
					to         int // which span it links to, if it has a role
				}{
					{spanPublish, "", 0}, {"process f", "", 0},
					{spanBackoff, linkPreviousAttempt, 1}, {"process f", linkPreviousAttempt, 1},
					{spanBackoff, linkPreviousAttempt, 3}, {"process f", linkPreviousAttempt, 3},
					{spanPark, linkPreviousAttempt, 5}, {spanParked, linkPark, 6}, {spanRedrive, linkPark, 6}, {"process f", linkRedrive, 8},
				}
				if len(spans) != len(want) {
					t.Fatalf("got %d spans, want %v", len(spans), want)
				}
				for i, s := range spans {
					if s.Name != want[i].name {
						t.Errorf("span %d: got %s, want %s", i, s.Name, want[i].name)
					}
					if got := s.SpanContext.TraceID().String(); got != trace {
						t.Errorf("%s: got trace %s, want that of the dead letter, %s", s.Name, got, trace)
					}
					if got := attributesOf(s.Attributes)["cloudevents.event_id"]; got != "1" {
						t.Errorf("%s: got event id %v, want 1", s.Name, got)
					}
					switch {
					case want[i].role != "":
						to := spans[want[i].to].SpanContext
						checkLink(t, s, spanRef{to.TraceID().String(), to.SpanID().String()}, want[i].role)
					case len(s.Links) != 0:
						t.Errorf("%s: got links %v, want none", s.Name, s.Links)
					}
				}
				m, err := l.store.Get(t.Context(), streams.EventsStream, seq)
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"traceparent", "ce-traceparent"} {
					found := 0
					for k, values := range m.Header {
						if http.CanonicalHeaderKey(k) == http.CanonicalHeaderKey(name) {
							found += len(values)
						}
					}
					if found != 1 {
						t.Errorf("got %d %s on the stored event, want exactly one", found, name)
					}
				}
			})
		})
	}
}
