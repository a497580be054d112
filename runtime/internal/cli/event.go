package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) event() *cobra.Command {
	return a.noun("event", "Send events and follow their lives", a.eventSend(), a.eventShow(), a.eventTrace())
}

func (a *app) eventShow() *cobra.Command {
	var asJSON bool
	var source string
	c := &cobra.Command{
		Use:   "show SEQUENCE|ID",
		Short: "Show an event and what became of it",
		Long:  "Digits name a sequence of the stream; anything else, and digits with --source, an event's id.",
		Args:  arguments(1, 1, "SEQUENCE|ID [--source S]"),
		RunE: func(c *cobra.Command, args []string) error {
			node, err := a.client()
			if err != nil {
				return err
			}
			var life client.EventLife
			if sequence, notDigits := strconv.ParseUint(args[0], 10, 64); notDigits == nil && source == "" {
				life, err = node.EventBySequence(c.Context(), sequence)
			} else {
				life, err = node.EventByID(c.Context(), args[0], source)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(life)
			}
			return a.printLife(life)
		},
	}
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&source, "source", "", "source of the event, where an id alone is not enough")
	return c
}

func (a *app) printLife(life client.EventLife) error {
	now := time.Now()
	t := newTable(a.env.Stdout)
	t.row("event", life.ID)
	t.row("source", life.Source)
	t.row("type", life.Type)
	t.row("stands at", fmt.Sprintf("%s sequence %d, subject %s", life.Stream, life.Sequence, life.Subject))
	t.row("stored", at(now, life.StoredAt))
	attributeRows(t, life.Attributes)
	if err := t.flush(); err != nil {
		return err
	}
	a.printData(life.Payload)
	if len(life.Functions) == 0 {
		a.say("no function takes it")
		return nil
	}
	fmt.Fprintln(a.env.Stdout)
	t = newTable(a.env.Stdout, "FUNCTION", "STATE", "CYCLE", "ATTEMPTS")
	for _, f := range life.Functions {
		t.row(f.Function, f.State, strconv.Itoa(f.Cycle), strconv.Itoa(f.Attempts))
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, f := range life.Functions {
		if len(f.History) > 0 {
			fmt.Fprintf(a.env.Stdout, "\nhistory of %s\n", clean(f.Function))
			if err := a.printHistory(now, f.History); err != nil {
				return err
			}
		}
	}
	return nil
}
