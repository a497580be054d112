package demo

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The contract system goes away after so many calls, and for so long.
const (
	callsBeforeAway = 120
	awayFor         = 700 * time.Millisecond
)

var (
	errAway    = errors.New("contract system: connection refused")
	errNoClaim = errors.New("an invoice, but no claim of this policy is on file")
)

// twiceError is a claim that is on file already.
type twiceError struct{ id string }

func (e *twiceError) Error() string {
	return fmt.Sprintf("%s reported the same loss: reported twice?", e.id)
}

// contracts is the system that the function files in. Its book is what the
// story is checked against, and nothing of it comes from the node.
type contracts struct {
	mu    sync.Mutex
	calls int
	back  time.Time // when it is there again after it was away
	book  map[string][]filed
}

// filed is one line of the book.
type filed struct {
	id   string
	what paper
}

func newContracts() *contracts { return &contracts{book: map[string][]filed{}} }

// file writes a paper into the book of its policy.
func (c *contracts) file(id string, what paper) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.calls == callsBeforeAway {
		c.back = time.Now().Add(awayFor)
	}
	if time.Now().Before(c.back) {
		return errAway
	}
	onFile := c.book[what.Policy]
	switch {
	case what.Cents > 0 && len(onFile) == 0:
		return errNoClaim
	case what.Cents == 0:
		for _, f := range onFile {
			if f.what == what {
				return &twiceError{f.id}
			}
		}
	}
	c.book[what.Policy] = append(onFile, filed{id, what})
	return nil
}

// of returns the ids that the book has for a policy, in the order in which they
// were filed.
func (c *contracts) of(policy string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for _, f := range c.book[policy] {
		ids = append(ids, f.id)
	}
	return ids
}

// check compares the book with what was accepted, where sequences are those of
// the events that must have been filed. It returns how many policies have more
// than one event.
func (c *contracts) check(sequences map[string]uint64) (several int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	times := map[string]int{}
	for policy, lines := range c.book {
		order := make([]uint64, len(lines))
		for i, f := range lines {
			times[f.id]++
			order[i] = sequences[f.id]
		}
		if !slices.IsSorted(order) {
			return 0, faulty("policy %s was not handled in order: its sequences are %v", policy, order)
		}
		if len(lines) > 1 {
			several++
		}
	}
	for id := range sequences {
		if times[id] != 1 {
			return 0, faulty("%s is accounted for, but the contract system has it %d times", id, times[id])
		}
		delete(times, id)
	}
	for id := range times {
		return 0, faulty("%s was filed although nobody asked for it", id)
	}
	return several, nil
}

// faulty returns what must not happen on any machine.
func faulty(format string, args ...any) error {
	return fmt.Errorf(format+": hint: this is a fault of Siding: please report it with the output above", args...)
}
