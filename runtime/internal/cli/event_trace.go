package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) eventTrace() *cobra.Command {
	var asJSON bool
	var source string
	c := &cobra.Command{
		Use:   "trace SEQUENCE|ID",
		Short: "Tell the life of an event: what happened, how long after what, and who decided",
		Long:  "Digits name a sequence of the stream; anything else, and digits with --source, an event's id.",
		Args:  arguments(1, 1, "SEQUENCE|ID [--source S]"),
		RunE: func(c *cobra.Command, args []string) error {
			node, err := a.client()
			if err != nil {
				return err
			}
			var t client.EventTrace
			if sequence, notDigits := strconv.ParseUint(args[0], 10, 64); notDigits == nil && source == "" {
				t, err = node.TraceBySequence(c.Context(), sequence)
			} else {
				t, err = node.TraceByID(c.Context(), args[0], source)
			}
			if err != nil {
				return err
			}
			if t.Partial {
				a.say("the audit is long: decisions that were refused may be missing")
			}
			if asJSON {
				return a.printJSON(t.Steps)
			}
			return a.printTrace(t)
		},
	}
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&source, "source", "", "source of the event, where an id alone is not enough")
	return c
}

func (a *app) printTrace(t client.EventTrace) error {
	head := newTable(a.env.Stdout)
	head.row("trace", t.TraceID)
	head.row("event", t.ID)
	head.row("source", t.Source)
	head.row("type", t.Type)
	if err := head.flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.env.Stdout)
	list := newTable(a.env.Stdout, "AT", "GAP", "FUNCTION", "WHAT", "DETAIL")
	for _, s := range t.Steps {
		when := ""
		if !s.At.IsZero() {
			when = s.At.UTC().Format("2006-01-02T15:04:05.000Z")
		}
		list.row(when, gap(s.Gap), s.Function, s.What, s.Detail)
	}
	return list.flush()
}

// gap writes the time since the step before with as many digits as a person
// reads.
func gap(s string) string {
	d, err := time.ParseDuration(s)
	if err != nil {
		return ""
	}
	return "+" + rounded(d)
}

// rounded writes a duration with two or three digits.
func rounded(d time.Duration) string {
	for _, unit := range []time.Duration{time.Minute, time.Second, time.Millisecond, time.Microsecond} {
		if d >= 10*unit {
			return d.Round(unit).String()
		}
	}
	return d.String()
}
