package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// end compares what the log tells of a function with what the node says in the end.
func (c *checker) end(function string) *Violation {
	i := len(c.log.Lines)
	letters := map[string]Letter{}
	for _, letter := range c.log.End.Letters[function] {
		if _, twice := letters[letter.ID]; twice {
			return c.violation(Account, i, c.lives[function][letter.ID], "function %s has two dead letters of %s", function, letter.ID)
		}
		letters[letter.ID] = letter
	}
	counts := c.log.End.Accounts[function]
	sum := tally{}
	var missing *life // the first event of which nothing says that it has ended, best one that nothing blocks
	for _, l := range c.sorted(function) {
		if !l.accepted {
			continue
		}
		sum.accepted++
		letter, parked := letters[l.id]
		last := l.last()
		// An attempt that counts as one that killed its process may have ended before it was killed.
		convicted := last != nil && letter.Cause == "crash" && c.killed[last.PID]
		switch {
		case last != nil && last.outcome == Done && parked && !convicted:
			return c.violation(Both, i, l, "%s stands as a dead letter of cycle %d (%s), and its last attempt, %s, has delivered it",
				l.id, letter.Cycle, letter.Cause, describe(last))
		case parked:
			sum.parked++
		case last != nil && last.outcome == Done:
			sum.delivered++
		case last != nil && last.outcome == Discarded, l.discarded():
			sum.discarded++
		case c.behind(l, letters):
			sum.held++
			missing = cmp.Or(missing, l)
		default:
			if sum.waiting++; sum.waiting == 1 {
				missing = l
			}
		}
	}
	// What waits for an attempt, or behind a dead letter, is counted by the node alone, and where it counts fewer, something is nowhere.
	// What is held behind nothing waits for ever.
	moving := counts.Pending + counts.Delivering + counts.Retrying
	if n := sum.waiting + sum.held; n > moving+counts.Held || sum.waiting > moving {
		return c.violation(Lost, i, missing, "%s (sequence %d) was accepted, and is neither delivered nor parked nor was it to be discarded; "+
			"of %d such events %d wait behind a dead letter, and the account says %d held and %d on their way",
			missing.id, missing.sequence, n, sum.held, counts.Held, moving)
	}
	if wrong := sum.against(counts, len(letters)); wrong != "" {
		return c.violation(Account, i, nil, "function %s: %s; the account says %+v, the log says %+v", function, wrong, counts, sum)
	}
	return nil
}

func (c *checker) sorted(function string) []*life {
	return slices.SortedFunc(maps.Values(c.lives[function]), func(a, b *life) int {
		return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.id, b.id))
	})
}

// behind says whether something lower of the event's lane stands as a dead letter that may block it. That it stands says that it was not discarded,
// whatever somebody had wanted without hearing what came of it.
func (c *checker) behind(l *life, letters map[string]Letter) bool {
	for _, lower := range l.lane.lives {
		if lower == l {
			return false
		}
		if _, parked := letters[lower.id]; parked && !c.passing(lower) && !lower.passed() {
			return true
		}
	}
	return false
}

// tally is what the log says of one function. An event of discarded may still be held: its discard was perhaps never applied.
type tally struct{ accepted, delivered, parked, discarded, held, waiting int }

// against says what an account has otherwise.
func (t tally) against(a Counts, letters int) string {
	unfinished := a.Pending + a.Delivering + a.Retrying + a.Held
	switch {
	case a.Accepted != t.accepted:
		return fmt.Sprintf("got %d accepted, want %d", a.Accepted, t.accepted)
	case a.Delivered != t.delivered:
		return fmt.Sprintf("got %d delivered, want %d", a.Delivered, t.delivered)
	case a.Parked != t.parked || letters != t.parked:
		return fmt.Sprintf("got %d parked and %d dead letters, want %d", a.Parked, letters, t.parked)
	case a.Gone != 0:
		return fmt.Sprintf("got %d gone, want none", a.Gone)
	case a.Discarded+unfinished != t.discarded+t.held+t.waiting:
		return fmt.Sprintf("got %d discarded and %d not finished, want %d together", a.Discarded, unfinished, t.discarded+t.held+t.waiting)
	}
	return ""
}
