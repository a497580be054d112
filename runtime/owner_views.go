package runtime

import (
	"context"
	"slices"
	"time"

	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// laneView is what can be said about a lane at one instant.
type laneView struct {
	token     string // the lane in its subject form
	key       string // the ordering key itself; "" if only a hash is known
	blocker   uint64 // 0 = none
	at        lane.Position
	held      int // behind the blocker
	events    int // not finished, held ones included
	heldSince time.Time
	paused    *streams.PausedLane
}

// laneReader tells what is in the lanes of one function.
type laneReader interface {
	// laneViews lists the lanes that have something in them or are paused, in no particular order.
	laneViews(ctx context.Context) ([]laneView, error)
	// laneView looks at one lane; false if nothing is in it and it is not paused.
	laneView(ctx context.Context, token string) (laneView, bool, error)
	// laneTail lists the first held sequences above one, ascending, and says how many there are in all.
	laneTail(ctx context.Context, token string, above uint64, limit int) (tail []uint64, held int, err error)
}

// laneKeeper keeps the lanes of one function: its owner.
type laneKeeper interface {
	laneReader
	pauseLane(ctx context.Context, p streams.PausedLane) error
	// resumeLane reports whether the lane was paused.
	resumeLane(ctx context.Context, token, reason, by string) (bool, error)
}

// laneViews lists the lanes that have something in them or are paused, in no particular order.
func (o *owner) laneViews(ctx context.Context) (views []laneView, err error) {
	return views, o.ask(ctx, func() error {
		views = make([]laneView, 0, len(o.lanes.all))
		for _, l := range o.lanes.all {
			views = append(views, o.view(l))
		}
		return nil
	})
}

// laneView looks at one lane; false if nothing is in it and it is not paused.
func (o *owner) laneView(ctx context.Context, token string) (v laneView, ok bool, err error) {
	return v, ok, o.ask(ctx, func() error {
		if l := o.lanes.all[token]; l != nil {
			v, ok = o.view(l), true
		}
		return nil
	})
}

// laneTail lists the first held sequences above one, ascending, and says how many there are in all.
func (o *owner) laneTail(ctx context.Context, token string, above uint64, limit int) (tail []uint64, held int, err error) {
	return tail, held, o.ask(ctx, func() error {
		if l := o.lanes.all[token]; l != nil {
			tail = l.Tail(above)
			held = len(tail)
			tail = tail[:min(limit, held)]
		}
		return nil
	})
}

func (o *owner) view(l *keptLane) laneView {
	v := laneView{token: l.token, held: l.Held(), events: l.Len(), heldSince: l.holdingSince}
	v.key, _ = streams.LaneKey(l.token)
	if seq, at := l.Blocker(); at != lane.Absent {
		v.blocker, v.at = seq, at
	}
	for seq := range o.lanes.hanging { // few, and to its lane such an event still runs
		if l.Position(seq) == lane.Running {
			v.blocker, v.at = seq, lane.Parked
		}
	}
	if at := slices.IndexFunc(o.declared.Paused, func(p streams.PausedLane) bool { return p.Lane == l.token }); at >= 0 && l.Paused() {
		p := o.declared.Paused[at]
		v.paused = &p
	}
	return v
}
