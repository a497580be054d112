package runtime

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// eventTrace tells the life of an event as a list: what the records of each function say, what the audit says beyond them, and where the event
// stands if it is not finished.
func (r *Runtime) eventTrace(ctx context.Context, ref, source string) (client.EventTrace, error) {
	h, err := r.current()
	if err != nil {
		return client.EventTrace{}, err
	}
	m, err := h.stored(ctx, ref, source)
	if err != nil {
		return client.EventTrace{}, err
	}
	t := client.EventTrace{Stream: m.Stream, Sequence: m.Sequence, StoredAt: m.Time}
	traced := tracedEvent{Header: m.Header}
	if a, err := streams.ReadAttributes(m.Header, m.Data); err == nil {
		t.ID, t.Source, t.Type = a.ID(), a.Source(), a.Type()
		traced.ID, traced.Source, traced.StructuredTraceparent = a.ID(), a.Source(), a.Get(traceparent)
		t.TraceID = traceIDOf(traced)
	}
	t.Steps = []client.TraceStep{{At: m.Time, What: "stored", Detail: fmt.Sprintf("%s sequence %d, subject %s", m.Stream, m.Sequence, m.Subject), TraceID: t.TraceID}}
	names, err := h.store.DeclaredNames(ctx)
	if err != nil {
		return client.EventTrace{}, err
	}
	slices.Sort(names)
	for _, name := range names {
		takes, err := h.takes(ctx, name, m)
		if err != nil {
			return client.EventTrace{}, err
		}
		if !takes {
			continue
		}
		state, records, err := h.standing(ctx, name, m.Sequence)
		if err != nil {
			return client.EventTrace{}, err
		}
		var audit []client.AuditEntry
		if len(records) > 0 { // whoever was handled on the hot path is not in the audit
			cut := false
			q := client.AuditQuery{Function: name, Event: streams.Ref{Function: name, Sequence: m.Sequence}.ID(), Since: m.Time}
			if audit, cut, err = h.auditOfEvent(ctx, q); err != nil {
				return client.EventTrace{}, err
			}
			t.Partial = t.Partial || cut
		}
		t.Steps = append(t.Steps, stepsOf(state, records, audit, time.Now().UTC())...)
	}
	t.Steps = inOrder(t.Steps)
	return t, nil
}

// inOrder sorts steps by time, those without one last, and tells how long after the one before each came. Steps of one instant stay as they
// are: those of a function in the order in which they were recorded.
func inOrder(steps []client.TraceStep) []client.TraceStep {
	slices.SortStableFunc(steps, func(a, b client.TraceStep) int {
		if a.At.IsZero() || b.At.IsZero() {
			return cmp.Compare(b.At.Unix(), a.At.Unix())
		}
		return a.At.Compare(b.At)
	})
	for i := range steps {
		switch {
		case steps[i].At.IsZero():
		case i == 0:
			steps[i].Gap = "0s"
		default:
			steps[i].Gap = steps[i].At.Sub(steps[i-1].At).String()
		}
	}
	return steps
}

// stepsOf tells what a function's records and the audit say about an event, and where it stands now.
func stepsOf(state client.EventState, records []streams.Record, audit []client.AuditEntry, now time.Time) []client.TraceStep {
	var steps []client.TraceStep
	add := func(at time.Time, what, detail, trace string) {
		steps = append(steps, client.TraceStep{At: at, Function: state.Function, What: what, Detail: detail, TraceID: trace})
	}
	for i, r := range records {
		if i > 0 {
			if waited := waitedFor(records[i-1], r); waited != "" {
				add(r.Started, "waited", waited, r.TraceID)
			}
		}
		add(r.Ended, string(r.Kind), recordDetail(r), r.TraceID)
	}
	for _, e := range audit {
		if !recorded(records, e) {
			add(e.At, e.What, decidedBy(e.By, e.Reason), "")
		}
	}
	trace := ""
	if len(steps) > 0 {
		trace = steps[len(steps)-1].TraceID
	}
	switch {
	case state.State == client.StateDelivered && len(records) == 0:
		add(time.Time{}, client.StateDelivered, "at its first attempt, about which no record is kept", "")
	case len(records) > 0 && records[len(records)-1].Final():
	default:
		add(now, "now", state.State+whyNot(state, now), trace)
	}
	return steps
}

// waitedFor says what an attempt had been waiting for, "" if for nothing.
func waitedFor(before, r streams.Record) string {
	wait := r.Started.Sub(before.Ended)
	if r.Attempt == 0 || wait <= 0 {
		return ""
	}
	switch {
	case before.Kind == streams.RecordHeld:
		return "held for " + brief(wait)
	case before.Kind == streams.RecordAttempt && !before.Due.IsZero():
		return brief(wait) + " of backoff"
	}
	return ""
}

// recordDetail says in words what a record says beyond its kind.
func recordDetail(r streams.Record) string {
	switch r.Kind {
	case streams.RecordAttempt, streams.RecordCrash:
		detail := fmt.Sprintf("attempt %d", r.Attempt)
		if r.Cycle > 0 {
			detail += fmt.Sprintf(" of cycle %d", r.Cycle)
		}
		if r.Kind == streams.RecordAttempt {
			detail += " failed after " + brief(r.Ended.Sub(r.Started))
		}
		if why := strings.Join(strings.Fields(r.Class+" "+r.Code), " "); why != "" {
			detail += ": " + why
		}
		if r.Error != "" {
			detail += ": " + r.Error
		}
		if !r.Charged {
			detail += " (not charged)"
		}
		return detail
	case streams.RecordDelivered:
		return fmt.Sprintf("attempt %d took %s", r.Attempt, brief(r.Ended.Sub(r.Started)))
	case streams.RecordParked:
		return r.Cause + ", noticed by " + r.By
	case streams.RecordHeld:
		return r.Reason
	case streams.RecordUncharged:
		return fmt.Sprintf("attempts from %d on were given back: %s", r.Attempt, r.Reason)
	case streams.RecordGivenBack:
		return "deliveries that were used up without an attempt were given back"
	default:
		return decidedBy(r.By, r.Reason)
	}
}

// decidedBy says who did something, and why.
func decidedBy(by, reason string) string {
	if by == "" {
		return reason
	}
	if reason == "" {
		return "by " + by
	}
	return "by " + by + ": " + reason
}

// recorded reports whether the records tell already what an entry of the audit says.
func recorded(records []streams.Record, e client.AuditEntry) bool {
	return slices.ContainsFunc(records, func(r streams.Record) bool {
		cycle := r.Cycle
		if r.Kind == streams.RecordRedriven || r.Kind == streams.RecordEdited {
			cycle-- // the record opens the next one, the entry names the dead letter's
		}
		return string(r.Kind) == e.What && cycle == e.Cycle
	})
}

// whyNot says what an event waits for, in its state.
func whyNot(s client.EventState, now time.Time) string {
	switch {
	case s.Behind != "":
		return " behind " + s.Behind
	case !s.DueAt.IsZero() && s.DueAt.After(now):
		return ", attempted again in " + brief(s.DueAt.Sub(now))
	case s.State == client.StateParked:
		return ", until somebody decides"
	}
	return ""
}

// brief writes a duration without digits that say nothing.
func brief(d time.Duration) string {
	for _, unit := range []time.Duration{time.Hour, time.Second, time.Millisecond, time.Microsecond} {
		if d >= 10*unit {
			return d.Round(unit / 10).String()
		}
	}
	return d.String()
}
