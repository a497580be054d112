package runtime

import "sync"

// hung is what an owner leaves behind when it gives handlers up that do not return. It outlives owners: one that starts again in the same process,
// because a consumer was deleted or the store came back, must not attempt an event of a lane in which the handler of an earlier owner still
// runs. It is safe for concurrent use.
type hung struct {
	mu    sync.Mutex
	lanes map[hungLane]int
}

type hungLane struct{ function, token string }

func newHung() *hung { return &hung{lanes: map[hungLane]int{}} }

// giveUp notes that the handler of a job was given up, unless it has just returned.
func (h *hung) giveUp(function string, j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !j.returned {
		j.hangs = true
		h.lanes[hungLane{function, j.lane}]++
	}
}

// returned notes that a job's handler has returned. Each worker says so after each job.
func (h *hung) returned(function string, j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j.returned = true
	if !j.hangs {
		return
	}
	at := hungLane{function, j.lane}
	if h.lanes[at]--; h.lanes[at] == 0 {
		delete(h.lanes, at)
	}
}

// in reports whether a handler that was given up runs in a lane.
func (h *hung) in(function, token string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lanes[hungLane{function, token}] > 0
}
