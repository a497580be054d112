package runtime

import (
	"context"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// repair settles the doubles that a crash in the middle of a move leaves: in RETRY and among the dead letters the higher cycle wins, at equal
// cycles the dead letter does; what stands in HELD too is deleted there, because an event leaves HELD and never comes back. What stands anywhere is
// marked, so that the source stream does not bring it again, and is told to its lane. It returns what stands in RETRY.
func (o *owner) repair(ctx context.Context) ([]streams.Ref, error) {
	retry, err := o.store.Standing(ctx, streams.InRetry, o.fn.Name)
	if err != nil {
		return nil, err
	}
	held, err := o.store.Standing(ctx, streams.InHeld, o.fn.Name)
	if err != nil {
		return nil, err
	}
	dead, err := o.repairLetters(ctx)
	if err != nil {
		return nil, err
	}
	kept, further := retry[:0], make(map[uint64]standingAt, len(retry)+len(dead))
	for _, ref := range retry {
		if _, err := o.markStanding(ctx, streams.InRetry, ref); err != nil {
			return nil, err
		}
		further[ref.Sequence] = standingAt{streams.InRetry, ref}
		letter, double := dead[ref.Sequence]
		if double {
			stays, err := o.repairDouble(ctx, ref, letter.ref)
			if err != nil {
				return nil, err
			}
			if !stays {
				continue
			}
			letter.blocks = false
			dead[ref.Sequence] = letter
		}
		kept = append(kept, ref)
	}
	for seq, letter := range dead {
		further[seq] = standingAt{streams.InDeadLetters, letter.ref}
		if letter.blocks {
			o.stand(letter.ref, lane.Parked)
		}
	}
	return kept, o.repairHeld(ctx, held, further)
}

// standingAt is where an event was found.
type standingAt struct {
	place streams.Place
	ref   streams.Ref
}

// standingLetter is a dead letter that stands at the start.
type standingLetter struct {
	ref    streams.Ref
	blocks bool // its lane, if the function holds
}

// repairLetters marks the dead letters that stand, and finds out which of them block their lanes.
func (o *owner) repairLetters(ctx context.Context) (map[uint64]standingLetter, error) {
	letters, err := o.store.Standing(ctx, streams.InDeadLetters, o.fn.Name)
	if err != nil {
		return nil, err
	}
	letters, err = o.dropGhosts(ctx, letters)
	if err != nil {
		return nil, err
	}
	dead, keys := make(map[uint64]standingLetter, len(letters)), false
	for _, ref := range letters {
		dead[ref.Sequence] = standingLetter{ref: ref}
		keys = keys || ref.Lane != streams.NoLane
		if _, err := o.markStanding(ctx, streams.InDeadLetters, ref); err != nil {
			return nil, err
		}
	}
	if !keys || o.lanes.rules.Continue {
		return dead, nil
	}
	return dead, o.store.Headers(ctx, streams.InDeadLetters, o.fn.Name, func(ref streams.Ref, h nats.Header) {
		dead[ref.Sequence] = standingLetter{ref, streams.ReadCopy(h, nil).Ours() && advisories.Blocks(h)}
	})
}

// dropGhosts deletes dead letters that were ended and came back with a kill. The store removes a copy that another one replaced without a mark on
// the disk, because its limit for each subject will remove it again; but when the newer one is deleted too, nothing does. In RETRY the
// records end such a copy when it is delivered.
func (o *owner) dropGhosts(ctx context.Context, letters []streams.Ref) ([]streams.Ref, error) {
	ghosts := make([]bool, len(letters))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8) // of questions to the store at a time
	for i, ref := range letters {
		g.Go(func() error {
			last, ok, err := o.store.LastRecord(ctx, o.fn.Name, ref.Sequence)
			if err != nil || !ok || last.Kind != streams.RecordDelivered && last.Kind != streams.RecordDiscarded {
				return err
			}
			m, ours, err := o.ours(ctx, streams.InDeadLetters, ref)
			if err != nil || !ours {
				return err
			}
			ghosts[i] = true
			o.moveCut(ref, "it had ended, and a kill brought its dead letter back")
			return o.store.Delete(ctx, m.Stream, m.Sequence)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	kept := letters[:0]
	for i, ref := range letters {
		if !ghosts[i] {
			kept = append(kept, ref)
		}
	}
	return kept, nil
}

// repairHeld completes releases that were cut, and tells the lanes what is held. further is what stands in RETRY or among the dead letters.
func (o *owner) repairHeld(ctx context.Context, held []streams.Ref, further map[uint64]standingAt) error {
	for _, ref := range held {
		stands, err := o.markStanding(ctx, streams.InHeld, ref)
		if err != nil {
			return err
		}
		if !stands {
			continue // the lane must not take it for the event, which the source stream is still to bring
		}
		double := false
		if other, ok := further[ref.Sequence]; ok {
			if _, double, err = o.ours(ctx, other.place, other.ref); err != nil {
				return err
			}
		}
		if !double {
			o.stand(ref, lane.Held)
			continue
		}
		m, ours, err := o.ours(ctx, streams.InHeld, ref)
		if err == nil && ours {
			o.moveCut(ref, "it stood in HELD and further on")
			err = o.store.Delete(ctx, m.Stream, m.Sequence)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ours reads what stands at a place, and whether it is a copy that we wrote.
func (o *owner) ours(ctx context.Context, place streams.Place, ref streams.Ref) (streams.Message, bool, error) {
	m, err := o.store.Last(ctx, place.Stream(ref.Function), place.Subject(ref))
	if isNotFound(err) {
		return m, false, nil
	}
	return m, err == nil && streams.ReadCopy(m.Header, nil).Ours(), err
}

func (o *owner) repairDouble(ctx context.Context, retry, letter streams.Ref) (stays bool, err error) {
	a, err := o.store.Last(ctx, streams.RetryStream, streams.InRetry.Subject(retry))
	if err != nil {
		return false, err
	}
	b, err := o.store.Last(ctx, streams.DeadLetterStream(o.fn.Name), streams.InDeadLetters.Subject(letter))
	if err != nil {
		return false, err
	}
	inRetry, parked := streams.ReadCopy(a.Header, nil), streams.ReadCopy(b.Header, nil)
	if !inRetry.Ours() || !parked.Ours() {
		return inRetry.Ours(), nil // no double: somebody else wrote one of them
	}
	stays = inRetry.Cycle > parked.Cycle
	o.moveCut(retry, "it stood in RETRY and among the dead letters")
	if stays {
		return true, o.store.Delete(ctx, b.Stream, b.Sequence)
	}
	return false, o.store.Delete(ctx, a.Stream, a.Sequence)
}

// markStanding notes that the source stream's copy of an event is settled because it stands elsewhere. Where no earlier mark says so, what
// stands there is looked at: only a copy of ours counts, and stands is false for anything else.
func (o *owner) markStanding(ctx context.Context, place streams.Place, ref streams.Ref) (stands bool, err error) {
	if o.ledger.Settled(ref.Sequence) {
		return true, nil
	}
	if _, ours, err := o.ours(ctx, place, ref); err != nil || !ours {
		return false, err
	}
	o.store.Gated("mark", func() { err = o.ledger.Mark(ref.Sequence) })
	if err != nil {
		o.standing[ref.Sequence] = true
	}
	if !o.forgot { // with its ledger lost, every event is found unmarked
		o.moveCut(ref, "it stood in "+place.Stream(ref.Function)+" and was not marked")
	}
	return true, nil
}

// moveCut tells of a move that a crash cut and that is completed now.
func (o *owner) moveCut(ref streams.Ref, how string) {
	o.log.Info("a crash had cut a move; it is completed", "event", ref.ID(), "how", how)
}
