package torture

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Kind is a promise that was broken.
type Kind string

// The promises, which the package comment explains.
const (
	Overtaken     Kind = "overtaken"
	Overlap       Kind = "overlap"
	Lost          Kind = "lost"
	AfterDelivery Kind = "after delivery"
	AfterDiscard  Kind = "after discard"
	Both          Kind = "both"
	TooOften      Kind = "too often"
	Unasked       Kind = "unasked"
	Account       Kind = "account"
)

// Check returns the first violation, and nil if there is none.
func Check(log Log) *Violation {
	c := newChecker(log)
	for i := range log.Lines {
		if v := c.line(i); v != nil {
			return v
		}
	}
	if log.End == nil {
		return nil
	}
	for _, function := range slices.Sorted(maps.Keys(log.Functions)) {
		if v := c.end(function); v != nil {
			return v
		}
	}
	return nil
}

// never is the place of a line that does not come.
const never = math.MaxInt

// event is what is known of one event, from all of the log.
type event struct {
	id, key  string
	sequence uint64
	sent     int // line of Sent, 0 if that is not in the log
	accepted bool
}

// life is one event at one function, up to the line that is being looked at.
type life struct {
	*event
	function  string
	lane      *lane
	attempts  []*attempt
	decisions []*decision // that were asked for
}

func (l *life) last() *attempt {
	if len(l.attempts) == 0 {
		return nil
	}
	return l.attempts[len(l.attempts)-1]
}

// cycle is that of the last attempt.
func (l *life) cycle() int {
	if a := l.last(); a != nil {
		return a.Cycle
	}
	return 0
}

type attempt struct {
	Line
	at      int    // line of its begin
	outcome string // "" while it runs, and for ever if a kill ended it
}

// decision is one that was asked for, with the answer that was to come.
type decision struct {
	Line
	asked, answered int
	outcome         string
}

// possible says that it may have been applied.
func (d *decision) possible() bool { return d.outcome != Refused }

// lane is one function's line for one key. An event without a key, or at a function without order, has one of its own.
type lane struct {
	ordered bool
	lives   []*life // by sequence
	running []*attempt
	tails   []*decision // discards with tail that were asked for and are possible
}

type checker struct {
	log       Log
	events    map[string]*event
	lives     map[string]map[string]*life // by function and event id
	decisions map[int]*decision
	killed    map[int]bool // by process, up to the line that is being looked at
}

func newChecker(log Log) *checker {
	c := &checker{log: log, events: map[string]*event{}, lives: map[string]map[string]*life{}, decisions: map[int]*decision{}, killed: map[int]bool{}}
	for i, l := range log.Lines {
		switch l.What {
		case Sent, Accepted:
			e := c.events[l.ID]
			if e == nil {
				e = &event{id: l.ID, key: l.Key}
				c.events[l.ID] = e
			}
			if l.What == Sent {
				e.sent = i
			} else {
				e.sequence, e.accepted = l.Sequence, true
			}
		case Begin:
			// An event that was stored without an answer has a sequence all the same.
			if e := c.events[l.ID]; e != nil && e.sequence == 0 {
				e.sequence = l.Sequence
			}
		case Asked:
			c.decisions[l.Decision] = &decision{Line: l, asked: i, answered: never, outcome: Unknown}
		case Answered:
			if d := c.decisions[l.Decision]; d != nil {
				d.answered, d.outcome = i, l.Outcome
			}
		}
	}
	for function, rules := range log.Functions {
		c.lives[function] = map[string]*life{}
		lanes := map[string]*lane{}
		for id, e := range c.events {
			l := &life{event: e, function: function, lane: &lane{}}
			if rules.Ordered && e.key != "" {
				if lanes[e.key] == nil {
					lanes[e.key] = &lane{ordered: true}
				}
				l.lane = lanes[e.key]
			}
			// One without a sequence was neither accepted nor handled.
			if e.sequence > 0 {
				l.lane.lives = append(l.lane.lives, l)
			}
			c.lives[function][id] = l
		}
		for _, lane := range lanes {
			slices.SortFunc(lane.lives, func(a, b *life) int {
				if a.sequence < b.sequence {
					return -1
				}
				return 1
			})
		}
	}
	return c
}

func (c *checker) line(i int) *Violation {
	l := c.log.Lines[i]
	switch l.What {
	case Begin:
		life := c.lives[l.Function][l.ID]
		if life == nil {
			return c.violation(Unasked, i, nil, "%s is attempted at function %s, and nobody sent it there", l.ID, l.Function)
		}
		a := &attempt{Line: l, at: i}
		if v := c.begin(i, life, a); v != nil {
			return v
		}
		life.attempts = append(life.attempts, a)
		life.lane.running = append(life.lane.running, a)
	case Finish:
		if life := c.lives[l.Function][l.ID]; life != nil {
			life.lane.finish(l)
		}
	case Killed:
		c.killed[l.PID] = true
	case Asked:
		if life := c.lives[l.Function][l.ID]; life != nil {
			return c.asked(i, life, c.decisions[l.Decision])
		}
	}
	return nil
}

func (l *lane) finish(line Line) {
	for i, a := range l.running {
		if a.ID == line.ID && a.PID == line.PID && a.Cycle == line.Cycle && a.Attempt == line.Attempt {
			a.outcome = line.Outcome
			l.running = slices.Delete(l.running, i, i+1)
			return
		}
	}
}

// asked looks at the dead letter that a decision is pinned to: somebody has seen it.
func (c *checker) asked(i int, l *life, d *decision) *Violation {
	if a := l.last(); a != nil && a.Cycle == d.Cycle && a.outcome == Done && !c.killed[a.PID] {
		return c.violation(Both, i, l, "%s stands as a dead letter of cycle %d, and attempt %d of that cycle has delivered it", l.id, d.Cycle, a.Attempt)
	}
	l.decisions = append(l.decisions, d)
	if d.Action == Discard && d.Tail && d.possible() {
		l.lane.tails = append(l.lane.tails, d)
	}
	return nil
}

func describe(a *attempt) string {
	return fmt.Sprintf("attempt %d of cycle %d", a.Attempt, a.Cycle)
}
