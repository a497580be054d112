package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrTaken is a name that another function has.
	ErrTaken = errors.New("the name is taken")
	// ErrUnclean is a function whose events ran when the process died.
	ErrUnclean = errors.New("events ran when the process died")
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
// The declaration of the old name first says who gets all of it: from then on no other name can, and neither of the two is hosted. A kill leaves a
// part done, and running it again finishes. Records come first, because a copy without its records would be attempted anew, then the outbox and the
// steps that were done; then the copies, each created before it is deleted; then the ledger and the consumer. The declaration of the new name makes it true, and
// the one of the old name goes last. What is counted is all that goes over, also what an earlier try has moved.
//
// Errors: ErrNotFound, ErrTaken, ErrUnclean, *UnderWayError, *RehostedError.
func (s *Store) Adopt(ctx context.Context, adoption Adoption) (a Adopted, err error) {
	d, err := s.Declared(ctx, adoption.Old)
	if err != nil {
		return a, err
	}
	if err := s.othersUnderWay(ctx, d.Name, adoption.Name); err != nil {
		return a, err
	}
	next, err := s.Declared(ctx, adoption.Name)
	moved := err == nil
	switch {
	case moved && next.From != d.Name:
		return a, fmt.Errorf("function %s: %w", adoption.Name, ErrTaken)
	case moved && d.Adopting == nil:
		err = s.nothingSince(ctx, d, next)
	case errors.Is(err, ErrNotFound):
		err = s.clean(d)
	}
	if err != nil {
		return a, err
	}
	if a, err = s.adoptable(ctx, d.Name, adoption.Name); err != nil || adoption.DryRun {
		return a, err
	}
	if d, err = s.beginAdoption(ctx, d, adoption); err != nil {
		return a, err
	}
	if moved {
		err = s.adoptCopies(ctx, d.Name, next.Name)
	} else {
		err = s.adoptFrom(ctx, d, adoption.Name)
	}
	if err != nil {
		return a, err
	}
	return a, s.dropAdopted(ctx, d)
}

// adoptionOrder is the order in which copies go over. A kill leaves some under the old name, where a running node applies discards. So a decision is
// never left there without its dead letter, nor a dead letter without what is held behind it.
var adoptionOrder = []Place{InDecisions, InDeadLetters, InRetry, InHeld}

// adoptable counts what goes over: what stands under the old name and what an earlier try has moved, each event once at a place.
func (s *Store) adoptable(ctx context.Context, old, name string) (a Adopted, err error) {
	for _, place := range adoptionOrder {
		standing := map[Ref]bool{}
		for _, function := range []string{old, name} {
			refs, err := s.Standing(ctx, place, function)
			if err != nil {
				return a, err
			}
			for _, ref := range refs {
				ref.Function = name
				standing[ref] = true
			}
		}
		*a.at(place) = len(standing)
	}
	return a, nil
}

// at is the number of a place.
func (a *Adopted) at(place Place) *int {
	switch place {
	case InDecisions:
		return &a.Decisions
	case InDeadLetters:
		return &a.Parked
	case InRetry:
		return &a.Retrying
	default:
		return &a.Held
	}
}

// adoptFrom does all but to forget the old name.
func (s *Store) adoptFrom(ctx context.Context, d Declared, name string) error {
	next := d
	next.Name, next.From, next.Adopting = name, d.Name, nil
	if err := s.adoptLedger(d, next); err != nil {
		return err
	}
	if err := s.ForgetRecords(ctx, name); err != nil { // of a try that was cut
		return err
	}
	if err := s.adoptRecords(ctx, d.Name, name); err != nil {
		return err
	}
	if err := s.adoptOutbox(ctx, d.Name, name); err != nil {
		return err
	}
	if err := s.adoptSteps(ctx, d.Name, name); err != nil {
		return err
	}
	if err := s.adoptCopies(ctx, d.Name, name); err != nil {
		return err
	}
	if err := s.adoptConsumer(ctx, d, next); err != nil {
		return err
	}
	return s.Declare(ctx, next)
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

// adoptCopies moves everything that stands under the old name.
func (s *Store) adoptCopies(ctx context.Context, old, name string) error {
	for _, place := range adoptionOrder {
		refs, err := s.Standing(ctx, place, old)
		if err != nil {
			return err
		}
		for _, ref := range refs {
			if err := s.adoptCopy(ctx, place, ref, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// adoptCopy moves what stands of one event, byte for byte but for what JetStream wrote into its headers. Where an earlier try has put a copy,
// the later cycle stays.
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
	_, err = s.write(ctx, place, to, moved, 0)
	if errors.Is(err, ErrOccupied) {
		var stands Message
		if stands, err = s.Last(ctx, place.Stream(name), moved.Subject); err == nil && ReadCopy(stands.Header, nil).Cycle < ReadCopy(m.Header, nil).Cycle {
			_, err = s.write(ctx, place, to, moved, stands.Sequence)
		}
	}
	if err != nil {
		return err
	}
	return s.Delete(ctx, m.Stream, m.Sequence)
}

// adoptLedger writes the marks into the ledger of the new name. A ledger that cannot be trusted is left out: the records tell the same.
func (s *Store) adoptLedger(d, next Declared) error {
	if err := s.DropLedger(next.Name); err != nil {
		return err
	}
	before := s.keptLedger(d)
	if before == nil {
		return nil
	}
	after, _, err := OpenLedger(LedgerPath(s.node.dir.path, next.Name), ledgerKey(next))
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

// clean refuses a function whose events ran when the process died: only its own program can say what became of them.
func (s *Store) clean(d Declared) error {
	ledger := s.keptLedger(d)
	if ledger == nil {
		return nil
	}
	running := len(ledger.Running())
	if running == 0 {
		return nil
	}
	return fmt.Errorf("function %s: %w: %d of them", d.Name, ErrUnclean, running)
}

// keptLedger reads a ledger that is there and can be trusted, and is nil for any other. It leaves none behind that was not there: an empty one would
// say that no event was ever seen, where none says that the records are to be asked.
func (s *Store) keptLedger(d Declared) *Ledger {
	ledger, state := ReadLedger(LedgerPath(s.node.dir.path, d.Name), ledgerKey(d))
	if !state.Kept() {
		return nil
	}
	return ledger
}

func ledgerKey(d Declared) LedgerKey {
	return LedgerKey{Function: d.Name, Stream: d.Stream, Created: d.StreamCreated}
}

// adoptConsumer makes the consumer of the source stream at the place where the old one was, so that the first start misses none.
func (s *Store) adoptConsumer(ctx context.Context, d, next Declared) error {
	acked, err := s.acked(ctx, d)
	if err != nil {
		return err
	}
	floor := max(d.Since-min(d.Since, 1), acked)
	return s.do(ctx, "adopt consumer", func(ctx context.Context) error {
		_, _, _, err := s.SourceConsumer(ctx, next, floor)
		return err
	})
}

// acked is how far the consumer of a function has acknowledged its source stream; 0 without one.
func (s *Store) acked(ctx context.Context, d Declared) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	c, err := s.node.JetStream().Consumer(ctx, d.Stream, d.Name)
	switch {
	case err == nil:
		return c.CachedInfo().AckFloor.Stream, nil
	case notFound(err) || errors.Is(err, jetstream.ErrConsumerNotFound):
		return 0, nil
	}
	return 0, fmt.Errorf("stream %s: consumer %s: %w", d.Stream, d.Name, err)
}

// dropAdopted removes what is left under the old name, of which nothing stands any more: its declaration last, when the audit knows.
func (s *Store) dropAdopted(ctx context.Context, d Declared) error {
	for _, drop := range []func() error{
		func() error { return s.DropConsumers(ctx, d) },
		func() error { return s.DropDeadLetters(ctx, d.Name) },
		func() error { return s.DropLedger(d.Name) },
		func() error { return s.FlushOutbox(ctx, d.Name) },
		func() error { return s.ForgetAllSteps(ctx, d.Name) },
		func() error { return s.ForgetRecords(ctx, d.Name) },
		func() error { return s.auditAdopted(ctx, d) },
		func() error { return s.Undeclare(ctx, d.Name) },
	} {
		if err := drop(); err != nil {
			return err
		}
	}
	return nil
}
