package runtime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/siding-dev/siding/functions"
)

// The names of spans. Each span is short and exported when it happens: one
// that stayed open while its event waits would be a parent that nobody can
// see for hours, and is lost with the process.
const (
	spanPublish = "publish"
	spanProcess = "process" // followed by the function's name
	spanPark    = "park"
	spanRedrive = "redrive"
	spanDiscard = "discard"
	spanHold    = "hold"
	spanRelease = "release"

	// Waits are drawn when they end, with the times they really had.
	spanHeld    = "held"    // from hold to release
	spanParked  = "parked"  // from park to what was decided about it
	spanBackoff = "backoff" // from the end of an attempt to the start of the next
)

// The names of attributes. People search by them, so they are a contract.
const (
	attrEventID     = "cloudevents.event_id"
	attrEventType   = "cloudevents.event_type"
	attrEventSource = "cloudevents.event_source"
	attrFunction    = "faas.name"

	attrSystem        = "messaging.system"
	attrOperation     = "messaging.operation.name"
	attrOperationType = "messaging.operation.type"
	attrDestination   = "messaging.destination.name"
	attrMessageID     = "messaging.message.id" // the event's sequence in its source stream

	attrAttempt     = "siding.attempt"
	attrCycle       = "siding.cycle"
	attrKey         = "siding.key"
	attrRedelivered = "siding.redelivered"
	attrOutcome     = "siding.outcome"
	attrRetryIn     = "siding.retry_in_ms"
	attrDuplicate   = "siding.duplicate"
	attrCauseName   = "siding.cause"
	attrReasonName  = "siding.reason"
	attrByName      = "siding.by"
	attrBlocker     = "siding.blocker" // <function>/<sequence> of the event that a held one waits for

	attrErrorType        = "error.type"
	attrExceptionType    = "exception.type"
	attrExceptionMessage = "exception.message"
	attrExceptionStack   = "exception.stacktrace"
	eventException       = "exception"

	attrLinkRole        = "link.role"
	linkPreviousAttempt = "previous_attempt"
	linkRedrive         = "redrive"  // from the first attempt of a new cycle
	linkRelease         = "release"  // from the first attempt of an event that was held
	linkPark            = "park"     // from the redrive of a dead letter, and from its wait
	linkPrevious        = "previous" // from a discard, by a person or by the handler
	linkBlocker         = "blocker"  // from a hold to the span that made another event its blocker
	linkFreedBy         = "freed_by" // from a release to the span that ended its blocker
	linkHold            = "hold"     // from a release, and from the wait that it ends
)

// attrCause says why an event became a dead letter.
func attrCause[S ~string](cause S) attribute.KeyValue {
	return attribute.String(attrCauseName, spanText(string(cause), maxText))
}

// attrReason is what a person gave as the reason of a decision.
func attrReason(reason string) attribute.KeyValue {
	return attribute.String(attrReasonName, spanText(reason, maxText))
}

// attrBy says who parked or decided.
func attrBy(by string) attribute.KeyValue {
	return attribute.String(attrByName, spanText(by, maxText))
}

// Bounds of the texts that spans carry, in bytes.
const (
	maxText  = 4 << 10
	maxStack = 16 << 10
)

// spanText makes s fit for a span. Keys, ids and errors come from outside, and one
// string that is not UTF-8 would make the exporter lose its whole batch.
func spanText(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// spanRef names a recorded span, in hex, so that it can be stored with the
// event and linked to by a later process. The zero value names none.
type spanRef struct{ TraceID, SpanID string }

// tracer records the life of events as spans. It is safe for concurrent use.
// A nil tracer records nothing and costs nothing.
type tracer struct{ spans trace.Tracer }

// newTracer records with provider, which must have been made with
// tracePolicy. Without a provider, or with one that does nothing, it is nil.
func newTracer(provider trace.TracerProvider) *tracer {
	switch p := provider.(type) {
	case nil, noop.TracerProvider:
		return nil
	case *sdktrace.TracerProvider:
		if p == nil {
			return nil
		}
	}
	return &tracer{provider.Tracer("github.com/siding-dev/siding/runtime")}
}

// start begins a span of the event that was created in creation. A creation
// span that nobody exported is no parent: the span is then a root of the same
// trace. always overrides the sampler.
func (t *tracer) start(ctx context.Context, creation trace.SpanContext, name string, always bool, opts ...trace.SpanStartOption) trace.Span {
	ctx = context.WithValue(ctx, wishKey{}, wish{trace: creation.TraceID(), always: always})
	if exported(creation) {
		ctx = trace.ContextWithRemoteSpanContext(ctx, creation)
	} else {
		opts = append(opts, trace.WithNewRoot())
	}
	// The span's own context is dropped because it holds the wish: what a
	// handler starts in its context gets ids of its own.
	_, span := t.spans.Start(ctx, name, opts...) //nolint:spancheck // the caller ends it
	return span                                  //nolint:spancheck // the caller ends it
}

// publish begins the span of an event that is about to be stored. The caller's
// context is taken from the request's headers, else from the event; without
// one the trace is derived from source and id. An event without a traceparent
// gets one (the caller's context, else that of this span) which never changes
// again. The header returned goes on the stored message and is the context of
// this span. The function returned ends the span and must be called once.
//
// A nil tracer passes the caller's context on and invents none.
func (t *tracer) publish(ctx context.Context, incoming http.Header, e *event.Event) (context.Context, nats.Header, func(sequence uint64, duplicate bool, err error)) {
	caller := headerContext(incoming, "")
	if t == nil {
		setCreation(e, caller)
		return ctx, contextHeader(caller), func(uint64, bool, error) {}
	}
	started := time.Now()
	kind := trace.WithSpanKind(trace.SpanKindProducer)
	attributes := trace.WithAttributes(
		attribute.String(attrSystem, "nats"),
		attribute.String(attrOperation, "publish"),
		attribute.String(attrOperationType, "send"),
		attribute.String(attrDestination, functions.DefaultStream),
		attribute.String(attrEventID, spanText(e.ID(), maxText)),
		attribute.String(attrEventType, spanText(e.Type(), maxText)),
		attribute.String(attrEventSource, spanText(e.Source(), maxText)),
	)
	parent := caller
	if !parent.IsValid() {
		parent = extensionContext(e)
	}
	var span trace.Span
	derived := !parent.IsValid()
	if derived {
		own := wish{trace: deriveTraceID(e.Source(), e.ID()), span: deriveSpanID(e.Source(), e.ID())}
		_, span = t.spans.Start(context.WithValue(ctx, wishKey{}, own), spanPublish, kind, attributes, trace.WithNewRoot())
	} else {
		_, span = t.spans.Start(trace.ContextWithRemoteSpanContext(ctx, parent), spanPublish, kind, attributes)
	}
	if caller.IsValid() {
		setCreation(e, caller)
	} else {
		setCreation(e, span.SpanContext())
	}
	return trace.ContextWithSpan(ctx, span), contextHeader(span.SpanContext()), func(sequence uint64, duplicate bool, err error) {
		if derived && (duplicate || err != nil) && span.IsRecording() {
			// The derived span id belongs to the publish that stored the event.
			// Repeats of it show in the same trace with ids of their own, and
			// the span begun above is never ended, which discards it.
			repeat := trace.NewSpanContext(trace.SpanContextConfig{TraceID: span.SpanContext().TraceID()})
			span = t.start(ctx, repeat, spanPublish, true, kind, attributes, trace.WithTimestamp(started))
		}
		if err != nil {
			span.SetAttributes(attribute.String(attrErrorType, "_OTHER"))
			span.SetStatus(codes.Error, spanText(err.Error(), maxText))
		} else {
			span.SetAttributes(attribute.String(attrMessageID, fmt.Sprint(sequence)), attribute.Bool(attrDuplicate, duplicate))
		}
		span.End()
	}
}

// attemptSpan is the span of one attempt. One goroutine at a time uses it; a
// nil one does nothing.
type attemptSpan struct {
	tracer      *tracer
	creation    trace.SpanContext
	event       tracedEvent
	number      int
	redelivered bool
	previous    spanRef
	started     time.Time
	span        trace.Span // nil while nothing is recorded
	recorded    spanRef
}

// attempt begins the span of an attempt and returns the context for its
// handler. previous is the span that led to this attempt: the attempt before,
// or the redrive.
//
// A sampling decision of the publisher holds for first attempts only. It is
// overridden once something went wrong: a failure is recorded when it ends,
// with its true times, and every later attempt at once.
func (t *tracer) attempt(ctx context.Context, ev tracedEvent, attempt int, redelivered bool, previous spanRef) (context.Context, *attemptSpan) {
	if t == nil {
		return ctx, nil
	}
	a := &attemptSpan{
		tracer: t, creation: creationOf(ev), event: ev,
		number: attempt, redelivered: redelivered, previous: previous, started: time.Now(),
	}
	later := attempt > 1 || ev.Cycle > 0 || previous != spanRef{}
	if a.creation.IsValid() && !a.creation.IsSampled() && !later {
		return trace.ContextWithRemoteSpanContext(ctx, a.creation), a
	}
	span := a.begin(ctx, later)
	return trace.ContextWithSpan(ctx, span), a
}

// begin starts the span and keeps it if it is recorded.
func (a *attemptSpan) begin(ctx context.Context, always bool) trace.Span {
	role := linkPreviousAttempt
	if a.event.Cycle > 0 && a.number == 1 {
		role = linkRedrive
	} else if a.number == 1 {
		role = linkRelease
	}
	span := a.tracer.start(ctx, a.creation, spanProcess+" "+a.event.Function, always,
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithTimestamp(a.started),
		trace.WithAttributes(a.event.attributes(spanProcess,
			attribute.Int(attrAttempt, a.number), attribute.Bool(attrRedelivered, a.redelivered))...),
		linkTo(a.creation, spanLink{a.previous, role}))
	if span.IsRecording() {
		a.span, a.recorded = span, refOf(span)
	}
	return span
}

// end ends the span; it is called once. delay is the time until the next
// attempt, 0 if there is none. An attempt that an orderly stop interrupted did
// not fail.
func (a *attemptSpan) end(res functions.Result, delay time.Duration) {
	if a == nil {
		return
	}
	failed := res.Outcome != functions.Done && res.Outcome != functions.Discarded && res.Class != functions.ClassStopping
	if a.span == nil && failed {
		a.begin(context.Background(), true)
	}
	if a.span == nil {
		return
	}
	a.span.SetAttributes(attribute.String(attrOutcome, string(res.Outcome)))
	if failed || res.Class == functions.ClassStopping {
		a.span.SetAttributes(attribute.String(attrErrorType, string(res.Class)))
	}
	if delay > 0 {
		a.span.SetAttributes(attribute.Int64(attrRetryIn, delay.Milliseconds()))
	}
	if failed {
		recordError(a.span, res)
	}
	a.span.End()
}

// ref names the span for what comes after this attempt. It is none unless the
// span is recorded, which is final only when the attempt has ended.
func (a *attemptSpan) ref() spanRef {
	if a == nil {
		return spanRef{}
	}
	return a.recorded
}

// recordError is trace.Span.RecordError with bounded, valid text, the type of
// the innermost cause instead of a wrapper's, and the stack of the panic
// instead of ours.
func recordError(span trace.Span, res functions.Result) {
	err := res.Err
	if err == nil {
		err = errors.New(string(res.Class))
	}
	message, cause := spanText(err.Error(), maxText), err
	for inner := errors.Unwrap(cause); inner != nil; inner = errors.Unwrap(cause) {
		cause = inner
	}
	attributes := []attribute.KeyValue{
		attribute.String(attrExceptionType, fmt.Sprintf("%T", cause)),
		attribute.String(attrExceptionMessage, message),
	}
	if res.Stack != "" {
		attributes = append(attributes, attribute.String(attrExceptionStack, spanText(res.Stack, maxStack)))
	}
	span.AddEvent(eventException, trace.WithAttributes(attributes...))
	span.SetStatus(codes.Error, message)
}

// attributes are those of every span of the event, and more.
func (ev tracedEvent) attributes(operation string, more ...attribute.KeyValue) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String(attrEventID, spanText(ev.ID, maxText)),
		attribute.String(attrEventType, spanText(ev.Type, maxText)),
		attribute.String(attrEventSource, spanText(ev.Source, maxText)),
		attribute.String(attrFunction, ev.Function),
		attribute.String(attrSystem, "nats"),
		attribute.String(attrOperation, operation),
		attribute.String(attrDestination, ev.Stream),
		attribute.String(attrMessageID, fmt.Sprint(ev.Sequence)),
		attribute.Int(attrCycle, ev.Cycle),
	}
	if operation == spanProcess {
		all = append(all, attribute.String(attrOperationType, "process"))
	}
	if ev.Key != "" {
		all = append(all, attribute.String(attrKey, spanText(ev.Key, maxText)))
	}
	return append(all, more...)
}
