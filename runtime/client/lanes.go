package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// The states of a [Lane].
const (
	// LanePaused is a lane that an operator has paused, whatever else is in it.
	LanePaused = "paused"
	// LaneBlocked is a lane that waits for its blocker.
	LaneBlocked = "blocked"
	// LaneRunning is a lane that has events in it, none of which blocks it.
	LaneRunning = "running"
)

// LaneStates returns the closed set.
func LaneStates() []string { return []string{LanePaused, LaneBlocked, LaneRunning} }

// Lane is one function's line for one ordering key.
type Lane struct {
	Function string `json:"function"`
	// Key is the ordering key; empty where only a hash of it is known.
	Key string `json:"key"`
	// Lane is the key as it stands in subjects.
	Lane string `json:"lane"`
	// State is one of [LaneStates].
	State string `json:"state"`
	// Blocker is the one event that the lane waits for.
	Blocker *LaneEvent `json:"blocker,omitempty"`
	// Held counts the events that wait behind the blocker, Events all that are
	// not finished, held ones included.
	Held   int `json:"held"`
	Events int `json:"events"`
	// HeldSince is since when something has been held without a break.
	HeldSince   time.Time `json:"held_since,omitzero"`
	PausedBy    string    `json:"paused_by,omitempty"`
	PausedAt    time.Time `json:"paused_at,omitzero"`
	PauseReason string    `json:"pause_reason,omitempty"`
}

// LaneEvent is the blocker of a lane.
type LaneEvent struct {
	// ID is "<function>/<sequence>".
	ID       string `json:"id"`
	Sequence uint64 `json:"sequence"`
	// State is "retrying", "parked" or "moving": on its way between the two.
	State string `json:"state"`
}

// LaneDetail is a lane with what is held in it.
type LaneDetail struct {
	Lane
	// Tail are the first [MaxTail] held events, in order.
	Tail []HeldEvent `json:"tail"`
}

// HeldEvent is an event that waits behind a blocker.
type HeldEvent struct {
	// ID is "<function>/<sequence>".
	ID       string    `json:"id"`
	Sequence uint64    `json:"sequence"`
	EventID  string    `json:"event_id"`
	Source   string    `json:"source"`
	Type     string    `json:"type"`
	HeldAt   time.Time `json:"held_at"`
}

// MaxTail is how many held events are shown at most.
const MaxTail = 100

// LaneQuery selects lanes. Empty fields select all.
type LaneQuery struct {
	Function string
	// State is one of [LaneStates].
	State string
	// Limit is the largest number of answers; 0 means [DefaultLimit].
	Limit int
	// After is "<function>/<lane>" of the last lane of the page before.
	After string
}

// PauseRequest asks to pause a lane, or to resume it.
type PauseRequest struct {
	Function string `json:"function"`
	// Key is the ordering key itself. Events without one have no lane.
	Key string `json:"key"`
	// Reason says why; a pause must have one.
	Reason string `json:"reason"`
	By     string `json:"by"`
}

// Lanes lists one page of the lanes that have something in them or are paused,
// by function and lane.
func (c *Client) Lanes(ctx context.Context, q LaneQuery) ([]Lane, error) {
	return call[[]Lane](ctx, c, http.MethodGet, "/api/v1/lanes?"+q.values().Encode(), nil)
}

// Lane returns one lane with what is held in it.
func (c *Client) Lane(ctx context.Context, function, key string) (LaneDetail, error) {
	return call[LaneDetail](ctx, c, http.MethodGet, lanePath(function)+"?"+url.Values{"key": {key}}.Encode(), nil)
}

// PauseLane makes a lane start nothing until it is resumed; what runs in it is
// not interrupted. A lane may be paused before any event is in it.
func (c *Client) PauseLane(ctx context.Context, r PauseRequest) (Lane, error) {
	return call[Lane](ctx, c, http.MethodPost, lanePath(r.Function)+"/pause", r)
}

// ResumeLane ends what PauseLane began.
func (c *Client) ResumeLane(ctx context.Context, r PauseRequest) (Lane, error) {
	return call[Lane](ctx, c, http.MethodPost, lanePath(r.Function)+"/resume", r)
}

func lanePath(function string) string { return "/api/v1/lanes/" + url.PathEscape(function) }

func (q LaneQuery) values() url.Values {
	v := url.Values{}
	for _, p := range [][2]string{{"function", q.Function}, {"state", q.State}, {"after", q.After}} {
		if p[1] != "" {
			v.Set(p[0], p[1])
		}
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}
