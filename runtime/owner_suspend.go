package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/diagnosis"
	"github.com/siding-dev/siding/streams"
)

// diagnose tells the diagnosis what an attempt came to, and reports whether it is not charged. What the diagnosis changes is in force at once,
// and is written down before the next attempt begins.
func (o *owner) diagnose(ctx context.Context, it *item, e ended, last bool) (free bool) {
	a := diagnosis.Attempt{
		At: e.at, Sequence: it.ref.Sequence, Cycle: it.cycle, Number: e.number, Key: it.key, Source: it.event.Source(),
		Class: e.result.Class, Outcome: e.result.Outcome, Last: last,
	}
	if e.result.Err != nil {
		a.Error = e.result.Err.Error()
	}
	answer := o.diagnosis.Ended(a)
	if answer.Changed {
		o.suspensionChanged(ctx)
	}
	return answer.Free
}

// uncharged records an attempt that failed while the function was suspended. Its event goes back to the line for a worker, and its delivery
// is kept alive there like everybody else's.
func (o *owner) uncharged(ctx context.Context, it *item, e ended) {
	r := e.record(it, "", e.at)
	r.Charged, r.Reason = false, "the function was suspended"
	r = r.Bounded()
	it.sole, it.recorded = false, true
	it.history.Add(r)
	o.do(ctx, it, []step{{kind: stepRecord, record: r}}, func() {
		o.endSlot(it)
		o.enqueue(it)
	})
}

// onSuspend stops the function because its handler has asked for that: see functions.Suspend. The attempt is not charged and leaves no record, as one
// that a stop has interrupted.
func (o *owner) onSuspend(ctx context.Context, it *item, err error) {
	o.endSlot(it)
	o.enqueue(it)
	if !o.diagnosis.Suspend(time.Now().UTC(), streams.SuspendedByHandler, advisories.ByOwner, "the handler asked for it: "+err.Error()) {
		return // attempts that ran at once say the same
	}
	o.suspensionChanged(ctx)
}

// suspend stops the function until a person resumes it.
func (o *owner) suspend(ctx context.Context, r client.SuspendRequest) error {
	return o.changeSuspension(ctx, func(now time.Time) error {
		if !o.diagnosis.Suspend(now, streams.SuspendedByPerson, r.By, r.Reason) {
			first := o.diagnosis.Suspension()
			return newProblem(client.Conflict, "function %s: was suspended by %s at %s: %s", o.fn.Name, first.By, first.Opened.UTC().Format(time.RFC3339), first.Reason).
				WithHint("`siding function resume %s` lets it go on", o.fn.Name)
		}
		return nil
	})
}

// resume lets the function go on: one attempt at first, then more.
func (o *owner) resumeFunction(ctx context.Context, r client.SuspendRequest) error {
	return o.changeSuspension(ctx, func(now time.Time) error {
		if !o.diagnosis.Resume(now, r.By, r.Reason) {
			return newProblem(client.Conflict, "function %s: it is not suspended", o.fn.Name).WithHint("`siding function show %s` says what it does", o.fn.Name)
		}
		return nil
	})
}

// changeSuspension applies what a person wants, and returns when it has been written down.
func (o *owner) changeSuspension(ctx context.Context, change func(time.Time) error) error {
	written := make(chan struct{})
	err := o.ask(ctx, func() error {
		if err := change(time.Now().UTC()); err != nil {
			return err
		}
		o.told = append(o.told, written)
		o.suspensionChanged(context.WithoutCancel(ctx)) // each step has a time limit of its own
		return nil
	})
	if err != nil {
		return err
	}
	select {
	case <-written:
		return nil
	case <-o.ended:
	case <-ctx.Done():
	}
	return newProblem(client.Unavailable, "function %s: the change is in force and could not be written down yet", o.fn.Name).
		WithHint("`siding function show %s` says whether it was", o.fn.Name)
}

// suspensionChanged writes down what the diagnosis has changed. One work at a time does that, always with the newest state: until it
// is through nothing begins, so that no attempt can be charged between a change and what it gives back.
func (o *owner) suspensionChanged(ctx context.Context) {
	s := o.diagnosis.Suspension()
	o.suspension.Store(s)
	o.metrics.suspended(o.fn.Name, o.diagnosis.Suspended())
	if o.diagnosis.Suspended() {
		o.gate.EndRun() // the next window begins with a probe
	}
	if o.declaring != nil {
		o.outdated = true
		return
	}
	o.logSuspension(s)
	o.declaring = &work{
		ref:   streams.Ref{Function: o.fn.Name},
		steps: []step{{kind: stepPrepare, prepare: func(context.Context) ([]step, error) { return o.planSuspension(time.Now().UTC()), nil }}},
		then: func() {
			o.declaring = nil
			if o.outdated {
				o.outdated = false
				o.suspensionChanged(ctx)
				return
			}
			for _, told := range o.told {
				close(told)
			}
			o.told = nil
		},
	}
	o.carry(ctx, o.declaring)
}

func (o *owner) logSuspension(s *streams.Suspension) {
	switch {
	case s == nil:
		o.log.Info("the function is no longer suspended")
	case s.Phase == streams.SuspensionRamp:
		o.log.Info("the function goes on, with few attempts at once at first", "suspension", s.ID)
	case s.Probes > 0 && s.Phase == streams.SuspensionOpen:
		o.log.Warn("a probe failed; the function stays suspended", "suspension", s.ID, "probes", s.Probes, "next", s.Next)
	case s.Phase == streams.SuspensionOpen:
		o.log.Error("the function is suspended", "suspension", s.ID, "why", diagnosis.Describe(*s), "next", s.Next,
			"hint", "see `siding function show "+o.fn.Name+"`; `siding function resume "+o.fn.Name+"` lets it go on")
	default:
		o.log.Error("the function is suspended until a person resumes it", "suspension", s.ID, "why", diagnosis.Describe(*s), "by", s.By,
			"hint", "see `siding function show "+o.fn.Name+"`; `siding function resume "+o.fn.Name+"` lets it go on")
	}
}

// planSuspension says what has to be stored for the newest state of the suspension. The state comes first, with the attempts that are to be given back;
// then what the audit does not know of yet; then the attempts; and the state says last that this was done.
func (o *owner) planSuspension(now time.Time) []step {
	s, kept := o.diagnosis.Suspension(), o.declared.Suspension
	var steps []step
	if kept != nil && (s == nil || s.ID != kept.ID) {
		steps = o.planResumed(*kept, now)
	}
	if s == nil {
		return append(steps, step{kind: stepDeclare})
	}
	steps = append(steps, step{kind: stepDeclare, suspension: s})
	done := *s
	done.Charged = nil
	for _, news := range []struct {
		told streams.SuspensionTold
		at   time.Time
	}{{streams.ToldSuspended, s.Opened}, {streams.ToldGaveUp, s.GaveUp}, {streams.ToldResumed, s.Resumed}} {
		if !news.at.IsZero() && !diagnosis.Knows(done.Told, news.told) {
			done.Told = news.told
			steps = append(steps, step{kind: stepAudit, audit: suspensionAudit(o.fn.Name, *s, news.told, news.at)})
		}
	}
	for _, c := range s.Charged {
		steps = append(steps, o.planUncharge(c))
	}
	if done.Told == s.Told && len(s.Charged) == 0 {
		return steps
	}
	return append(steps, step{kind: stepPrepare, prepare: func(context.Context) ([]step, error) {
		o.diagnosis.Told(s.ID, done.Told)
		return []step{{kind: stepDeclare, suspension: &done}}, nil
	}})
}

// planResumed tells that a suspension ends. That is written down before the audit is told, so that a process that dies in between tells the same.
func (o *owner) planResumed(last streams.Suspension, now time.Time) []step {
	if last.Told == streams.ToldResumed {
		return nil
	}
	last.Phase, last.Charged = streams.SuspensionRamp, nil
	if last.Resumed.IsZero() {
		last.Resumed, last.By, last.Reason = now, advisories.ByOwner, "attempts succeed again"
	}
	return []step{{kind: stepDeclare, suspension: &last}, {kind: stepAudit, audit: suspensionAudit(o.fn.Name, last, streams.ToldResumed, last.Resumed)}}
}

// planUncharge gives an attempt back, with those that follow it in its cycle: a durable record first, then the copy in RETRY is written anew if
// JetStream would not deliver it again. A dead letter keeps its attempts: a redrive grants new ones.
func (o *owner) planUncharge(c streams.Charge) step {
	ref := streams.Ref{Function: o.fn.Name, Sequence: c.Sequence}
	return step{kind: stepPrepare, prepare: func(ctx context.Context) ([]step, error) {
		records, err := o.store.Records(ctx, o.fn.Name, c.Sequence)
		if err != nil {
			return nil, err
		}
		h := advisories.Fold(records)
		if h.Cycle != c.Cycle || h.Parked || h.Final != "" || h.Attempts < c.Attempt {
			return nil, nil
		}
		now := time.Now().UTC()
		r := streams.Record{
			Function: o.fn.Name, Sequence: c.Sequence, Kind: streams.RecordUncharged, Cycle: c.Cycle, Attempt: c.Attempt,
			Reason: "an outage spoiled them", Started: now, Ended: now, Version: o.fn.Version, Boot: o.ledger.Boot(),
		}
		return []step{{kind: stepRecord, record: r}, {kind: stepUncharge, ref: ref, record: r}}, nil
	}}
}

// unchargeItem lets an event that is in memory go on with the attempts that it got back.
func (o *owner) unchargeItem(ctx context.Context, seq uint64, r streams.Record) {
	it := o.items[seq]
	if it == nil || it.cycle != r.Cycle {
		return
	}
	it.sole = false
	it.history.Add(r)
	if it.phase == exhausted {
		delete(o.held, seq)
		it.due = time.Now()
		o.rewrite(ctx, it)
	}
}

// beginSuspended takes up the suspension of an earlier life, and completes what that one could not write down.
func (o *owner) beginSuspended(ctx context.Context) error {
	o.diagnosis = diagnosis.New(o.fn.Name, o.fn.Breaker, o.fn.Concurrency, o.declared.Suspension)
	o.suspendKiller(time.Now().UTC())
	s := o.diagnosis.Suspension()
	o.suspension.Store(s)
	o.metrics.suspended(o.fn.Name, o.diagnosis.Suspended())
	if s == nil {
		return nil
	}
	o.logSuspension(s)
	w := &work{ref: streams.Ref{Function: o.fn.Name}, steps: o.planSuspension(time.Now().UTC())}
	for len(w.steps) > 0 {
		more, err := o.step(ctx, w, w.steps[0])
		if err != nil {
			return fmt.Errorf("function %s: suspension: %w", o.fn.Name, err)
		}
		w.steps = append(more, w.steps[1:]...)
	}
	return nil
}

// suspensionAudit is the audit entry of a change of a suspension.
func suspensionAudit(function string, s streams.Suspension, told streams.SuspensionTold, at time.Time) streams.AuditEntry {
	e := streams.AuditEntry{
		Action: string(told), Function: function, By: s.By, Reason: s.Reason, At: at,
		Detail: map[string]string{"outage": s.ID, "cause": string(s.Cause), "since": s.Since.UTC().Format(time.RFC3339Nano)},
	}
	if evidence := diagnosis.Describe(s); evidence != s.Reason {
		e.Detail["evidence"] = evidence
	}
	switch told {
	case streams.ToldSuspended:
		e.Detail["opened"] = s.Opened.UTC().Format(time.RFC3339Nano)
	case streams.ToldGaveUp:
		e.By, e.Reason = advisories.ByOwner, fmt.Sprintf("%d probes failed", s.Probes)
	case streams.ToldNothing, streams.ToldResumed:
	}
	return e
}

// explain says whose fault it is that an event is parked.
func (o *owner) explain(it *item) string {
	verdict, why := o.diagnosis.Explain(it.ref.Sequence, it.history.CycleFailed, functions.Class(it.history.Last.Class))
	return string(verdict) + ": " + why
}

// isSuspended reports whether nothing but a probe is attempted. Any goroutine may ask.
func (o *owner) isSuspended() bool {
	s := o.suspension.Load()
	return o.jammed.Load() || s != nil && s.Phase != streams.SuspensionRamp
}

// suspendedBecause says why the function is suspended, "" if it is not. Any goroutine may ask.
func (o *owner) suspendedBecause() string {
	switch s := o.suspension.Load(); {
	case o.jammed.Load():
		return "too many of its handlers hang"
	case s != nil && s.Phase != streams.SuspensionRamp:
		return string(s.Cause) + ": " + diagnosis.Describe(*s)
	}
	return ""
}

// suspensionView is a suspension as people see it.
func suspensionView(s *streams.Suspension) *client.Suspension {
	if s == nil {
		return nil
	}
	return &client.Suspension{
		ID: s.ID, Phase: string(s.Phase), Cause: string(s.Cause), Since: s.Since, SuspendedAt: s.Opened, By: s.By, Reason: s.Reason,
		Evidence: diagnosis.Describe(*s), FailedProbes: s.Probes, NextProbeAt: s.Next, GaveUpAt: s.GaveUp,
	}
}
