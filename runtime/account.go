package runtime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// settledMarks is what an account asks a ledger.
type settledMarks interface {
	Floor() uint64
	Settled(seq uint64) bool
	MarkedCount() int
	Marked() iter.Seq[uint64]
	Running() []streams.RunningSlot
}

// accountOf counts where every accepted event of a function is, each term from its own source, so that the sum can be wrong:
// accepted from the source stream, pending from the stream beyond the ledger's marks, delivered from the marks and the final
// records, the rest from the streams that hold it. What it cannot explain it names.
//
// The streams are not read at one instant, and an event on its way between two of them can be missed in both: what does not hold is
// looked at again, and only what stays is a problem.
func accountOf(ctx context.Context, store *streams.Store, d streams.Declared, ledger settledMarks) (client.FunctionAccount, error) {
	const looks, pause = 4, 100 * time.Millisecond
	var a client.FunctionAccount
	for look := range looks {
		next, err := countOnce(ctx, store, d, ledger)
		if err != nil {
			return client.FunctionAccount{}, err
		}
		next.Problems = slices.DeleteFunc(next.Problems, func(p client.AccountProblem) bool {
			return look > 0 && !slices.Contains(a.Problems, p)
		})
		a = next
		if a.Holds {
			break
		}
		select {
		case <-ctx.Done():
			return client.FunctionAccount{}, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	return a, nil
}

func countOnce(ctx context.Context, store *streams.Store, d streams.Declared, ledger settledMarks) (client.FunctionAccount, error) {
	a := client.FunctionAccount{Function: d.Name, Stream: d.Stream}
	source, err := store.Source(ctx, d.Stream)
	if err != nil {
		return a, err
	}
	floor := ledger.Floor()
	total, err := store.CountFrom(ctx, d.Stream, d.Types, d.Since)
	if err != nil {
		return a, err
	}
	above, err := store.CountFrom(ctx, d.Stream, d.Types, max(floor+1, d.Since))
	if err != nil {
		return a, err
	}
	off := tally{since: d.Since, source: source, ledger: ledger, running: map[uint64]bool{}}
	off.present = func(seq uint64) (bool, error) {
		if source.Deleted == 0 || seq < source.First || seq > source.Last {
			return seq >= source.First && seq <= source.Last, nil
		}
		_, err := store.Get(ctx, d.Stream, seq)
		if isNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}
	marked, err := off.marked()
	if err != nil {
		return a, err
	}
	for _, run := range ledger.Running() {
		if run.Cycle == 0 && !ledger.Settled(run.Sequence) {
			off.running[run.Sequence] = true
		}
	}
	records, err := store.Recorded(ctx, d.Name)
	if err != nil {
		return a, err
	}
	places, err := standingPlaces(ctx, store, d.Name)
	if err != nil {
		return a, err
	}
	newest, err := store.LastRecords(ctx, d.Name)
	if err != nil {
		return a, err
	}
	for _, seq := range sequences(records, places) {
		last, ok := newest[seq]
		if len(places[seq]) == 0 && !ok {
			continue // what stands there is no record
		}
		if err := off.add(seq, places[seq], last, records[seq] > 0); err != nil {
			return a, err
		}
	}
	delivering, removed, err := off.delivering()
	if err != nil {
		return a, err
	}
	a.Accepted = int64(total) + off.purged + removed
	a.Delivered = int64(total-above) + marked - off.settled + off.delivered
	a.Delivering = delivering
	a.Pending = int64(above) - marked - off.unsettled - (delivering - removed)
	a.Retrying, a.Held, a.Parked = off.at[streams.InRetry], off.at[streams.InHeld], off.at[streams.InDeadLetters]
	a.Discarded, a.Gone, a.Problems = off.discarded, off.gone, off.problems
	sum := a.Delivered + a.Pending + a.Delivering + a.Retrying + a.Held + a.Parked + a.Discarded + a.Gone
	a.Holds = sum == a.Accepted && len(a.Problems) == 0 && a.Pending >= 0 && a.Delivered >= 0
	return a, nil
}

// tally counts the events that ever left the hot path.
type tally struct {
	since                               uint64
	source                              streams.Source
	ledger                              settledMarks
	present                             func(seq uint64) (bool, error) // whether the source stream still has it
	running                             map[uint64]bool                // first attempts
	at                                  map[streams.Place]int64
	settled, unsettled, purged          int64 // of them, by the ledger; purged ones are not in the source stream any more
	delivered, discarded, gone, missing int64
	problems                            []client.AccountProblem
}

// marked counts the marks of events that the source stream still has: only those are among the ones that are counted there.
func (t *tally) marked() (n int64, err error) {
	if t.source.Deleted == 0 && t.source.First <= t.ledger.Floor()+1 {
		return int64(t.ledger.MarkedCount()), nil
	}
	for seq := range t.ledger.Marked() {
		ok, err := t.present(seq)
		if err != nil {
			return 0, err
		}
		if ok {
			n++
		}
	}
	return n, nil
}

// delivering counts the first attempts that run; removed are those of them whose event is not in the source stream any more.
func (t *tally) delivering() (n, removed int64, err error) {
	for seq := range t.running {
		ok, err := t.present(seq)
		if err != nil {
			return 0, 0, err
		}
		if n++; !ok {
			removed++
		}
	}
	return n, removed, nil
}

func (t *tally) add(seq uint64, places []streams.Place, last streams.Record, recorded bool) error {
	if t.at == nil {
		t.at = map[streams.Place]int64{}
	}
	if len(places) > 0 && (seq > t.source.Last || seq < t.since) {
		t.problem(seq, "stands in %s, but is no event of stream %s for this function: somebody else wrote it, or the stream lost its end", places[0], t.source.Name)
		return nil
	}
	present, err := t.present(seq)
	if err != nil {
		return err
	}
	settled := t.ledger.Settled(seq)
	if len(places) == 0 && !settled && !last.Final() && (present || t.running[seq]) {
		return nil // its move has not been made: it counts where the source stream counts it
	}
	delete(t.running, seq) // it has ended, and only its slot has not been freed
	switch {
	case !present:
		t.purged++
	case settled:
		t.settled++
	default:
		t.unsettled++
	}
	switch {
	case len(places) > 0:
		t.at[places[0]]++
		if len(places) > 1 {
			t.problem(seq, "stands in %s and in %s", places[0], places[1])
		}
		if !recorded {
			t.problem(seq, "stands in %s, and no record says how it came there: somebody else wrote it, or removed its records", places[0])
		}
	case last.Kind == streams.RecordDelivered:
		t.delivered++
	case last.Kind == streams.RecordDiscarded:
		t.discarded++
	case last.Kind == streams.RecordGone:
		t.gone++
		t.problem(seq, "was removed by someone else before it was finished: %s", last.Reason)
	case !present && !settled:
		t.gone++
		t.problem(seq, "was removed from stream %s before it was finished", t.source.Name)
	default:
		t.missing++
		t.problem(seq, "stands nowhere, and nothing says that it was finished (last record: %s of cycle %d)", last.Kind, last.Cycle)
	}
	return nil
}

func (t *tally) problem(seq uint64, format string, args ...any) {
	t.problems = append(t.problems, client.AccountProblem{Sequence: seq, What: fmt.Sprintf(format, args...)})
}

// standingPlaces lists where each event of a function stands outside its source stream.
func standingPlaces(ctx context.Context, store *streams.Store, function string) (map[uint64][]streams.Place, error) {
	places := map[uint64][]streams.Place{}
	for _, place := range []streams.Place{streams.InRetry, streams.InHeld, streams.InDeadLetters} {
		refs, err := store.Standing(ctx, place, function)
		if err != nil {
			return nil, err
		}
		for _, ref := range refs {
			places[ref.Sequence] = append(places[ref.Sequence], place)
		}
	}
	return places, nil
}

func sequences(records map[uint64]uint64, places map[uint64][]streams.Place) []uint64 {
	all := map[uint64]struct{}{}
	for seq := range records {
		all[seq] = struct{}{}
	}
	for seq := range places {
		all[seq] = struct{}{}
	}
	return slices.Sorted(maps.Keys(all))
}

// account of every function that this node knows, hosted or not.
func (h *host) account(ctx context.Context) (client.Account, error) {
	names, err := h.store.DeclaredNames(ctx)
	if err != nil {
		return client.Account{}, err
	}
	slices.Sort(names)
	all := client.Account{Holds: true}
	for _, name := range names {
		d, err := h.store.Declared(ctx, name)
		if errors.Is(err, streams.ErrNotFound) {
			continue
		}
		if err != nil {
			return client.Account{}, err
		}
		a, err := h.accountOf(ctx, d)
		if err != nil {
			return client.Account{}, fmt.Errorf("function %s: account: %w", name, err)
		}
		all.Functions = append(all.Functions, a)
		all.Holds = all.Holds && a.Holds
	}
	return all, nil
}

func (h *host) accountOf(ctx context.Context, d streams.Declared) (client.FunctionAccount, error) {
	if o := h.owner(d.Name); o != nil {
		select {
		case <-o.begun:
			return accountOf(ctx, h.store, d, o.ledger)
		default:
			return client.FunctionAccount{}, newProblem(client.Unavailable, "function %s has not begun yet", d.Name)
		}
	}
	// One that is missing or damaged is left so: its next owner must find out that the marks are lost.
	ledger, _ := streams.ReadLedger(ledgerPath(h.store, d.Name), streams.LedgerKey{Function: d.Name, Stream: d.Stream, Created: d.StreamCreated})
	return accountOf(ctx, h.store, d, ledger)
}
