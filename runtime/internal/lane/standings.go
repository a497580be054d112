package lane

import (
	"iter"
	"slices"
)

// standings is the ordered set of a lane's events that stand outside memory, or are on their way there. Sequences mostly come ascending and
// go from the front, but a list of a stream comes in any order, and a million of them must not be slow either way. So it is cut into
// chunks: whatever is inserted or removed shifts one chunk, and the slice of chunks only when one appears or vanishes.
type standings struct {
	chunks [][]standingEvent // none is empty, except a single one that is kept for the next event
	count  int
}

type standingEvent struct {
	seq uint64
	at  Position
}

// chunkSize is how many events a chunk takes: 2 KiB, which is shifted in tens of nanoseconds.
const chunkSize = 128

func bySequence(e standingEvent, seq uint64) int {
	switch {
	case e.seq < seq:
		return -1
	case e.seq > seq:
		return 1
	}
	return 0
}

// find returns where seq is, or where it would have to be inserted.
func (s *standings) find(seq uint64) (chunk, i int, found bool) {
	chunk, _ = slices.BinarySearchFunc(s.chunks, seq, func(c []standingEvent, seq uint64) int {
		if len(c) == 0 {
			return -1
		}
		return bySequence(c[len(c)-1], seq)
	})
	if chunk == len(s.chunks) {
		if chunk == 0 {
			return 0, 0, false
		}
		return chunk - 1, len(s.chunks[chunk-1]), false
	}
	i, found = slices.BinarySearchFunc(s.chunks[chunk], seq, bySequence)
	return chunk, i, found
}

func (s *standings) position(seq uint64) Position {
	if s.count == 0 {
		return Absent
	}
	if chunk, i, found := s.find(seq); found {
		return s.chunks[chunk][i].at
	}
	return Absent
}

// put inserts seq, or gives it another position.
func (s *standings) put(seq uint64, at Position) {
	e := standingEvent{seq, at}
	chunk, i, found := s.find(seq)
	if found {
		s.chunks[chunk][i].at = at
		return
	}
	s.count++
	switch {
	case len(s.chunks) == 0:
		s.chunks = append(s.chunks, []standingEvent{e})
	case len(s.chunks[chunk]) < chunkSize:
		s.chunks[chunk] = slices.Insert(s.chunks[chunk], i, e)
	case i == chunkSize: // behind all: a chunk that ascending events fill
		s.chunks = append(s.chunks, append(make([]standingEvent, 0, chunkSize), e))
	default:
		full := s.chunks[chunk]
		upper := append(make([]standingEvent, 0, chunkSize), full[chunkSize/2:]...)
		s.chunks[chunk] = full[:chunkSize/2]
		s.chunks = slices.Insert(s.chunks, chunk+1, upper)
		if i > chunkSize/2 {
			chunk, i = chunk+1, i-chunkSize/2
		}
		s.chunks[chunk] = slices.Insert(s.chunks[chunk], i, e)
	}
}

func (s *standings) remove(seq uint64) {
	chunk, i, found := s.find(seq)
	if !found {
		return
	}
	s.count--
	s.chunks[chunk] = slices.Delete(s.chunks[chunk], i, i+1)
	if len(s.chunks[chunk]) > 0 || len(s.chunks) == 1 {
		return
	}
	if chunk == 0 { // worked off from the front: nothing is shifted, and the chunk's memory goes
		s.chunks[0] = nil
		s.chunks = s.chunks[1:]
		return
	}
	s.chunks = slices.Delete(s.chunks, chunk, chunk+1)
}

func (s *standings) lowest() (standingEvent, bool) {
	if s.count == 0 {
		return standingEvent{}, false
	}
	return s.chunks[0][0], true
}

// above yields the events with higher sequences than seq, ascending.
func (s *standings) above(seq uint64) iter.Seq[standingEvent] {
	return func(yield func(standingEvent) bool) {
		if s.count == 0 {
			return
		}
		chunk, i, found := s.find(seq)
		if found {
			i++
		}
		for ; chunk < len(s.chunks); chunk, i = chunk+1, 0 {
			for ; i < len(s.chunks[chunk]); i++ {
				if !yield(s.chunks[chunk][i]) {
					return
				}
			}
		}
	}
}
