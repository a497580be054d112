package gate

import (
	"strings"
	"time"
)

// state is what is known about a dependency.
type state int

const (
	unknown state = iota // it has not answered yet
	up
	down
)

type dependency struct {
	name  string
	state state
	since time.Time
	why   string // it is down
}

type dependencies struct {
	all  []dependency
	away int    // not up
	text string // of Waits
}

func newDependencies(names []string) dependencies {
	ds := dependencies{away: len(names)}
	for _, name := range names {
		ds.all = append(ds.all, dependency{name: name})
	}
	ds.tell()
	return ds
}

// Change is what an answer has changed about a dependency.
type Change int

// The changes. An answer that says the same as the last one, if in other words, is none, and neither is a first one that all is well.
const (
	Unchanged Change = iota
	WentDown
	CameBack
)

// Answered notes what the check of the i-th dependency came to; why is "" if it is there. For one that came back, away is how long it was gone.
func (g *Gate) Answered(i int, now time.Time, why string) (change Change, away time.Duration) {
	ds := &g.dependencies
	d := &ds.all[i]
	before, since := d.state, d.since
	if d.state = up; why != "" {
		d.state = down
	}
	switch d.why = why; {
	case d.state == before:
	case d.state == down:
		change, d.since = WentDown, now
	case before == down:
		change, away, d.since = CameBack, now.Sub(since), now
	}
	ds.away = 0
	for _, other := range ds.all {
		if other.state != up {
			ds.away++
		}
	}
	ds.tell()
	return change, away
}

func (ds *dependencies) tell() {
	var texts []string
	for _, d := range ds.all {
		switch d.state {
		case unknown:
			texts = append(texts, "dependency "+d.name+": not checked yet")
		case down:
			texts = append(texts, "dependency "+d.name+": "+d.why+", since "+d.since.UTC().Format(time.RFC3339))
		}
	}
	ds.text = strings.Join(texts, "; ")
}
