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
// A kill leaves a part done, and running it again finishes. Records come first, because a copy without its records would be attempted anew; then the
// copies, each created before it is deleted; then the ledger and the consumer. The declaration of the new name makes it true, and
// the one of the old name goes last. Errors: ErrNotFound, ErrTaken, ErrUnclean.
func (s *Store) Adopt(ctx context.Context, adoption Adoption) (a Adopted, err error) {
	old, name, dry := adoption.Old, adoption.Name, adoption.DryRun
	d, err := s.Declared(ctx, old)
	if err != nil {
		return a, err
	}
	already, err := s.Declared(ctx, name)
	switch {
	case err == nil && already.From != old:
		return a, fmt.Errorf("function %s: %w", name, ErrTaken)
	case err != nil && !errors.Is(err, ErrNotFound):
		return a, err
	}
	if err != nil {
		if a, err = s.adoptFrom(ctx, d, name, dry); err != nil || dry {
			return a, err
		}
	}
	if dry {
		return a, nil
	}
	return a, s.dropAdopted(ctx, d, adoption)
}

// adoptFrom does all but to forget the old name.
func (s *Store) adoptFrom(ctx context.Context, d Declared, name string, dry bool) (a Adopted, err error) {
	standing := map[Place][]Ref{}
	for place, n := range map[Place]*int{InHeld: &a.Held, InRetry: &a.Retrying, InDeadLetters: &a.Parked, InDecisions: &a.Decisions} {
		if standing[place], err = s.Standing(ctx, place, d.Name); err != nil {
			return a, err
		}
		*n = len(standing[place])
	}
	next := d
	next.Name, next.From = name, d.Name
	if err := s.adoptLedger(d, next, dry); err != nil || dry {
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
func (s *Store) dropAdopted(ctx context.Context, d Declared, a Adoption) error {
	for _, drop := range []func() error{
		func() error { return s.DropConsumers(ctx, d) },
		func() error { return s.DropDeadLetters(ctx, d.Name) },
		func() error { return s.DropLedger(d.Name) },
		func() error { return s.ForgetRecords(ctx, d.Name) },
		func() error {
			return s.Audit(ctx, AuditEntry{
				Action: "adopted", Function: a.Name, By: a.By, Reason: a.Reason, At: time.Now().UTC(), Detail: map[string]string{"from": d.Name},
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
