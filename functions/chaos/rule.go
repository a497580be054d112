package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Action is what a rule does to an attempt. The set is closed; the package
// comment lists what each means.
type Action string

// The actions.
const (
	Fail        Action = "fail"
	Park        Action = "park"
	Hang        Action = "hang"
	Panic       Action = "panic"
	Kill        Action = "kill"
	Unavailable Action = "unavailable"
	Slow        Action = "slow"
)

// Actions returns every action, in the order in which they are documented.
func Actions() []Action { return []Action{Fail, Park, Hang, Panic, Kill, Unavailable, Slow} }

// Rule says which attempts are to fail, and how. A literal with Do applies to
// every attempt; each other field narrows that down.
type Rule struct {
	// Function is the name of one function; "" is all.
	Function string
	// Where is a list of attributes and patterns, as in
	//
	//	source=//broker*,type=claim.*
	//
	// of which each must match; "" is every event. A name is that of a CloudEvents
	// attribute or extension, such as partitionkey. In a pattern * stands for any
	// text and ? for one character. What an event does not have is the empty text.
	Where string
	// Share of the events to pick, above 0 and up to 1; 0 is all. An event is
	// picked by a hash of the seed, its source, its id and the place of the rule: it
	// is picked again in each attempt and each run, and rules pick independently.
	Share float64
	// Do is what happens. Required.
	Do Action
	// Times is how many attempts of each cycle the rule applies to: the first ones,
	// up to that number; 0 is all, for good. A kill is charged to no event, so that of
	// a rule that kills it is how often the process dies with the event; see
	// functions.Attempt.Crashes.
	Times int
	// Delay is how long a slow attempt waits before the handler is called, at most 24 h.
	Delay time.Duration
	// Error is the text of the failure; "" names the rule.
	Error string
	// Window is when the rule applies; the zero value is always.
	Window Window
}

// Window is a time between two moments after the start.
type Window struct {
	After time.Duration // when it opens
	For   time.Duration // how long it is open; 0 is to the end
}

// open says whether the window is open when so much time has passed.
func (w Window) open(elapsed time.Duration) bool {
	return elapsed >= w.After && (w.For == 0 || elapsed-w.After < w.For)
}

// concerns says whether the rule is about a function at all.
func (r Rule) concerns(function string) bool { return r.Function == "" || r.Function == function }

// String says in one line what the rule does, for the person who rehearses:
//
//	fail attempts 1 to 3 of file-claim, for 10% of the events where type=claim.*, from 30s on for 10m0s, with "connection refused"
func (r Rule) String() string {
	var b strings.Builder
	b.WriteString(string(r.Do))
	switch {
	case r.Do == Kill && r.Times == 1:
		b.WriteString(" the process once with each event")
	case r.Do == Kill && r.Times > 1:
		fmt.Fprintf(&b, " the process %d times with each event", r.Times)
	case r.Do == Kill:
		b.WriteString(" the process at every attempt")
	case r.Times == 1:
		b.WriteString(" attempt 1")
	case r.Times > 1:
		fmt.Fprintf(&b, " attempts 1 to %d", r.Times)
	default:
		b.WriteString(" every attempt")
	}
	if r.Do == Slow {
		fmt.Fprintf(&b, " by %v", r.Delay)
	}
	if r.Function == "" {
		b.WriteString(" of all functions")
	} else {
		b.WriteString(" of " + r.Function)
	}
	if r.Share > 0 && r.Share < 1 {
		b.WriteString(", for " + strconv.FormatFloat(r.Share*100, 'g', 6, 64) + "% of the events")
	} else if r.Where != "" {
		b.WriteString(", for the events")
	}
	if r.Where != "" {
		b.WriteString(" where " + r.Where)
	}
	if r.Window != (Window{}) {
		fmt.Fprintf(&b, ", from %v on", r.Window.After)
	}
	if r.Window.For > 0 {
		fmt.Fprintf(&b, " for %v", r.Window.For)
	}
	if r.Error != "" {
		fmt.Fprintf(&b, ", with %q", r.Error)
	}
	return b.String()
}
