package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// What says what a [Line] is about.
type What string

// The kinds of line.
const (
	Sent     What = "sent"     // an event is about to be sent for the first time
	Accepted What = "accepted" // the node has answered for it
	Begin    What = "begin"    // an attempt begins
	Finish   What = "end"      // the handler is about to return
	Asked    What = "asked"    // a decision is about to be sent
	Answered What = "answered" // it was answered, or will not be
	Killed   What = "killed"   // a process has ended, and with it all that ran in it
	Stopped  What = "stopped"  // a process was stopped by SIGSTOP
	Resumed  What = "resumed"  // it goes on
)

// Outcomes of an attempt, as the handler knows them.
const (
	Done        = "done"
	Failed      = "error"
	Panicked    = "panic"
	Parked      = "park"
	Discarded   = "discard"
	Interrupted = "interrupted" // by an orderly stop, which charges nothing
)

// Outcomes of a decision, as whoever asked for it knows them.
const (
	Applied = "applied"
	Stored  = "stored"  // it will be applied, or refused, later
	Refused = "refused" // it was not applied and never will be
	Unknown = "unknown" // nobody answered
)

// Actions of a decision.
const (
	Redrive = "redrive"
	Edit    = "edit" // a redrive with other data
	Discard = "discard"
	Release = "release" // out of order
)

// Line is one fact. It has the fields that its kind needs; the others are zero.
type Line struct {
	At       time.Time `json:"at"` // shown, and never compared
	What     What      `json:"what"`
	PID      int       `json:"pid,omitempty"` // of the process that ran the attempt, or was killed, stopped or resumed
	Function string    `json:"function,omitempty"`
	ID       string    `json:"id,omitempty"`  // of the event
	Key      string    `json:"key,omitempty"` // of Sent and Accepted: the event's; of Begin and Finish: what the handler was told
	Sequence uint64    `json:"sequence,omitempty"`
	Cycle    int       `json:"cycle,omitempty"`   // of an attempt, or that a decision is pinned to
	Attempt  int       `json:"attempt,omitempty"` // its number in the cycle
	Outcome  string    `json:"outcome,omitempty"` // of Finish and Answered
	Decision int       `json:"decision,omitempty"`
	Action   string    `json:"action,omitempty"`
	Tail     bool      `json:"tail,omitempty"` // a discard of the dead letter and of all that is held behind it
}

// Rules are what a function promises. All functions of a log handle all of its events.
type Rules struct {
	Ordered bool // by the events' keys
	Allowed int  // attempts a cycle
}

// Log is what is judged.
type Log struct {
	Functions map[string]Rules
	Lines     []Line
	End       *End // nil if the log ends in the middle of things
}

// End is where a node says that everything stands, after the last line and while nothing moves.
type End struct {
	Letters  map[string][]Letter // by function
	Accounts map[string]Counts   // by function
}

// Letter is a dead letter that stands.
type Letter struct {
	ID       string // of the event
	Sequence uint64
	Cycle    int
	Cause    string
}

// Counts are one function's account.
type Counts struct {
	Accepted, Delivered, Pending, Delivering, Retrying, Held, Parked, Discarded, Gone int
}

// Read reads lines, one JSON object each. What is no line is left out: a kill may have torn it, and what it was about to say had not
// happened yet.
func Read(r io.Reader) ([]Line, error) {
	var all []Line
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var l Line
		if len(bytes.TrimSpace(text)) > 0 && json.Unmarshal(text, &l) == nil && l.What != "" {
			all = append(all, l)
		}
	}
}
