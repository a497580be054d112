package functions

import (
	"fmt"
	"time"
)

// OnPark says what becomes of later events of an ordering key while an earlier
// one is a dead letter. While an event is being retried, later ones of its key
// are held in either case, and events without a key never wait for each other.
type OnPark int

const (
	// Hold keeps them waiting until somebody has decided about the dead letter,
	// so that no event is handled before an earlier one of its key is delivered
	// or discarded.
	Hold OnPark = iota
	// Continue lets them pass. It is for events that do not build on each other:
	// a dead letter that is redriven is then handled after later ones of its key.
	Continue
)

// String returns "hold" or "continue".
func (o OnPark) String() string {
	switch o {
	case Hold:
		return "hold"
	case Continue:
		return "continue"
	}
	return fmt.Sprintf("onpark(%d)", int(o))
}

// HoldLimit says when holding has gone on for so long, or has grown so deep,
// that somebody is to be told. Each lane, which is what waits in line for one
// ordering key, is measured by itself. A breach raises an audit event and
// counts in the metric siding_hold_limit_breaches_total. It drops nothing and
// releases nothing. The zero value is no limit.
type HoldLimit struct {
	Age   time.Duration // how long one lane may hold events without a break; 0 is no such limit
	Depth int           // how many events one lane may hold; 0 is no such limit
}

// problems lists what is wrong with l, each with the field it is about.
func (l HoldLimit) problems() []problem {
	var ps []problem
	if l.Age < 0 {
		ps = append(ps, problemf("holdlimit.age", "%v is negative; write 0 for no limit", l.Age))
	}
	if l.Depth < 0 {
		ps = append(ps, problemf("holdlimit.depth", "%d is negative; write 0 for no limit", l.Depth))
	}
	return ps
}
