package runtime

import (
	"context"
	"strconv"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/streams"
)

// lookUps bounds how many lanes of an earlier life a sweep asks since when they hold.
const lookUps = 200

// judgeHolds looks for lanes whose hold has gone on for too long or has grown too deep. It tells somebody, once for each hold, and drops nothing.
func (o *owner) judgeHolds(ctx context.Context) {
	oldest, err := o.store.Next(ctx, streams.HeldStream, 1, streams.InHeld.Filter(o.fn.Name))
	if err != nil {
		if isNotFound(err) {
			o.metrics.oldestHold(o.fn.Name, time.Time{})
		}
		return
	}
	o.metrics.oldestHold(o.fn.Name, oldest.Time)
	limit := o.fn.HoldLimit
	if limit.Age == 0 && limit.Depth == 0 {
		return
	}
	unknown := lookUps
	for _, l := range o.lanes.all {
		if l.breached || l.Held() == 0 {
			continue
		}
		if limit.Depth > 0 && l.Held() > limit.Depth {
			o.breach(ctx, l, limitDepth, strconv.Itoa(limit.Depth))
			continue
		}
		if limit.Age == 0 {
			continue
		}
		if l.holdingSince.IsZero() && unknown > 0 {
			unknown--
			if m, err := o.store.Next(ctx, streams.HeldStream, 1, streams.InHeld.LaneFilter(o.fn.Name, l.token)); err == nil {
				l.holdingSince = m.Time
			}
		}
		if !l.holdingSince.IsZero() && time.Since(l.holdingSince) > limit.Age {
			o.breach(ctx, l, limitAge, limit.Age.String())
		}
	}
}

func (o *owner) breach(ctx context.Context, l *keptLane, limit, value string) {
	l.breached = true
	v := o.view(l)
	key := v.key
	if key == "" {
		key = l.token
	}
	o.metrics.holdLimit(o.fn.Name, limit)
	o.log.Warn("a lane has come past its hold limit; nothing is dropped", "key", key, "limit", limit, "of", value, "held", v.held, "blocker", v.blocker)
	o.carry(ctx, &work{ref: streams.Ref{Function: o.fn.Name, Lane: l.token, Sequence: v.blocker}, steps: []step{{kind: stepAudit, audit: streams.AuditEntry{
		Action: "hold_limit", Function: o.fn.Name, Sequence: v.blocker, By: advisories.BySweep, At: time.Now().UTC(),
		Reason: "past the limit of " + limit + ", " + value,
		Detail: map[string]string{"key": v.key, "lane": l.token, "held": strconv.Itoa(v.held)},
	}}}})
}
