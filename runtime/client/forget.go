package client

import (
	"context"
	"net/http"
	"net/url"
)

// ForgetRequest ends what stands of a function that the node does not host.
type ForgetRequest struct {
	Function string `json:"function"`
	Reason   string `json:"reason"`
	By       string `json:"by"`
	// DryRun only counts.
	DryRun bool `json:"dry_run,omitempty"`
}

// Forgotten is how much stood of a function. Applied says that it has ended as
// discarded, and that the node does not know the function any more.
type Forgotten struct {
	Function  string `json:"function"`
	Parked    int    `json:"parked"`
	Retrying  int    `json:"retrying"`
	Held      int    `json:"held"`
	Decisions int    `json:"decisions"`
	Applied   bool   `json:"applied"`
}

// Forget ends what stands of a function that is not hosted. A function that is
// hosted is refused.
func (c *Client) Forget(ctx context.Context, r ForgetRequest) (Forgotten, error) {
	return call[Forgotten](ctx, c, http.MethodPost, "/api/v1/functions/"+url.PathEscape(r.Function)+"/forget", r)
}
