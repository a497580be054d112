package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/runtime/internal/digest"
	"github.com/siding-dev/siding/streams"
)

// explain leaves of an error what may be kept and told for long, and gives the id of its group.
func explain(class, text string) (common, group string) {
	common = digest.Normalise(text)
	return common, digest.FingerprintOf(class, common)
}

// whyParked is what the audit says of a dead letter's failure. c is its copy, with headers and body.
func whyParked(c streams.Copy, r advisories.Report) advisories.Why {
	why := advisories.Why{Source: advisories.SourceOf(c.Header, c.Data)}
	why.Text, why.Group = explain(r.Class, r.Error)
	return why
}

// parkingOf reads the audit entry of a dead letter. Entries that an earlier version wrote have no group.
func parkingOf(a streams.AuditEntry) digest.Parking {
	p := digest.Parking{
		Function: a.Function, ID: streams.Ref{Function: a.Function, Sequence: a.Sequence}.ID(), Source: a.Detail["source"], At: a.At,
		Cause: digest.Clean(a.Reason, maxNoticeWord), Group: digest.Clean(a.Detail["group"], maxNoticeWord), Why: a.Detail["why"],
	}
	if p.Why == "" {
		p.Why = a.Detail["error"]
	}
	if p.Group == "" {
		p.Group = digest.Fingerprint(a.Detail["class"], p.Why)
	}
	return p
}

// untilDigest is how long what was parked goes on being collected: an interval after the first of it, and after the digest before.
func (n *notifier) untilDigest() time.Duration {
	if n.first.IsZero() {
		return n.interval
	}
	due := n.first
	if n.last.After(due) {
		due = n.last
	}
	return max(0, time.Until(due.Add(n.interval)))
}

// digest tells of what was parked above the floor. It is made of the audit alone, and says itself how far it has told: a process that dies before
// it is stored makes it anew, and one that dies behind that knows that it stands.
func (n *notifier) digest(ctx context.Context) error {
	if n.first.IsZero() {
		return nil
	}
	if err := n.countStanding(ctx); err != nil {
		return err
	}
	now := time.Now().UTC()
	d := n.fold.Digest(now)
	data, err := json.Marshal(struct {
		digest.Digest
		From    uint64 `json:"from"`    // first and last sequence
		Through uint64 `json:"through"` // of the audit that it is about
	}{d, n.floor + 1, n.position})
	if err != nil {
		return err
	}
	if err := n.tell(ctx, streams.Notice{
		ID:   fmt.Sprintf("digest/%d-%d/%d", n.floor+1, n.position, n.first.UnixNano()),
		Kind: noticeDigest, At: now, Audit: n.position, Data: data,
	}, func() {
		for _, g := range d.Groups {
			n.log.Warn("newly parked", "function", g.Function, "text", g.Line)
		}
		if d.Others != nil {
			n.log.Warn("newly parked", "text", d.Others.Line)
		}
	}); err != nil {
		return err
	}
	n.floor, n.fold, n.first, n.decided, n.last = n.position, digest.Fold{}, time.Time{}, false, now
	return n.remember(ctx)
}

// countStanding finds out which dead letters of the digest still stand. It reads the audit again, from the newest entry to the oldest: what was parked,
// redriven and parked again stands once, as what it was parked for last. Where nobody has decided about any, all stand.
func (n *notifier) countStanding(ctx context.Context) error {
	n.fold.NoneStand()
	if !n.decided {
		n.fold.AllStand()
		return nil
	}
	standing := map[string]map[uint64]bool{}
	for _, function := range n.fold.Functions() {
		refs, err := n.store.Standing(ctx, streams.InDeadLetters, function)
		if err != nil {
			return err
		}
		of := make(map[uint64]bool, len(refs))
		for _, ref := range refs {
			of[ref.Sequence] = true
		}
		standing[function] = of
	}
	return n.store.AuditBackwards(ctx, "", n.position+1, func(m streams.Message) bool {
		if m.Sequence <= n.floor {
			return false
		}
		a := streams.ReadAudit(m)
		if of := standing[a.Function]; a.Action == "parked" && of[a.Sequence] {
			delete(of, a.Sequence)
			n.fold.Stands(a.Function, parkingOf(a).Group)
		}
		return true
	})
}
