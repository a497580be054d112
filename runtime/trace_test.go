package runtime

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/siding-dev/siding/functions"
)

// recording is a tracer whose spans are kept in memory in the order in which
// they ended.
type recording struct {
	tracer   *tracer
	exporter *tracetest.InMemoryExporter
}

func newRecording() recording {
	return newRecordingWith(sdktrace.ParentBased(sdktrace.AlwaysSample()))
}

func newRecordingWith(sampler sdktrace.Sampler) recording {
	exporter := tracetest.NewInMemoryExporter()
	return recording{newTracer(sdktrace.NewTracerProvider(append(tracePolicy(sampler), sdktrace.WithSyncer(exporter))...)), exporter}
}

// named returns the spans of a name and fails unless there are n.
func (r recording) named(t *testing.T, name string, n int) []tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	for _, s := range r.exporter.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != n {
		t.Fatalf("got %d spans %q, want %d", len(found), name, n)
	}
	return found
}

func claimed(header nats.Header) tracedEvent {
	return tracedEvent{
		Function: "file-claim", Stream: "EVENTS", Sequence: 42, Key: "customer-7",
		ID: "claim-1", Source: "/claims", Type: "com.insurer.claim.reported", Header: header,
	}
}

func failing(text string) functions.Result {
	return functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient, Err: errors.New(text)}
}

func attributesOf(list []attribute.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range list {
		m[string(kv.Key)] = kv.Value.AsInterface()
	}
	return m
}

// checkLink fails if a span is linked to its parent, or not to what it
// follows from.
func checkLink(t *testing.T, s tracetest.SpanStub, previous spanRef, role string) {
	t.Helper()
	if len(s.Links) != 1 {
		t.Fatalf("%s: got %d links, want 1", s.Name, len(s.Links))
	}
	c := s.Links[0].SpanContext
	if got := (spanRef{c.TraceID().String(), c.SpanID().String()}); got != previous {
		t.Errorf("%s: got a link to %v, want %v", s.Name, got, previous)
	}
	if got := attributesOf(s.Links[0].Attributes)["link.role"]; got != role {
		t.Errorf("%s: got link role %v, want %s", s.Name, got, role)
	}
	if c.SpanID() == s.Parent.SpanID() {
		t.Errorf("%s: is linked to its parent %s", s.Name, c.SpanID())
	}
}

// spring-kafka#3816 and wolverine#4398: a new trace id on every retry, so that
// attempts cannot be followed, and a doubled traceparent.
func TestOneEventIsOneTrace(t *testing.T) {
	t.Parallel()
	for name, incoming := range map[string]http.Header{
		"from a traced caller": {"Traceparent": {sampledParent}},
		"from an untraced one": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := newRecording()
			e := claim(t)
			_, header, published := rec.tracer.publish(t.Context(), incoming, e)
			published(42, false, nil)
			stored := nats.Header{"ce-traceparent": {e.Extensions()[traceparent].(string)}}
			maps.Copy(stored, header)
			if got := stored["traceparent"]; len(got) != 1 {
				t.Fatalf("got traceparent %q, want exactly one", got)
			}

			ev, previous := claimed(stored), spanRef{}
			var refs []spanRef
			for n := 1; n <= 3; n++ {
				_, a := rec.tracer.attempt(t.Context(), ev, n, n > 1, previous)
				a.end(failing("bank is away"), time.Second)
				previous = a.ref()
				refs = append(refs, previous)
			}
			parked := rec.tracer.moment(ev, spanPark, previous, attrCause("exhausted"), attrBy("advisory"))
			ev.Cycle = 1
			redriven := rec.tracer.moment(ev, spanRedrive, parked, attrReason("bank is back"), attrBy("ada"))
			_, last := rec.tracer.attempt(t.Context(), ev, 1, true, redriven)
			last.end(functions.Result{Outcome: functions.Done}, 0)

			spans := rec.exporter.GetSpans()
			if len(spans) != 7 {
				t.Fatalf("got %d spans, want 7", len(spans))
			}
			publish := spans[0]
			for _, s := range spans {
				if got, want := s.SpanContext.TraceID(), publish.SpanContext.TraceID(); got != want {
					t.Errorf("%s: got trace %s, want %s", s.Name, got, want)
				}
				if s.Name != spanPublish && s.Parent.SpanID() != publish.SpanContext.SpanID() {
					t.Errorf("%s: got parent %s, want the publish span", s.Name, s.Parent.SpanID())
				}
				if id := attributesOf(s.Attributes)["cloudevents.event_id"]; id != "claim-1" {
					t.Errorf("%s: got event id %v", s.Name, id)
				}
			}
			if got, want := publish.SpanContext.TraceID().String(), traceIDOf(ev); got != want {
				t.Errorf("got trace %s, want the one that dead letters name %s", got, want)
			}
			if len(spans[1].Links) != 0 {
				t.Errorf("first attempt: got links %v, want none", spans[1].Links)
			}
			checkLink(t, spans[2], refs[0], linkPreviousAttempt)
			checkLink(t, spans[3], refs[1], linkPreviousAttempt)
			checkLink(t, spans[4], refs[2], linkPreviousAttempt)
			checkLink(t, spans[5], parked, linkPark)
			checkLink(t, spans[6], redriven, linkRedrive)
			dropped := rec.tracer.moment(ev, spanDiscard, last.ref(), attrReason("no longer wanted"))
			checkLink(t, rec.named(t, spanDiscard, 1)[0], last.ref(), linkPrevious)
			if dropped.TraceID != parked.TraceID {
				t.Errorf("discard: got trace %s, want %s", dropped.TraceID, parked.TraceID)
			}
			if spans[6].Status.Code != codes.Unset || len(spans[6].Events) != 0 {
				t.Errorf("final success: got status %v and events %v of earlier failures", spans[6].Status, spans[6].Events)
			}
		})
	}
}

func TestAttemptSpanSaysWhatHappened(t *testing.T) {
	t.Parallel()
	rec := newRecording()
	ev := claimed(nats.Header{"traceparent": {sampledParent}})
	ev.Cycle = 2
	cause := errors.New("bank is away")
	_, a := rec.tracer.attempt(t.Context(), ev, 3, true, spanRef{})
	a.end(functions.Result{Outcome: functions.Retried, Class: functions.ClassPanic, Err: fmt.Errorf("booking: %w", cause), Stack: "main.go:7"}, 1500*time.Millisecond)
	s := rec.named(t, "process file-claim", 1)[0]
	want := map[string]any{
		"cloudevents.event_id": "claim-1", "cloudevents.event_type": "com.insurer.claim.reported", "cloudevents.event_source": "/claims",
		"faas.name": "file-claim", "messaging.system": "nats", "messaging.operation.name": "process", "messaging.operation.type": "process",
		"messaging.destination.name": "EVENTS", "messaging.message.id": "42",
		"siding.attempt": int64(3), "siding.cycle": int64(2), "siding.key": "customer-7", "siding.redelivered": true,
		"siding.outcome": "retry", "error.type": "panic", "siding.retry_in_ms": int64(1500),
	}
	if diff := cmp.Diff(want, attributesOf(s.Attributes)); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if s.SpanKind != trace.SpanKindConsumer || !s.Parent.IsRemote() || s.Parent.SpanID().String() != parentSpan {
		t.Errorf("got kind %v and parent %v, want a consumer below the publisher's span", s.SpanKind, s.Parent.SpanID())
	}
	if s.Status.Code != codes.Error || s.Status.Description != "booking: bank is away" {
		t.Errorf("got status %+v", s.Status)
	}
	if len(s.Events) != 1 {
		t.Fatalf("got %d span events, want 1", len(s.Events))
	}
	exception := map[string]any{"exception.type": "*errors.errorString", "exception.message": "booking: bank is away", "exception.stacktrace": "main.go:7"}
	if diff := cmp.Diff(exception, attributesOf(s.Events[0].Attributes)); diff != "" {
		t.Errorf("exception (-want +got):\n%s", diff)
	}
}

func TestOnlyFailuresAreErrors(t *testing.T) {
	t.Parallel()
	err := errors.New("no")
	for _, tc := range []struct {
		res    functions.Result
		status codes.Code
		class  any
	}{
		{functions.Result{Outcome: functions.Done}, codes.Unset, nil},
		{functions.Result{Outcome: functions.Discarded, Class: functions.ClassPermanent, Err: err}, codes.Unset, nil},
		{functions.Result{Outcome: functions.Retried, Class: functions.ClassStopping, Err: err}, codes.Unset, "stopping"},
		{functions.Result{Outcome: functions.Parked, Class: functions.ClassPermanent, Err: err}, codes.Error, "permanent"},
		{functions.Result{Outcome: functions.Retried, Class: functions.ClassTimeout}, codes.Error, "timeout"},
	} {
		rec := newRecording()
		_, a := rec.tracer.attempt(t.Context(), claimed(nil), 1, false, spanRef{})
		a.end(tc.res, 0)
		s := rec.named(t, "process file-claim", 1)[0]
		if s.Status.Code != tc.status || attributesOf(s.Attributes)["error.type"] != tc.class {
			t.Errorf("%s/%s: got status %v, error.type %v", tc.res.Outcome, tc.res.Class, s.Status.Code, attributesOf(s.Attributes)["error.type"])
		}
	}
}

func TestLinkNeverEqualsTheParent(t *testing.T) {
	t.Parallel()
	rec := newRecording()
	ev := claimed(nats.Header{"traceparent": {sampledParent}})
	_, a := rec.tracer.attempt(t.Context(), ev, 2, true, spanRef{parentTrace, parentSpan})
	a.end(failing("no"), 0)
	rec.tracer.moment(ev, spanPark, spanRef{parentTrace, parentSpan})
	rec.tracer.moment(ev, spanDiscard, spanRef{"not", "hex"})
	for _, s := range rec.exporter.GetSpans() {
		if len(s.Links) != 0 {
			t.Errorf("%s: got links %v, want none", s.Name, s.Links)
		}
	}
}

func TestUnsampledPublisherHidesSuccessesButNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rec := newRecording()
		ev := claimed(nats.Header{"traceparent": {unsampledParent}})

		ctx, a := rec.tracer.attempt(t.Context(), ev, 1, false, spanRef{})
		if c := trace.SpanContextFromContext(ctx); c.TraceID().String() != parentTrace || c.IsSampled() {
			t.Errorf("handler: got context %v, want the publisher's unsampled one", c)
		}
		a.end(functions.Result{Outcome: functions.Done}, 0)
		if got := rec.exporter.GetSpans(); len(got) != 0 || a.ref() != (spanRef{}) {
			t.Fatalf("success: got %d spans and ref %v, want none", len(got), a.ref())
		}

		began := time.Now()
		_, a = rec.tracer.attempt(t.Context(), ev, 1, false, spanRef{})
		time.Sleep(3 * time.Second)
		a.end(failing("bank is away"), time.Minute)
		failed := rec.named(t, "process file-claim", 1)[0]
		if !failed.StartTime.Equal(began) || failed.EndTime.Sub(began) != 3*time.Second {
			t.Errorf("got times %v to %v, want those of the attempt", failed.StartTime.Sub(began), failed.EndTime.Sub(began))
		}

		_, b := rec.tracer.attempt(t.Context(), ev, 2, true, a.ref())
		b.end(functions.Result{Outcome: functions.Done}, 0)
		spans := rec.named(t, "process file-claim", 2)
		checkLink(t, spans[1], a.ref(), linkPreviousAttempt)
		for _, s := range spans {
			if s.SpanContext.TraceID().String() != parentTrace || s.Parent.IsValid() {
				t.Errorf("got trace %s and parent %s, want a root in the event's trace", s.SpanContext.TraceID(), s.Parent.SpanID())
			}
		}
	})
}

func TestLaterAttemptsAreRecordedThoughTheEarlierSpanIsUnknown(t *testing.T) {
	t.Parallel()
	rec := newRecording()
	ev := claimed(nats.Header{"traceparent": {unsampledParent}})
	_, second := rec.tracer.attempt(t.Context(), ev, 2, true, spanRef{})
	second.end(functions.Result{Outcome: functions.Done}, 0)
	ev.Cycle = 1
	_, redriven := rec.tracer.attempt(t.Context(), ev, 1, true, spanRef{})
	redriven.end(functions.Result{Outcome: functions.Done}, 0)
	rec.named(t, "process file-claim", 2)
}

func TestSampledOutTracesStillShowFailures(t *testing.T) {
	t.Parallel()
	rec := newRecordingWith(sdktrace.ParentBased(sdktrace.NeverSample()))
	e := claim(t)
	_, header, published := rec.tracer.publish(t.Context(), nil, e)
	published(42, false, nil)
	for _, ev := range []tracedEvent{claimed(nil), claimed(header)} {
		_, ok := rec.tracer.attempt(t.Context(), ev, 1, false, spanRef{})
		ok.end(functions.Result{Outcome: functions.Done}, 0)
		_, bad := rec.tracer.attempt(t.Context(), ev, 1, false, spanRef{})
		bad.end(failing("no"), 0)
	}
	for _, s := range rec.named(t, "process file-claim", 2) {
		if got, want := s.SpanContext.TraceID().String(), traceIDOf(claimed(nil)); got != want || s.Parent.IsValid() {
			t.Errorf("got trace %s, parent %v; want a root in %s", got, s.Parent, want)
		}
	}
}

func TestAttemptsAfterARestartLandInTheSameTrace(t *testing.T) {
	t.Parallel()
	before, after := newRecording(), newRecording()
	_, a := before.tracer.attempt(t.Context(), claimed(nil), 1, false, spanRef{})
	a.end(failing("no"), 0)
	_, b := after.tracer.attempt(t.Context(), claimed(nil), 2, true, a.ref())
	b.end(failing("no"), 0)
	x, y := before.named(t, "process file-claim", 1)[0], after.named(t, "process file-claim", 1)[0]
	if x.SpanContext.TraceID() != y.SpanContext.TraceID() || x.SpanContext.SpanID() == y.SpanContext.SpanID() {
		t.Errorf("got %v and %v, want two spans of one trace", x.SpanContext, y.SpanContext)
	}
	if x.Parent.IsValid() || y.Parent.IsValid() {
		t.Errorf("got parents %v and %v that nobody exported", x.Parent, y.Parent)
	}
	checkLink(t, y, a.ref(), linkPreviousAttempt)
}

func TestRepeatedPublishesDoNotShareASpanID(t *testing.T) {
	t.Parallel()
	rec := newRecording()
	var headers []nats.Header
	for i, err := range []error{errors.New("stream full"), nil, nil} {
		_, header, published := rec.tracer.publish(t.Context(), nil, claim(t))
		published(42, i == 2, err)
		headers = append(headers, header)
	}
	spans, seen := rec.named(t, spanPublish, 3), map[trace.SpanID]bool{}
	for _, s := range spans {
		seen[s.SpanContext.SpanID()] = true
		if got, want := s.SpanContext.TraceID(), deriveTraceID("/claims", "claim-1"); got != want {
			t.Errorf("got trace %s, want %s", got, want)
		}
	}
	if len(seen) != 3 {
		t.Errorf("got %d span ids for 3 spans", len(seen))
	}
	if got, want := headerContext(headers[1], "").SpanID(), spans[1].SpanContext.SpanID(); got != want {
		t.Errorf("stored header names span %s, want the publish that stored it %s", got, want)
	}
	if duplicate, _ := attributesOf(spans[2].Attributes)["siding.duplicate"].(bool); spans[0].Status.Code != codes.Error || !duplicate {
		t.Errorf("got status %v, duplicate %v", spans[0].Status, attributesOf(spans[2].Attributes)["siding.duplicate"])
	}
}

func TestTracingThatIsOffCostsTheAttemptPathNothing(t *testing.T) {
	var provider *sdktrace.TracerProvider
	for name, off := range map[string]trace.TracerProvider{"none": nil, "nil": provider, "no-op": noop.NewTracerProvider()} {
		tr, ev, ctx := newTracer(off), claimed(nats.Header{"traceparent": {sampledParent}}), t.Context()
		if n := testing.AllocsPerRun(100, func() {
			_, a := tr.attempt(ctx, ev, 1, false, spanRef{})
			a.end(functions.Result{Outcome: functions.Done}, 0) //nolint:contextcheck // a span ends whatever became of the context
			_ = a.ref()
		}); n != 0 {
			t.Errorf("%s: got %v allocations an attempt, want 0", name, n)
		}
		if got := tr.moment(ev, spanPark, spanRef{}); got != (spanRef{}) {
			t.Errorf("%s: got ref %v, want none", name, got)
		}
	}
}

func BenchmarkAttempt(b *testing.B) {
	exporting := sdktrace.NewTracerProvider(tracePolicy(sdktrace.ParentBased(sdktrace.AlwaysSample()))...)
	for _, bm := range []struct {
		name, parent string
		provider     trace.TracerProvider
	}{{"off", sampledParent, nil}, {"unsampled", unsampledParent, exporting}, {"recorded", sampledParent, exporting}} {
		b.Run(bm.name, func(b *testing.B) {
			tr, ev, ctx := newTracer(bm.provider), claimed(nats.Header{"traceparent": {bm.parent}}), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				_, a := tr.attempt(ctx, ev, 1, false, spanRef{})
				a.end(functions.Result{Outcome: functions.Done}, 0)
			}
		})
	}
}

// sink is a collector for OTLP over HTTP.
type sink struct {
	mu    sync.Mutex
	spans []*otlp.Span
	attrs map[string]string // of the resource
	path  string
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	data, err := io.ReadAll(body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(data, &request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.path, s.attrs = r.URL.Path, map[string]string{}
	for _, rs := range request.ResourceSpans {
		for _, kv := range rs.Resource.Attributes {
			s.attrs[kv.Key] = kv.Value.GetStringValue()
		}
		for _, scope := range rs.ScopeSpans {
			s.spans = append(s.spans, scope.Spans...)
		}
	}
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestSpansGoOutOverOTLP(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var got sink
	server := httptest.NewServer(&got)
	defer server.Close()
	provider, shutdown, err := newTracerProvider(t.Context(), env("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL+"/otlp/", "OTEL_SERVICE_NAME", "claims"), "1.4.0",
		func(n int, reason error) { t.Errorf("lost %d spans: %v", n, reason) })
	if err != nil {
		t.Fatal(err)
	}
	tr := newTracer(provider)
	// One byte that is not UTF-8 must not cost the batch.
	ev := claimed(nats.Header{"traceparent": {sampledParent}})
	ev.Key = "k\xff"
	_, a := tr.attempt(t.Context(), ev, 1, false, spanRef{})
	a.end(failing("bad byte \xfe "+strings.Repeat("é", maxText)), time.Second)
	tr.moment(ev, spanPark, a.ref(), attrCause("exhausted"))
	if err := shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got.path != "/otlp/v1/traces" {
		t.Errorf("got path %s", got.path)
	}
	if got.attrs["service.name"] != "claims" || got.attrs["service.version"] != "1.4.0" || got.attrs["ip"] == "" {
		t.Errorf("got resource %v", got.attrs)
	}
	if len(got.spans) != 2 {
		t.Fatalf("got %d spans, want 2", len(got.spans))
	}
	process, park := got.spans[0], got.spans[1]
	if fmt.Sprintf("%x %x", process.TraceId, process.ParentSpanId) != parentTrace+" "+parentSpan {
		t.Errorf("got trace %x below %x", process.TraceId, process.ParentSpanId)
	}
	if process.Kind != otlp.Span_SPAN_KIND_CONSUMER || process.Status.Code != otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("got kind %v and status %v", process.Kind, process.Status.Code)
	}
	if m := process.Status.Message; !utf8.ValidString(m) || len(m) > maxText+8 {
		t.Errorf("got a status message of %d bytes, want it valid and cut", len(m))
	}
	if len(park.Links) != 1 || string(park.Links[0].SpanId) != string(process.SpanId) {
		t.Errorf("park: got links %v, want one to the attempt", park.Links)
	}
}

// grpcSink is a collector for OTLP over gRPC.
type grpcSink struct {
	collector.UnimplementedTraceServiceServer
	spans atomic.Int64
}

func (s *grpcSink) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	for _, rs := range r.ResourceSpans {
		for _, scope := range rs.ScopeSpans {
			s.spans.Add(int64(len(scope.Spans)))
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestSpansGoOutOverGRPCWhenAskedTo(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got, server := &grpcSink{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, got)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	provider, shutdown, err := newTracerProvider(t.Context(), env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), "dev",
		func(n int, reason error) { t.Errorf("lost %d spans: %v", n, reason) })
	if err != nil {
		t.Fatal(err)
	}
	newTracer(provider).moment(claimed(nil), spanPark, spanRef{})
	if err := shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if n := got.spans.Load(); n != 1 {
		t.Errorf("got %d spans, want 1", n)
	}
}

func TestServiceIsCalledSidingByDefault(t *testing.T) {
	described, err := traceResource(t.Context(), env(), "dev")
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := described.Set().Value("service.name"); v.AsString() != "siding" {
		t.Errorf("got service.name %q, want siding", v.AsString())
	}
}

func TestRefusingCollectorCostsSpansOnly(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer server.Close()
	var lost atomic.Int64
	provider, shutdown, err := newTracerProvider(t.Context(), env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL), "dev",
		func(n int, _ error) { lost.Add(int64(n)) })
	if err != nil {
		t.Fatal(err)
	}
	tr := newTracer(provider)
	for range 3 {
		tr.moment(claimed(nil), spanPark, spanRef{})
	}
	if err := shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("shutdown: got %v, want nil", err)
	}
	if got := lost.Load(); got != 3 {
		t.Errorf("got %d lost spans, want 3", got)
	}
}

// hangingExporter is a collector that answers when it is released.
type hangingExporter struct {
	sdktrace.SpanExporter
	release chan struct{}
}

func (e hangingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	<-e.release
	return e.SpanExporter.ExportSpans(ctx, spans)
}

func TestFullSpanQueueDropsCountsAndRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept, lost := tracetest.NewInMemoryExporter(), 0
		e := hangingExporter{kept, make(chan struct{})}
		queue := newSpanQueue(e, 2, func(n int, reason error) {
			if !errors.Is(reason, errSpanQueueFull) {
				t.Errorf("got reason %v", reason)
			}
			lost += n
		})
		provider := sdktrace.NewTracerProvider(append(tracePolicy(sdktrace.AlwaysSample()), sdktrace.WithSpanProcessor(queue))...)
		tr := newTracer(provider)
		for range 5 { // none of these may block: in the bubble that would be a deadlock
			tr.moment(claimed(nil), spanPark, spanRef{})
		}
		if lost != 3 {
			t.Errorf("got %d lost spans, want 3", lost)
		}
		close(e.release)
		time.Sleep(time.Minute)
		tr.moment(claimed(nil), spanDiscard, spanRef{})
		time.Sleep(time.Minute)
		if got := len(kept.GetSpans()); got != 3 || lost != 3 {
			t.Errorf("got %d spans sent and %d lost, want 3 and 3", got, lost)
		}
		if err := provider.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestExportIsOffWithoutAnEndpointOrWhenSwitchedOff(t *testing.T) {
	t.Parallel()
	const endpoint, url = "OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:1"
	for name, getenv := range map[string]func(string) string{
		"no endpoint":        env(),
		"disabled":           env(endpoint, url, "OTEL_SDK_DISABLED", "TRUE"),
		"exporter none":      env(endpoint, url, "OTEL_TRACES_EXPORTER", "none"),
		"sampler always_off": env(endpoint, url, "OTEL_TRACES_SAMPLER", "always_off"),
	} {
		provider, shutdown, err := newTracerProvider(t.Context(), getenv, "dev", nil)
		if provider != nil || err != nil || newTracer(provider) != nil {
			t.Errorf("%s: got provider %v, error %v; want none", name, provider, err)
		}
		if err := shutdown(t.Context()); err != nil {
			t.Errorf("%s: shutdown: got %v", name, err)
		}
	}
}

func TestWrongExportSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	const endpoint, url = "OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:1"
	for name, getenv := range map[string]func(string) string{
		"OTEL_EXPORTER_OTLP_ENDPOINT":        env(endpoint, "localhost:4317"),
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector"),
		"OTEL_EXPORTER_OTLP_PROTOCOL":        env(endpoint, url, "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
		"OTEL_TRACES_EXPORTER":               env(endpoint, url, "OTEL_TRACES_EXPORTER", "zipkin"),
		"OTEL_TRACES_SAMPLER":                env(endpoint, url, "OTEL_TRACES_SAMPLER", "jaeger_remote"),
		"OTEL_TRACES_SAMPLER_ARG":            env(endpoint, url, "OTEL_TRACES_SAMPLER_ARG", "NaN"),
	} {
		provider, _, err := newTracerProvider(t.Context(), getenv, "dev", nil)
		if provider != nil || err == nil || !strings.HasPrefix(err.Error(), name+": ") || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%s: got provider %v, error %v; want an error with this name and a hint", name, provider, err)
		}
	}
}
