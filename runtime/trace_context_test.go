package runtime

import (
	"context"
	"net/http"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"
	"pgregory.net/rapid"

	"github.com/siding-dev/siding/functions"
)

const (
	sampledParent   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampledParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	otherParent     = "00-11111111111111111111111111111111-2222222222222222-01"
	parentTrace     = "0af7651916cd43dd8448eb211c80319c"
	parentSpan      = "b7ad6b7169203331"
)

func claim(t *testing.T) *event.Event {
	t.Helper()
	e := event.New()
	e.SetID("claim-1")
	e.SetSource("/claims")
	e.SetType("com.insurer.claim.reported")
	if err := e.Validate(); err != nil {
		t.Fatal(err)
	}
	return &e
}

func TestCreationContextPrecedence(t *testing.T) {
	t.Parallel()
	derived := deriveTraceID("/claims", "claim-1").String()
	tests := map[string]struct {
		header     nats.Header
		structured string
		want       string // trace id
	}{
		"plain header wins":              {nats.Header{"traceparent": {sampledParent}, "ce-traceparent": {otherParent}}, otherParent, parentTrace},
		"attribute header is next":       {nats.Header{"ce-traceparent": {sampledParent}}, otherParent, parentTrace},
		"structured attribute is last":   {nats.Header{"X": {"y"}}, sampledParent, parentTrace},
		"any case":                       {nats.Header{"Traceparent": {sampledParent}}, "", parentTrace},
		"any case of the attribute":      {nats.Header{"Ce-TraceParent": {sampledParent}}, "", parentTrace},
		"lower case before other cases":  {nats.Header{"TRACEPARENT": {otherParent}, "traceparent": {sampledParent}}, "", parentTrace},
		"doubled values: the first":      {nats.Header{"traceparent": {sampledParent, otherParent}}, "", parentTrace},
		"malformed header is skipped":    {nats.Header{"traceparent": {"00-zz"}, "ce-traceparent": {sampledParent}}, "", parentTrace},
		"all-zero ids are skipped":       {nats.Header{"traceparent": {"00-00000000000000000000000000000000-0000000000000000-01"}}, "", derived},
		"nothing: derived":               {nil, "", derived},
		"empty header values: derived":   {nats.Header{"traceparent": {}, "ce-traceparent": {""}}, "", derived},
		"unsampled keeps the trace's id": {nats.Header{"traceparent": {unsampledParent}}, "", parentTrace},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := tracedEvent{ID: "claim-1", Source: "/claims", Header: tc.header, StructuredTraceparent: tc.structured}
			if got := traceIDOf(ev); got != tc.want {
				t.Errorf("got trace %s, want %s", got, tc.want)
			}
		})
	}
}

func TestSpellingsOfOneHeaderAreChosenInByteOrder(t *testing.T) {
	t.Parallel()
	header := nats.Header{"Traceparent": {otherParent}, "TRACEPARENT": {sampledParent}, "traceParent": {otherParent}}
	for range 50 { // the order of a map differs from time to time
		if got := headerContext(header, "").TraceID().String(); got != parentTrace {
			t.Fatalf("got trace %s, want %s", got, parentTrace)
		}
	}
}

func TestDerivedIDsNeverChange(t *testing.T) {
	t.Parallel()
	// Another derivation would tear the traces of all events that wait.
	if got, want := deriveTraceID("/claims", "claim-1").String(), "c59037fd4b8379b22a9a67c6f7d47db7"; got != want {
		t.Errorf("got trace %s, want %s", got, want)
	}
}

func TestDerivedIDsAreNeverZeroAndDistinct(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		source, id := rapid.String().Draw(rt, "source"), rapid.String().Draw(rt, "id")
		if tid := deriveTraceID(source, id); !tid.IsValid() || tid != deriveTraceID(source, id) {
			rt.Fatalf("got trace id %s, want a stable one that is not zero", tid)
		}
		if sid := deriveSpanID(source, id); !sid.IsValid() || sid != deriveSpanID(source, id) {
			rt.Fatalf("got span id %s, want a stable one that is not zero", sid)
		}
		// The border between source and id is part of what is hashed.
		if source+id != "" {
			moved := source + id
			cut := rapid.IntRange(0, len(moved)).Draw(rt, "cut")
			if moved[:cut] != source && deriveTraceID(moved[:cut], moved[cut:]) == deriveTraceID(source, id) {
				rt.Fatalf("(%q, %q) and (%q, %q) got one trace", source, id, moved[:cut], moved[cut:])
			}
		}
	})
}

func TestGeneratedIDsAreNeverZero(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := wish{}
		if rapid.Bool().Draw(rt, "with trace") {
			w.trace = deriveTraceID("s", rapid.String().Draw(rt, "id"))
		}
		tid, sid := wishedIDs{}.NewIDs(context.WithValue(t.Context(), wishKey{}, w))
		if !tid.IsValid() || !sid.IsValid() || w.trace.IsValid() && tid != w.trace {
			rt.Fatalf("got ids %s %s for the wish %s", tid, sid, w.trace)
		}
	})
}

func TestPublishWithoutTracingPassesTheCallersContextOn(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		incoming  http.Header
		extension string
		header    nats.Header
		want      any // the event's traceparent
	}{
		"caller's context is kept":        {http.Header{"Traceparent": {sampledParent}, "Tracestate": {"a=1", "b=2"}}, "", nats.Header{"traceparent": {sampledParent}, "tracestate": {"a=1,b=2"}}, sampledParent},
		"the event's own is not replaced": {http.Header{"Traceparent": {sampledParent}}, otherParent, nats.Header{"traceparent": {sampledParent}}, otherParent},
		"none is invented":                {http.Header{}, "", nil, nil},
		"malformed is none":               {http.Header{"Traceparent": {"nonsense"}}, "", nil, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := claim(t)
			if tc.extension != "" {
				e.SetExtension(traceparent, tc.extension)
			}
			_, header, done := (*tracer)(nil).publish(t.Context(), tc.incoming, e)
			done(7, false, nil)
			if diff := cmp.Diff(tc.header, header); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			if got := e.Extensions()[traceparent]; got != tc.want {
				t.Errorf("event: got traceparent %v, want %v", got, tc.want)
			}
			if err := e.Validate(); err != nil {
				t.Errorf("event is no longer valid: %v", err)
			}
		})
	}
}

func TestMalformedTraceparentOfTheEventIsNeverRewritten(t *testing.T) {
	t.Parallel()
	rec := newRecording()
	e := claim(t)
	e.SetExtension(traceparent, "nonsense")
	_, header, done := rec.tracer.publish(t.Context(), nil, e)
	done(1, false, nil)
	if got := e.Extensions()[traceparent]; got != "nonsense" {
		t.Errorf("got traceparent %v, want it unchanged", got)
	}
	if got, want := headerContext(header, "").TraceID(), deriveTraceID(e.Source(), e.ID()); got != want {
		t.Errorf("got trace %s, want the derived %s", got, want)
	}
}

func TestTracestateTravelsWithItsParent(t *testing.T) {
	t.Parallel()
	rec := newRecording()
	e := claim(t)
	_, header, done := rec.tracer.publish(t.Context(), http.Header{"Traceparent": {sampledParent}, "Tracestate": {"vendor=x"}}, e)
	done(1, false, nil)
	if got := header["tracestate"]; !cmp.Equal(got, []string{"vendor=x"}) {
		t.Errorf("header: got tracestate %q", got)
	}
	if got := e.Extensions()[tracestate]; got != "vendor=x" {
		t.Errorf("event: got tracestate %v", got)
	}
}

func TestHandlersGetTheTraceButNotTheIDsOfTheirAttempt(t *testing.T) {
	t.Parallel()
	rec := newRecording()
	ctx, attempt := rec.tracer.attempt(t.Context(), claimed(nil), 1, false, spanRef{})
	// A handler that starts an unrelated root must not be given the event's trace.
	_, root := rec.tracer.spans.Start(ctx, "own", trace.WithNewRoot())
	root.End()
	_, child := rec.tracer.spans.Start(ctx, "child")
	child.End()
	attempt.end(functions.Result{Outcome: functions.Done}, 0)
	own, under := rec.named(t, "own", 1)[0], rec.named(t, "child", 1)[0]
	if got := own.SpanContext.TraceID(); got == deriveTraceID("/claims", "claim-1") {
		t.Errorf("root: got the event's trace %s, want one of its own", got)
	}
	if got, want := under.Parent.SpanID().String(), attempt.ref().SpanID; got != want {
		t.Errorf("child: got parent %s, want the attempt %s", got, want)
	}
}
