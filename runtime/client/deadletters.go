package client

import (
	"encoding/json"
	"time"
)

// DeadLetter is an event that a function has parked.
type DeadLetter struct {
	// ID is "<function>/<sequence>".
	ID       string `json:"id"`
	Function string `json:"function"`
	EventID  string `json:"event_id"`
	Source   string `json:"source"`
	Type     string `json:"type"`
	// Key is the ordering key; empty for an event without order.
	Key      string `json:"key"`
	Sequence uint64 `json:"sequence"`
	Cause    string `json:"cause"`
	// Class, Code and Error are those of the last attempt.
	Class    string `json:"class"`
	Code     string `json:"code"`
	Error    string `json:"error"`
	Attempts int    `json:"attempts"`
	// Cycle counts redrives; the first life is cycle 0.
	Cycle         int       `json:"cycle"`
	ParkedAt      time.Time `json:"parked_at"`
	FirstFailedAt time.Time `json:"first_failed_at"`
	LastFailedAt  time.Time `json:"last_failed_at"`
	// ParkedBy is what noticed: "advisory", "owner" or "sweep".
	ParkedBy string `json:"parked_by"`
	// Diagnosis says whose fault it is, "poison", "outage" or "undetermined",
	// and why that is said.
	Diagnosis string `json:"diagnosis,omitempty"`
	// GivenBack counts attempts of this cycle that were made while the function
	// was suspended, and were not charged.
	GivenBack int    `json:"given_back,omitempty"`
	TraceID   string `json:"trace_id"`
	// Held counts the events that wait behind this one, if it is what its lane
	// waits for.
	Held int `json:"held"`
	// Version is the function's version that made the last attempt.
	Version string `json:"version"`
}

// DeadLetterDetail is a dead letter with its history and its event.
type DeadLetterDetail struct {
	DeadLetter
	// History has one entry an attempt, the oldest first.
	History []Attempt `json:"history"`
	// Tail are the first [MaxTail] events that are held behind this one.
	Tail    []HeldEvent `json:"tail"`
	Stack   string      `json:"stack"`
	Stream  string      `json:"stream"`
	Subject string      `json:"subject"`
	// Truncated says that a long text of this page was cut.
	Truncated bool `json:"truncated"`
	// Reference names where the event stands when it was too large to copy.
	Reference  string            `json:"reference,omitempty"`
	Attributes map[string]string `json:"attributes"`
	Payload
}

// Attempt is one entry of a history: an attempt, or a decision about the event.
type Attempt struct {
	Kind    string `json:"kind"`
	Cycle   int    `json:"cycle"`
	Attempt int    `json:"attempt"`
	// Charged says that the attempt counted against the policy.
	Charged   bool      `json:"charged"`
	Class     string    `json:"class"`
	Code      string    `json:"code"`
	Error     string    `json:"error"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// DueAt is when the next attempt was to start.
	DueAt   time.Time `json:"due_at,omitzero"`
	TraceID string    `json:"trace_id"`
	SpanID  string    `json:"span_id"`
	Version string    `json:"version"`
	// Boot is the process life in which it ran, as the function counts them; 0 if no process of its own was needed for it.
	Boot int `json:"boot"`
	// Beside says, of a crash, what else ran in the process when it died.
	Beside string `json:"beside"`
}

// The actions of a [Decision].
const (
	// Redrive sends the event through its function again. It is refused while a
	// dead letter of an earlier event of the same lane stands.
	Redrive = "redrive"
	// Edit is a redrive with new data. Everything else stays, the ordering key
	// above all; the original stays in its stream.
	Edit = "edit"
	// Discard ends the event for good. What is held behind it goes on in order,
	// or ends with it if the decision has a Tail.
	Discard = "discard"
	// Release leaves the event among the dead letters, where it can be decided
	// about later, but lets its lane go on in order without it.
	Release = "release"
)

// Decision is what a person decides about a dead letter.
type Decision struct {
	Function string `json:"function"`
	Sequence uint64 `json:"sequence"`
	// Action is [Redrive], [Edit], [Discard] or [Release].
	Action string `json:"action"`
	// Cycle pins the decision to the dead letter that was looked at: another
	// cycle is answered with a conflict. Nil means whatever stands.
	Cycle  *int   `json:"cycle,omitempty"`
	Reason string `json:"reason"`
	By     string `json:"by"`
	// Tail makes a discard end everything that is held behind the dead letter
	// at that moment too, for the same reason.
	Tail bool `json:"tail,omitempty"`
	// Data or DataBase64 are the new data of an edit: Data as JSON, whose
	// blanks do not matter, DataBase64 byte for byte.
	Data       json.RawMessage `json:"data,omitempty"`
	DataBase64 []byte          `json:"data_base64,omitempty"`
	// Source says where the new data of an edit come from.
	Source string `json:"source,omitempty"`
	// ForgetSteps has an edit forget the results of the steps that were done for
	// the event, so that the function does them again with the new data.
	ForgetSteps bool `json:"forget_steps,omitempty"`
}

// Decided is the node's answer to a decision.
type Decided struct {
	ID     string `json:"id"`
	Action string `json:"action"`
	Cycle  int    `json:"cycle"`
	// Applied is false when the decision is stored, but the function's owner
	// has not acted on it yet.
	Applied bool      `json:"applied"`
	At      time.Time `json:"at"`
}

// DeadLetterQuery selects dead letters. Empty fields select all.
type DeadLetterQuery struct {
	Function, Cause, Class, Source, Type, Key string
	// Outage selects what an outage exhausted before it was recognised; it is the
	// ID of the [Suspension] that it led to.
	Outage string
	// Since selects those that were parked then or later.
	Since time.Time
	// Limit is the largest number of answers; 0 means [DefaultLimit].
	Limit int
	// After is the id of the last dead letter of the page before.
	After string
}

// The sizes of a page of dead letters or of lanes.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)
