package client

import "time"

// Function is a function as the node knows it: what it declares and how much
// stands where for it.
type Function struct {
	Name   string   `json:"name"`
	Types  []string `json:"types"`
	Stream string   `json:"stream"`
	// StreamRemoves names the rules by which the stream removes events by
	// itself, finished or not; absent where it removes none.
	StreamRemoves   []string `json:"stream_removes,omitempty"`
	OrderBy         string   `json:"order_by"`
	AttemptsAllowed int      `json:"attempts_allowed"`
	// Timeout is the time one attempt may take, as Go writes a duration.
	Timeout     string `json:"timeout"`
	Concurrency int    `json:"concurrency"`
	Start       string `json:"start"`
	Owner       string `json:"owner"`
	Version     string `json:"version"`
	// Hosted says that this node has a handler for the function. Without one
	// the function is an orphan: its leftovers stand, nothing attempts them.
	Hosted bool `json:"hosted"`
	// Chaos says that the node makes the function fail on purpose, to rehearse
	// what follows; absent where it does not.
	Chaos bool `json:"chaos,omitempty"`
	// State is "running", "suspended" or "orphan".
	State string `json:"state"`
	// Suspension is absent while the function runs at its full rate.
	Suspension *Suspension `json:"suspension,omitempty"`
	// SetAside are the rules by which events are parked before they run; absent
	// if there are none.
	SetAside []SetAsideRule `json:"set_aside,omitempty"`
	// WaitingFor says what keeps attempts from beginning: a dependency that is
	// away, a window that is shut, a rate that is used up, an event that is
	// attempted alone because it ran when the process died; absent if nothing does.
	WaitingFor    string `json:"waiting_for,omitempty"`
	SinceSequence uint64 `json:"since_sequence"`
	Pending       int64  `json:"pending"`
	Delivering    int64  `json:"delivering"`
	Retrying      int64  `json:"retrying"`
	Held          int64  `json:"held"`
	Parked        int64  `json:"parked"`
	// OldestParkedAt is absent when nothing is parked.
	OldestParkedAt time.Time `json:"oldest_parked_at,omitzero"`
}

// Account is the sum that must hold for each function: accepted = delivered +
// pending + delivering + retrying + held + parked + discarded + gone.
type Account struct {
	Functions []FunctionAccount `json:"functions"`
	Holds     bool              `json:"holds"`
}

// FunctionAccount is one function's line of the account. Each term is counted
// from its own source, so that the sum can be wrong; Problems then names the
// sequences that break it.
type FunctionAccount struct {
	Function   string           `json:"function"`
	Stream     string           `json:"stream"`
	Accepted   int64            `json:"accepted"`
	Delivered  int64            `json:"delivered"`
	Pending    int64            `json:"pending"`
	Delivering int64            `json:"delivering"`
	Retrying   int64            `json:"retrying"`
	Held       int64            `json:"held"`
	Parked     int64            `json:"parked"`
	Discarded  int64            `json:"discarded"`
	Gone       int64            `json:"gone"`
	Holds      bool             `json:"holds"`
	Problems   []AccountProblem `json:"problems"`
}

// AccountProblem is one event that the account cannot explain.
type AccountProblem struct {
	Sequence uint64 `json:"sequence"`
	What     string `json:"what"`
}

// Version says what a node is built from.
type Version struct {
	Version    string `json:"version"`
	Go         string `json:"go"`
	NATSServer string `json:"nats_server"`
	Commit     string `json:"commit"`
}
