package runtime

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
)

// TestTheTraceOfAHeldEventNamesWhatItWaitedFor: from it one comes to the blocker's park, and to what ended the wait, over a restart too.
func TestTheTraceOfAHeldEventNamesWhatItWaitedFor(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var spans []tracetest.SpanStub
			var rec recording
			var l *life
			begin := func() {
				rec = newRecording()
				l = w.startTraced(rec.tracer, []functions.Function{w.function(functions.Function{}, forever, parkOnce("a1"))})
				<-l.host.started
			}
			begin()
			l.sendKeyed("a1", "a2")
			l.settle("f")
			if restart {
				l.end()
				spans = append(spans, rec.exporter.GetSpans()...)
				begin()
			}
			time.Sleep(time.Hour)
			l.decideAbout("a1", client.Redrive)
			l.settle("f")
			spans = append(spans, rec.exporter.GetSpans()...)

			of := func(id, name string) tracetest.SpanStub {
				t.Helper()
				at := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool {
					attributes := attributesOf(s.Attributes)
					again := name == "process f" && id == "a1" && attributes["siding.cycle"] != int64(1) // the last attempt is meant
					return s.Name == name && attributes["cloudevents.event_id"] == id && !again
				})
				if at < 0 {
					t.Fatalf("restart %v: event %s: no span %s", restart, id, name)
				}
				return spans[at]
			}
			for _, want := range []struct {
				name  string
				links map[string]tracetest.SpanStub // by role
			}{
				{spanHold, map[string]tracetest.SpanStub{linkBlocker: of("a1", spanPark)}},
				{spanHeld, map[string]tracetest.SpanStub{linkHold: of("a2", spanHold)}},
				{spanRelease, map[string]tracetest.SpanStub{linkFreedBy: of("a1", "process f"), linkHold: of("a2", spanHold)}},
				{"process f", map[string]tracetest.SpanStub{linkRelease: of("a2", spanRelease)}},
			} {
				s := of("a2", want.name)
				if s.SpanContext.TraceID() != of("a2", spanHold).SpanContext.TraceID() {
					t.Errorf("%s: is in another trace than the event", want.name)
				}
				got := map[string]bool{}
				for _, l := range s.Links {
					role, _ := attributesOf(l.Attributes)["link.role"].(string)
					got[role] = true
					if to := want.links[role].SpanContext; l.SpanContext.SpanID() != to.SpanID() || l.SpanContext.TraceID() != to.TraceID() {
						t.Errorf("%s: link %s goes elsewhere", want.name, role)
					}
				}
				if len(got) != len(want.links) {
					t.Errorf("%s: got links %v, want %d", want.name, got, len(want.links))
				}
			}
			if held := of("a2", spanHeld); held.EndTime.Sub(held.StartTime) < time.Hour {
				t.Errorf("held: is drawn for %s, want the hour that it took", held.EndTime.Sub(held.StartTime))
			}
			if parked := of("a1", spanParked); parked.EndTime.Sub(parked.StartTime) < time.Hour {
				t.Errorf("parked: is drawn for %s, want the hour that it took", parked.EndTime.Sub(parked.StartTime))
			}
		})
	}
}
