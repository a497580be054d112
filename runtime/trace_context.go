package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/siding-dev/siding/functions"
)

// The W3C trace context. As a plain header it is the context of the hop that
// wrote this copy; as an attribute of the event (ce- in front of it in NATS
// headers) it is the context in which the event was created.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"
	cePrefix    = "ce-"
)

// tracedEvent is what the spans of an event tell about it.
type tracedEvent struct {
	Function, Stream string
	Sequence         uint64
	Key              string
	Cycle            int
	ID, Source, Type string

	Header                nats.Header // of the stored event; names in any case
	StructuredTraceparent string      // the attribute of an event stored in structured mode
}

// creationOf returns the context that all spans of the event belong to: the
// plain header, else the event's attribute, else a trace derived from source
// and id. A derived context has no span id and so is no parent; that it needs
// no stored state is why attempts after a restart land in the same trace.
func creationOf(ev tracedEvent) trace.SpanContext {
	if c := headerContext(ev.Header, ""); c.IsValid() {
		return c
	}
	if c := headerContext(ev.Header, cePrefix); c.IsValid() {
		return c
	}
	if c := parseContext(ev.StructuredTraceparent, ""); c.IsValid() {
		return c
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: deriveTraceID(ev.Source, ev.ID)})
}

// traceIDOf names the event's trace in hex, whether or not anything is traced,
// so that a dead letter can be found in the traces of its publisher.
func traceIDOf(ev tracedEvent) string { return creationOf(ev).TraceID().String() }

// exported tells whether the span of c can be expected where ours are sent.
func exported(c trace.SpanContext) bool { return c.IsValid() && c.IsSampled() }

// headerContext reads a context from headers. The zero value means that there
// is none or that it is malformed.
func headerContext(header map[string][]string, prefix string) trace.SpanContext {
	parent := headerValues(header, prefix+traceparent)
	if len(parent) == 0 {
		return trace.SpanContext{}
	}
	return parseContext(parent[0], strings.Join(headerValues(header, prefix+tracestate), ","))
}

// headerValues looks a header up in any case. Where a message has several
// spellings of one name the choice must not depend on the order of a map:
// lower case wins, else the first in byte order.
func headerValues(header map[string][]string, name string) []string {
	if values := header[name]; len(values) > 0 {
		return values
	}
	found := ""
	for k, values := range header {
		if len(values) > 0 && strings.EqualFold(k, name) && (found == "" || k < found) {
			found = k
		}
	}
	return header[found]
}

func parseContext(parent, state string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{traceparent: parent, tracestate: state}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

func formatContext(c trace.SpanContext) (parent, state string) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), c), carrier)
	return carrier[traceparent], carrier[tracestate]
}

// handedOn is the trace context for what a handler calls in its attempt: that of the attempt's span, else, where nothing is traced, the one that the
// event came with.
func handedOn(ctx context.Context, ev tracedEvent) func() functions.Trace {
	return func() functions.Trace {
		c := trace.SpanContextFromContext(ctx)
		if !c.IsValid() {
			c = creationOf(ev)
		}
		parent, state := formatContext(c) //nolint:contextcheck // c is all that it needs
		return functions.Trace{Parent: parent, State: state}
	}
}

// contextHeader writes c for a stored message; nil if there is none.
func contextHeader(c trace.SpanContext) nats.Header {
	parent, state := formatContext(c)
	if parent == "" {
		return nil
	}
	header := nats.Header{traceparent: {parent}}
	if state != "" {
		header[tracestate] = []string{state}
	}
	return header
}

// extensionContext reads the context in which the event says it was created.
func extensionContext(e *event.Event) trace.SpanContext {
	extensions := e.Extensions()
	parent, _ := extensions[traceparent].(string)
	state, _ := extensions[tracestate].(string)
	return parseContext(parent, state)
}

// setCreation writes c on an event that says nothing about its creation. What
// is there, even if malformed, stays: the CloudEvents extension carries the
// starting trace over all hops, and no hop rewrites it.
func setCreation(e *event.Event, c trace.SpanContext) {
	extensions := e.Extensions()
	if extensions[traceparent] != nil || !c.IsValid() {
		return
	}
	parent, state := formatContext(c)
	e.SetExtension(traceparent, parent)
	if state != "" {
		e.SetExtension(tracestate, state)
	} else if extensions[tracestate] != nil {
		// A state without its parent belongs to some other trace.
		e.SetExtension(tracestate, nil)
	}
}

// deriveTraceID gives an event without a context its trace. The ids of W3C
// must not be zero.
func deriveTraceID(source, id string) trace.TraceID {
	sum := deriveIDs(source, id)
	t := trace.TraceID(sum[:16])
	if !t.IsValid() {
		t[15] = 1
	}
	return t
}

// deriveSpanID gives the span its id that stores an event without a context.
func deriveSpanID(source, id string) trace.SpanID {
	sum := deriveIDs(source, id)
	s := trace.SpanID(sum[16:24])
	if !s.IsValid() {
		s[7] = 1
	}
	return s
}

// deriveIDs hashes the length of the source too, so that no two pairs of
// source and id read the same.
func deriveIDs(source, id string) [sha256.Size]byte {
	b := append([]byte("siding trace\x00"), binary.BigEndian.AppendUint64(nil, uint64(len(source)))...)
	return sha256.Sum256(append(append(b, source...), id...))
}

// context returns what ref names, as a remote and sampled span.
func (r spanRef) context() (trace.SpanContext, bool) {
	t, errTrace := trace.TraceIDFromHex(r.TraceID)
	s, errSpan := trace.SpanIDFromHex(r.SpanID)
	c := trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s, TraceFlags: trace.FlagsSampled, Remote: true})
	return c, errTrace == nil && errSpan == nil
}

func refOf(span trace.Span) spanRef {
	c := span.SpanContext()
	return spanRef{TraceID: c.TraceID().String(), SpanID: c.SpanID().String()}
}

// wish is what the context of a span about to start asks of the provider.
type wish struct {
	trace  trace.TraceID // of a root; zero leaves it to chance
	span   trace.SpanID  // of a root; zero leaves it to chance
	always bool          // sample, whatever the sampler says
}

type wishKey struct{}

// tracePolicy are the options that every provider for newTracer needs: SDKs
// give a root neither the trace that an event is already in nor a way past the
// sampler. base decides about what asks for nothing.
func tracePolicy(base sdktrace.Sampler) []sdktrace.TracerProviderOption {
	return []sdktrace.TracerProviderOption{
		sdktrace.WithIDGenerator(wishedIDs{}),
		sdktrace.WithSampler(wishedSampler{base}),
	}
}

// wishedIDs generates random ids, except where a root asks for its own.
type wishedIDs struct{}

func (g wishedIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	w, _ := ctx.Value(wishKey{}).(wish)
	for !w.trace.IsValid() {
		binary.NativeEndian.PutUint64(w.trace[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(w.trace[8:], rand.Uint64())
	}
	if !w.span.IsValid() {
		w.span = g.NewSpanID(ctx, w.trace)
	}
	return w.trace, w.span
}

func (wishedIDs) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	for !s.IsValid() {
		binary.NativeEndian.PutUint64(s[:], rand.Uint64())
	}
	return s
}

type wishedSampler struct{ base sdktrace.Sampler }

func (s wishedSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if w, _ := p.ParentContext.Value(wishKey{}).(wish); w.always {
		state := trace.SpanContextFromContext(p.ParentContext).TraceState()
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: state}
	}
	return s.base.ShouldSample(p)
}

func (s wishedSampler) Description() string { return "Siding{" + s.base.Description() + "}" }
