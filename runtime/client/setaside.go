package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// SetAsideRequest asks to park events of a function before they run, or to end
// that.
type SetAsideRequest struct {
	Function string `json:"function"`
	// Where picks the events: conditions as in
	// "source=/partners/acme/*,size>65536", all of which must hold.
	Where string `json:"where"`
	// End ends the rule with these conditions. What it has parked stays parked
	// until somebody decides about it.
	End bool `json:"end,omitempty"`
	// Reason says why; a new rule must have one.
	Reason string `json:"reason"`
	By     string `json:"by"`
}

// SetAsideRule is a rule by which a function's events are parked before they
// run, with the cause "set-aside".
type SetAsideRule struct {
	Where  string    `json:"where"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// SetAside makes a function park the events that the conditions pick before
// they run, or ends that. Later events of their keys go on. What was redriven
// is not set aside again: somebody has decided about it.
func (c *Client) SetAside(ctx context.Context, r SetAsideRequest) (Function, error) {
	return call[Function](ctx, c, http.MethodPost, "/api/v1/functions/"+url.PathEscape(r.Function)+"/set-aside", r)
}
