package diagnosis

import (
	"slices"
	"strconv"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// few is how many different errors evidence shows.
const few = 3

// row is the failures since the last success: the newest ones, of different events.
type row struct {
	limit    int
	failures []failure // by event, oldest first
	tries    int
}

type failure struct {
	sequence uint64
	cycle    int
	first    int // number of the first attempt of it in the row
	at, last time.Time
	line     string // its key, or itself
	source   string
	err      string
	class    functions.Class
}

func (r *row) clear() { r.failures, r.tries = r.failures[:0], 0 }

func (r *row) add(a Attempt) {
	r.tries++
	line := a.Key
	if line == "" {
		line = lineOf(a.Sequence)
	}
	if i := slices.IndexFunc(r.failures, func(f failure) bool { return f.sequence == a.Sequence && f.cycle == a.Cycle }); i >= 0 {
		f := &r.failures[i]
		f.first, f.last, f.err, f.class = min(f.first, a.Number), a.At, brief(a.Error), a.Class
		return
	}
	if len(r.failures) == r.limit {
		r.failures = slices.Delete(r.failures, 0, 1)
	}
	r.failures = append(r.failures, failure{
		sequence: a.Sequence, cycle: a.Cycle, first: a.Number, at: a.At, last: a.At, line: line, source: a.Source, err: brief(a.Error), class: a.Class,
	})
}

// shows reports whether the row is an outage.
func (r *row) shows(rules functions.Breaker) bool {
	unavailable := 0
	for _, f := range r.failures {
		if f.class == functions.ClassUnavailable {
			unavailable++
		}
	}
	if unavailable >= rules.Unavailable {
		return true
	}
	if len(r.failures) < rules.Failures {
		return false
	}
	e := r.evidence()
	return e.Keys >= 2 || e.Sources >= 2
}

func (r *row) evidence() streams.Evidence {
	e := streams.Evidence{Failures: r.tries, Events: len(r.failures)}
	lines, sources := map[string]bool{}, map[string]bool{}
	for _, f := range r.failures {
		lines[f.line], sources[f.source] = true, true
		if e.First.IsZero() || f.at.Before(e.First) {
			e.First = f.at
		}
		if f.last.After(e.Last) {
			e.Last = f.last
		}
		if len(e.Errors) < few && !slices.Contains(e.Errors, f.err) {
			e.Errors = append(e.Errors, f.err)
		}
	}
	e.Keys, e.Sources = len(lines), len(sources)
	return e
}

// charges are the attempts of the row that have been charged; now has not been yet.
func (r *row) charges(now Attempt) []streams.Charge {
	var cs []streams.Charge
	for _, f := range r.failures {
		if f.sequence != now.Sequence || f.cycle != now.Cycle || f.first < now.Number {
			cs = append(cs, streams.Charge{Sequence: f.sequence, Cycle: f.cycle, Attempt: f.first})
		}
	}
	return cs
}

// lineOf stands for the key of an event that has none.
func lineOf(sequence uint64) string { return "\x00" + strconv.FormatUint(sequence, 10) }
