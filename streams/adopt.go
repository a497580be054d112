package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrTaken is a name that another function has.
	ErrTaken = errors.New("the name is taken")
	// ErrUnclean is a function whose events ran when the process died.
	ErrUnclean = errors.New("events ran when the process died")
	// ErrMoving is a function that is being given to another name than the one asked for.
	ErrMoving = errors.New("it is being given to another name")
)

// Adoption says which function gets which name, by whom, and why.
type Adoption struct {
	Old, Name  string
	By, Reason string
	DryRun     bool // only counts
}

// Adopted is how much of a function goes over to its new name.
type Adopted struct{ Parked, Retrying, Held, Decisions int }

// Adopt gives everything that the node keeps of a function to the new name of it, which must not have been hosted: what stands anywhere, the
// attempt records, the marks of the ledger, the place in the source stream, and the lanes that are paused. Every event keeps its place, so that
// the function goes on under its new name as it would have under the old one. No function may be hosted meanwhile.
//
// A kill leaves a part done, and running it again finishes. The declaration of the old name says first to which one it moves: no other name can have it
// from then on, and nobody may host either of them until it is through. Records come first, because a copy without its records would be attempted anew; then the
// copies, each created before it is deleted; then the ledger and the consumer. The declaration of the new name makes it true, and
// the one of the old name goes last. Errors: ErrNotFound, ErrTaken, ErrUnclean, ErrMoving.
func (s *Store) Adopt(ctx context.Context, adoption Adoption) (a Adopted, err error) {
	old, name, dry := adoption.Old, adoption.Name, adoption.DryRun
	d, err := s.Declared(ctx, old)
	if err != nil {
		return a, err
	}
	if d.Moving != nil && d.Moving.To != name {
		return a, fmt.Errorf("function %s: %w: %s, since %s", old, ErrMoving, d.Moving.To, d.Moving.At.Format(time.RFC3339))
	}
	already, err := s.Declared(ctx, name)
	switch {
	case err == nil && (already.From != old || d.Moving == nil): // without a move, the old name has been hosted again since it was given away
		return a, fmt.Errorf("function %s: %w", name, ErrTaken)
	case err != nil && !errors.Is(err, ErrNotFound):
		return a, err
	}
	if other, taken, err := s.Mover(ctx, name); err != nil || taken && other.Name != old {
		return a, errors.Join(err, fmt.Errorf("function %s: %w", name, ErrTaken))
	}
	if a, err = s.adoptFrom(ctx, d, adoption); err != nil || dry {
		return a, err
	}
	return a, s.dropAdopted(ctx, d, name)
}

// adoptFrom does all but to forget the old name.
func (s *Store) adoptFrom(ctx context.Context, d Declared, adoption Adoption) (a Adopted, err error) {
	name := adoption.Name
	standing := map[Place][]Ref{}
	for place, n := range map[Place]*int{InHeld: &a.Held, InRetry: &a.Retrying, InDeadLetters: &a.Parked, InDecisions: &a.Decisions} {
		if standing[place], err = s.Standing(ctx, place, d.Name); err != nil {
			return a, err
		}
		*n = len(standing[place])
	}
	next := d
	next.Name, next.From, next.Moving = name, d.Name, nil
	if err := s.adoptLedger(d, next, true); err != nil || adoption.DryRun {
		return a, err
	}
	if d.Moving == nil {
		d.Moving = &Moving{To: name, By: adoption.By, Reason: adoption.Reason, At: time.Now().UTC()}
		if err := s.Declare(ctx, d); err != nil {
			return a, err
		}
	} else if done, err := s.Declared(ctx, name); err == nil && done.From == d.Name {
		if a != (Adopted{}) { // nobody can have hosted either of them since
			return a, fmt.Errorf("function %s: %w under the old name, although all was moved: %+v", name, ErrTaken, a)
		}
		return a, nil
	}
	if err := s.adoptLedger(d, next, false); err != nil {
		return a, err
	}
	if err := s.ForgetRecords(ctx, name); err != nil { // of a try that was cut
		return a, err
	}
	if err := s.adoptRecords(ctx, d.Name, name); err != nil {
		return a, err
	}
	for place, refs := range standing {
		for _, ref := range refs {
			if err := s.adoptCopy(ctx, place, ref, name); err != nil {
				return a, err
			}
		}
	}
	if err := s.adoptConsumer(ctx, d, next); err != nil {
		return a, err
	}
	return a, s.Declare(ctx, next)
}

// adoptRecords writes the attempt records once more, under the new name.
func (s *Store) adoptRecords(ctx context.Context, old, name string) error {
	for at := uint64(1); ; {
		m, err := s.Next(ctx, AttemptsStream, at, AttemptFilter(old))
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		at = m.Sequence + 1
		_, seq, ok := ParseAttemptSubject(m.Subject)
		if !ok {
			continue
		}
		if r, ok := readRecord(m.Data, old, seq); ok {
			r.Function = name
			if err := s.Append(ctx, r); err != nil {
				return err
			}
		}
	}
}

// adoptCopy moves what stands of one event, byte for byte but for what JetStream wrote into its headers.
func (s *Store) adoptCopy(ctx context.Context, place Place, ref Ref, name string) error {
	m, err := s.Last(ctx, place.Stream(ref.Function), place.Subject(ref))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	to := ref
	to.Function = name
	moved := &nats.Msg{Subject: place.Subject(to), Header: nats.Header{}, Data: m.Data}
	for key, values := range m.Header {
		if !hasPrefixFold(key, "Nats-") {
			moved.Header[key] = values
		}
	}
	if _, err := s.write(ctx, place, to, moved, 0); err != nil && !errors.Is(err, ErrOccupied) { // occupied by an earlier try
		return err
	}
	return s.Delete(ctx, m.Stream, m.Sequence)
}

// adoptLedger writes the marks into the ledger of the new name. A ledger that cannot be trusted is left out: the records tell the same.
func (s *Store) adoptLedger(d, next Declared, dry bool) (err error) {
	key := LedgerKey{Function: d.Name, Stream: d.Stream, Created: d.StreamCreated}
	before, state, err := OpenLedger(LedgerPath(s.node.dir.path, d.Name), key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, before.Close()) }()
	if n := len(before.Running()); n > 0 {
		return fmt.Errorf("function %s: %w: %d of them", d.Name, ErrUnclean, n)
	}
	if dry {
		return nil
	}
	if err := s.DropLedger(next.Name); err != nil || !state.Kept() {
		return err
	}
	key.Function = next.Name
	after, _, err := OpenLedger(LedgerPath(s.node.dir.path, next.Name), key)
	if err != nil {
		return err
	}
	after.SetFloor(before.Floor())
	after.SetCursor(before.Cursor())
	for seq := range before.Marked() {
		if err := after.Mark(seq); err != nil {
			return errors.Join(err, after.Close())
		}
	}
	return after.Close()
}

// adoptConsumer makes the consumer of the source stream at the place where the old one was, so that the first start misses none.
func (s *Store) adoptConsumer(ctx context.Context, d, next Declared) error {
	floor := d.Since - min(d.Since, 1)
	bounded, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	old, err := s.node.JetStream().Consumer(bounded, d.Stream, d.Name)
	switch {
	case err == nil:
		floor = max(floor, old.CachedInfo().AckFloor.Stream)
	case !notFound(err) && !errors.Is(err, jetstream.ErrConsumerNotFound):
		return fmt.Errorf("stream %s: consumer %s: %w", d.Stream, d.Name, err)
	}
	return s.do(ctx, "adopt consumer", func(ctx context.Context) error {
		_, _, _, err := s.SourceConsumer(ctx, next, floor)
		return err
	})
}

// dropAdopted removes what is left under the old name, of which nothing stands any more: its declaration last, when the audit knows.
func (s *Store) dropAdopted(ctx context.Context, d Declared, name string) error {
	d, err := s.Declared(ctx, d.Name) // with the move, as it was begun
	if err != nil {
		return err
	}
	for _, drop := range []func() error{
		func() error { return s.DropConsumers(ctx, d) },
		func() error { return s.DropDeadLetters(ctx, d.Name) },
		func() error { return s.DropLedger(d.Name) },
		func() error { return s.ForgetRecords(ctx, d.Name) },
		func() error {
			return s.Audit(ctx, AuditEntry{
				Action: "adopted", Function: name, By: d.Moving.By, Reason: d.Moving.Reason, At: d.Moving.At, Detail: map[string]string{"from": d.Name},
			})
		},
		func() error { return s.Undeclare(ctx, d.Name) },
	} {
		if err := drop(); err != nil {
			return err
		}
	}
	return nil
}
