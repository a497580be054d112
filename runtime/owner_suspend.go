package runtime

import (
	"context"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/streams"
)

// onSuspend stops the function because its handler has asked for that: see functions.Suspend. The attempt is not charged and leaves no record, as one
// that a stop has interrupted: its event goes back to the line for a worker, and its delivery is kept alive there like everybody else's.
// The next owner attempts it again, whether this one ends in order or not, and so a start of the process resumes the function.
func (o *owner) onSuspend(ctx context.Context, it *item, err error) {
	o.endSlot(it)
	o.enqueue(it)
	if o.dismissed {
		return // attempts that ran at once say the same
	}
	o.dismissed = true
	o.suspended.Store(true)
	o.log.Error("the handler asks not to be called any more; the function is suspended", "event", it.ref.ID(), "err", err,
		"hint", "start the node again when the function may be called: that resumes it")
	o.carry(ctx, &work{ref: streams.Ref{Function: o.fn.Name}, steps: []step{{kind: stepAudit, audit: streams.AuditEntry{
		Action: "suspended", Function: o.fn.Name, Sequence: it.ref.Sequence, Cycle: it.cycle, By: advisories.ByOwner, At: time.Now().UTC(),
		Reason: "the handler asked for it: " + err.Error(),
	}}}})
}
