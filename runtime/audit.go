package runtime

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// maxExamined bounds how many entries of the audit are looked at for one page, and how many events are looked up for it.
const maxExamined = 10_000

// audit returns one page of the audit, newest first: whoever looks has just been called, and the newest entries are what a stream of any length
// can give without being read whole.
func (r *Runtime) audit(ctx context.Context, q client.AuditQuery) (client.AuditPage, error) {
	h, err := r.current()
	if err != nil {
		return client.AuditPage{}, err
	}
	return h.audit(ctx, q)
}

func (r *Runtime) auditEntry(ctx context.Context, sequence uint64) (client.AuditEntry, error) {
	h, err := r.current()
	if err != nil {
		return client.AuditEntry{}, err
	}
	m, err := h.store.Get(ctx, streams.AuditStream, sequence)
	if errors.Is(err, streams.ErrNotFound) {
		return client.AuditEntry{}, newProblem(client.NotFound, "audit entry %d: not found", sequence).WithHint("`siding audit ls` lists what is kept")
	}
	if err != nil {
		return client.AuditEntry{}, err
	}
	entry := auditOf(m)
	return entry, newEventNames(h.store).fill(ctx, &entry)
}

func (h *host) audit(ctx context.Context, q client.AuditQuery) (client.AuditPage, error) {
	page, more := client.AuditPage{}, false
	names := newEventNames(h.store)
	var failed error
	err := h.store.AuditBackwards(ctx, q.Function, q.After, func(m streams.Message) bool {
		// An entry is stored after what it tells of, so that nothing older can be of this time.
		if !q.Since.IsZero() && m.Time.Before(q.Since) {
			return false
		}
		if more = page.Examined == maxExamined || len(page.Entries) == q.Limit; more {
			return false
		}
		page.Examined++
		page.Next = m.Sequence
		entry := auditOf(m)
		if !auditSelects(q, entry) {
			return true
		}
		if failed = names.fill(ctx, &entry); failed != nil {
			return false
		}
		if q.EventID == "" || entry.EventID == q.EventID {
			page.Entries = append(page.Entries, entry)
		}
		return true
	})
	if !more {
		page.Next = 0
	}
	return page, errors.Join(err, failed)
}

func auditSelects(q client.AuditQuery, e client.AuditEntry) bool {
	for _, pair := range [][2]string{{q.Function, e.Function}, {q.What, e.What}, {q.By, e.By}, {q.Event, e.Event}} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return (q.Since.IsZero() || !e.At.Before(q.Since)) && (q.Until.IsZero() || !e.At.After(q.Until)) && (q.EventID == "" || e.Event != "")
}

// auditOf shows an entry without the names of its event.
func auditOf(m streams.Message) client.AuditEntry {
	a := streams.ReadAudit(m)
	e := client.AuditEntry{
		Sequence: m.Sequence, At: a.At, What: a.Action, Function: a.Function, Cycle: a.Cycle, By: a.By, Reason: a.Reason,
		Key: a.Detail["key"], Detail: a.Detail,
	}
	if a.Sequence != 0 {
		e.Event = streams.Ref{Function: a.Function, Sequence: a.Sequence}.ID()
	}
	return e
}

// eventNames looks up what the events of audit entries were called by their senders. It remembers what it has read.
type eventNames struct {
	store   *streams.Store
	streams map[string]string // of functions
	read    map[string]eventName
}

type eventName struct{ id, source, kind string }

func newEventNames(store *streams.Store) *eventNames {
	return &eventNames{store: store, streams: map[string]string{}, read: map[string]eventName{}}
}

// fill sets id, source and type of an entry's event, as far as it is kept.
func (n *eventNames) fill(ctx context.Context, e *client.AuditEntry) error {
	_, digits, _ := strings.Cut(e.Event, "/")
	sequence, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return nil //nolint:nilerr // the entry is not about an event
	}
	name, known := n.read[e.Event]
	if !known {
		if name, err = n.look(ctx, e.Function, sequence); err != nil {
			return err
		}
		n.read[e.Event] = name
	}
	e.EventID, e.Source, e.Type = name.id, name.source, name.kind
	return nil
}

func (n *eventNames) look(ctx context.Context, function string, sequence uint64) (eventName, error) {
	stream, known := n.streams[function]
	if !known {
		d, err := n.store.Declared(ctx, function)
		if err != nil && !errors.Is(err, streams.ErrNotFound) {
			return eventName{}, err
		}
		stream = d.Stream
		n.streams[function] = stream
	}
	if stream == "" {
		return eventName{}, nil
	}
	m, err := n.store.Get(ctx, stream, sequence)
	if errors.Is(err, streams.ErrNotFound) {
		return eventName{}, nil
	}
	if err != nil {
		return eventName{}, err
	}
	a, err := streams.ReadAttributes(m.Header, m.Data)
	if err != nil {
		return eventName{}, nil //nolint:nilerr // what is no event has no name
	}
	return eventName{id: a.ID(), source: a.Source(), kind: a.Type()}, nil
}

// auditOfEvent returns what the audit says about an event of a function, oldest first; cut says that it was too long to be read whole.
func (h *host) auditOfEvent(ctx context.Context, q client.AuditQuery) (entries []client.AuditEntry, cut bool, err error) {
	q.Limit = client.MaxLimit
	page, err := h.audit(ctx, q)
	if err != nil {
		return nil, false, err
	}
	slices.Reverse(page.Entries)
	return page.Entries, page.Next != 0, nil
}
