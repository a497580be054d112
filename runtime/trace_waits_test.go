package runtime

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// behind is an event of the same key as claimed, in a trace of its own.
func behind(header nats.Header) tracedEvent {
	ev := claimed(header)
	ev.ID, ev.Sequence = "claim-2", 43
	return ev
}

// rolesOf returns what a span is linked to, by role.
func rolesOf(s tracetest.SpanStub) map[string]spanRef {
	roles := map[string]spanRef{}
	for _, l := range s.Links {
		role, _ := attributesOf(l.Attributes)["link.role"].(string)
		roles[role] = spanRef{l.SpanContext.TraceID().String(), l.SpanContext.SpanID().String()}
	}
	return roles
}

func checkRoles(t *testing.T, s tracetest.SpanStub, want map[string]spanRef) {
	t.Helper()
	if diff := cmp.Diff(want, rolesOf(s)); diff != "" {
		t.Errorf("%s: links (-want +got):\n%s", s.Name, diff)
	}
}

// The held event's trace names its blocker, and leads to the trace in which
// somebody sees why it stands there and how it went on.
func TestHeldEventLeadsToItsBlocker(t *testing.T) {
	t.Parallel()
	rec := newRecording()
	parked := rec.tracer.moment(claimed(nil), spanPark, spanRef{}, attrCause("exhausted"))
	held := rec.tracer.hold(behind(nil), 42, parked)
	redriven := rec.tracer.moment(claimed(nil), spanRedrive, parked)
	released := rec.tracer.release(behind(nil), redriven, held)
	for _, s := range []tracetest.SpanStub{rec.named(t, "hold", 1)[0], rec.named(t, "release", 1)[0]} {
		if got, want := s.SpanContext.TraceID().String(), traceIDOf(behind(nil)); got != want || got == parked.TraceID {
			t.Errorf("%s: got trace %s, want the held event's %s", s.Name, got, want)
		}
		if s.SpanKind != trace.SpanKindInternal || s.Parent.IsValid() {
			t.Errorf("%s: got kind %v and parent %v, want an internal root", s.Name, s.SpanKind, s.Parent.SpanID())
		}
		want := map[string]any{
			"cloudevents.event_id": "claim-2", "cloudevents.event_type": "com.insurer.claim.reported", "cloudevents.event_source": "/claims",
			"faas.name": "file-claim", "messaging.system": "nats", "messaging.operation.name": s.Name, "messaging.destination.name": "EVENTS",
			"messaging.message.id": "43", "siding.cycle": int64(0), "siding.key": "customer-7",
		}
		if s.Name == "hold" {
			want["siding.blocker"] = "file-claim/42"
		}
		if diff := cmp.Diff(want, attributesOf(s.Attributes)); diff != "" {
			t.Errorf("%s: attributes (-want +got):\n%s", s.Name, diff)
		}
	}
	hold, release := rec.named(t, "hold", 1)[0], rec.named(t, "release", 1)[0]
	checkRoles(t, hold, map[string]spanRef{"blocker": parked})
	checkRoles(t, release, map[string]spanRef{"freed_by": redriven, "hold": held})
	for s, ref := range map[*tracetest.SpanStub]spanRef{&hold: held, &release: released} {
		if got := s.SpanContext.SpanID().String(); got != ref.SpanID {
			t.Errorf("%s: got span %s and ref %s, want the same", s.Name, got, ref.SpanID)
		}
	}
}

// Behind a pause there is no blocker, and after a restart the spans before it
// may be forgotten.
func TestHoldAndReleaseSayOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	rec := newRecording()
	rec.tracer.hold(behind(nil), 0, spanRef{})
	rec.tracer.release(behind(nil), spanRef{}, spanRef{})
	hold := rec.named(t, "hold", 1)[0]
	if blocker, ok := attributesOf(hold.Attributes)["siding.blocker"]; ok {
		t.Errorf("got blocker %v, want none", blocker)
	}
	checkRoles(t, hold, map[string]spanRef{})
	checkRoles(t, rec.named(t, "release", 1)[0], map[string]spanRef{})
	held := spanRef{parentTrace, parentSpan}
	rec.tracer.release(behind(nil), spanRef{"not", "hex"}, held)
	checkRoles(t, rec.named(t, "release", 2)[1], map[string]spanRef{"hold": held})
}

func TestWaitsAreDrawnFromTheirStartToTheirEnd(t *testing.T) {
	t.Parallel()
	began := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	previous := spanRef{parentTrace, "00f067aa0ba902b8"}
	for _, w := range []struct {
		name, role string
		took       time.Duration
	}{
		{spanHeld, linkHold, 3 * time.Hour},
		{spanParked, linkPark, 26 * time.Hour},
		{spanBackoff, linkPreviousAttempt, time.Nanosecond},
	} {
		rec := newRecording()
		ref := rec.tracer.wait(behind(nil), w.name, began, began.Add(w.took), previous, w.role, attrBy("ada"))
		s := rec.named(t, w.name, 1)[0]
		if !s.StartTime.Equal(began) || s.EndTime.Sub(s.StartTime) != w.took {
			t.Errorf("%s: got from %v for %v, want from %v for %v", w.name, s.StartTime, s.EndTime.Sub(s.StartTime), began, w.took)
		}
		if s.SpanKind != trace.SpanKindInternal || s.Parent.IsValid() || s.SpanContext.TraceID().String() != traceIDOf(behind(nil)) {
			t.Errorf("%s: got kind %v, parent %v, trace %s; want an internal root of the event's trace", w.name, s.SpanKind, s.Parent.SpanID(), s.SpanContext.TraceID())
		}
		checkLink(t, s, previous, w.role)
		if a := attributesOf(s.Attributes); a["messaging.message.id"] != "43" || a["siding.by"] != "ada" {
			t.Errorf("%s: got attributes %v, want the event's and what was given", w.name, a)
		}
		if got := s.SpanContext.SpanID().String(); got != ref.SpanID || s.SpanContext.TraceID().String() != ref.TraceID {
			t.Errorf("%s: got ref %v, want that of span %s", w.name, ref, got)
		}
	}
}

func TestWaitWithoutAStartOrALengthIsNotDrawn(t *testing.T) {
	t.Parallel()
	rec, now := newRecording(), time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, from := range map[string]time.Time{"unknown start": {}, "no length": now, "a clock set back": now.Add(time.Second)} {
		if got := rec.tracer.wait(behind(nil), spanHeld, from, now, spanRef{}, linkHold); got != (spanRef{}) {
			t.Errorf("%s: got ref %v, want none", name, got)
		}
	}
	rec.named(t, spanHeld, 0)
}

// everyMoment records each span that there is between attempts, once.
func everyMoment(tr *tracer, ev tracedEvent, previous spanRef) {
	now := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	tr.hold(ev, 42, previous)
	tr.release(ev, previous, previous)
	for _, name := range []string{spanHeld, spanParked, spanBackoff} {
		tr.wait(ev, name, now.Add(-time.Hour), now, previous, linkPrevious)
	}
}

func TestSpansBetweenAttemptsBelongToTheEventsTrace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		recording func() recording
		header    nats.Header
		trace     string
		below     bool // the publisher's span
	}{
		"of a sampled publisher":    {newRecording, nats.Header{"traceparent": {sampledParent}}, parentTrace, true},
		"of an unsampled publisher": {newRecording, nats.Header{"traceparent": {unsampledParent}}, parentTrace, false},
		"of a bare publisher":       {newRecording, nil, traceIDOf(behind(nil)), false},
		"of a sampler that says no": {func() recording { return newRecordingWith(sdktrace.NeverSample()) }, nil, traceIDOf(behind(nil)), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := tc.recording()
			// The link would equal the parent wherever there is one.
			everyMoment(rec.tracer, behind(tc.header), spanRef{parentTrace, parentSpan})
			spans := rec.exporter.GetSpans()
			if len(spans) != 5 {
				t.Fatalf("got %d spans, want 5", len(spans))
			}
			for _, s := range spans {
				if got := s.SpanContext.TraceID().String(); got != tc.trace {
					t.Errorf("%s: got trace %s, want %s", s.Name, got, tc.trace)
				}
				if got := s.Parent.IsValid() && s.Parent.SpanID().String() == parentSpan; got != tc.below {
					t.Errorf("%s: got parent %s, want the publisher's span: %v", s.Name, s.Parent.SpanID(), tc.below)
				}
				if tc.below && len(s.Links) != 0 {
					t.Errorf("%s: got links %v, want none that equals the parent", s.Name, s.Links)
				}
				if !tc.below && len(s.Links) == 0 {
					t.Errorf("%s: got no link, want one to what is not its parent", s.Name)
				}
			}
		})
	}
}

func TestSpansBetweenAttemptsCostNothingWhenTracingIsOff(t *testing.T) {
	var off *tracer
	ev, previous := behind(nats.Header{"traceparent": {sampledParent}}), spanRef{parentTrace, parentSpan}
	if n := testing.AllocsPerRun(100, func() { everyMoment(off, ev, previous) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
	began := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, got := range map[string]spanRef{
		"hold":    off.hold(ev, 42, previous),
		"release": off.release(ev, previous, previous),
		"wait":    off.wait(ev, spanHeld, began, began.Add(time.Hour), previous, linkHold),
	} {
		if got != (spanRef{}) {
			t.Errorf("%s: got ref %v, want none", name, got)
		}
	}
}
