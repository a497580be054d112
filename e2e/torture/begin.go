package torture

import "fmt"

// begin judges an attempt that begins at line i, before it is added to its life.
func (c *checker) begin(i int, l *life, a *attempt) *Violation {
	for _, judge := range []func(int, *life, *attempt) *Violation{c.wanted, c.ended, c.counted, c.alone, c.inOrder, c.notPassed} {
		if v := judge(i, l, a); v != nil {
			return v
		}
	}
	return nil
}

// wanted finds attempts that nobody asked for.
func (c *checker) wanted(i int, l *life, a *attempt) *Violation {
	key := ""
	if c.log.Functions[l.function].Ordered {
		key = l.key
	}
	if a.Key != key {
		return c.violation(Unasked, i, l, "%s is attempted under the key %q, and its key is %q", l.id, a.Key, key)
	}
	if a.Sequence != l.sequence {
		return c.violation(Unasked, i, l, "%s is attempted as sequence %d, and was accepted as %d", l.id, a.Sequence, l.sequence)
	}
	if a.Cycle == l.cycle() {
		return nil
	}
	for _, d := range l.decisions {
		if (d.Action == Redrive || d.Action == Edit) && d.possible() && d.Cycle == a.Cycle-1 {
			return nil
		}
	}
	if a.Cycle < l.cycle() {
		return c.violation(TooOften, i, l, "%s of %s begins, and cycle %d has begun before", describe(a), l.id, l.cycle())
	}
	return c.violation(Unasked, i, l, "%s of %s begins, and nobody redrove it in cycle %d", describe(a), l.id, a.Cycle-1)
}

// ended finds attempts of what was delivered or discarded.
func (c *checker) ended(i int, l *life, a *attempt) *Violation {
	for _, d := range l.decisions {
		if d.Action == Discard && d.outcome == Applied && d.answered < i {
			return c.violation(AfterDiscard, i, l, "%s of %s begins, and its discard (decision %d) was answered as applied", describe(a), l.id, d.Decision)
		}
	}
	last := l.last()
	if last == nil || last.outcome != Done && last.outcome != Discarded {
		return nil
	}
	kind := AfterDelivery
	if last.outcome == Discarded {
		kind = AfterDiscard
	}
	if !c.killed[last.PID] {
		return c.violation(kind, i, l, "%s of %s begins, and %s has ended with %s in process %d, which was not killed since",
			describe(a), l.id, describe(last), last.outcome, last.PID)
	}
	if higher := l.lane.begunAbove(l, last.at); higher != nil {
		return c.violation(kind, i, l, "%s of %s begins, and since it ended with %s in process %d, %s, which is higher, has begun",
			describe(a), l.id, last.outcome, last.PID, higher.id)
	}
	return nil
}

// begunAbove returns an event above l of which an attempt has begun after a line.
func (l *lane) begunAbove(than *life, line int) *life {
	for k := len(l.lives) - 1; k >= 0 && l.lives[k] != than; k-- {
		if a := l.lives[k].last(); a != nil && a.at > line {
			return l.lives[k]
		}
	}
	return nil
}

// counted finds attempts that are not the next one of their cycle.
func (c *checker) counted(i int, l *life, a *attempt) *Violation {
	if allowed := c.log.Functions[l.function].Allowed; a.Attempt > allowed {
		return c.violation(TooOften, i, l, "%s of %s begins, and %d are allowed", describe(a), l.id, allowed)
	}
	for _, d := range l.decisions {
		if d.Cycle >= a.Cycle {
			return c.violation(TooOften, i, l, "%s of %s begins, and decision %d was about its dead letter of cycle %d", describe(a), l.id, d.Decision, d.Cycle)
		}
	}
	last := l.last()
	switch {
	case last == nil || last.Cycle < a.Cycle || last.outcome == Interrupted:
	case last.Cycle > a.Cycle:
		return c.violation(TooOften, i, l, "%s of %s begins, and cycle %d has begun before", describe(a), l.id, last.Cycle)
	case a.Attempt < last.Attempt:
		return c.violation(TooOften, i, l, "%s of %s begins, and %s has begun before", describe(a), l.id, describe(last))
	case a.Attempt == last.Attempt && !c.killed[last.PID]:
		return c.violation(TooOften, i, l, "%s of %s begins again, and process %d, which made it, was not killed", describe(a), l.id, last.PID)
	case last.outcome == Parked && !c.killed[last.PID]:
		return c.violation(TooOften, i, l, "%s of %s begins, and %s has parked it", describe(a), l.id, describe(last))
	}
	return nil
}

// alone finds attempts that begin beside another one of their lane. Without a lane, a person may redrive an event whose handler was given
// up and still runs.
func (c *checker) alone(i int, l *life, a *attempt) *Violation {
	for _, other := range l.lane.running {
		if !c.killed[other.PID] && (l.lane.ordered || other.Cycle == a.Cycle) {
			return c.violation(Overlap, i, l, "%s of %s begins in process %d, and %s of %s still runs in process %d",
				describe(a), l.id, a.PID, describe(other), other.ID, other.PID)
		}
	}
	return nil
}

// inOrder finds attempts that begin before everything lower of their lane has ended.
func (c *checker) inOrder(i int, l *life, a *attempt) *Violation {
	for _, lower := range l.lane.lives {
		if lower == l {
			return nil
		}
		if why := c.blocks(lower); why != "" {
			return c.violation(Overtaken, i, l, "%s of %s (sequence %d) begins, and %s (sequence %d) %s", describe(a), l.id, l.sequence, lower.id, lower.sequence, why)
		}
	}
	return nil
}

// notPassed finds out that something higher has begun before, as if this event had been finished, which it had not.
func (c *checker) notPassed(i int, l *life, a *attempt) *Violation {
	since := -1
	if last := l.last(); last != nil {
		since = last.at
	}
	for k := len(l.lane.lives) - 1; k >= 0 && l.lane.lives[k] != l; k-- {
		higher := l.lane.lives[k]
		for n := len(higher.attempts) - 1; n >= 0 && higher.attempts[n].at > since; n-- {
			if at := higher.attempts[n].at; !l.released(at) {
				return c.violation(Overtaken, i, l, "%s of %s (sequence %d) begins, and %s of %s (sequence %d) had begun before it as if it had been discarded",
					describe(a), l.id, l.sequence, describe(higher.attempts[n]), higher.id, higher.sequence)
			}
		}
	}
	return nil
}

// released says whether the event's dead letter may have been released out of order before a line.
func (l *life) released(line int) bool {
	for _, d := range l.decisions {
		if d.Action == Release && d.possible() && d.asked < line && d.Cycle >= l.cycle() {
			return true
		}
	}
	return false
}

// passed says whether the event's dead letter is known to have been released out of order.
func (l *life) passed() bool {
	for _, d := range l.decisions {
		if d.Action == Release && d.outcome == Applied && d.Cycle >= l.cycle() {
			return true
		}
	}
	return false
}

// blocks says why an event blocks what is higher in its lane, and "" if it does not.
func (c *checker) blocks(l *life) string {
	last := l.last()
	if last != nil && (last.outcome == Done || last.outcome == Discarded) || l.discarded() || l.released(never) || c.passing(l) {
		return ""
	}
	switch {
	case last == nil:
		return "has not been attempted yet"
	case last.outcome == "":
		return fmt.Sprintf("is not finished: %s was running when process %d was killed", describe(last), last.PID)
	}
	return fmt.Sprintf("is not finished: %s ended with %s", describe(last), last.outcome)
}

// discarded says whether the event may have been discarded, by a decision about itself or about something lower with its tail.
func (l *life) discarded() bool {
	for _, d := range l.decisions {
		if d.Action == Discard && d.possible() && d.Cycle >= l.cycle() {
			return true
		}
	}
	for _, d := range l.lane.tails {
		// What was sent, or begun, after the answer was not held at that moment. Without an answer there is no such moment.
		bound := never
		if d.outcome == Applied {
			bound = d.answered
		}
		if last := l.last(); d.Sequence < l.sequence && l.sent < bound && (last == nil || last.at < bound) {
			return true
		}
	}
	return false
}

// passing says whether the event stands in the end as a dead letter that does not block its lane.
func (c *checker) passing(l *life) bool {
	if c.log.End == nil {
		return false
	}
	for _, letter := range c.log.End.Letters[l.function] {
		if letter.ID == l.id && letter.Cycle == l.cycle() {
			return letter.Cause == "expired" || letter.Cause == "set-aside"
		}
	}
	return false
}
