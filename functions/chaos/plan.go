package chaos

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/siding-dev/siding/functions"
)

// Plan is a rehearsal: rules, and the seed of what they pick. The zero value does
// nothing.
type Plan struct {
	Seed  uint64
	Rules []Rule
	// Kill ends the process at once, as a crash does; it is what siding dev sets.
	// Without one, and if it returns, an attempt that is killed ends with an error
	// that is [ErrKilled], so that a unit test lives on.
	Kill func()
}

// Decision is what a plan does to one attempt.
type Decision struct {
	// Delay is how long to wait before anything else: the sum of the slow rules.
	Delay time.Duration
	// Do takes the handler's place; "" calls the handler. It is never Slow.
	Do Action
	// Rule is the place of the rule that says so, from 1; 0 without Do.
	Rule int
	// Error is the text of the failure; "" without Do.
	Error string
}

// Touches says whether a rule is about this function.
func (p Plan) Touches(function string) bool {
	for _, r := range p.Rules {
		if r.concerns(function) {
			return true
		}
	}
	return false
}

// Decide says what is done to an attempt of a function at an event, when elapsed
// has passed since the start. It is pure. A Number of 0, which is that of no
// attempt, counts as the first.
func (p Plan) Decide(function string, e functions.Event, a functions.Attempt, elapsed time.Duration) Decision {
	var d Decision
	for i, r := range p.Rules {
		if !p.applies(i, function, e, a, elapsed) {
			continue
		}
		if r.Do == Slow {
			d.Delay += r.Delay
			continue
		}
		d.Do, d.Rule, d.Error = r.Do, i+1, r.Error
		if d.Error == "" {
			d.Error = fmt.Sprintf("chaos: rule %d: %s", d.Rule, d.Do)
		}
		break
	}
	return d
}

// applies says whether the i-th rule does, from 0.
func (p Plan) applies(i int, function string, e functions.Event, a functions.Attempt, elapsed time.Duration) bool {
	r := p.Rules[i]
	spent := max(1, a.Number) - 1
	if r.Do == Kill {
		spent = a.Crashes
	}
	return r.concerns(function) && (r.Times == 0 || spent < r.Times) && r.Window.open(elapsed) && holds(r.Where, e) && p.picks(i, e)
}

// picks says whether an event is in the share of the i-th rule. An event that a
// share picks is picked by every larger one too.
func (p Plan) picks(i int, e functions.Event) bool {
	share := p.Rules[i].Share
	if share == 0 {
		return true
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %q %q", p.Seed, i, attribute(e, "source"), attribute(e, "id"))
	// The FNV hashes of like texts are alike, so that the bits are mixed once more (the finaliser of MurmurHash3).
	sum := h.Sum64()
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd
	sum = (sum ^ sum>>33) * 0xc4ceb9fe1a85ec53
	sum ^= sum >> 33
	return float64(sum>>11)/(1<<53) < share
}
