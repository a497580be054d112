package diagnosis

import "github.com/siding-dev/siding/streams"

// inflowOf is how many events the limit of the inflow looks at.
const inflowOf = 100

// recent is how the last events ended.
type recent struct {
	ended  [inflowOf]bool // true: as a dead letter
	at, n  int
	parked int
}

func (r *recent) add(parked bool) {
	if r.n == inflowOf {
		if r.ended[r.at] {
			r.parked--
		}
	} else {
		r.n++
	}
	r.ended[r.at] = parked
	if parked {
		r.parked++
	}
	r.at = (r.at + 1) % inflowOf
}

func (r *recent) evidence(a Attempt) streams.Evidence {
	return streams.Evidence{Failures: r.parked, Of: r.n, Last: a.At, First: a.At, Errors: []string{brief(a.Error)}}
}
