package lane

import "slices"

// Rules is what does not change in a lane's life.
type Rules struct {
	// Bound is how many events wait in memory at most; the rest is held. Zero means DefaultBound.
	Bound int
	// Continue lets a lane go on behind its dead letters. It still holds while an event is retried.
	Continue bool
}

// DefaultBound lets a burst of one key stay on the hot path, and is small beside an owner's window of some thousand deliveries.
const DefaultBound = 64

// Lane is one function's line for one ordering key. It is not safe for concurrent use: its owner is one goroutine.
type Lane struct {
	rules   Rules
	paused  bool
	hangs   bool // what runs does not end
	cursor  uint64
	running uint64    // 0 is no sequence
	line    []uint64  // ascending
	room    [2]uint64 // of a short line, so that a lane with little in it is one allocation
	away    standings
	held    int       // how many of away are Held
	parked  standings // those of away that are Parked, to be found among many that are held
}

// New returns an idle lane.
func New(rules Rules) *Lane {
	if rules.Bound <= 0 {
		rules.Bound = DefaultBound
	}
	l := &Lane{rules: rules}
	l.line = l.room[:0]
	return l
}

// Step takes one input and appends what follows from it to effects. In the hot path it allocates nothing but the room that effects lacks.
func (l *Lane) Step(in Input, effects []Effect) []Effect {
	l.take(in)
	effects = l.start(effects)
	return l.hold(effects)
}

// take changes the position of the event that in is about. What each position makes of each input is decided here and nowhere else.
func (l *Lane) take(in Input) {
	switch in.kind {
	case cursor:
		l.cursor = max(l.cursor, in.seq)
		return
	case pause:
		l.paused = true
		return
	case resume:
		l.paused = false
		return
	}
	if in.seq == 0 {
		return // no stream has it
	}
	at := l.stands(in.seq)
	switch in.kind {
	case arrive:
		if at == Absent {
			l.put(in.seq, at, Line)
		}
	case standing:
		found := in.at == Waiting || in.at == Held || in.at == Parked && !l.rules.Continue
		if found && (at == Absent || at == Line) {
			l.put(in.seq, at, in.at)
		}
	case done, parkPassing:
		l.put(in.seq, at, Absent)
	case park:
		if l.rules.Continue {
			l.put(in.seq, at, Absent)
		} else {
			l.put(in.seq, at, Parked)
		}
	case retry:
		switch at {
		case Absent, Line, Running, Ready, leaving:
			l.put(in.seq, at, Waiting)
		}
	case due:
		if at != Running && at != Parked {
			l.put(in.seq, at, Ready)
		}
	case redrive:
		if at == Absent || at == Parked {
			l.put(in.seq, at, Waiting)
		}
	case move:
		if at == Line || at == Running || at == Ready {
			l.put(in.seq, at, leaving)
		}
	case hang:
		l.hangs = l.hangs || at == Running
	case heldNow:
		if at == holding {
			l.put(in.seq, at, Held)
		}
	case releasedNow:
		if at == releasing {
			l.put(in.seq, at, Waiting)
		}
	}
}

// start lets begin what may: one event at most, since what has begun is not finished.
func (l *Lane) start(effects []Effect) []Effect {
	seq, at := l.next()
	switch {
	case at == Absent || seq > l.cursor:
		return effects
	case at == Held:
		l.put(seq, at, releasing)
		return append(effects, Effect{Release, seq})
	}
	l.put(seq, at, Running)
	return append(effects, Effect{Run, seq})
}

// next returns the event that is to start now if the cursor has passed it; Absent if there is none.
func (l *Lane) next() (uint64, Position) {
	if l.paused || l.running != 0 {
		return 0, Absent
	}
	switch seq, at := l.lowest(); at {
	case Line, Ready, Held:
		return seq, at
	}
	return 0, Absent
}

// lowest returns the lowest event of the lane; Absent if there is none.
func (l *Lane) lowest() (seq uint64, at Position) {
	if l.running != 0 {
		seq, at = l.running, Running
	}
	if len(l.line) > 0 && (at == Absent || l.line[0] < seq) {
		seq, at = l.line[0], Line
	}
	if e, ok := l.away.lowest(); ok && (at == Absent || e.seq < seq) {
		seq, at = e.seq, e.at
	}
	return seq, at
}

// hold sends away what may not stay in Line. It comes after start, so that what can run is not held.
func (l *Lane) hold(effects []Effect) []Effect {
	stay := l.stay()
	for _, seq := range l.line[stay:] {
		l.away.put(seq, holding)
		effects = append(effects, Effect{Hold, seq})
	}
	l.line = l.line[:stay]
	return effects
}

// stay returns how many of Line may stay: as many as are below everything outside memory, within the bound.
func (l *Lane) stay() int {
	if l.paused || l.hangs || len(l.line) == 0 {
		return 0
	}
	stay := min(len(l.line), l.rules.Bound)
	for e := range l.away.above(0) {
		if e.at == leaving {
			continue // it was in memory a moment ago, and where it goes will be known in another
		}
		below, _ := slices.BinarySearch(l.line, e.seq)
		return min(stay, below)
	}
	return stay
}

// stands returns the position of seq, with moves told apart.
func (l *Lane) stands(seq uint64) Position {
	if seq == l.running && seq != 0 {
		return Running
	}
	if _, found := slices.BinarySearch(l.line, seq); found {
		return Line
	}
	return l.away.position(seq)
}

// put takes seq from one position to another. Absent is one too.
func (l *Lane) put(seq uint64, from, to Position) {
	switch from {
	case Line:
		i, _ := slices.BinarySearch(l.line, seq)
		l.line = slices.Delete(l.line, i, i+1)
	case Running:
		l.running, l.hangs = 0, false
	case Held:
		l.held--
	case Parked:
		l.parked.remove(seq)
	}
	switch to {
	case Absent, Line, Running:
		l.away.remove(seq)
	default:
		l.away.put(seq, to)
	}
	switch to {
	case Line:
		i, _ := slices.BinarySearch(l.line, seq)
		l.line = slices.Insert(l.line, i, seq)
	case Running:
		l.running = seq
	case Held:
		l.held++
	case Parked:
		l.parked.put(seq, Parked)
	}
}
