package runtime

import (
	"context"
	"time"

	"github.com/siding-dev/siding/streams"
)

// Times of the results of steps (functions.Once). An event that was delivered is attempted again when its ledger is lost before the event is
// acknowledged, and its steps must be found then: a day is far beyond any such moment.
const (
	stepsAge   = 24 * time.Hour // for which they are kept after the end of their event, at least
	stepsSweep = time.Hour
)

// sweepSteps forgets the steps of events that ended long ago.
func (h *host) sweepSteps(ctx context.Context) error {
	select {
	case <-h.started:
	case <-ctx.Done():
		return nil
	}
	for {
		if err := h.store.SweepSteps(ctx, stepsAge, h.ended); err != nil && ctx.Err() == nil {
			h.log.Warn("steps of events that have ended", "err", err)
			h.report(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(stepsSweep):
		}
	}
}

// ended reports whether the event of a step cannot come back. An event that ever left the hot path has a final record then, and any other one a mark
// and no record. What a function left that is not hosted waits for whoever hosts or forgets it.
func (h *host) ended(ctx context.Context, step streams.Step) (bool, error) {
	o := h.owner(step.Function)
	if o == nil {
		return false, nil
	}
	select {
	case <-o.begun:
	default:
		return false, nil
	}
	if !o.ledger.Settled(step.Sequence) {
		return false, nil
	}
	last, recorded, err := h.store.LastRecord(ctx, step.Function, step.Sequence)
	return err == nil && (!recorded || last.Final()), err
}
