package runtime

import (
	"context"
	"errors"
	"slices"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// heldAbove shows the first events that are held in a lane above a sequence. One that is released meanwhile is left out.
func (h *host) heldAbove(ctx context.Context, reader laneReader, function, token string, above uint64) ([]client.HeldEvent, error) {
	sequences, _, err := reader.laneTail(ctx, token, above, client.MaxTail)
	if err != nil {
		return nil, err
	}
	tail := make([]client.HeldEvent, 0, len(sequences))
	for _, sequence := range sequences {
		ref := streams.Ref{Function: function, Lane: token, Sequence: sequence}
		m, err := h.store.Last(ctx, streams.HeldStream, streams.InHeld.Subject(ref))
		if errors.Is(err, streams.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		e := client.HeldEvent{ID: ref.ID(), Sequence: sequence, HeldAt: m.Time}
		header, data, err := h.store.Resolve(ctx, ref, streams.ReadCopy(m.Header, m.Data))
		if err != nil && !errors.Is(err, streams.ErrNotFound) {
			return nil, err
		}
		if a, err := streams.ReadAttributes(header, data); err == nil {
			e.EventID, e.Source, e.Type = a.ID(), a.Source(), a.Type()
		}
		tail = append(tail, e)
	}
	return tail, nil
}

// laneReader reads the lanes of any function: through its owner, or from what an owner has left.
func (h *host) laneReader(function string) laneReader {
	if k := h.keeper(function); k != nil {
		return k
	}
	return leftLanes{store: h.store, function: function}
}

// heldCounts says how many events are held behind what their lanes wait for.
type heldCounts map[string]laneView // by lane

// heldBehind asks once for a whole page of dead letters.
func (h *host) heldBehind(ctx context.Context, function string) (heldCounts, error) {
	views, err := h.laneReader(function).laneViews(ctx)
	if err != nil {
		return nil, err
	}
	counts := heldCounts{}
	for _, v := range views {
		counts[v.token] = v
	}
	return counts, nil
}

// of is 0 for a dead letter that its lane does not wait for.
func (c heldCounts) of(ref streams.Ref) int {
	if v := c[ref.Lane]; v.blocker == ref.Sequence {
		return v.held
	}
	return 0
}

// leftLanes are the lanes of a function that nobody hosts: what stands in the streams is all that there is. The lowest event of a lane is
// what it waits for, unless that one is held: then a host would go on with it.
type leftLanes struct {
	store    *streams.Store
	function string
}

func (l leftLanes) laneViews(ctx context.Context) ([]laneView, error) {
	lanes, err := l.standing(ctx, func(p streams.Place) string { return p.Filter(l.function) })
	if err != nil {
		return nil, err
	}
	views := make([]laneView, 0, len(lanes))
	for _, v := range lanes {
		views = append(views, *v)
	}
	return views, nil
}

func (l leftLanes) laneView(ctx context.Context, token string) (laneView, bool, error) {
	lanes, err := l.standing(ctx, func(p streams.Place) string { return p.LaneFilter(l.function, token) })
	if err != nil || lanes[token] == nil {
		return laneView{}, false, err
	}
	return *lanes[token], true, nil
}

func (l leftLanes) laneTail(ctx context.Context, token string, above uint64, limit int) ([]uint64, int, error) {
	subjects, err := l.store.Subjects(ctx, streams.HeldStream, streams.InHeld.LaneFilter(l.function, token))
	if err != nil {
		return nil, 0, err
	}
	var tail []uint64
	for subject := range subjects {
		if _, ref, err := streams.ParseSubject(subject); err == nil && ref.Sequence > above {
			tail = append(tail, ref.Sequence)
		}
	}
	slices.Sort(tail)
	return tail[:min(limit, len(tail))], len(tail), nil
}

// standing lists what stands at each place, one listing a place.
func (l leftLanes) standing(ctx context.Context, filter func(streams.Place) string) (map[string]*laneView, error) {
	lanes := map[string]*laneView{}
	positions := [...]lane.Position{streams.InRetry: lane.Waiting, streams.InDeadLetters: lane.Parked, streams.InHeld: lane.Held}
	for _, place := range []streams.Place{streams.InRetry, streams.InDeadLetters, streams.InHeld} {
		subjects, err := l.store.Subjects(ctx, place.Stream(l.function), filter(place))
		if err != nil {
			return nil, err
		}
		for subject := range subjects {
			_, ref, err := streams.ParseSubject(subject)
			if err != nil {
				continue
			}
			v := lanes[ref.Lane]
			if v == nil {
				v = &laneView{token: ref.Lane}
				lanes[ref.Lane] = v
			}
			v.events++
			if place == streams.InHeld {
				v.held++
			}
			if v.blocker == 0 || ref.Sequence < v.blocker {
				v.blocker, v.at = ref.Sequence, positions[place]
			}
		}
	}
	for _, v := range lanes {
		if v.at == lane.Held {
			v.blocker, v.at = 0, lane.Absent
		}
	}
	return lanes, nil
}
