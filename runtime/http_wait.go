package runtime

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/siding-dev/siding/runtime/client"
)

// How often a wait looks where its event stands: soon at first, because most events are handled at once.
const (
	firstLook = 10 * time.Millisecond
	laterLook = 250 * time.Millisecond
)

// wait answers when every function that takes an event has an end for it, or when the time is over. The owners are not asked to tell: what
// would have to be told is where the event stands, which is read where it is stored.
func (a *api) wait(w http.ResponseWriter, r *http.Request) error {
	v, err := query(r, "sequence", "timeout")
	if err != nil {
		return err
	}
	sequence, err := strconv.ParseUint(v.Get("sequence"), 10, 64)
	if err != nil || sequence == 0 {
		return newProblem(client.Usage, "sequence %s: not a sequence of the stream", strconv.Quote(v.Get("sequence")))
	}
	timeout := client.MaxWait
	if s := v.Get("timeout"); s != "" {
		if timeout, err = time.ParseDuration(s); err != nil || timeout < 0 || timeout > client.MaxWait {
			return newProblem(client.Usage, "timeout %s: not a duration up to %s", strconv.Quote(s), client.MaxWait).
				WithHint("ask again to wait longer")
		}
	}
	outcome, err := a.await(r.Context(), sequence, timeout)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, outcome.UTC())
	return nil
}

// await looks until the event is done, the time is over or the server stops.
func (a *api) await(ctx context.Context, sequence uint64, timeout time.Duration) (client.Outcome, error) {
	stopping, _ := ctx.Value(shutdownKey{}).(<-chan struct{})
	end := time.NewTimer(timeout)
	defer end.Stop()
	for pause := firstLook; ; pause = min(2*pause, laterLook) {
		states, err := a.backend.eventStates(ctx, sequence)
		if err != nil {
			return client.Outcome{}, err
		}
		o := client.Outcome{Sequence: sequence, Done: true, Functions: states}
		for _, s := range states {
			o.Done = o.Done && s.Ended()
		}
		if o.Done {
			return o, nil
		}
		select {
		case <-time.After(pause):
		case <-end.C:
			return o, nil
		case <-stopping:
			return o, nil
		case <-ctx.Done():
			return o, ctx.Err()
		}
	}
}
