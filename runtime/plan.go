package runtime

import (
	"context"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// Plans are pure: from what is known about an event they say which changes to make, in which order. The order is the crash
// argument of the package: what stands at the target and in the records comes first, then the mark, then the ack or the delete.

// ended is an attempt that came back, with what the plan needs to know about it.
type ended struct {
	result  functions.Result
	number  int
	started time.Time
	at      time.Time
	span    spanRef
	trace   string
	version string
	boot    uint32
	outbox  *streams.Outbox // what a successful attempt emitted, nil if that is nothing
}

// record says what an attempt came to; due is when the next one may start.
func (e ended) record(it *item, cause advisories.Cause, due time.Time) streams.Record {
	r := streams.Record{
		Function: it.ref.Function, Sequence: it.ref.Sequence, Kind: streams.RecordAttempt, Cycle: it.cycle, Attempt: e.number, Charged: true,
		Outcome: string(e.result.Outcome), Class: string(e.result.Class), Code: e.result.Code, Stack: e.result.Stack, Cause: string(cause),
		Started: e.started.UTC(), Ended: e.at.UTC(), TraceID: e.trace, SpanID: e.span.SpanID, Version: e.version, Boot: e.boot,
	}
	if e.result.Err != nil {
		r.Error = e.result.Err.Error()
	}
	if !due.IsZero() {
		r.Due = due.UTC()
	}
	return r
}

// final is the record that ends an event for good.
func (e ended) final(it *item, kind streams.RecordKind) streams.Record {
	r := e.record(it, "", time.Time{})
	r.Kind = kind
	if kind == streams.RecordDiscarded {
		r.By, r.Reason = it.ref.Function, r.Error
	}
	return r
}

// planDone settles an event whose handler succeeded. On the hot path that is one mark and one ack; whoever has
// a record gets a final one, so that no record is left that nothing explains. twice tells the audit of an event that was, or may have been,
// handled before; nil for any other.
func planDone(it *item, e ended, twice *streams.AuditEntry) []step {
	if e.outbox != nil {
		return planEmitted(it, e, twice)
	}
	if it.retry == 0 && !it.recorded && twice == nil {
		return settle(it)
	}
	steps := []step{{kind: stepAside}}
	if twice != nil {
		steps = append(steps, step{kind: stepAudit, audit: *twice})
	}
	if it.retry != 0 || it.recorded {
		steps = append(steps, step{kind: stepRecord, record: e.final(it, streams.RecordDelivered)})
	}
	return append(steps, settle(it)...)
}

// planDiscarded settles an event that its handler dropped on purpose.
func planDiscarded(it *item, e ended) []step {
	r := e.final(it, streams.RecordDiscarded)
	steps := []step{{kind: stepRecord, record: r}, {kind: stepAudit, audit: streams.AuditEntry{
		Action: "discarded", Function: it.ref.Function, Sequence: it.ref.Sequence, Cycle: it.cycle, By: it.ref.Function, Reason: r.Error, At: e.at,
	}}}
	return append(steps, settle(it)...)
}

// settle ends an event at the place that it was handled from.
func settle(it *item) []step {
	if it.retry == 0 {
		return []step{{kind: stepMark}, {kind: stepAck, msg: it.msg}}
	}
	return []step{{kind: stepLeave, msg: it.msg, sequence: it.retry}}
}

// planRetry moves an event whose first attempt failed to RETRY. it already counts the attempt. The copy's first delivery stands for
// the attempt that was made, so that deliveries there equal attempts.
func planRetry(it *item, source string) []step {
	return append([]step{{kind: stepPlace, place: streams.InRetry, copy: it.copy(source)}}, step{kind: stepMark}, step{kind: stepAck, msg: it.msg})
}

// planHold moves an event behind the blocker of its lane. The record comes first: it alone tells a copy that was taken out of HELD from an
// event that was handled on the hot path.
func planHold(it *item, source string, r streams.Record, span spanRef) []step {
	c := it.copy(source)
	if h := span.header(); h != "" {
		c.Extra = map[string]string{holdSpanHeader: h}
	}
	return []step{
		{kind: stepAside},
		{kind: stepRecord, record: r},
		{kind: stepPlace, place: streams.InHeld, copy: c},
		{kind: stepMark},
		{kind: stepAck, msg: it.msg},
	}
}

// planRelease moves an event from HELD to RETRY, where its first delivery stands for its first attempt.
func planRelease(ref streams.Ref, c streams.Copy, held streams.Message) []step {
	return []step{
		{kind: stepPlace, place: streams.InRetry, copy: c},
		{kind: stepWait, ref: ref, tell: lane.ReleasedNow},
		{kind: stepAside}, // the attempt need not wait for what follows, and its end does
		{kind: stepDelete, stream: held.Stream, sequence: held.Sequence},
	}
}

// planPark makes an event a dead letter, wherever it stands now. c is its copy, with headers and body.
func planPark(it *item, c streams.Copy, r advisories.Report) []step {
	return append([]step{
		{kind: stepPlace, place: streams.InDeadLetters, copy: advisories.Letter(c, r)},
		{kind: stepRecord, record: advisories.ParkedRecord(it.ref, r)},
		// What the audit says of the error takes as long to find out as to store the copy: it comes when that is safe.
		{kind: stepPrepare, prepare: func(context.Context) ([]step, error) {
			return []step{{kind: stepAudit, audit: advisories.ParkedAudit(it.ref, r, whyParked(c, r))}}, nil
		}},
	}, settle(it)...)
}

// planRedrive sends a dead letter through its function again, in the next cycle. c is its copy, which an edit has given new data.
func planRedrive(ref streams.Ref, e functions.Event, c streams.Copy, letter, decision streams.Message, d streams.Decision, audit streams.AuditEntry, span spanRef) []step {
	kind := streams.RecordRedriven
	if d.Action == streams.ActionEdit {
		kind = streams.RecordEdited
	}
	c.Cycle, c.Attempts = d.Cycle+1, 0
	steps := []step{
		// The record comes first: a process that dies behind it finds out from it that this decision was applied, whatever has become of
		// the event meanwhile; one that dies before the move repeats it.
		{kind: stepRecord, record: decidedRecord(ref, kind, c.Cycle, d, span)},
	}
	if d.ForgetSteps { // before anything can be attempted again
		steps = append(steps, step{kind: stepForgetSteps, event: e})
	}
	return append(steps, []step{
		{kind: stepPlace, place: streams.InRetry, copy: c},
		{kind: stepWait, ref: ref, tell: lane.Redrive}, // at once: the lane must know of it before RETRY delivers it
		{kind: stepAside}, // the attempt need not wait for what follows, and its end does
		{kind: stepAudit, audit: audit},
		{kind: stepDelete, stream: letter.Stream, sequence: letter.Sequence},
		{kind: stepDelete, stream: decision.Stream, sequence: decision.Sequence},
	}...)
}

// decidedRecord says that a decision about a dead letter was applied.
func decidedRecord(ref streams.Ref, kind streams.RecordKind, cycle int, d streams.Decision, span spanRef) streams.Record {
	return streams.Record{
		Function: ref.Function, Sequence: ref.Sequence, Kind: kind, Cycle: cycle, By: d.By, Reason: d.Reason,
		Started: d.At, Ended: d.At, TraceID: span.TraceID, SpanID: span.SpanID,
	}
}

// planDiscard ends a dead letter by a decision. The audit comes before the record: what the record calls ended is not looked at again.
func planDiscard(ref streams.Ref, letter streams.Message, decision streams.Message, d streams.Decision, span spanRef) []step {
	record := advisories.DiscardedRecord(ref, d)
	record.TraceID, record.SpanID = span.TraceID, span.SpanID
	return []step{
		{kind: stepAudit, audit: advisories.DecidedAudit(ref, d)},
		{kind: stepRecord, record: record},
		{kind: stepDelete, stream: letter.Stream, sequence: letter.Sequence},
		{kind: stepTell, ref: ref, tell: lane.Done},
		{kind: stepDelete, stream: decision.Stream, sequence: decision.Sequence},
	}
}

// planDiscardHeld ends an event that is held behind a dead letter which is discarded with its tail. The dead letter is the last to end: until
// then it blocks the lane, and the decision can be repeated.
func planDiscardHeld(ref, letter streams.Ref, held streams.Message, d streams.Decision) []step {
	return []step{
		{kind: stepAudit, audit: advisories.DiscardedTailAudit(ref, letter, d)},
		{kind: stepRecord, record: advisories.DiscardedRecord(ref, streams.Decision{By: d.By, Reason: d.Reason, At: d.At})},
		{kind: stepDelete, stream: held.Stream, sequence: held.Sequence},
		{kind: stepTell, ref: ref, tell: lane.Done},
	}
}

// planPass lets the lane of a dead letter go on without it. The dead letter says so itself, so that a restart knows.
func planPass(ref streams.Ref, letter streams.Message, report advisories.Report, decision streams.Message, d streams.Decision, span spanRef) []step {
	report.Released = &advisories.Released{By: d.By, Reason: d.Reason, At: d.At}
	return []step{
		{kind: stepRecord, record: decidedRecord(ref, streams.RecordReleased, d.Cycle, d, span)},
		{kind: stepAudit, audit: advisories.DecidedAudit(ref, d)},
		{kind: stepReplace, place: streams.InDeadLetters, copy: advisories.Letter(streams.ReadCopy(letter.Header, letter.Data), report), sequence: letter.Sequence},
		{kind: stepTell, ref: ref, tell: lane.ParkPassing},
		{kind: stepDelete, stream: decision.Stream, sequence: decision.Sequence},
	}
}
