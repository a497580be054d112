package advisories

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/siding-dev/siding/streams"
)

// Forgetting says who ends what a function left, and why.
type Forgetting struct {
	Function string
	By       string
	Reason   string
	At       time.Time
}

// Left is how much stands of a function.
type Left struct{ Parked, Retrying, Held, Decisions int }

// Left counts what stands of a function.
func (o *Orphans) Left(ctx context.Context, function string) (l Left, err error) {
	for place, n := range map[streams.Place]*int{
		streams.InDeadLetters: &l.Parked, streams.InRetry: &l.Retrying, streams.InHeld: &l.Held, streams.InDecisions: &l.Decisions,
	} {
		refs, err := o.Store.Standing(ctx, place, function)
		if err != nil {
			return l, err
		}
		*n = len(refs)
	}
	return l, nil
}

// Forget ends everything that stands of a function that nobody hosts as discarded, and then removes all that the node keeps for it.
//
// A kill leaves less than there was, and running it again finishes. What stands goes first, one event after the other: the audit entry, the
// record, the copy. Then the consumers, the dead-letter stream, the ledger and the records, which are of no use without each other; the
// declaration, by which the function is known and can be forgotten, goes last. Without it nothing of the function is left, and one that is
// hosted by its name later is a new one.
func (o *Orphans) Forget(ctx context.Context, f Forgetting) error {
	d, err := o.Store.Declared(ctx, f.Function)
	if err != nil {
		return err
	}
	decisions, err := o.Store.Standing(ctx, streams.InDecisions, f.Function)
	if err != nil {
		return err
	}
	for _, ref := range decisions {
		if err := o.drop(ctx, streams.InDecisions, ref); err != nil {
			return err
		}
	}
	// Held first: what is behind a dead letter never outlives it.
	for _, place := range []streams.Place{streams.InHeld, streams.InRetry, streams.InDeadLetters} {
		refs, err := o.Store.Standing(ctx, place, f.Function)
		if err != nil {
			return err
		}
		slices.SortFunc(refs, func(a, b streams.Ref) int { return cmp.Compare(a.Sequence, b.Sequence) })
		for _, ref := range refs {
			if err := o.discardLeft(ctx, place, ref, f); err != nil {
				return err
			}
		}
	}
	if err := o.Store.DropConsumers(ctx, d); err != nil {
		return err
	}
	if err := o.Store.DropDeadLetters(ctx, f.Function); err != nil {
		return err
	}
	if err := o.Store.DropLedger(f.Function); err != nil {
		return fmt.Errorf("function %s: ledger: %w", f.Function, err)
	}
	if err := o.Store.FlushOutbox(ctx, f.Function); err != nil { // its records say what was emitted
		return err
	}
	if err := o.Store.ForgetAllSteps(ctx, f.Function); err != nil {
		return err
	}
	if err := o.Store.ForgetRecords(ctx, f.Function); err != nil {
		return err
	}
	if err := o.Store.Audit(ctx, streams.AuditEntry{Action: "forgotten", Function: f.Function, By: f.By, Reason: f.Reason, At: f.At}); err != nil {
		return err
	}
	return o.Store.Undeclare(ctx, f.Function)
}

// discardLeft ends one event. What an earlier try has recorded, or recorded of another copy of the same event, is not said again.
func (o *Orphans) discardLeft(ctx context.Context, place streams.Place, ref streams.Ref, f Forgetting) error {
	m, err := o.Store.Last(ctx, place.Stream(ref.Function), place.Subject(ref))
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if copied := streams.ReadCopy(m.Header, nil); copied.Ours() {
		last, ok, err := o.Store.LastRecord(ctx, ref.Function, ref.Sequence)
		if err != nil {
			return err
		}
		if !ok || !last.Final() {
			d := streams.Decision{Action: streams.ActionDiscard, Cycle: copied.Cycle, By: f.By, Reason: f.Reason, At: f.At}
			if err := o.auditOnce(ctx, DecidedAudit(ref, d)); err != nil {
				return err
			}
			if err := o.Store.Append(ctx, DiscardedRecord(ref, d)); err != nil {
				return err
			}
		}
	}
	return o.Store.Delete(ctx, m.Stream, m.Sequence)
}

// auditOnce writes an audit entry unless the function's newest one says the same of the event: a try that was killed between the entry and the record
// leaves that behind, since nothing else happens to a function that nobody hosts.
func (o *Orphans) auditOnce(ctx context.Context, entry streams.AuditEntry) error {
	last, err := o.Store.Last(ctx, streams.AuditStream, streams.AuditSubject(entry.Function))
	if err != nil && !isAbsent(err) {
		return err
	}
	event := streams.Ref{Function: entry.Function, Sequence: entry.Sequence}.ID()
	if err == nil && last.Header.Get("ce-type") == "siding."+entry.Action && last.Header.Get("ce-subject") == event {
		return nil
	}
	return o.Store.Audit(ctx, entry)
}

func (o *Orphans) drop(ctx context.Context, place streams.Place, ref streams.Ref) error {
	m, err := o.Store.Last(ctx, place.Stream(ref.Function), place.Subject(ref))
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return o.Store.Delete(ctx, m.Stream, m.Sequence)
}
