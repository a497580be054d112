package lane

// Position returns where an event stands; Absent if the lane does not know it.
func (l *Lane) Position(seq uint64) Position { return public(l.stands(seq)) }

// Blocker returns the event that everybody waits for: the lowest, if it is Waiting, Ready but not started, Moving or Parked, or Running and hangs. Its position is
// Absent if there is none. A lane that is only paused, or whose lowest is held for the moment, has no blocker.
func (l *Lane) Blocker() (seq uint64, at Position) {
	seq, at = l.lowest()
	switch at = public(at); {
	case at == Waiting, at == Ready, at == Moving, at == Parked, at == Running && l.hangs:
		return seq, at
	}
	return 0, Absent
}

// LowestParked returns the lowest dead letter that blocks the lane; ok is false if there is none. It need not be the blocker: an event
// that was redriven, or replayed, may wait or run below it.
func (l *Lane) LowestParked() (seq uint64, ok bool) {
	e, ok := l.parked.lowest()
	return e.seq, ok
}

// AwaitsCursor returns the event that starts as soon as the cursor reaches it. Until ok is false, the owner gives the lane the cursor whenever
// it moves; any other lane need not hear of it before its next input.
func (l *Lane) AwaitsCursor() (seq uint64, ok bool) {
	seq, at := l.next()
	return seq, at != Absent
}

// Tail lists the held events above seq, ascending. To discard a dead letter with its tail, the tail is Done first and the dead letter
// last; the other way round, its end would release the first of them. What is still on its way to HELD is not listed.
func (l *Lane) Tail(seq uint64) []uint64 {
	if l.held == 0 {
		return nil
	}
	tail := make([]uint64, 0, l.held)
	for e := range l.away.above(seq) {
		if e.at == Held {
			tail = append(tail, e.seq)
		}
	}
	return tail
}

// Held returns how many events stand in HELD.
func (l *Lane) Held() int { return l.held }

// Len returns how many events of the lane are not finished.
func (l *Lane) Len() int {
	n := len(l.line) + l.away.count
	if l.running != 0 {
		n++
	}
	return n
}

// Paused reports whether an operator has paused the lane.
func (l *Lane) Paused() bool { return l.paused }

// Idle reports whether the owner may drop the lane: nothing is left in it, and nothing is to be remembered.
func (l *Lane) Idle() bool { return !l.paused && l.Len() == 0 }

func public(at Position) Position {
	switch at {
	case holding, releasing, leaving:
		return Moving
	}
	return at
}
