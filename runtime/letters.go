package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// deadLetters lists a page of dead letters by function and sequence.
func (r *Runtime) deadLetters(ctx context.Context, q deadLetterQuery) ([]client.DeadLetter, error) {
	h, err := r.current()
	if err != nil {
		return nil, err
	}
	var page []client.DeadLetter
	var behind heldCounts
	of := ""
	err = h.eachLetter(ctx, q, func(ref streams.Ref, _ streams.Message, d client.DeadLetter) (more bool, err error) {
		if of != ref.Function {
			if behind, err = h.heldBehind(ctx, ref.Function); err != nil {
				return false, err
			}
			of = ref.Function
		}
		d.Held = behind.of(ref)
		page = append(page, d)
		return len(page) != q.Limit, nil
	})
	return page, err
}

// eachLetter calls yield for the dead letters that q selects, by function and sequence, until it says that there is no more to come. It does not
// tell how many are held behind one.
func (h *host) eachLetter(ctx context.Context, q deadLetterQuery, yield func(streams.Ref, streams.Message, client.DeadLetter) (more bool, err error)) error {
	spoiled, err := h.spoiledBy(ctx, q.Outage)
	if err != nil {
		return err
	}
	functions, err := h.withLetters(ctx, q.Function)
	if err != nil {
		return err
	}
	afterFunction, afterSequence, err := parseID(q.After)
	if err != nil {
		return err
	}
	for _, function := range functions {
		if function < afterFunction {
			continue
		}
		refs, err := h.store.Standing(ctx, streams.InDeadLetters, function)
		if err != nil {
			return err
		}
		slices.SortFunc(refs, func(a, b streams.Ref) int { return compareSequence(a.Sequence, b.Sequence) })
		for _, ref := range refs {
			if function == afterFunction && ref.Sequence <= afterSequence {
				continue
			}
			m, err := h.store.Last(ctx, streams.DeadLetterStream(function), streams.InDeadLetters.Subject(ref))
			if errors.Is(err, streams.ErrNotFound) {
				continue // decided meanwhile
			}
			if err != nil {
				return err
			}
			d := letterOf(m)
			if !selects(q, d) || !spoiled(d) {
				continue
			}
			if more, err := yield(ref, m, d); !more || err != nil {
				return err
			}
		}
	}
	return nil
}

func compareSequence(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// parseID reads `<function>/<sequence>`; "" is before everything.
func parseID(id string) (function string, sequence uint64, err error) {
	if id == "" {
		return "", 0, nil
	}
	function, number, ok := strings.Cut(id, "/")
	if sequence, err = strconv.ParseUint(number, 10, 64); !ok || err != nil {
		return "", 0, newProblem(client.Usage, "%q is not the id of a dead letter", id).WithHint("an id is <function>/<sequence>")
	}
	return function, sequence, nil
}

// withLetters lists the functions that may have dead letters, sorted; one that is named must be known.
func (h *host) withLetters(ctx context.Context, function string) ([]string, error) {
	known, err := h.store.DeclaredNames(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(known)
	if function == "" {
		return known, nil
	}
	if !slices.Contains(known, function) {
		return nil, newProblem(client.NotFound, "function %s: not found", function).WithHint("`siding function ls` lists those that this node knows")
	}
	return []string{function}, nil
}

func selects(q deadLetterQuery, d client.DeadLetter) bool {
	for _, pair := range [][2]string{{q.Function, d.Function}, {q.Cause, d.Cause}, {q.Class, d.Class}, {q.Source, d.Source}, {q.Type, d.Type}, {q.Key, d.Key}} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return q.Since.IsZero() || !d.ParkedAt.Before(q.Since)
}

// letterOf reads a stored dead letter. One whose report cannot be read still shows what its subject and headers say.
func letterOf(m streams.Message) client.DeadLetter {
	_, ref, _ := streams.ParseSubject(m.Subject)
	copied := streams.ReadCopy(m.Header, m.Data)
	d := client.DeadLetter{
		ID: ref.ID(), Function: ref.Function, Sequence: ref.Sequence, Key: copied.Key, Attempts: copied.Attempts, Cycle: copied.Cycle, ParkedAt: m.Time,
	}
	if report, err := advisories.ReadReport(m); err == nil {
		d.Cause, d.Class, d.Code, d.Error, d.Attempts = string(report.Cause), report.Class, report.Code, report.Error, report.Attempts
		d.Diagnosis, d.GivenBack = report.Diagnosis, report.GivenBack
		d.ParkedAt, d.FirstFailedAt, d.LastFailedAt = report.ParkedAt, report.FirstFailed, report.LastFailed
		d.ParkedBy, d.TraceID, d.Version = report.ParkedBy, report.TraceID, report.Version
	}
	if a, err := streams.ReadAttributes(m.Header, m.Data); err == nil {
		d.EventID, d.Source, d.Type = a.ID(), a.Source(), a.Type()
	}
	return d
}

func (r *Runtime) deadLetter(ctx context.Context, function string, sequence uint64) (client.DeadLetterDetail, error) {
	h, err := r.current()
	if err != nil {
		return client.DeadLetterDetail{}, err
	}
	ref, err := h.store.Find(ctx, streams.InDeadLetters, function, sequence)
	if errors.Is(err, streams.ErrNotFound) {
		return client.DeadLetterDetail{}, h.noLetterToShow(ctx, function, sequence)
	}
	if err != nil {
		return client.DeadLetterDetail{}, err
	}
	m, err := h.store.Last(ctx, streams.DeadLetterStream(function), streams.InDeadLetters.Subject(ref))
	if errors.Is(err, streams.ErrNotFound) {
		return client.DeadLetterDetail{}, h.noLetterToShow(ctx, function, sequence)
	}
	if err != nil {
		return client.DeadLetterDetail{}, err
	}
	detail := client.DeadLetterDetail{DeadLetter: letterOf(m)}
	report, err := advisories.ReadReport(m)
	if err == nil {
		detail.Stack, detail.Stream, detail.Subject, detail.Truncated = report.Stack, report.Stream, report.Subject, report.Truncated
	}
	records, err := h.store.Records(ctx, function, sequence)
	if err != nil {
		return client.DeadLetterDetail{}, err
	}
	if len(records) == 0 {
		records = report.History
	}
	detail.History = historyOf(records)
	copied := streams.ReadCopy(m.Header, m.Data)
	header, data, err := h.store.Resolve(ctx, ref, copied)
	if copied.Referenced {
		detail.Reference = fmt.Sprintf("%s/%d", copied.Source, sequence)
	}
	if err != nil && !errors.Is(err, streams.ErrNotFound) {
		return client.DeadLetterDetail{}, err
	}
	detail.Attributes, detail.Payload = contentOf(header, data)
	if copied.Referenced && err == nil {
		if a, err := streams.ReadAttributes(header, data); err == nil {
			detail.EventID, detail.Source, detail.Type = a.ID(), a.Source(), a.Type()
		}
	}
	detail.Held, detail.Tail, err = h.tailOf(ctx, ref)
	return detail, err
}

// tailOf is what is held behind a dead letter: nothing, if its lane does not wait for it.
func (h *host) tailOf(ctx context.Context, ref streams.Ref) (int, []client.HeldEvent, error) {
	reader := h.laneReader(ref.Function)
	v, _, err := reader.laneView(ctx, ref.Lane)
	if err != nil || v.blocker != ref.Sequence {
		return 0, nil, err
	}
	tail, err := h.heldAbove(ctx, reader, ref.Function, ref.Lane, ref.Sequence)
	return v.held, tail, err
}

// noLetterToShow is the problem that a dead letter does not stand, with what was decided about it if anything was.
func (h *host) noLetterToShow(ctx context.Context, function string, sequence uint64) error {
	records, err := h.store.Records(ctx, function, sequence)
	if err != nil {
		return err
	}
	text := ""
	if first := decidedBefore(records); first != "" {
		text = " any more: it was " + first
	}
	return newProblem(client.NotFound, "dead letter %s/%d: not found%s", function, sequence, text).
		WithHint("`siding dlq ls --function %s` lists those that stand", function)
}

// contentOf shows an event's attributes and data; what is no event shows its headers and raw bytes.
func contentOf(header map[string][]string, data []byte) (map[string]string, client.Payload) {
	e, err := streams.Decode(header, data)
	if err != nil {
		attributes := map[string]string{}
		for name, values := range header {
			attributes[name] = strings.Join(values, ", ")
		}
		return attributes, client.Payload{DataBase64: data}
	}
	attributes := map[string]string{"specversion": e.SpecVersion(), "id": e.ID(), "source": e.Source(), "type": e.Type()}
	for name, value := range map[string]string{"subject": e.Subject(), "datacontenttype": e.DataContentType(), "dataschema": e.DataSchema()} {
		if value != "" {
			attributes[name] = value
		}
	}
	if !e.Time().IsZero() {
		attributes["time"] = e.Time().Format(time.RFC3339Nano)
	}
	for name, value := range e.Extensions() {
		attributes[name] = fmt.Sprint(value)
	}
	return attributes, client.PayloadOf(e.DataContentType(), e.Data())
}

func historyOf(records []streams.Record) []client.Attempt {
	all := make([]client.Attempt, 0, len(records))
	for _, r := range records {
		text := r.Error
		if text == "" && (r.By != "" || r.Reason != "") {
			text = strings.TrimSpace("by " + r.By + " " + r.Reason)
		}
		beside := ""
		if r.Kind == streams.RecordCrash {
			beside = r.Reason
		}
		all = append(all, client.Attempt{
			Kind: string(r.Kind), Cycle: r.Cycle, Attempt: r.Attempt, Charged: r.Charged, Class: r.Class, Code: r.Code, Error: text,
			StartedAt: r.Started, EndedAt: r.Ended, DueAt: r.Due, TraceID: r.TraceID, SpanID: r.SpanID, Version: r.Version,
			Boot: int(r.Boot), Beside: beside,
		})
	}
	return all
}

// tailPoll is how often a tail looks for new dead letters.
const tailPoll = 250 * time.Millisecond

// tail follows the dead-letter streams by reading them at a position each: it takes nothing away and leaves no consumer behind.
func (r *Runtime) tail(ctx context.Context, q deadLetterQuery, fromNow bool, yield func(client.DeadLetter) error) error {
	next := map[string]uint64{}
	for first := true; ; first = false {
		h, err := r.current()
		if err != nil {
			return err
		}
		functions, err := h.withLetters(ctx, q.Function)
		if err != nil {
			return err
		}
		for _, function := range functions {
			if err := h.tailOne(ctx, function, next, first && fromNow, func(d client.DeadLetter) error {
				if !selects(q, d) {
					return nil
				}
				return yield(d)
			}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tailPoll):
		}
	}
}

func (h *host) tailOne(ctx context.Context, function string, next map[string]uint64, skip bool, yield func(client.DeadLetter) error) error {
	stream := streams.DeadLetterStream(function)
	if skip {
		source, err := h.store.Source(ctx, stream)
		if err == nil {
			next[function] = source.Last + 1
		} else if !errors.Is(err, streams.ErrNotFound) {
			return err
		}
		return nil
	}
	var behind heldCounts
	for {
		m, err := h.store.Next(ctx, stream, next[function], streams.InDeadLetters.Filter(function))
		if errors.Is(err, streams.ErrNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the reader has gone
		}
		if err != nil {
			return err
		}
		next[function] = m.Sequence + 1
		if behind == nil {
			if behind, err = h.heldBehind(ctx, function); err != nil {
				return err
			}
		}
		d := letterOf(m)
		if _, ref, err := streams.ParseSubject(m.Subject); err == nil {
			d.Held = behind.of(ref)
		}
		if err := yield(d); err != nil {
			return err
		}
	}
}
