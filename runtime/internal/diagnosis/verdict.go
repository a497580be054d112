package diagnosis

import (
	"fmt"
	"time"

	"github.com/siding-dev/siding/functions"
)

// Verdict is whose fault a failure is.
type Verdict string

// The verdicts. Undetermined is a legal answer: the retry policy decides then.
const (
	Poison       Verdict = "poison"       // the event's: others succeed meanwhile, or its handler has judged it
	Outage       Verdict = "outage"       // a resource's: different events fail, and none succeeds
	Undetermined Verdict = "undetermined" // nobody can tell
)

// endsOf is how many attempts are kept as evidence.
const endsOf = 100

// ends are the last attempts, whatever they came to.
type ends struct {
	last [endsOf]Attempt
	at   int
}

func (e *ends) add(a Attempt) {
	a.Error = "" // the text is in the records
	e.last[e.at] = a
	e.at = (e.at + 1) % endsOf
}

// Explain says whose fault it is that an event is parked, of which the first attempt failed at first, and why that is said.
func (m *Machine) Explain(sequence uint64, first time.Time, class functions.Class) (Verdict, string) {
	if class == functions.ClassPermanent || class == functions.ClassUndecodable {
		return Poison, "its handler says that no retry can help"
	}
	succeeded, failed := map[uint64]bool{}, map[uint64]bool{}
	sources := map[string]bool{}
	for _, a := range m.ends.last {
		if a.Sequence == 0 || a.Sequence == sequence || a.At.Before(first) {
			continue
		}
		sources[a.Source] = true
		switch {
		case a.succeeded():
			succeeded[a.Sequence] = true
		case a.failed():
			failed[a.Sequence] = true
		}
	}
	seen := fmt.Sprintf("of %s from %s, %d succeeded and %d failed since its first failure", count(len(succeeded)+len(failed), "other event"), count(len(sources), "source"), len(succeeded), len(failed))
	switch {
	case len(succeeded) > 0:
		return Poison, seen
	case len(failed)+1 >= m.rules.Failures && m.rules.Failures > 1:
		return Outage, seen
	case len(failed) == 0:
		return Undetermined, "no other event was attempted since its first failure"
	default:
		return Undetermined, seen
	}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
