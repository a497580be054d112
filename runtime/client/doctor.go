package client

import (
	"context"
	"net/http"
)

// Doctor is what was looked at, and what was found.
type Doctor struct {
	// OK says that nothing failed; warnings do not count.
	OK     bool          `json:"ok"`
	Checks []DoctorCheck `json:"checks"`
}

// DoctorCheck is one finding. A check that finds nothing wrong is one finding
// that says so; one that finds several things is several.
type DoctorCheck struct {
	// Check is one of lock, format, disk, store, ledgers, clock, streams,
	// consumers, policies, owners, leftovers, doubles, tracing and access.
	Check string `json:"check"`
	// Status is "ok", "warn" or "fail".
	Status string `json:"status"`
	// Detail says what and which, in one sentence; Hint what to do about it.
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// The values of DoctorCheck.Status.
const (
	DoctorOK   = "ok"
	DoctorWarn = "warn"
	DoctorFail = "fail"
)

// Doctor asks a running node what is wrong with it.
func (c *Client) Doctor(ctx context.Context) (Doctor, error) {
	return call[Doctor](ctx, c, http.MethodGet, "/api/v1/doctor", nil)
}
