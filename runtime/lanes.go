package runtime

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// laneWait is how long an owner may take to answer about its lanes: it is one goroutine, and may be waiting for its store.
const laneWait = 10 * time.Second

func (r *Runtime) lanes(ctx context.Context, q client.LaneQuery) ([]client.Lane, error) {
	return askLanes(ctx, r, func(ctx context.Context, h *host) ([]client.Lane, error) { return h.lanes(ctx, q) })
}

func (r *Runtime) lane(ctx context.Context, function, key string) (client.LaneDetail, error) {
	return askLanes(ctx, r, func(ctx context.Context, h *host) (client.LaneDetail, error) { return h.lane(ctx, function, key) })
}

func (r *Runtime) pauseLane(ctx context.Context, p client.PauseRequest) (client.Lane, error) {
	return askLanes(ctx, r, func(ctx context.Context, h *host) (client.Lane, error) { return h.pauseLane(ctx, p) })
}

func (r *Runtime) resumeLane(ctx context.Context, p client.PauseRequest) (client.Lane, error) {
	return askLanes(ctx, r, func(ctx context.Context, h *host) (client.Lane, error) { return h.resumeLane(ctx, p) })
}

func askLanes[T any](ctx context.Context, r *Runtime, ask func(context.Context, *host) (T, error)) (T, error) {
	h, err := r.current()
	if err != nil {
		var none T
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, laneWait)
	defer cancel()
	return ask(ctx, h)
}

// keeperOf returns who keeps the lanes of a function: a lane can only be looked at through its owner, who alone knows what of it is in
// memory.
func (h *host) keeperOf(ctx context.Context, function string) (laneKeeper, error) {
	if k := h.keeper(function); k != nil {
		return k, nil
	}
	if _, err := h.withLetters(ctx, function); err != nil {
		return nil, err
	}
	return nil, newProblem(client.Refused, "function %s is not hosted here, so nobody keeps its lanes", function).
		WithHint("start a node that hosts %s; `siding dlq ls --function %s` shows what is held behind its dead letters", function, function)
}

// lanes lists a page of lanes by function and lane.
func (h *host) lanes(ctx context.Context, q client.LaneQuery) ([]client.Lane, error) {
	functions := []string{q.Function}
	if q.Function == "" {
		var err error
		if functions, err = h.withLetters(ctx, ""); err != nil {
			return nil, err
		}
		functions = slices.DeleteFunc(functions, func(name string) bool { return h.keeper(name) == nil })
	}
	afterFunction, afterLane, _ := strings.Cut(q.After, "/")
	var page []client.Lane
	for _, function := range functions {
		keeper, err := h.keeperOf(ctx, function)
		if err != nil {
			return nil, err
		}
		if function < afterFunction {
			continue
		}
		views, err := keeper.laneViews(ctx)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(views, func(a, b laneView) int { return cmp.Compare(a.token, b.token) })
		for _, v := range views {
			if function == afterFunction && v.token <= afterLane || q.State != "" && v.state() != q.State {
				continue
			}
			l, err := h.laneOf(ctx, function, v)
			if err != nil {
				return nil, err
			}
			if page = append(page, l); len(page) == q.Limit {
				return page, nil
			}
		}
	}
	return page, nil
}

// lane shows one lane with the beginning of what is held in it.
func (h *host) lane(ctx context.Context, function, key string) (client.LaneDetail, error) {
	keeper, err := h.keeperOf(ctx, function)
	if err != nil {
		return client.LaneDetail{}, err
	}
	token := streams.Lane(key)
	v, ok, err := keeper.laneView(ctx, token)
	if err != nil {
		return client.LaneDetail{}, err
	}
	if !ok {
		return client.LaneDetail{}, newProblem(client.NotFound, "function %s: lane of key %s: nothing is in it", function, strconv.Quote(key)).
			WithHint("`siding lane ls --function %s` lists those that have something in them or are paused", function)
	}
	v.key = key
	l, err := h.laneOf(ctx, function, v)
	if err != nil {
		return client.LaneDetail{}, err
	}
	tail, err := h.heldAbove(ctx, keeper, function, token, 0)
	return client.LaneDetail{Lane: l, Tail: tail}, err
}

// pauseLane pauses a lane, whether anything is in it or not. Whoever paused it first stays the one who did.
func (h *host) pauseLane(ctx context.Context, p client.PauseRequest) (client.Lane, error) {
	keeper, err := h.keeperOf(ctx, p.Function)
	if err != nil {
		return client.Lane{}, err
	}
	token := streams.Lane(p.Key)
	v, _, err := keeper.laneView(ctx, token)
	if err != nil {
		return client.Lane{}, err
	}
	if v.paused != nil {
		return client.Lane{}, newProblem(client.Conflict, "function %s: lane of key %s: paused by %s at %s: %s", p.Function, strconv.Quote(p.Key),
			v.paused.By, v.paused.At.UTC().Format(time.RFC3339), v.paused.Reason).WithHint("resume it first to pause it for another reason")
	}
	if err := keeper.pauseLane(ctx, streams.PausedLane{Lane: token, Key: p.Key, By: p.By, Reason: p.Reason, At: time.Now().UTC()}); err != nil {
		return client.Lane{}, err
	}
	return h.laneNow(ctx, keeper, p)
}

func (h *host) resumeLane(ctx context.Context, p client.PauseRequest) (client.Lane, error) {
	keeper, err := h.keeperOf(ctx, p.Function)
	if err != nil {
		return client.Lane{}, err
	}
	paused, err := keeper.resumeLane(ctx, streams.Lane(p.Key), p.Reason, p.By)
	if err != nil {
		return client.Lane{}, err
	}
	if !paused {
		return client.Lane{}, newProblem(client.Conflict, "function %s: lane of key %s: it is not paused", p.Function, strconv.Quote(p.Key)).
			WithHint("`siding lane ls --function %s --state %s` lists those that are", p.Function, client.LanePaused)
	}
	return h.laneNow(ctx, keeper, p)
}

// laneNow is the lane of a request as it has become. One that was resumed with nothing in it is not known to its keeper any more.
func (h *host) laneNow(ctx context.Context, keeper laneKeeper, p client.PauseRequest) (client.Lane, error) {
	v, _, err := keeper.laneView(ctx, streams.Lane(p.Key))
	if err != nil {
		return client.Lane{}, err
	}
	v.token, v.key = streams.Lane(p.Key), p.Key
	return h.laneOf(ctx, p.Function, v)
}

func (v laneView) state() string {
	switch {
	case v.paused != nil:
		return client.LanePaused
	case v.blocker != 0:
		return client.LaneBlocked
	}
	return client.LaneRunning
}

// laneOf turns a view into its form for people.
func (h *host) laneOf(ctx context.Context, function string, v laneView) (client.Lane, error) {
	l := client.Lane{Function: function, Key: v.key, Lane: v.token, State: v.state(), Held: v.held, Events: v.events, HeldSince: v.heldSince}
	if v.held > 0 && v.heldSince.IsZero() { // an earlier life began to hold
		m, err := h.store.Next(ctx, streams.HeldStream, 1, streams.InHeld.LaneFilter(function, v.token))
		if err != nil && !errors.Is(err, streams.ErrNotFound) {
			return client.Lane{}, err
		}
		l.HeldSince = m.Time
	}
	if v.blocker != 0 {
		ref := streams.Ref{Function: function, Lane: v.token, Sequence: v.blocker}
		l.Blocker = &client.LaneEvent{ID: ref.ID(), Sequence: v.blocker, State: blockerState(v.at)}
	}
	if v.paused != nil {
		l.Key = cmp.Or(l.Key, v.paused.Key)
		l.PausedBy, l.PausedAt, l.PauseReason = v.paused.By, v.paused.At, v.paused.Reason
	}
	if l.Key == "" {
		var err error
		if l.Key, err = h.keyOf(ctx, function, v.token); err != nil {
			return client.Lane{}, err
		}
	}
	return l, nil
}

func blockerState(at lane.Position) string {
	switch at {
	case lane.Parked:
		return "parked"
	case lane.Moving:
		return "moving"
	}
	return "retrying"
}

// keyOf finds the key of a lane of which only a hash is known: every copy of an event carries it. It is "" when no copy stands anywhere.
func (h *host) keyOf(ctx context.Context, function, token string) (string, error) {
	for _, place := range []streams.Place{streams.InHeld, streams.InRetry, streams.InDeadLetters} {
		m, err := h.store.Last(ctx, place.Stream(function), place.LaneFilter(function, token))
		if errors.Is(err, streams.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", err
		}
		if key := streams.ReadCopy(m.Header, nil).Key; key != "" {
			return key, nil
		}
	}
	return "", nil
}
