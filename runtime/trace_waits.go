package runtime

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/siding-dev/siding/streams"
)

// Between its attempts an event meets moments, and waits from one to the next.
// All of them exist only once something went wrong, and so are recorded
// whatever the publisher sampled. They belong to the event's trace by the same
// rules as its attempts.

// spanLink is a link to another span and the part that one plays. A link to no
// span is left out.
type spanLink struct {
	to   spanRef
	role string
}

// moment records something that happened to an event: name is spanPark,
// spanRedrive or spanDiscard, previous the span it follows from.
func (t *tracer) moment(ev tracedEvent, name string, previous spanRef, attributes ...attribute.KeyValue) spanRef {
	if t == nil {
		return spanRef{}
	}
	kind, role := trace.SpanKindInternal, linkPrevious
	switch name {
	case spanRedrive:
		kind, role = trace.SpanKindProducer, linkPark // it sends the event to its function again
	case spanPark:
		role = linkPreviousAttempt
	}
	span := t.between(ev, name, kind, attributes, []spanLink{{previous, role}})
	span.End()
	return refOf(span)
}

// hold records that an event is held from now on. blocker is the sequence of
// the event it waits for, which has a trace of its own, and reason the span
// that made it the blocker: its park or its last attempt. Behind a pause or in
// a line that is full there is no blocker, which is 0.
func (t *tracer) hold(ev tracedEvent, blocker uint64, reason spanRef) spanRef {
	if t == nil {
		return spanRef{}
	}
	var attributes []attribute.KeyValue
	if blocker != 0 {
		id := streams.Ref{Function: ev.Function, Sequence: blocker}.ID()
		attributes = append(attributes, attribute.String(attrBlocker, id))
	}
	span := t.between(ev, spanHold, trace.SpanKindInternal, attributes, []spanLink{{reason, linkBlocker}})
	span.End()
	return refOf(span)
}

// release records that a held event goes on. freedBy is the span that let it:
// the blocker's attempt that succeeded, or what was decided about the blocker.
// held is what hold returned for the event.
func (t *tracer) release(ev tracedEvent, freedBy, held spanRef) spanRef {
	if t == nil {
		return spanRef{}
	}
	span := t.between(ev, spanRelease, trace.SpanKindInternal, nil, []spanLink{{freedBy, linkFreedBy}, {held, linkHold}})
	span.End()
	return refOf(span)
}

// wait draws a time in which nothing happened to an event, so that whoever
// reads its trace sees why hours passed. It is called when the wait has ended.
// name is spanHeld, spanParked or spanBackoff; previous is the span at which it
// began, and role the part of that. A wait whose start is not known, or that
// took no time, is not drawn.
func (t *tracer) wait(ev tracedEvent, name string, from, to time.Time, previous spanRef, role string, attributes ...attribute.KeyValue) spanRef {
	if t == nil || from.IsZero() || !from.Before(to) {
		return spanRef{}
	}
	span := t.between(ev, name, trace.SpanKindInternal, attributes, []spanLink{{previous, role}}, trace.WithTimestamp(from))
	span.End(trace.WithTimestamp(to))
	return refOf(span)
}

// between begins a span of what happens to an event outside of its attempts.
func (t *tracer) between(ev tracedEvent, name string, kind trace.SpanKind, attributes []attribute.KeyValue, links []spanLink, opts ...trace.SpanStartOption) trace.Span {
	creation := creationOf(ev)
	return t.start(context.Background(), creation, name, true, append(opts,
		trace.WithSpanKind(kind),
		trace.WithAttributes(ev.attributes(name, attributes...)...),
		linkTo(creation, links...))...)
}

// linkTo links to the spans that one follows from. A link to the parent is left
// out: Jaeger turns the parent reference into FOLLOWS_FROM when both name the
// same span.
func linkTo(creation trace.SpanContext, links ...spanLink) trace.SpanStartOption {
	var kept []trace.Link
	for _, l := range links {
		target, ok := l.to.context()
		if !ok || exported(creation) && target.TraceID() == creation.TraceID() && target.SpanID() == creation.SpanID() {
			continue
		}
		kept = append(kept, trace.Link{SpanContext: target, Attributes: []attribute.KeyValue{attribute.String(attrLinkRole, l.role)}})
	}
	return trace.WithLinks(kept...)
}
