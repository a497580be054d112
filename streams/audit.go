package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// auditTypePrefix begins the type of every audit event.
const auditTypePrefix = "siding."

// ReadAudit reads an entry of the audit back. What somebody else wrote there has no action.
func ReadAudit(m Message) AuditEntry {
	function, _ := strings.CutPrefix(m.Subject, auditPrefix)
	a := AuditEntry{Function: function, At: m.Time}
	action, ours := strings.CutPrefix(m.Header.Get("ce-type"), auditTypePrefix)
	var said struct {
		Sequence uint64            `json:"sequence"`
		Cycle    int               `json:"cycle"`
		By       string            `json:"by"`
		Reason   string            `json:"reason"`
		Detail   map[string]string `json:"detail"`
	}
	if !ours || json.Unmarshal(m.Data, &said) != nil {
		return a
	}
	a.Action, a.Sequence, a.Cycle, a.By, a.Reason, a.Detail = action, said.Sequence, said.Cycle, said.By, said.Reason, said.Detail
	if at, err := time.Parse(time.RFC3339Nano, m.Header.Get("ce-time")); err == nil {
		a.At = at
	}
	return a
}

// Bounds of one window of a backward read, in sequences of the stream. The first one is small, because mostly the newest entries are asked
// for. Where a window holds little of what is asked for, the next one is wider: a rare function must not cost a read of all others' entries.
const (
	firstWindow = 64
	denseWindow = 512 // messages that make a window wide enough
)

// AuditBackwards calls yield for the entries of one function, or of all (""), from the newest with a sequence below before (0 = the end) to the
// oldest, until yield returns false. It reads a window of them at a time. JetStream has no reading backwards, but its reads by sequence and
// subject are cheap.
func (s *Store) AuditBackwards(ctx context.Context, function string, before uint64, yield func(Message) bool) error {
	filter := auditPrefix + ">"
	if function != "" {
		filter = AuditSubject(function)
	}
	newest, err := s.Last(ctx, AuditStream, filter)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	oldest, err := s.Next(ctx, AuditStream, 1, filter)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	end := newest.Sequence + 1 // of the window, not in it
	if before != 0 {
		end = min(end, before)
	}
	for width := uint64(firstWindow); end > oldest.Sequence; {
		start := oldest.Sequence
		if end-start > width {
			start = end - width
		}
		window, all, err := s.auditWindow(ctx, filter, start, end)
		if err != nil {
			return err
		}
		if !all && width > firstWindow { // it was a guess, and too wide
			width /= 4
			continue
		}
		for _, m := range slices.Backward(window) {
			if !yield(m) {
				return nil
			}
		}
		end = start
		if len(window) <= denseWindow {
			width *= 4
		}
	}
	return nil
}

// auditWindow reads the entries from start up to end; all is false if there are more than it holds.
func (s *Store) auditWindow(ctx context.Context, filter string, start, end uint64) (window []Message, all bool, err error) {
	for next := start; next < end; {
		m, err := s.Next(ctx, AuditStream, next, filter)
		if errors.Is(err, ErrNotFound) || err == nil && m.Sequence >= end {
			break
		}
		if err != nil {
			return nil, false, fmt.Errorf("audit: %w", err)
		}
		if len(window) == 4*denseWindow {
			return nil, false, nil
		}
		window, next = append(window, m), m.Sequence+1
	}
	return window, true, nil
}
