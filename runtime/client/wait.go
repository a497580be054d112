package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// MaxWait is how long a node waits at most before it answers [Client.Wait]'s
// calls, of which one wait may take several.
const MaxWait = 20 * time.Second

// Outcome is what has become of an event.
type Outcome struct {
	Sequence uint64 `json:"sequence"`
	// Done says that every function that takes the event has an end for it.
	Done bool `json:"done"`
	// Functions are those that take the event, by name.
	Functions []EventState `json:"functions"`
}

// Sent is an event that was stored, and what has become of it: what
// `siding event send --wait --json` prints.
type Sent struct {
	Accepted
	Done      bool         `json:"done"`
	Functions []EventState `json:"functions"`
}

// The states in which an event is finished with for now: nothing happens to it
// any more unless somebody decides.
const (
	StateDelivered = "delivered"
	StateDiscarded = "discarded"
	StateParked    = "parked"
	StateGone      = "gone"
)

// Ended reports whether nothing more happens to the event by itself.
func (s EventState) Ended() bool {
	switch s.State {
	case StateDelivered, StateDiscarded, StateParked, StateGone:
		return true
	}
	return false
}

// Well reports whether every function has delivered or discarded the event.
func (o Outcome) Well() bool {
	for _, s := range o.Functions {
		if s.State != StateDelivered && s.State != StateDiscarded {
			return false
		}
	}
	return o.Done
}

// Wait returns what has become of the event at a sequence when every function
// that takes it has an end for it, or when the time is over: Done tells which.
func (c *Client) Wait(ctx context.Context, sequence uint64, timeout time.Duration) (Outcome, error) {
	end := time.Now().Add(timeout)
	for {
		part := min(max(time.Until(end), 0), MaxWait)
		q := url.Values{"sequence": {strconv.FormatUint(sequence, 10)}, "timeout": {part.String()}}
		o, err := call[Outcome](ctx, c, http.MethodGet, "/api/v1/events/wait?"+q.Encode(), nil)
		if err != nil || o.Done || !time.Now().Before(end) {
			return o, err
		}
	}
}

// UTC returns o with its times in UTC and no null lists.
func (o Outcome) UTC() Outcome {
	states := make([]EventState, len(o.Functions))
	for i, s := range o.Functions {
		states[i] = s.UTC()
	}
	o.Functions = states
	return o
}

// UTC returns s with its times in UTC and no null list.
func (s EventState) UTC() EventState {
	s.DueAt = s.DueAt.UTC()
	s.History = historyUTC(s.History)
	return s
}
