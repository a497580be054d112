package runtime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	stdruntime "runtime"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

var _ backend = (*Runtime)(nil)

// accept stores events in order. The caller's trace context, if there is one, becomes the one in which they were created.
func (r *Runtime) accept(ctx context.Context, header http.Header, events []event.Event) ([]client.Accepted, error) {
	h, err := r.current()
	if err != nil {
		return nil, err
	}
	if err := h.checkAll(events); err != nil {
		r.counted.stored("refused")
		return nil, err
	}
	answers := make([]client.Accepted, 0, len(events))
	for i := range events {
		e := &events[i]
		sctx, hop, end := r.tracer.publish(ctx, header, e)
		a, err := h.store.Accept(sctx, *e, hop)
		end(a.Sequence, a.Duplicate, err)
		switch {
		case err != nil:
			r.counted.stored("refused")
			if notStored(err) {
				h.report(err)
				r.counted.storeError("accept")
				return answers, newProblem(client.Unavailable, "event %s was not stored: %v", e.ID(), err)
			}
			return answers, err
		case a.Duplicate:
			r.counted.stored("duplicate")
		default:
			r.counted.stored("stored")
		}
		answers = append(answers, client.Accepted{ID: e.ID(), Source: e.Source(), Sequence: a.Sequence, Duplicate: a.Duplicate})
	}
	return answers, nil
}

// checkAll looks at a batch as a whole before any of it is stored: one event that would be refused refuses them all.
func (h *host) checkAll(events []event.Event) error {
	first := make(map[string]int, len(events))
	for i, e := range events {
		if err := h.store.Check(e); err != nil {
			return inBatch(err, i, len(events))
		}
		if err := h.checkSchemas(e); err != nil {
			return inBatch(err, i, len(events))
		}
		id := streams.MessageID(e.Source(), e.ID())
		earlier, again := first[id]
		if again && !streams.Same(events[earlier], e) {
			return inBatch(fmt.Errorf("event %d has the same source and id: %w", earlier, streams.ErrDifferent), i, len(events))
		}
		if !again {
			first[id] = i
		}
	}
	return nil
}

// inBatch names the event of a batch that an error is about.
func inBatch(err error, index, size int) error {
	if size == 1 {
		return err
	}
	if invalid, ok := errors.AsType[*streams.InvalidError](err); ok {
		named := *invalid
		named.Index = index
		return &named
	}
	if p, ok := errors.AsType[*problem](err); ok {
		named := *p
		named.Index = &index
		return &named
	}
	return fmt.Errorf("event %d of the batch: %w", index, err)
}

// notStored tells a store that did not answer from one that refused.
func notStored(err error) bool {
	for _, refusal := range []error{streams.ErrTooLarge, streams.ErrFull, streams.ErrDifferent, streams.ErrNotEvent} {
		if errors.Is(err, refusal) {
			return false
		}
	}
	return true
}

func (r *Runtime) decide(ctx context.Context, d client.Decision) (client.Decided, error) {
	h, err := r.current()
	if err != nil {
		return client.Decided{}, err
	}
	wait, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	decided, err := h.decide(wait, d)
	if err != nil && h.owner(d.Function) == nil {
		r.counted.decision(d.Function, d.Action, "refused")
	}
	return decided, err
}

func (r *Runtime) account(ctx context.Context) (client.Account, error) {
	h, err := r.current()
	if err != nil {
		return client.Account{}, err
	}
	return h.account(ctx)
}

func (r *Runtime) functionList(ctx context.Context) ([]client.Function, error) {
	h, err := r.current()
	if err != nil {
		return nil, err
	}
	known, err := h.store.DeclaredNames(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(known)
	all := make([]client.Function, 0, len(known))
	for _, name := range known {
		f, err := r.functionShow(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

func (r *Runtime) functionShow(ctx context.Context, name string) (client.Function, error) {
	h, err := r.current()
	if err != nil {
		return client.Function{}, err
	}
	d, err := h.store.Declared(ctx, name)
	if errors.Is(err, streams.ErrNotFound) {
		return client.Function{}, newProblem(client.NotFound, "function %s: not found", name).WithHint("`siding function ls` lists those that this node knows")
	}
	if err != nil {
		return client.Function{}, err
	}
	a, err := h.accountOf(ctx, d)
	if err != nil {
		return client.Function{}, err
	}
	f := client.Function{
		Name: d.Name, Types: d.Types, Stream: d.Stream, OrderBy: d.OrderBy, AttemptsAllowed: d.Attempts, Timeout: d.Timeout.String(),
		Concurrency: d.Concurrency, Owner: d.Owner, Version: d.Version, SinceSequence: d.Since, State: "orphan",
		Pending: a.Pending, Delivering: a.Delivering, Retrying: a.Retrying, Held: a.Held, Parked: a.Parked,
	}
	source, err := h.store.Source(ctx, d.Stream)
	if err != nil {
		return client.Function{}, err
	}
	f.StreamRemoves = source.Removes()
	for _, fn := range r.fns {
		if fn.Name == name {
			f.Hosted, f.State, f.Start, f.Chaos = true, "running", fn.Start.String(), r.cfg.Chaos.Touches(name)
			if o := h.owner(name); o != nil {
				f.SetAside = setAsideViews(d.SetAside)
				f.Suspension = suspensionView(o.suspension.Load())
				if o.isSuspended() {
					f.State = "suspended"
				}
				if text := o.waiting.Load(); text != nil {
					f.WaitingFor = *text
				}
			}
		}
	}
	oldest, err := h.store.Next(ctx, streams.DeadLetterStream(name), 1, streams.InDeadLetters.Filter(name))
	if err == nil {
		f.OldestParkedAt = oldest.Time
	} else if !errors.Is(err, streams.ErrNotFound) {
		return client.Function{}, err
	}
	return f, nil
}

// ready says why the node takes no events, nil if it does.
func (r *Runtime) ready() error {
	h, err := r.current()
	if err != nil {
		return err
	}
	if err := h.store.Node().Health(); err != nil {
		return newProblem(client.Unavailable, "%v", err)
	}
	return nil
}

func (r *Runtime) version() client.Version { return buildVersion() }

func (r *Runtime) metrics() http.Handler { return r.counted.handler() }

// buildVersion reads what the Go tool wrote into the binary.
func buildVersion() client.Version {
	v := client.Version{Version: "devel", Go: stdruntime.Version(), NATSServer: server.VERSION}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/siding-dev/siding" && m.Version != "" && m.Version != "(devel)" {
			v.Version = m.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}
