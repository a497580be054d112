package torture

import (
	"fmt"
	"strings"
)

// Violation is a promise that was broken, and what led to it.
type Violation struct {
	Kind     Kind
	Function string
	Key      string // "" where it is about no key
	Text     string // what happened, in one sentence
	Line     int    // where in the log, from 0; the number of lines if it is about the end
	History  []string
}

// Error says what happened, and behind it the history.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s: %s\n%s", v.Kind, v.Text, strings.Join(v.History, "\n"))
}

// longest is how many lines of a history are shown; the latest ones count.
const longest = 250

// violation makes one that is found at line i; l is nil where it is about no event.
func (c *checker) violation(kind Kind, i int, l *life, format string, args ...any) *Violation {
	v := &Violation{Kind: kind, Line: i, Text: fmt.Sprintf(format, args...)}
	if l == nil {
		return v
	}
	v.Function = l.function
	if l.lane.ordered {
		v.Key = l.key
		v.Text = fmt.Sprintf("function %s, key %s: %s", l.function, l.key, v.Text)
	} else {
		v.Text = fmt.Sprintf("function %s: %s", l.function, v.Text)
	}
	for n, line := range c.log.Lines[:min(i+1, len(c.log.Lines))] {
		if c.about(line, l) {
			mark := ' '
			if n == i {
				mark = '>'
			}
			v.History = append(v.History, fmt.Sprintf("%c %7d %s %s", mark, n+1, line.At.Format("15:04:05.000"), line))
		}
	}
	if left := len(v.History) - longest; left > 0 {
		v.History = append([]string{fmt.Sprintf("  … %d lines before", left)}, v.History[left:]...)
	}
	return v
}

// about says whether a line belongs into the history of an event: those of its lane, and what happened to processes.
func (c *checker) about(line Line, l *life) bool {
	switch line.What {
	case Killed, Stopped, Resumed:
		return true
	case Answered:
		d := c.decisions[line.Decision]
		return d != nil && c.about(d.Line, l)
	case Begin, Finish, Asked:
		if line.Function != l.function {
			return false
		}
	}
	other := c.lives[l.function][line.ID]
	return other != nil && other.lane == l.lane
}

// String tells a line to a person.
func (l Line) String() string {
	attempt := fmt.Sprintf("process %d: %s (sequence %d) cycle %d attempt %d", l.PID, l.ID, l.Sequence, l.Cycle, l.Attempt)
	switch l.What {
	case Begin:
		return attempt + " begins"
	case Finish:
		return attempt + " ends: " + l.Outcome
	case Killed, Stopped, Resumed:
		return fmt.Sprintf("process %d: %s", l.PID, l.What)
	case Asked:
		action := l.Action
		if l.Tail {
			action += " with tail"
		}
		return fmt.Sprintf("decision %d: %s %s (sequence %d) of cycle %d", l.Decision, action, l.ID, l.Sequence, l.Cycle)
	case Answered:
		return fmt.Sprintf("decision %d: %s", l.Decision, l.Outcome)
	case Accepted:
		return fmt.Sprintf("%s: accepted as sequence %d", l.ID, l.Sequence)
	}
	return fmt.Sprintf("%s: %s", l.ID, l.What)
}
