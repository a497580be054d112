package runtime

import (
	"context"
	"errors"
	"log/slog"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/spelling"
	"github.com/siding-dev/siding/streams"
)

// adopt gives what a directory keeps of a function to its new name. No node may run on the directory.
func adopt(ctx context.Context, dir string, r client.AdoptRequest) (_ client.Adopted, err error) {
	out := client.Adopted{Function: r.Function, As: r.As}
	if !streams.FunctionName(r.As) {
		return out, newProblem(client.Usage, "function %q: is no name of a function", r.As).WithHint("write small letters, digits and hyphens, such as file-claim")
	}
	found, err := streams.Inspect(dir)
	if err != nil {
		return out, err
	}
	if found.Absent {
		return out, newProblem(client.NotFound, "directory %s: not found", dir).WithHint("name the data directory of the node with --data-dir")
	}
	node, err := streams.Open(ctx, streams.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if locked, ok := errors.AsType[*streams.LockedError](err); ok {
		return out, newProblem(client.Refused, "directory %s: held by %s", dir, locked.Holder()).WithHint("stop the node, adopt, and start the program with the new name")
	}
	if err != nil {
		return out, problemFor(err)
	}
	defer func() { err = errors.Join(err, node.Close()) }() //nolint:contextcheck // ctx may have ended
	store, err := streams.OpenStore(ctx, node)
	if err != nil {
		return out, err
	}
	a, err := store.Adopt(ctx, streams.Adoption{Old: r.Function, Name: r.As, By: r.By, Reason: r.Reason, DryRun: r.DryRun})
	switch {
	case errors.Is(err, streams.ErrNotFound):
		return out, unknownFunction(ctx, store, r.Function)
	case errors.Is(err, streams.ErrTaken):
		return out, newProblem(client.Refused, "function %s: has been hosted here, so it has events of its own", r.As).
			WithHint("choose a name that is new, or `siding function forget %s` first", r.As)
	case errors.Is(err, streams.ErrUnclean):
		return out, newProblem(client.Refused, "%v", err).WithHint("start the program with the old name once more and stop it in order: that finishes what the process left")
	case err != nil:
		return out, adoptionProblem(err)
	}
	out.Parked, out.Retrying, out.Held, out.Decisions, out.Applied = a.Parked, a.Retrying, a.Held, a.Decisions, !r.DryRun
	return out, nil
}

// adoptionProblem says what to do about an adoption that is not finished, or that cannot be; any other error stays as it is.
func adoptionProblem(err error) error {
	if begun, ok := errors.AsType[*streams.UnderWayError](err); ok {
		return newProblem(client.Refused, "%v", begun).WithHint("stop the node and finish it with `siding function adopt %s --as %s`", begun.Old, begun.Name)
	}
	if again, ok := errors.AsType[*streams.RehostedError](err); ok {
		return newProblem(client.Refused, "%v", again).
			WithHint("start the program with the new name, end there what is left of the old one with `siding function forget %s`; %s handles again what %s has settled since",
				again.Old, again.Name, again.Old)
	}
	return err
}

// notUnderWay refuses to run or to end a function half of which stands under another name.
func (h *host) notUnderWay(ctx context.Context, functions ...string) error {
	return adoptionProblem(h.store.UnderWay(ctx, functions...))
}

// unknownFunction is the answer about a function that was never hosted on a store.
func unknownFunction(ctx context.Context, store *streams.Store, name string) error {
	p := newProblem(client.NotFound, "function %s: not found", name)
	known, err := store.DeclaredNames(ctx)
	if near := spelling.Nearest(name, known); err == nil && near != "" {
		return p.WithHint("did you mean %s?", near)
	}
	return p.WithHint("`siding function ls` lists those that a node knows")
}
