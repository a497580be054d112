package runtime

import (
	"context"
)

// A node that syncs always brings marks to the disk before the acknowledgements that they allow, and before the next event of the lane starts: after a power
// loss an acknowledged event is never handled again, and none before one of its key that was. One sync takes as long as it takes for any number of marks, so
// there is one at a time: it covers everything that was marked before it began, and what is marked meanwhile waits for the next one. So an event waits
// for two syncs at most, and the more events there are, the more of them share one.
//
// What runs is not brought to the disk: after a power loss nobody is told that an attempt was cut, and it is made again.

// syncs are the works that wait for their marks to be on the disk.
type syncs struct {
	always  bool
	waiting []*work
	under   []*work // the sync that is under way covers them
	done    chan error
}

// pending is how many works wait.
func (s *syncs) pending() int { return len(s.waiting) + len(s.under) }

// awaitSync keeps a work until a sync that begins now or later has ended.
func (o *owner) awaitSync(w *work) {
	if o.asides[w.ref.Sequence] == nil {
		o.asides[w.ref.Sequence] = &aside{w: w}
	}
	o.syncs.waiting = append(o.syncs.waiting, w)
	o.startSync()
}

func (o *owner) startSync() {
	s := &o.syncs
	if len(s.under) > 0 || len(s.waiting) == 0 {
		return
	}
	s.under, s.waiting = s.waiting, nil
	go func() {
		err := errNotApplied
		defer func() { s.done <- err }() // it has room for the one that is under way
		err = o.syncLedger()
	}()
}

func (o *owner) syncLedger() (err error) {
	o.store.Gated("sync", func() { err = o.ledger.Sync() })
	return err
}

// onSynced goes on with the works whose marks are on the disk.
func (o *owner) onSynced(ctx context.Context, err error) {
	works := o.syncs.under
	o.syncs.under = nil
	o.startSync()
	for _, w := range works {
		if err != nil {
			o.keep(w, err)
			continue
		}
		w.steps = w.steps[1:]
		o.carry(ctx, w)
	}
}
