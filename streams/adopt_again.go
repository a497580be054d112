package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// RehostedError is a function that was hosted once more after its new name had got everything: what it has done and left since would be lost
// with its name, and cannot be put among what the new name has, because each of them may know an event by the same sequence.
type RehostedError struct {
	Old, Name string
	Left      Adopted // what stands under the old name
	Handled   uint64  // events that are settled under the old name and not under the new one
	Paused    int     // lanes that were paused since
}

// Error says what the old name has.
func (e *RehostedError) Error() string {
	return fmt.Sprintf("function %s: was hosted again after it became %s, and has %d dead letters, %d retrying, %d held, %d decisions, %d paused lanes and %d settled events that %s does not have",
		e.Old, e.Name, e.Left.Parked, e.Left.Retrying, e.Left.Held, e.Left.Decisions, e.Paused, e.Handled, e.Name)
}

// nothingSince returns a *RehostedError if the old name has anything that the new one, which was given everything and has not been hosted since,
// does not have. Without one the old name was only started and stopped, and what it has is what the new one has.
func (s *Store) nothingSince(ctx context.Context, d, next Declared) error {
	again := &RehostedError{Old: d.Name, Name: next.Name}
	for _, place := range adoptionOrder {
		refs, err := s.Standing(ctx, place, d.Name)
		if err != nil {
			return err
		}
		*again.Left.at(place) = len(refs)
	}
	for _, p := range d.Paused {
		if !slices.ContainsFunc(next.Paused, func(kept PausedLane) bool { return kept.Lane == p.Lane }) {
			again.Paused++
		}
	}
	var err error
	if again.Handled, err = s.handledSince(ctx, d, next); err != nil {
		return err
	}
	if again.Left == (Adopted{}) && again.Handled == 0 && again.Paused == 0 {
		return nil
	}
	return again
}

// handledSince counts the events that are settled under the old name beyond the place of the new one. It would handle those once more.
func (s *Store) handledSince(ctx context.Context, d, next Declared) (n uint64, err error) {
	from := d.Since
	var known []uint64
	if d.Stream == next.Stream && d.StreamCreated.Equal(next.StreamCreated) {
		place, marks, err := s.settled(ctx, next)
		if err != nil {
			return 0, err
		}
		from, known = max(from, place+1), marks
	}
	floor, marks, err := s.settled(ctx, d)
	if err != nil {
		return 0, err
	}
	for _, seq := range marks {
		if _, both := slices.BinarySearch(known, seq); seq >= from && !both {
			n++
		}
	}
	if floor < from {
		return n, nil
	}
	all, err := s.CountFrom(ctx, d.Stream, d.Types, from)
	if errors.Is(err, ErrNotFound) || notFound(err) {
		return n, nil // the stream has gone, and its events with it
	}
	if err != nil {
		return 0, err
	}
	behind, err := s.CountFrom(ctx, d.Stream, d.Types, floor+1)
	return n + all - behind, err
}

// settled is how far everything is settled for a function, and which events are beyond that.
func (s *Store) settled(ctx context.Context, d Declared) (floor uint64, marks []uint64, err error) {
	if floor, err = s.acked(ctx, d); err != nil {
		return 0, nil, err
	}
	ledger := s.keptLedger(d)
	if ledger == nil {
		return floor, nil, nil
	}
	floor = max(floor, ledger.Floor())
	for seq := range ledger.Marked() {
		if seq > floor {
			marks = append(marks, seq)
		}
	}
	return floor, marks, nil
}
