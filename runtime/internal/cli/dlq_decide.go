package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

// decideFlags are the flags of redrive, discard and release.
type decideFlags struct {
	q                 client.DeadLetterQuery
	all, yes          bool
	dryRun, asJSON    bool
	tail, outOfOrder  bool
	reason, by        string
	action, did, many string // such as "redrive", "redriven", and how to name many
}

// lookFirst ends the description of every decision.
const lookFirst = "Shows them and asks, unless --yes. A dead letter that has changed since it was shown is left alone: that is a conflict."

func (a *app) dlqRedrive() *cobra.Command {
	f := &decideFlags{action: client.Redrive, did: "redriven", many: ", --function F or --outage ID"}
	c := a.dlqDecide(f, "Send dead letters through their functions again",
		"Names dead letters by id, all of a function with --function F, or all that an outage exhausted before it was recognised\n"+
			"with --outage ID; other filters narrow them. They go in order: of one ordering key, an earlier event before a later\n"+
			"one. What is refused does not stop the others.")
	f.selects(c)
	return c
}

func (a *app) dlqDiscard() *cobra.Command {
	f := &decideFlags{action: client.Discard, did: "discarded", many: ", or --function F --all"}
	c := a.dlqDecide(f, "Decide that dead letters will never be handled",
		"Names dead letters by id, or all of a function with --function F --all (other filters narrow it). What is held behind\n"+
			"one goes on in order, or with --tail is discarded with it.")
	f.selects(c)
	c.Flags().BoolVar(&f.tail, "tail", false, "also what is held behind them")
	return c
}

func (a *app) dlqRelease() *cobra.Command {
	f := &decideFlags{action: client.Release, did: "released"}
	c := a.dlqDecide(f, "Let what is held behind dead letters run before these are resolved",
		"The dead letters stay, and can be redriven or discarded later, but their lanes go on without them: later events of a key\n"+
			"are handled before an earlier one, which --out-of-order must say.")
	c.Flags().BoolVar(&f.outOfOrder, "out-of-order", false, "yes, later events may run before an earlier one (required)")
	return c
}

// dlqDecide makes the command of one action.
func (a *app) dlqDecide(f *decideFlags, short, long string) *cobra.Command {
	c := &cobra.Command{
		Use:   f.action + " ID…",
		Short: short,
		Long:  short + ".\n\n" + long + "\n\n" + lookFirst,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(args, a.env.Getenv); err != nil {
				return err
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			list, err := f.find(c.Context(), node, args)
			if err != nil {
				return err
			}
			return a.decideAll(c.Context(), node, *f, list)
		},
	}
	why := "why"
	if f.action != client.Redrive {
		why = "why (required)"
	}
	fs := c.Flags()
	fs.StringVar(&f.reason, "reason", "", why)
	fs.StringVar(&f.by, "by", "", "who decides (default: the user)")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	fs.BoolVar(&f.dryRun, "dry-run", false, "show what would be decided and stop")
	jsonFlag(c, &f.asJSON)
	return c
}

// selects gives c the flags that name many dead letters.
func (f *decideFlags) selects(c *cobra.Command) {
	filterFlags(c, &f.q)
	c.Flags().BoolVar(&f.all, "all", false, "all that --function and the other filters select")
}

// check refuses what cannot be meant, before a node is asked anything. A
// function is enough to redrive all of it, since nothing is lost by that.
func (f *decideFlags) check(args []string, getenv func(string) string) error {
	command := "dlq " + f.action
	filtered := f.q != client.DeadLetterQuery{}
	switch {
	case len(args) > 0 && (f.all || filtered):
		return usage("name ids"+f.many, "%s: ids and filters together", command)
	case f.action == client.Redrive && f.q.Outage != "":
		f.all = true
	case f.all && f.q.Function == "":
		return usage("add --function F", "--all: of which function?")
	case f.action == client.Redrive && f.q.Function != "":
		f.all = true
	case len(args) == 0 && !f.all:
		return usage("use siding "+command+" FUNCTION/SEQUENCE"+f.many, "%s: no dead letter named", command)
	}
	seen := map[string]bool{}
	for _, id := range args {
		if _, _, err := parseID(id); err != nil {
			return err
		}
		if seen[id] {
			return usage("", "%s: named twice", id)
		}
		seen[id] = true
	}
	reason := strings.TrimSpace(f.reason) != ""
	switch {
	case f.action == client.Release && !f.outOfOrder:
		return usage("add --out-of-order if that is meant; a redrive or a discard keeps the order",
			"%s: what is held behind a dead letter would run before its blocker is resolved", command)
	case f.action == client.Release && !reason:
		return usage("say why with --reason: later events run before an earlier one", "%s: no reason", command)
	case f.action == client.Discard && !reason:
		return usage("say why with --reason: the event will never be handled", "%s: no reason", command)
	}
	var err error
	f.by, err = whoDecides(command, f.by, getenv)
	return err
}

// find returns the dead letters as they stand now, in the order in which they
// are decided about. The decisions are pinned to these, so that nobody decides
// about what they have not seen.
func (f *decideFlags) find(ctx context.Context, node *client.Client, ids []string) ([]client.DeadLetter, error) {
	var list []client.DeadLetter
	for _, id := range ids {
		function, sequence, err := parseID(id)
		if err != nil {
			return nil, err
		}
		d, err := node.DeadLetter(ctx, function, sequence)
		if err != nil {
			return nil, err
		}
		list = append(list, d.DeadLetter)
	}
	q := f.q
	q.Limit = client.MaxLimit
	for more := f.all; more; {
		page, err := node.DeadLetters(ctx, q)
		if err != nil {
			return nil, err
		}
		list = append(list, page...)
		if more = len(page) == q.Limit; more {
			q.After = page[len(page)-1].ID
		}
	}
	// A dead letter is not redriven before the earlier ones of its lane are.
	slices.SortStableFunc(list, func(a, b client.DeadLetter) int {
		return cmp.Or(cmp.Compare(a.Function, b.Function), cmp.Compare(a.Sequence, b.Sequence))
	})
	return list, nil
}

// decideAll shows, asks and decides, in order. One that is refused does not
// stop the others; a node that is gone does.
func (a *app) decideAll(ctx context.Context, node *client.Client, f decideFlags, list []client.DeadLetter) error {
	if f.dryRun {
		if f.asJSON {
			return a.printJSON(append([]client.DeadLetter{}, list...))
		}
		a.say("would %s %s", f.action, f.what(list))
		if len(list) == 0 {
			return nil
		}
		return a.printDeadLetters(list)
	}
	if len(list) == 0 {
		a.say("no dead letters")
		if f.asJSON {
			return a.printJSON([]client.Decided{})
		}
		return nil
	}
	if err := a.confirm(f, list); err != nil {
		return err
	}
	done := []client.Decided{}
	var refusals []error
	var failed error
	for _, d := range list {
		decided, err := node.Decide(ctx, client.Decision{
			Function: d.Function, Sequence: d.Sequence, Action: f.action, Cycle: &d.Cycle, Reason: f.reason, By: f.by, Tail: f.tail,
		})
		var p *client.Problem
		if err != nil && (len(list) == 1 || !errors.As(err, &p)) {
			failed = err
			break
		}
		if err != nil {
			a.say("refused %s: %s", clean(d.ID), clean(strings.TrimPrefix(p.Detail, "dead letter "+d.ID+": ")))
			refusals = append(refusals, err)
			continue
		}
		done = append(done, decided)
	}
	if err := a.printDecided(f, done); err != nil {
		return err
	}
	if len(list) == 1 {
		return failed
	}
	return a.outcome(ctx, f, list, done, refusals, failed)
}

// outcome says what a decision about many came to: nil if all went well.
func (a *app) outcome(ctx context.Context, f decideFlags, list []client.DeadLetter, done []client.Decided, refusals []error, failed error) error {
	text := fmt.Sprintf("%s %d of %s", f.did, len(done), count(len(list)))
	if failed != nil {
		why := a.failureOf(ctx, failed)
		return &failure{why.exit, text + ": " + why.text, why.hint}
	}
	if len(refusals) == 0 {
		return nil
	}
	why := a.failureOf(ctx, refusals[0])
	said := "the other one was refused"
	if len(refusals) > 1 {
		said = fmt.Sprintf("the other %d were refused", len(refusals))
	}
	return &failure{why.exit, text + "; " + said + ", as said above", cmp.Or(why.hint, "look again with siding dlq ls, and decide about the rest")}
}

func (a *app) printDecided(f decideFlags, done []client.Decided) error {
	if f.asJSON {
		return a.printJSON(done)
	}
	t := newTable(a.env.Stdout)
	for _, d := range done {
		what := "accepted, not applied yet"
		if d.Applied {
			what = "applied"
		}
		t.row(d.ID, d.Action, fmt.Sprintf("cycle %d", d.Cycle), what)
	}
	return t.flush()
}
