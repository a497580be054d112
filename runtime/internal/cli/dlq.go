package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) dlq() *cobra.Command {
	return a.noun("dlq", "Dead letters: look, decide",
		a.dlqLs(), a.dlqShow(), a.dlqTail(), a.dlqExport(), a.dlqRedrive(), a.dlqEdit(), a.dlqDiscard(), a.dlqRelease())
}

// filterFlags are the flags that select dead letters.
func filterFlags(c *cobra.Command, q *client.DeadLetterQuery) {
	f := c.Flags()
	f.StringVar(&q.Function, "function", "", "of this function")
	f.StringVar(&q.Cause, "cause", "", "parked for this cause: exhausted, permanent, undecodable, crash, stuck, expired or set-aside")
	f.StringVar(&q.Class, "class", "", "whose last attempt failed with this class")
	f.StringVar(&q.Source, "source", "", "of events of this source")
	f.StringVar(&q.Type, "type", "", "of events of this type")
	f.StringVar(&q.Key, "key", "", "of this ordering key")
	f.StringVar(&q.Outage, "outage", "", "that this outage exhausted before it was recognised; function show and audit ls name it")
	f.Var((*instant)(&q.Since), "since", "parked since then: a time such as 2026-01-02T03:04:05Z, or how long ago, such as 2h")
}

func (a *app) dlqLs() *cobra.Command {
	var q client.DeadLetterQuery
	var asJSON bool
	c := &cobra.Command{
		Use: "ls", Short: "List dead letters", Args: arguments(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if q.Limit < 1 || q.Limit > client.MaxLimit {
				return usage("use --after to see more", "--limit %d: not from 1 to %d", q.Limit, client.MaxLimit)
			}
			if q.After != "" {
				if _, _, err := parseID(q.After); err != nil {
					return err
				}
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			list, err := node.DeadLetters(c.Context(), q)
			if err != nil {
				return err
			}
			if len(list) == q.Limit {
				a.say("there may be more: --after %s", clean(list[len(list)-1].ID))
			}
			if asJSON {
				return a.printJSON(list)
			}
			if len(list) == 0 {
				a.say("no dead letters")
				return nil
			}
			return a.printDeadLetters(list)
		},
	}
	filterFlags(c, &q)
	c.Flags().IntVar(&q.Limit, "limit", client.DefaultLimit, "at most so many")
	c.Flags().StringVar(&q.After, "after", "", "those after this id")
	jsonFlag(c, &asJSON)
	return c
}

// deadLetterHead names the columns of deadLetterRow.
var deadLetterHead = [...]string{"ID", "CAUSE", "CLASS", "ATTEMPTS", "CYCLE", "HELD", "PARKED", "KEY", "TYPE", "ERROR"}

func deadLetterRow(now time.Time, d client.DeadLetter) []string {
	return []string{
		d.ID, d.Cause, d.Class, strconv.Itoa(d.Attempts), strconv.Itoa(d.Cycle), strconv.Itoa(d.Held),
		ago(now, d.ParkedAt), cut(d.Key, 24), cut(d.Type, 40), cut(d.Error, 60),
	}
}

func (a *app) printDeadLetters(list []client.DeadLetter) error {
	now := time.Now()
	t := newTable(a.env.Stdout, deadLetterHead[:]...)
	for _, d := range list {
		t.row(deadLetterRow(now, d)...)
	}
	return t.flush()
}

func (a *app) dlqTail() *cobra.Command {
	var q client.DeadLetterQuery
	var asJSON, fromNow bool
	c := &cobra.Command{
		Use:   "tail",
		Short: "Follow dead letters: those that stand, then each new one",
		Args:  arguments(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			node, err := a.client()
			if err != nil {
				return err
			}
			err = node.Tail(c.Context(), q, fromNow, func(d client.DeadLetter) error {
				if asJSON {
					return a.printLine(d)
				}
				return a.printTailed(d)
			})
			if c.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return nil // The person has seen enough.
			}
			return err
		},
	}
	filterFlags(c, &q)
	c.Flags().BoolVar(&fromNow, "new", false, "only those that are parked from now on")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, one dead letter a line")
	return c
}

// printTailed prints one line that needs no columns, since the next one may
// come hours later.
func (a *app) printTailed(d client.DeadLetter) error {
	t := newTable(a.env.Stdout)
	t.row(d.ParkedAt.UTC().Format(time.RFC3339), d.ID, d.Cause, d.Class, "attempts "+strconv.Itoa(d.Attempts),
		"held "+strconv.Itoa(d.Held), d.Type, cut(d.Error, 60))
	return t.flush()
}

// parseID reads the id of a dead letter.
func parseID(id string) (function string, sequence uint64, err error) {
	function, digits, ok := strings.Cut(id, "/")
	sequence, bad := strconv.ParseUint(digits, 10, 64)
	if !ok || bad != nil || function == "" || sequence == 0 {
		return "", 0, usage("an id is <function>/<sequence>, such as file-claim/42", "%s: not a dead letter's id", strconv.Quote(id))
	}
	return function, sequence, nil
}
