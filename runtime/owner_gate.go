package runtime

import "time"

// mayStart reports whether one more attempt may begin now. What has to wait for it stays in the queue, where it is kept alive by heartbeats: no
// delivery is used up by waiting. A gate that opens by the clock alone asks for a timer with wake; run dispatches after each.
func (o *owner) mayStart(time.Time) bool {
	return !o.stopping && len(o.attempting) < o.fn.Concurrency && !o.suspended.Load()
}
