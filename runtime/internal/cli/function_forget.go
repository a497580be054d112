package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) functionForget() *cobra.Command {
	var f client.ForgetRequest
	var yes, asJSON bool
	c := &cobra.Command{
		Use:   "forget NAME --reason R",
		Short: "End what is left of a function that is not hosted",
		Long: "Its dead letters, and what is retrying and held, end as discarded; then the node does not know it any more, and a function\n" +
			"that is hosted by its name later is a new one. Says how much there is and asks for --yes.",
		Args: arguments(1, 1, "NAME --reason R"),
		RunE: func(c *cobra.Command, args []string) error {
			f.Function = args[0]
			if !f.DryRun && strings.TrimSpace(f.Reason) == "" {
				return usage("say why with --reason: its events will never be handled", "function forget: no reason")
			}
			var err error
			if f.By, err = whoDecides(command(c), f.By, a.env.Getenv); err != nil {
				return err
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			if !yes || f.DryRun {
				look := f
				look.DryRun = true
				left, err := node.Forget(c.Context(), look)
				if err != nil {
					return err
				}
				if f.DryRun {
					return a.printForgotten(left, asJSON)
				}
				a.say("of %s stand %d dead letters, %d retrying, %d held, %d decisions", clean(f.Function), left.Parked, left.Retrying, left.Held, left.Decisions)
				return refused("add --yes to end them as discarded", "function forget %s: not confirmed", f.Function)
			}
			forgotten, err := node.Forget(c.Context(), f)
			if err != nil {
				return err
			}
			return a.printForgotten(forgotten, asJSON)
		},
	}
	c.Flags().StringVar(&f.Reason, "reason", "", "why (required)")
	c.Flags().StringVar(&f.By, "by", "", "who decides (default: the user)")
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	c.Flags().BoolVar(&f.DryRun, "dry-run", false, "only say how much there is")
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) printForgotten(f client.Forgotten, asJSON bool) error {
	if asJSON {
		return a.printJSON(f)
	}
	t := newTable(a.env.Stdout, "FUNCTION", "PARKED", "RETRYING", "HELD", "DECISIONS", "FORGOTTEN")
	t.row(f.Function, number(int64(f.Parked)), number(int64(f.Retrying)), number(int64(f.Held)), number(int64(f.Decisions)), yesNo(f.Applied))
	return t.flush()
}
