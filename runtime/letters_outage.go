package runtime

import (
	"context"
	"errors"
	"slices"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// spoiledBy tells which dead letters an outage exhausted before it was recognised: their last attempt failed within the row that showed it. An empty id
// selects all.
func (h *host) spoiledBy(ctx context.Context, id string) (func(client.DeadLetter) bool, error) {
	if id == "" {
		return func(client.DeadLetter) bool { return true }, nil
	}
	names, err := h.store.DeclaredNames(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		d, err := h.store.Declared(ctx, name)
		if errors.Is(err, streams.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(d.Outages, func(o streams.Outage) bool { return o.ID == id }); i >= 0 {
			outage := d.Outages[i]
			return func(l client.DeadLetter) bool {
				return l.Function == name && l.Cause == string(advisories.Exhausted) && !l.LastFailedAt.Before(outage.Since) && !l.LastFailedAt.After(outage.Opened)
			}, nil
		}
	}
	return nil, newProblem(client.NotFound, "outage %s: not found", id).WithHint("`siding audit ls --what suspended` names those that there were")
}
