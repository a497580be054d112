package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

// sampleSize is how many dead letters are shown before many are decided about.
const sampleSize = 5

// decideFlags are the flags of redrive and discard.
type decideFlags struct {
	q              client.DeadLetterQuery
	all, yes       bool
	dryRun, asJSON bool
	reason, by     string
	action, did    string // such as "redrive", "redriven"
}

func (a *app) dlqDecide(action string) *cobra.Command {
	f := decideFlags{action: action, did: "redriven"}
	short := "Send dead letters through their functions again"
	if action == client.Discard {
		short, f.did = "Decide that dead letters will never be handled", "discarded"
	}
	c := &cobra.Command{
		Use:   action + " ID…",
		Short: short,
		Long: short + ".\n\nNames dead letters by id, or all of a function with --function F --all (other filters narrow it). Shows them and\n" +
			"asks, unless --yes. A dead letter that has changed since it was shown is left alone: that is a conflict.",
		Args: cobra.ArbitraryArgs,
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
			return a.decideAll(c.Context(), node, f, list)
		},
	}
	filterFlags(c, &f.q)
	fs := c.Flags()
	fs.BoolVar(&f.all, "all", false, "all that --function and the other filters select")
	fs.StringVar(&f.reason, "reason", "", "why (discard: required)")
	fs.StringVar(&f.by, "by", "", "who decides (default: the user)")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	fs.BoolVar(&f.dryRun, "dry-run", false, "show what would be decided and stop")
	jsonFlag(c, &f.asJSON)
	return c
}

// check refuses what cannot be meant, before a node is asked anything.
func (f *decideFlags) check(args []string, getenv func(string) string) error {
	command := "dlq " + f.action
	filtered := f.q != client.DeadLetterQuery{}
	switch {
	case len(args) > 0 && (f.all || filtered):
		return usage("name either ids or --function F --all", "%s: ids and filters together", command)
	case len(args) == 0 && !f.all:
		return usage("use siding "+command+" FUNCTION/SEQUENCE, or --function F --all", "%s: no dead letter named", command)
	case f.all && f.q.Function == "":
		return usage("add --function F", "--all: of which function?")
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
	if f.action == client.Discard && strings.TrimSpace(f.reason) == "" {
		return usage("say why with --reason: the event will never be handled", "%s: no reason", command)
	}
	if f.by = strings.TrimSpace(first(f.by, getenv("USER"), getenv("USERNAME"))); f.by == "" {
		return usage("say who decides with --by", "%s: nobody named", command)
	}
	return nil
}

// find returns the dead letters as they stand now. The decisions are pinned to
// these, so that nobody decides about what they have not seen.
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
	if !f.all {
		return list, nil
	}
	q := f.q
	q.Limit = client.MaxLimit
	for {
		page, err := node.DeadLetters(ctx, q)
		if err != nil {
			return nil, err
		}
		list = append(list, page...)
		if len(page) < q.Limit {
			return list, nil
		}
		q.After = page[len(page)-1].ID
	}
}

// decideAll shows, asks and decides, in order. One that is refused does not
// stop the others; a node that is gone does.
func (a *app) decideAll(ctx context.Context, node *client.Client, f decideFlags, list []client.DeadLetter) error {
	if f.dryRun {
		if f.asJSON {
			return a.printJSON(append([]client.DeadLetter{}, list...))
		}
		a.say("would %s %s", f.action, count(len(list)))
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
	var failed error
	for _, d := range list {
		decided, err := node.Decide(ctx, client.Decision{
			Function: d.Function, Sequence: d.Sequence, Action: f.action, Cycle: &d.Cycle, Reason: f.reason, By: f.by,
		})
		var p *client.Problem
		if err != nil && (len(list) == 1 || !errors.As(err, &p)) {
			failed = err
			break
		}
		if err != nil {
			a.say("%s: %s", clean(d.ID), clean(p.Detail))
			if failed == nil {
				failed = err
			}
			continue
		}
		done = append(done, decided)
	}
	if err := a.printDecided(f, done); err != nil {
		return err
	}
	if failed == nil || len(list) == 1 {
		return failed
	}
	why := a.failureOf(ctx, failed)
	return &failure{why.exit, fmt.Sprintf("%s %d of %s: %s", f.did, len(done), count(len(list)), why.text), why.hint}
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

// confirm shows what is about to be decided and asks, unless --yes was given.
// With more than one it shows count and sample in any case.
func (a *app) confirm(f decideFlags, list []client.DeadLetter) error {
	if !f.yes || len(list) > 1 {
		a.say("%s %s:", f.action, count(len(list)))
		for _, d := range list[:min(sampleSize, len(list))] {
			a.say("  %s  %s  %s", clean(d.ID), clean(d.Cause), clean(cut(d.Error, 60)))
		}
		if more := len(list) - sampleSize; more > 0 {
			a.say("  … and %d more", more)
		}
	}
	if f.yes {
		return nil
	}
	if !terminal(a.env.Stdin) {
		return refused("add --yes, or look first with --dry-run", "%s %s: no terminal to ask on", f.action, count(len(list)))
	}
	fmt.Fprintf(a.env.Stderr, "%s? [y/N] ", f.action)
	answer, err := bufio.NewReader(a.env.Stdin).ReadString('\n')
	if err != nil {
		a.say("")
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return refused("add --yes to decide without being asked", "%s %s: not confirmed", f.action, count(len(list)))
}

// terminal reports whether a person may answer. The null device passes as one,
// and then gives no answer.
func terminal(in any) bool {
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func count(n int) string {
	if n == 1 {
		return "1 dead letter"
	}
	return fmt.Sprintf("%d dead letters", n)
}
