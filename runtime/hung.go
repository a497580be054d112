package runtime

import (
	"sync"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// hung is what an owner leaves behind when it gives handlers up that do not return. It outlives owners: one that starts again in the same process,
// because a consumer was deleted or the store came back, must not attempt an event of a lane in which the handler of an earlier owner still
// runs. It is safe for concurrent use.
type hung struct {
	mu    sync.Mutex
	lanes map[hungLane]int
	late  map[hungEvent]lateSuccess
}

type hungLane struct{ function, token string }

type hungEvent struct {
	function string
	sequence uint64
}

// lateSuccess is a handler that was given up and has succeeded after all.
type lateSuccess struct {
	attempt functions.Attempt
	at      time.Time
}

// maxLate bounds how many late successes are remembered. They are rare, and each is forgotten when its event succeeds again.
const maxLate = 1024

func newHung() *hung { return &hung{lanes: map[hungLane]int{}, late: map[hungEvent]lateSuccess{}} }

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
	if j.result.Outcome == functions.Done && len(h.late) < maxLate {
		h.late[hungEvent{function, j.attempt.Sequence}] = lateSuccess{j.attempt, j.ended}
	}
}

// succeeded reports whether a handler of an event that was given up has succeeded after all, and forgets it.
func (h *hung) succeeded(ref streams.Ref) (lateSuccess, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := hungEvent{ref.Function, ref.Sequence}
	late, ok := h.late[at]
	if ok {
		delete(h.late, at)
	}
	return late, ok
}

// in reports whether a handler that was given up runs in a lane.
func (h *hung) in(function, token string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lanes[hungLane{function, token}] > 0
}
