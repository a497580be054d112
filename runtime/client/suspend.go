package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// SuspendRequest asks to suspend a function, or to resume it.
type SuspendRequest struct {
	Function string `json:"function"`
	// Reason says why; a suspension must have one.
	Reason string `json:"reason"`
	By     string `json:"by"`
}

// Suspension says why a function makes no attempts, or few.
type Suspension struct {
	// ID names it: `siding dlq redrive --outage ID` redrives what it parked.
	ID string `json:"id"`
	// Phase is "open" while single events probe at growing intervals, "ramp"
	// while more and more attempts run at once again, and "stays" until a person
	// resumes the function.
	Phase string `json:"phase"`
	// Cause is "outage", "inflow", "handler" or "person".
	Cause string `json:"cause"`
	// Since is when the first failure was seen that speaks for it.
	Since time.Time `json:"since"`
	// SuspendedAt is when the function was suspended.
	SuspendedAt time.Time `json:"suspended_at"`
	By          string    `json:"by"`
	Reason      string    `json:"reason,omitempty"`
	// Evidence says in one sentence what speaks for it.
	Evidence string `json:"evidence,omitempty"`
	// FailedProbes counts the events that were tried in vain since.
	FailedProbes int `json:"failed_probes"`
	// NextProbeAt is absent where nothing but a person ends it.
	NextProbeAt time.Time `json:"next_probe_at,omitzero"`
	// GaveUpAt is when too many probes had failed.
	GaveUpAt time.Time `json:"gave_up_at,omitzero"`
}

// SuspendFunction makes a function begin no attempt until it is resumed; what
// runs is not interrupted.
func (c *Client) SuspendFunction(ctx context.Context, r SuspendRequest) (Function, error) {
	return call[Function](ctx, c, http.MethodPost, "/api/v1/functions/"+url.PathEscape(r.Function)+"/suspend", r)
}

// ResumeFunction ends a suspension, whatever its cause: one attempt is made at
// first, then more.
func (c *Client) ResumeFunction(ctx context.Context, r SuspendRequest) (Function, error) {
	return call[Function](ctx, c, http.MethodPost, "/api/v1/functions/"+url.PathEscape(r.Function)+"/resume", r)
}
