package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// AuditEntry is one entry of the audit: what happened to an event or to a
// function that somebody may have to answer for.
type AuditEntry struct {
	// Sequence is the entry's own, in the audit.
	Sequence uint64    `json:"sequence"`
	At       time.Time `json:"at"`
	// What is one word: parked, held, released, redriven, discarded, refused,
	// paused, resumed, suspended, hold_limit and what later versions add.
	What     string `json:"what"`
	Function string `json:"function"`
	// Event is "<function>/<sequence>", as a dead letter is named; empty for an
	// entry about a lane or a whole function.
	Event string `json:"event"`
	// EventID, Source and Type are those of the event. They are looked up where
	// the event was stored, and empty once it is not kept there any more.
	EventID string `json:"event_id"`
	Source  string `json:"source"`
	Type    string `json:"type"`
	Cycle   int    `json:"cycle"`
	// By is a person, or the part of the node that acted.
	By     string `json:"by"`
	Reason string `json:"reason"`
	// Key is the ordering key of an entry about a lane.
	Key string `json:"key"`
	// Detail is what else was written down.
	Detail map[string]string `json:"detail"`
}

// AuditQuery selects entries of the audit. Empty fields select all.
type AuditQuery struct {
	Function, What, By string
	// Event is "<function>/<sequence>", EventID the id that its sender gave it.
	Event, EventID string
	// Since and Until bound the time of an entry; both are included.
	Since, Until time.Time
	// Limit is the largest number of entries; 0 means [DefaultLimit].
	Limit int
	// After is the sequence behind which the page before ended, its Next: the
	// answer goes on with older entries. 0 begins at the newest.
	After uint64
}

// AuditPage is one page of the audit, the newest entry first.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	// Next is what After must be for the page behind this one; 0 when there is
	// nothing older. A page may be shorter than its limit and still have a next
	// one: a node looks at a bounded number of entries for each.
	Next uint64 `json:"next"`
	// Examined is how many entries the node looked at for this page.
	Examined int `json:"examined"`
}

// Audit returns one page of the audit.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (AuditPage, error) {
	return call[AuditPage](ctx, c, http.MethodGet, "/api/v1/audit?"+q.values().Encode(), nil)
}

// AuditBySequence returns one entry of the audit.
func (c *Client) AuditBySequence(ctx context.Context, sequence uint64) (AuditEntry, error) {
	return call[AuditEntry](ctx, c, http.MethodGet, "/api/v1/audit/"+strconv.FormatUint(sequence, 10), nil)
}

func (q AuditQuery) values() url.Values {
	v := url.Values{}
	for _, p := range [][2]string{
		{"function", q.Function}, {"what", q.What}, {"by", q.By}, {"event", q.Event}, {"event_id", q.EventID},
		{"since", instant(q.Since)}, {"until", instant(q.Until)},
	} {
		if p[1] != "" {
			v.Set(p[0], p[1])
		}
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.After != 0 {
		v.Set("after", strconv.FormatUint(q.After, 10))
	}
	return v
}

// instant writes a time as the API reads it; no time is nothing.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// UTC returns e with its time in UTC and no null map.
func (e AuditEntry) UTC() AuditEntry {
	e.At = e.At.UTC()
	if e.Detail == nil {
		e.Detail = map[string]string{}
	}
	return e
}
