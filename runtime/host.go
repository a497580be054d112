package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// host runs the owners of all functions, and the reader of advisories, on one running server.
type host struct {
	services
	store   *streams.Store
	fns     []functions.Function
	orphans *advisories.Orphans
	reader  *advisories.Reader
	keeper  func(function string) laneKeeper // who keeps a function's lanes; nil for one that is not hosted
	started chan struct{}                    // closed when every owner has begun

	mu     sync.RWMutex
	owners map[string]*owner

	faults chan error // the newest store error that nobody has looked into yet
}

// errUnwritable ends a session whose store cannot be written any more: the server must be started again.
var errUnwritable = errors.New("the store cannot be written")

func newHost(store *streams.Store, fns []functions.Function, s services) *host {
	if s.hung == nil {
		s.hung = newHung()
	}
	if s.checks == nil {
		s.checks = newChecks()
	}
	if s.alone == nil {
		s.alone = newAlone()
	}
	if s.death == nil {
		s.death = &death{}
	}
	h := &host{store: store, fns: fns, services: s, owners: map[string]*owner{}, started: make(chan struct{}), faults: make(chan error, 1)}
	h.fault, h.check = h.report, h.checkSchemas
	h.keeper = func(function string) laneKeeper {
		if o := h.owner(function); o != nil {
			return o
		}
		return nil
	}
	h.orphans = &advisories.Orphans{Store: store, Hosted: func(name string) bool { return h.owner(name) != nil }, Explain: explain}
	h.reader = &advisories.Reader{
		Store: store, Orphans: h.orphans, Log: s.log, Route: h.route, Wait: s.timing.pulling.expires,
		Count: func(kind advisories.Kind, verdict string) {
			s.metrics.advisory(string(kind), advisories.Verdict(verdict))
		},
	}
	for _, fn := range fns {
		h.owners[fn.Name] = newOwner(fn, store, h.services)
	}
	return h
}

// owner returns the owner of a hosted function, nil for any other name.
func (h *host) owner(name string) *owner {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.owners[name]
}

// run hosts until ctx ends or the store fails.
func (h *host) run(ctx context.Context) error {
	if err := h.notUnderWay(ctx, names(h.fns)...); err != nil && ctx.Err() == nil {
		return err
	}
	h.lookAtDeath()
	g, ctx := errgroup.WithContext(ctx)
	for _, fn := range h.fns {
		g.Go(func() error { return h.own(ctx, fn) })
	}
	if !h.timing.deaf {
		g.Go(func() error { return h.reader.Run(ctx) })
	}
	g.Go(func() error { return h.sweepOrphans(ctx) })
	g.Go(func() error { return h.sweepSteps(ctx) })
	g.Go(func() error { return h.watch(ctx) })
	g.Go(func() error { return h.awaitBegin(ctx) })
	err := g.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// own runs one function's owner, anew when its consumer was deleted.
func (h *host) own(ctx context.Context, fn functions.Function) error {
	for {
		o := h.owner(fn.Name)
		err := o.run(ctx)
		if !errors.Is(err, errConsumerLost) || ctx.Err() != nil {
			return err
		}
		h.log.Error("a consumer was deleted; the function starts again where it was", "function", fn.Name, "err", err)
		h.mu.Lock()
		h.owners[fn.Name] = newOwner(fn, h.store, h.services)
		h.mu.Unlock()
	}
}

func (h *host) awaitBegin(ctx context.Context) error {
	for _, fn := range h.fns {
		select {
		case <-h.owner(fn.Name).begun:
		case <-ctx.Done():
			return nil
		}
	}
	close(h.started)
	return nil
}

// route hands an advisory to the owner of its function.
func (h *host) route(n advisories.Notice, done func()) bool {
	o := h.owner(n.Consumer)
	if o == nil {
		return false
	}
	select {
	case o.notices <- notice{Notice: n, done: done}:
		return true
	default:
		return false
	}
}

// sweepOrphans ends what was decided about functions that nobody hosts.
func (h *host) sweepOrphans(ctx context.Context) error {
	for {
		if err := h.orphans.Decisions(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("decisions about functions that are not hosted", "err", err)
			h.report(err)
		}
		if err := h.orphans.Outboxes(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("what functions emitted that are not hosted", "err", err)
			h.report(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cmp.Or(h.timing.sweep, time.Minute)):
		}
	}
}

// report notes a store error for watch. It never blocks: while one waits to be looked into, further ones say the same.
func (h *host) report(err error) {
	select {
	case h.faults <- err:
	default:
	}
}

// watch looks into store errors: when the server says that its store is unwritable, the session ends.
func (h *host) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case fault := <-h.faults:
			if _, unwritable := errors.AsType[*streams.UnwritableError](h.store.Node().Health()); unwritable {
				return fmt.Errorf("%w: %w", errUnwritable, fault)
			}
		}
	}
}

// decide states a decision about a dead letter and waits for the owner's answer. When ctx ends first the decision stands, and is
// applied later.
func (h *host) decide(ctx context.Context, d client.Decision) (client.Decided, error) {
	ref, err := h.store.Find(ctx, streams.InDeadLetters, d.Function, d.Sequence)
	if errors.Is(err, streams.ErrNotFound) {
		return client.Decided{}, h.noLetter(ctx, d)
	}
	if err != nil {
		return client.Decided{}, err
	}
	letter, err := h.store.Last(ctx, streams.DeadLetterStream(d.Function), streams.InDeadLetters.Subject(ref))
	if errors.Is(err, streams.ErrNotFound) { // somebody else was faster
		return client.Decided{}, h.noLetter(ctx, d)
	}
	if err != nil {
		return client.Decided{}, err
	}
	stands := streams.ReadCopy(letter.Header, nil).Cycle
	decision := streams.Decision{Action: d.Action, Cycle: stands, Reason: d.Reason, By: d.By, At: time.Now().UTC(), Tail: d.Tail, ForgetSteps: d.ForgetSteps}
	if d.Cycle != nil {
		decision.Cycle = *d.Cycle // a stale one is refused, and recorded, by whoever would apply it
	}
	o := h.owner(d.Function)
	if d.Action == client.Edit && o != nil {
		decision.Source, decision.Data = d.Source, append([]byte(d.Data), d.DataBase64...) // one of them
		if err := h.checkEdit(ctx, o.fn, ref, letter, decision); err != nil {
			return client.Decided{}, err
		}
	}
	decided := client.Decided{ID: ref.ID(), Action: d.Action, Cycle: decision.Cycle, At: decision.At}
	if d.Tail { // what is accepted from now on was not decided about
		d, err := h.store.Declared(ctx, d.Function)
		if err != nil {
			return client.Decided{}, err
		}
		source, err := h.store.Source(ctx, d.Stream)
		if err != nil {
			return client.Decided{}, err
		}
		decision.Through = source.Last
	}
	if o == nil {
		return h.decideOrphan(ctx, ref, decision, decided, stands)
	}
	answer := make(chan decisionResult, 1)
	if err := o.call(ctx, func() { o.waiters[keyOf(ref, decision)] = answer }); err != nil {
		return client.Decided{}, err
	}
	if err := h.state(ctx, ref, decision); err != nil {
		_ = o.call(ctx, func() { delete(o.waiters, keyOf(ref, decision)) })
		return client.Decided{}, err
	}
	select {
	case r := <-answer:
		if !r.applied {
			return client.Decided{}, newProblem(client.Conflict, "dead letter %s: %s", ref.ID(), r.refused)
		}
		decided.Applied = true
	case <-ctx.Done():
		_ = o.call(context.WithoutCancel(ctx), func() { delete(o.waiters, keyOf(ref, decision)) })
	}
	return decided, nil
}

// checkEdit refuses new data that the owner would refuse too, before the edit is stated.
func (h *host) checkEdit(ctx context.Context, fn functions.Function, ref streams.Ref, letter streams.Message, d streams.Decision) error {
	before, err := resolved(ctx, h.store, ref, letter)
	if err == nil {
		_, err = edited(h.store, fn, before, d.Data)
	}
	if bad, ok := errors.AsType[*functions.SchemaError](err); ok {
		p := newProblem(client.Refused, "edit of %s: %v", ref.ID(), bad)
		p.Function, p.Path = fn.Name, bad.Path
		return p
	}
	if err != nil {
		return fmt.Errorf("edit of %s: %w", ref.ID(), err)
	}
	return nil
}

// noLetter answers a decision about a dead letter that does not stand: somebody may have been first.
func (h *host) noLetter(ctx context.Context, d client.Decision) error {
	ref := streams.Ref{Function: d.Function, Sequence: d.Sequence}
	records, err := h.store.Records(ctx, d.Function, d.Sequence)
	if err != nil {
		return err
	}
	if first := decidedBefore(records); first != "" {
		return newProblem(client.Conflict, "dead letter %s: no dead letter stands there any more: it was %s", ref.ID(), first)
	}
	return newProblem(client.NotFound, "dead letter %s: not found", ref.ID())
}

func (h *host) state(ctx context.Context, ref streams.Ref, d streams.Decision) error {
	_, err := h.store.Decide(ctx, ref, d)
	if pending, ok := errors.AsType[*streams.DecisionPendingError](err); ok {
		return newProblem(client.Conflict, "%v", pending)
	}
	return err
}

// decideOrphan ends a dead letter of a function that nobody hosts; it stands at cycle stands. A redrive has no handler to go to, nor
// has what is held behind it.
func (h *host) decideOrphan(ctx context.Context, ref streams.Ref, d streams.Decision, decided client.Decided, stands int) (client.Decided, error) {
	if d.Action != streams.ActionDiscard {
		what := map[string]string{client.Redrive: "redriven", client.Edit: "edited", client.Release: "released"}[d.Action]
		return client.Decided{}, newProblem(client.Refused, "function %s is not hosted here, so nothing can be %s", ref.Function, what).
			WithHint("start a node that hosts %s, or end the dead letter with `siding dlq discard %s`", ref.Function, ref.ID())
	}
	if err := h.state(ctx, ref, d); err != nil {
		return client.Decided{}, err
	}
	if err := h.orphans.Decisions(ctx); err != nil {
		return client.Decided{}, err
	}
	if d.Cycle != stands {
		return client.Decided{}, newProblem(client.Conflict, "dead letter %s: the dead letter stands at cycle %d, not %d", ref.ID(), stands, d.Cycle)
	}
	decided.Applied = true
	return decided, nil
}

// call runs f on the owner's goroutine and waits for it.
func (o *owner) call(ctx context.Context, f func()) error {
	ran := make(chan struct{})
	select {
	case o.calls <- func() { f(); close(ran) }:
	case <-o.ended:
		return newProblem(client.Unavailable, "function %s is stopping", o.fn.Name)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-ran:
		return nil
	case <-o.ended:
		return newProblem(client.Unavailable, "function %s is stopping", o.fn.Name)
	}
}
