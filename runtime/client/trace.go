package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// EventTrace is the life of an event as a list, the oldest step first.
type EventTrace struct {
	Stream   string    `json:"stream"`
	Sequence uint64    `json:"sequence"`
	ID       string    `json:"id"`
	Source   string    `json:"source"`
	Type     string    `json:"type"`
	StoredAt time.Time `json:"stored_at"`
	// TraceID is the trace that every attempt and every decision belongs to.
	TraceID string      `json:"trace_id"`
	Steps   []TraceStep `json:"steps"`
	// Partial says that the audit was too long to be read whole: refused
	// decisions may be missing, attempts and decisions that were applied are not.
	Partial bool `json:"partial"`
}

// TraceStep is one step of an event's life.
type TraceStep struct {
	// At is when it happened. It is not there for a success at the very first
	// attempt, about which no record is kept.
	At time.Time `json:"at,omitzero"`
	// Gap is the time since the step before, as Go writes a duration; empty
	// where there is no time.
	Gap string `json:"gap"`
	// Function is empty for what is not about one.
	Function string `json:"function"`
	// What is one word: stored, attempt, crash, given_back, waited, held,
	// released, redriven, parked, delivered, discarded, gone, what the audit says
	// beyond these, and now for where an event stands that is not finished.
	What string `json:"what"`
	// Detail says the rest in words for a person.
	Detail  string `json:"detail"`
	TraceID string `json:"trace_id"`
}

// TraceBySequence returns the life of the event at a sequence of the stream.
func (c *Client) TraceBySequence(ctx context.Context, sequence uint64) (EventTrace, error) {
	return call[EventTrace](ctx, c, http.MethodGet, "/api/v1/events/trace?sequence="+strconv.FormatUint(sequence, 10), nil)
}

// TraceByID returns the life of an event by its id, as [Client.EventByID] finds it.
func (c *Client) TraceByID(ctx context.Context, id, source string) (EventTrace, error) {
	q := url.Values{"id": {id}}
	if source != "" {
		q.Set("source", source)
	}
	return call[EventTrace](ctx, c, http.MethodGet, "/api/v1/events/trace?"+q.Encode(), nil)
}

// UTC returns e with its times in UTC and no null list.
func (e EventTrace) UTC() EventTrace {
	e.StoredAt = e.StoredAt.UTC()
	steps := make([]TraceStep, len(e.Steps))
	for i, s := range e.Steps {
		s.At = s.At.UTC()
		steps[i] = s
	}
	e.Steps = steps
	return e
}
