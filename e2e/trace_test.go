package e2e_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// sink is a collector that takes OTLP over HTTP and keeps what it gets.
type sink struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracev1.Span
	names map[string]bool // service.name of what was sent
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{names: map[string]bool{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(b, &req) != nil {
			t.Errorf("%s %s: got %d bytes (%v), want an export of spans", r.Method, r.URL.Path, len(b), err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, resource := range req.GetResourceSpans() {
			for _, a := range resource.GetResource().GetAttributes() {
				if a.GetKey() == "service.name" {
					s.names[a.GetValue().GetStringValue()] = true
				}
			}
			for _, scope := range resource.GetScopeSpans() {
				s.spans = append(s.spans, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// of returns the spans about one event, in the order in which they began.
func (s *sink) of(id string) []*tracev1.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*tracev1.Span
	for _, span := range s.spans {
		if attribute(span, "cloudevents.event_id") == id {
			found = append(found, span)
		}
	}
	slices.SortStableFunc(found, func(a, b *tracev1.Span) int { return int(int64(a.GetStartTimeUnixNano() - b.GetStartTimeUnixNano())) })
	return found
}

func attribute(span *tracev1.Span, name string) string {
	for _, a := range span.GetAttributes() {
		if a.GetKey() != name {
			continue
		}
		if text := a.GetValue().GetStringValue(); text != "" {
			return text
		}
		return strconv.FormatInt(a.GetValue().GetIntValue(), 10)
	}
	return ""
}

func TestTheLifeOfAnEventIsOneTraceAtTheCollector(t *testing.T) {
	const kind = "com.example.traced"
	repaired := filepath.Join(t.TempDir(), "repaired")
	s := newSink(t)
	program := newProgram(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + s.URL, "OTEL_SERVICE_NAME=claims", "OTEL_BSP_SCHEDULE_DELAY=100"},
		function{Name: "f", Types: []string{kind}, Attempts: 3, Delays: []time.Duration{10 * time.Millisecond}, Do: "fail-until=" + repaired},
	)
	p := program.start(t)
	send(t, newHTTPClient(t), p, newSample("e1", kind, "{}"))
	rest(t, p, "f", 1)
	letters := ask[[]deadLetter](t, p, "dlq", "ls")
	if len(letters) != 1 {
		t.Fatalf("got the dead letters %+v, want one", letters)
	}
	await := func(want map[string]int) (spans []*tracev1.Span) {
		t.Helper()
		eventually(t, func() string {
			spans = s.of("e1")
			got := map[string]int{}
			for _, span := range spans {
				got[span.GetName()]++
			}
			if !maps.Equal(got, want) {
				return fmt.Sprintf("got the spans %v, want %v", got, want)
			}
			return ""
		})
		return spans
	}
	await(map[string]int{"publish": 1, "process f": 3, "backoff": 2, "park": 1})
	if err := os.WriteFile(repaired, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// A process that takes over goes on with the same trace: what that needs is stored with the event.
	p.kill()
	p = program.start(t)
	ask[[]decided](t, p, "dlq", "redrive", letters[0].ID, "--reason", "repaired", "--yes")
	spans := await(map[string]int{"publish": 1, "process f": 4, "backoff": 2, "park": 1, "parked": 1, "redrive": 1})

	trace, previous := hex.EncodeToString(spans[0].GetTraceId()), ""
	attempts := []string{}
	for _, span := range spans {
		if got := hex.EncodeToString(span.GetTraceId()); got != trace {
			t.Errorf("span %s: got the trace %s, want %s of %s", span.GetName(), got, trace, spans[0].GetName())
		}
		if span.GetName() == "backoff" || span.GetName() == "parked" {
			continue // a wait, drawn between what it is about
		}
		if previous != "" && span.GetName() != "publish" {
			linked := ""
			for _, link := range span.GetLinks() {
				linked = hex.EncodeToString(link.GetSpanId())
				if linked == hex.EncodeToString(span.GetParentSpanId()) {
					t.Errorf("span %s: got a link to its own parent", span.GetName())
				}
			}
			if linked != previous {
				t.Errorf("span %s: got a link to %q, want one to %s, what came before", span.GetName(), linked, previous)
			}
		}
		if span.GetName() != "publish" {
			previous = hex.EncodeToString(span.GetSpanId())
		}
		if span.GetName() == "process f" {
			attempts = append(attempts, attribute(span, "siding.cycle")+"/"+attribute(span, "siding.attempt"))
		}
	}
	if want := []string{"0/1", "0/2", "0/3", "1/1"}; !slices.Equal(attempts, want) {
		t.Errorf("got the attempts %v, want %v", attempts, want)
	}
	if letters[0].TraceID != trace {
		t.Errorf("got the trace %s in the dead letter, want %s", letters[0].TraceID, trace)
	}
	if !s.names["claims"] {
		t.Errorf("got the services %v, want claims", s.names)
	}
}
