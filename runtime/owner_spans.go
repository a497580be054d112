package runtime

import (
	"context"
	"strings"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// holdSpanHeader carries the span of a hold on the copy in HELD, for the release that another life may make.
const holdSpanHeader = "Siding-Hold-Span"

// header and readSpan are how a span travels in a header.
func (r spanRef) header() string {
	if r == (spanRef{}) {
		return ""
	}
	return r.TraceID + "-" + r.SpanID
}

func readSpan(s string) spanRef {
	t, span, ok := strings.Cut(s, "-")
	if !ok {
		return spanRef{}
	}
	return spanRef{TraceID: t, SpanID: span}
}

// traced is what the spans of an item tell about it.
func (o *owner) traced(it *item) tracedEvent {
	t := tracedEvent{
		Function: o.fn.Name, Stream: o.declared.Stream, Sequence: it.ref.Sequence, Key: it.key, Cycle: it.cycle, Header: it.header,
	}
	t.ID, t.Source, t.Type = it.event.ID(), it.event.Source(), it.event.Type()
	if p, ok := it.event.Extensions()[traceparent].(string); ok {
		t.StructuredTraceparent = p
	}
	return t
}

// holdSpan records that an event is held, and links it to the span that made its lane wait.
func (o *owner) holdSpan(ctx context.Context, it *item, blocker uint64) spanRef {
	if o.tracer == nil {
		return spanRef{}
	}
	reason := spanRef{}
	if blocker != 0 {
		reason = o.reasonOf(ctx, it.ref.Lane, blocker)
	}
	return o.tracer.hold(o.traced(it), blocker, reason)
}

// reasonOf is the span that made an event the blocker of its lane: its last attempt, or its park. It is looked up once for each blocker.
func (o *owner) reasonOf(ctx context.Context, token string, blocker uint64) spanRef {
	if it := o.items[blocker]; it != nil {
		return it.span
	}
	l := o.lanes.all[token]
	if l == nil || l.blocking.of == blocker {
		if l == nil {
			return spanRef{}
		}
		return l.blocking.span
	}
	l.blocking = blocking{of: blocker}
	ref := streams.Ref{Function: o.fn.Name, Lane: token, Sequence: blocker}
	if m, err := o.store.Last(ctx, streams.DeadLetterStream(o.fn.Name), streams.InDeadLetters.Subject(ref)); err == nil {
		l.blocking.span = parkedSpan(m)
	}
	return l.blocking.span
}

// blocking is a blocker and the span that made it one.
type blocking struct {
	of   uint64
	span spanRef
}

// releaseSpans draw the time in which an event was held, and record its release.
func (o *owner) releaseSpans(it *item, held streams.Message) spanRef {
	if o.tracer == nil {
		return spanRef{}
	}
	seen := &item{ref: it.ref, key: it.key, cycle: it.cycle, header: held.Header}
	if e, err := streams.Decode(held.Header, held.Data); err == nil {
		seen.event = e
	}
	traced, hold, freed := o.traced(seen), readSpan(held.Header.Get(holdSpanHeader)), spanRef{}
	if l := o.lanes.all[it.ref.Lane]; l != nil {
		freed = l.freed
	}
	o.tracer.wait(traced, spanHeld, held.Time, time.Now(), hold, linkHold)
	return o.tracer.release(traced, freed, hold)
}

// freedBy notes what ended an event of a lane, for the releases that follow from it.
func (o *owner) freedBy(ref streams.Ref, span spanRef) {
	if l := o.lanes.all[ref.Lane]; l != nil && o.tracer != nil {
		l.freed = span
	}
}

// backoffSpan draws the time between a failed attempt and the next one.
func (o *owner) backoffSpan(it *item) {
	if last := it.history.Last; it.attempts() > 0 && last.Cycle == it.cycle {
		o.tracer.wait(o.traced(it), spanBackoff, last.Ended, time.Now(), spanRef{TraceID: last.TraceID, SpanID: last.SpanID}, linkPreviousAttempt)
	}
}

// decisionSpans draw the time in which a dead letter stood, and record what was decided about it.
func (o *owner) decisionSpans(traced tracedEvent, name string, letter streams.Message, d streams.Decision) spanRef {
	parked := parkedSpan(letter)
	if r, err := advisories.ReadReport(letter); err == nil && name != spanRelease {
		before := traced
		before.Cycle = d.Cycle
		o.tracer.wait(before, spanParked, r.ParkedAt, time.Now(), parked, linkPark)
	}
	return o.tracer.moment(traced, name, parked, attrReason(d.Reason), attrBy(d.By))
}

// parkedSpan is the span under which a dead letter was parked.
func parkedSpan(letter streams.Message) spanRef {
	r, err := advisories.ReadReport(letter)
	if err != nil || r.SpanID == "" {
		return spanRef{}
	}
	return spanRef{TraceID: r.TraceID, SpanID: r.SpanID}
}

// blockerOf is the event that a lane waits for, 0 if it waits for none.
func (ls *lanes) blockerOf(token string) uint64 {
	if l := ls.all[token]; l != nil {
		if seq, at := l.Blocker(); at != lane.Absent {
			return seq
		}
	}
	return 0
}
