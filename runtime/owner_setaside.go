package runtime

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/where"
	"github.com/siding-dev/siding/streams"
)

// maxSetAside bounds how many rules a function may have at once: each event is looked at with all of them.
const maxSetAside = 32

// setAside is a rule by which events are parked before they run.
type setAside struct {
	streams.SetAside
	where where.Where
}

// beginSetAside takes up the rules that stand. Conditions that this version cannot read pick nothing, and that is said.
func (o *owner) beginSetAside() {
	o.setAside = nil
	for _, rule := range o.declared.SetAside {
		w, err := where.Parse(rule.Where)
		if err != nil {
			o.log.Error("a rule that sets events aside cannot be read and picks nothing", "where", rule.Where, "err", err)
			continue
		}
		o.setAside = append(o.setAside, setAside{rule, w})
	}
}

// putAside parks an event that a rule picks, and reports whether it did. One that was redriven runs: a person has decided about it.
func (o *owner) putAside(ctx context.Context, it *item) bool {
	if len(o.setAside) == 0 || it.cycle > 0 {
		return false
	}
	attributes, err := streams.ReadAttributes(it.header, it.data)
	if err != nil {
		return false
	}
	at := slices.IndexFunc(o.setAside, func(s setAside) bool { return s.where.Match(attributes.Get, len(it.data)) })
	if at < 0 {
		return false
	}
	now, rule := time.Now().UTC(), o.setAside[at]
	o.failed(ctx, it, streams.Record{
		Function: o.fn.Name, Sequence: it.ref.Sequence, Kind: streams.RecordAttempt, Cycle: it.cycle,
		Outcome: string(functions.Parked), Cause: string(advisories.SetAside), By: rule.By, Reason: rule.Reason,
		Error: fmt.Sprintf("set aside by %s, where %s: %s", rule.By, rule.Where, rule.Reason), Started: now, Ended: now, Version: o.fn.Version, Boot: o.ledger.Boot(),
	})
	return true
}

// changeSetAside makes a rule, or ends one. What is in force has been written down.
func (o *owner) changeSetAside(ctx context.Context, rule streams.SetAside, end bool) error {
	return o.ask(ctx, func() error {
		rules := slices.Clone(o.declared.SetAside)
		at := slices.IndexFunc(rules, func(r streams.SetAside) bool { return r.Where == rule.Where })
		action := "set-aside"
		switch {
		case end && at < 0:
			return newProblem(client.Conflict, "function %s: no rule sets aside where %s", o.fn.Name, rule.Where).
				WithHint("`siding function show %s` lists the rules", o.fn.Name)
		case end:
			rules, action = slices.Delete(rules, at, at+1), "set-aside-ended"
		case at >= 0:
			return newProblem(client.Conflict, "function %s: %s sets that aside since %s: %s", o.fn.Name, rules[at].By, rules[at].At.UTC().Format(time.RFC3339), rules[at].Reason)
		case len(rules) >= maxSetAside:
			return newProblem(client.Refused, "function %s: it has %d rules, and can have no more", o.fn.Name, maxSetAside).WithHint("end one, or `siding function suspend %s`", o.fn.Name)
		default:
			rules = append(rules, rule)
		}
		// The audit comes first: what is in force has always been told.
		if err := o.store.Audit(ctx, streams.AuditEntry{
			Action: action, Function: o.fn.Name, By: rule.By, Reason: rule.Reason, At: rule.At, Detail: map[string]string{"where": rule.Where},
		}); err != nil {
			return err
		}
		declared := o.declared
		declared.SetAside = rules
		if err := o.store.Declare(ctx, declared); err != nil {
			return err
		}
		o.declared = declared
		o.beginSetAside()
		if !end {
			o.putQueuedAside(context.WithoutCancel(ctx)) // each step has a time limit of its own
		}
		return nil
	})
}

// putQueuedAside looks again at what was let through before a rule was made, and has not begun.
func (o *owner) putQueuedAside(ctx context.Context) {
	for _, it := range slices.Concat(o.queue, o.waited, o.suspects, o.gate.after) {
		if it.phase == queued {
			o.putAside(ctx, it) // it is passed over where it stands in the queue
		}
	}
	for _, l := range o.lanes.all {
		if it := l.unstarted; it != nil && o.putAside(ctx, it) {
			l.unstarted = nil
		}
	}
}

// setAsideViews are the rules as people see them.
func setAsideViews(rules []streams.SetAside) []client.SetAsideRule {
	views := make([]client.SetAsideRule, len(rules))
	for i, r := range rules {
		views[i] = client.SetAsideRule(r)
	}
	return views
}
