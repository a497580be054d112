package advisories

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/streams"
)

// Cause says why an event became a dead letter. It is a closed set.
type Cause string

// The causes. Expired and SetAside do not block their lane.
const (
	Exhausted   Cause = "exhausted"
	Permanent   Cause = "permanent"
	Undecodable Cause = "undecodable"
	Crashed     Cause = "crash"
	Stuck       Cause = "stuck"
	Expired     Cause = "expired"
	SetAside    Cause = "set-aside"
)

// Who parked an event: the path on which the verdict was reached.
const (
	ByAdvisory = "advisory"
	ByOwner    = "owner"
	BySweep    = "sweep"
	ByAttempt  = "attempt" // the attempt itself decided: permanent, undecodable, stuck, expired
)

// Report is what a dead letter says about itself besides the event: why, how often, when, where, under which trace.
type Report struct {
	Function    string           `json:"function"`
	Stream      string           `json:"stream"`
	Subject     string           `json:"subject"`
	Sequence    uint64           `json:"sequence"`
	StoredAt    time.Time        `json:"stored_at,omitzero"`
	Cause       Cause            `json:"cause"`
	Class       string           `json:"class,omitempty"`
	Code        string           `json:"code,omitempty"`
	Error       string           `json:"error,omitempty"`
	Stack       string           `json:"stack,omitempty"`
	Attempts    int              `json:"attempts"`
	Cycle       int              `json:"cycle"`
	ParkedAt    time.Time        `json:"parked_at"`
	ParkedBy    string           `json:"parked_by"`
	FirstFailed time.Time        `json:"first_failed_at,omitzero"`
	LastFailed  time.Time        `json:"last_failed_at,omitzero"`
	TraceID     string           `json:"trace_id,omitempty"`
	SpanID      string           `json:"span_id,omitempty"`
	Version     string           `json:"version,omitempty"`
	Diagnosis   string           `json:"diagnosis,omitempty"`  // whose fault it is, and why that is said
	GivenBack   int              `json:"given_back,omitempty"` // attempts of this cycle that were not charged, because the function was suspended
	Truncated   bool             `json:"truncated,omitempty"`
	Released    *Released        `json:"released,omitempty"`
	History     []streams.Record `json:"history,omitempty"`
}

// Released says that somebody let a dead letter's lane go on without it.
type Released struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// Blocks reports whether a dead letter with these headers keeps later events of its key waiting, in a function that holds. Expired and
// set-aside ones do not, nor one whose lane was released.
func Blocks(h nats.Header) bool {
	cause := Cause(h.Get(causeHeader))
	return cause != Expired && cause != SetAside && h.Get(releasedHeader) == ""
}

// Headers of a dead letter. The report is one line of JSON; the cause stands beside it for people who browse with any NATS client.
const (
	reportHeader   = "Siding-Dead-Letter"
	causeHeader    = "Siding-Cause"
	releasedHeader = "Siding-Released" // present on one that blocks its lane no longer
)

// Bounds of a report in bytes: everything that Siding adds to a copy stays within 16 KiB.
const (
	maxReport = 15 << 10
	maxText   = 4 << 10
	maxBrief  = 512
)

// Headers renders the report, bounded: long texts are cut first, then the oldest history, then the stack, then all texts. The history
// shows no stacks: that of the last failure stands beside it, and the attempt records keep the others.
func (r Report) Headers() map[string]string {
	stack := r.Stack
	if r.Released != nil {
		released := *r.Released
		released.By, released.Reason = r.cut(released.By, maxBrief), r.cut(released.Reason, maxBrief)
		r.Released = &released
	}
	r.Error = r.cut(r.Error, maxText)
	r.Stack = r.cut(r.Stack, maxText)
	r.Code = r.cut(r.Code, maxBrief)
	history := make([]streams.Record, len(r.History))
	for i, h := range r.History {
		r.Truncated = r.Truncated || h.Stack != "" && h.Stack != stack
		h.Function, h.Sequence, h.Stack = "", 0, ""
		h.Error = r.cut(h.Error, maxBrief)
		h.Reason = r.cut(h.Reason, maxBrief)
		h.Code = r.cut(h.Code, maxBrief)
		history[i] = h
	}
	r.History = history
	for limit := maxBrief; ; {
		line, err := json.Marshal(r)
		if err != nil { // only a time beyond year 9999 can do that
			line = fmt.Appendf(nil, `{"cause":%q,"truncated":true}`, r.Cause)
		}
		if len(line) <= maxReport || err != nil {
			headers := map[string]string{reportHeader: string(line), causeHeader: string(r.Cause)}
			if r.Released != nil {
				headers[releasedHeader] = r.Released.At.UTC().Format(time.RFC3339Nano)
			}
			return headers
		}
		switch {
		case len(r.History) > 1:
			r.History, r.Truncated = r.History[(len(r.History)+1)/2:], true
		case r.Stack != "":
			r.Stack, r.Truncated = "", true
		case len(r.History) > 0:
			r.History, r.Truncated = nil, true
		default:
			// JSON writes some characters with six: whatever the texts are, they fit in the end.
			for _, text := range []*string{
				&r.Function, &r.Stream, &r.Subject, &r.Class, &r.Code, &r.Error, &r.ParkedBy, &r.Diagnosis, &r.TraceID, &r.SpanID, &r.Version,
			} {
				*text = r.cut(*text, limit)
			}
			if r.Released != nil {
				r.Released.By, r.Released.Reason = r.cut(r.Released.By, limit), r.cut(r.Released.Reason, limit)
			}
			limit /= 2
		}
	}
}

// cut shortens a text to n bytes without splitting a character, and remembers that it did. Bytes that are no text at all are cut
// anywhere.
func (r *Report) cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	r.Truncated = true
	for at := n; at > max(0, n-utf8.UTFMax); at-- {
		if utf8.RuneStart(s[at]) {
			return s[:at]
		}
	}
	return s[:n]
}

// ReadReport reads what a dead letter says about itself. Sequence and function come from its subject, which nobody can cut.
func ReadReport(m streams.Message) (Report, error) {
	_, ref, err := streams.ParseSubject(m.Subject)
	if err != nil {
		return Report{}, err
	}
	r := Report{}
	if err := json.Unmarshal([]byte(m.Header.Get(reportHeader)), &r); err != nil {
		return Report{}, fmt.Errorf("dead letter %s: report: %w", ref.ID(), err)
	}
	r.Function, r.Sequence = ref.Function, ref.Sequence
	return r, nil
}

// NewReport builds the report of an event from its history.
func NewReport(h History, cause Cause, by string, now time.Time) Report {
	return Report{
		Cause: cause, ParkedBy: by, ParkedAt: now.UTC(), Attempts: h.Attempts, GivenBack: h.GivenBack, Cycle: h.Cycle,
		Class: h.Last.Class, Code: h.Last.Code, Error: h.Last.Error, Stack: h.Last.Stack,
		FirstFailed: h.FirstFailed, LastFailed: h.LastFailed,
		TraceID: h.Last.TraceID, SpanID: h.Last.SpanID, Version: h.Last.Version, History: h.Records,
	}
}
