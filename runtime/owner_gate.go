package runtime

import "time"

// mayStart reports whether one more attempt may begin now. What has to wait for it stays in the queue, where it is kept alive by heartbeats: no
// delivery is used up by waiting. A gate that opens by the clock alone asks for a timer with wake; run dispatches after each.
func (o *owner) mayStart(now time.Time) bool {
	if o.stopping || o.jammed.Load() || o.declaring != nil {
		return false
	}
	room, next := o.diagnosis.Room(now, len(o.attempting))
	if !next.IsZero() {
		o.wake(next)
	}
	return len(o.attempting) < min(room, o.fn.Concurrency) && o.mayPass(now)
}
