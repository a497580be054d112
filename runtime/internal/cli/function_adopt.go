package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) functionAdopt() *cobra.Command {
	var r client.AdoptRequest
	var dir string
	var yes, asJSON bool
	c := &cobra.Command{
		Use:   "adopt OLD --as NEW --reason R",
		Short: "Give what a function left to its new name",
		Long: "For a function that was renamed in code: its dead letters, what is retrying, held and not yet seen, its history and its paused\n" +
			"lanes go on under the new name, each in its place. Stop the node, adopt, and start the program with the new name; a node\n" +
			"that has hosted the new name already refuses. Works on the directory, and says how much there is before it asks for --yes.\n" +
			"One that was cut is finished by the same command; until then no node runs either of the two names.",
		Args: arguments(1, 1, "OLD --as NEW --reason R"),
		RunE: func(c *cobra.Command, args []string) error {
			r.Function = args[0]
			switch {
			case r.As == "":
				return usage("name it with --as", "function adopt %s: no new name", r.Function)
			case dir == "":
				return usage("name the directory of the store", "--data-dir: empty")
			case !r.DryRun && strings.TrimSpace(r.Reason) == "":
				return usage("say why with --reason", "function adopt: no reason")
			}
			var err error
			if r.By, err = whoDecides(command(c), r.By, a.env.Getenv); err != nil {
				return err
			}
			if !yes || r.DryRun {
				look := r
				look.DryRun = true
				left, err := a.env.Adopt(c.Context(), dir, look)
				if err != nil {
					return err
				}
				if r.DryRun {
					return a.printAdopted(left, asJSON)
				}
				a.say("of %s stand %d dead letters, %d retrying, %d held, %d decisions", clean(r.Function), left.Parked, left.Retrying, left.Held, left.Decisions)
				return refused("add --yes to give them to "+clean(r.As), "function adopt %s: not confirmed", r.Function)
			}
			adopted, err := a.env.Adopt(c.Context(), dir, r)
			if err != nil {
				return err
			}
			return a.printAdopted(adopted, asJSON)
		},
	}
	c.Flags().StringVar(&r.As, "as", "", "its new name (required)")
	c.Flags().StringVar(&dir, "data-dir", "siding-data", "directory of the store; no node may run on it")
	c.Flags().StringVar(&r.Reason, "reason", "", "why (required)")
	c.Flags().StringVar(&r.By, "by", "", "who decides (default: the user)")
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	c.Flags().BoolVar(&r.DryRun, "dry-run", false, "only say how much there is")
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) printAdopted(d client.Adopted, asJSON bool) error {
	if asJSON {
		return a.printJSON(d)
	}
	t := newTable(a.env.Stdout, "FUNCTION", "AS", "PARKED", "RETRYING", "HELD", "DECISIONS", "ADOPTED")
	t.row(d.Function, d.As, number(int64(d.Parked)), number(int64(d.Retrying)), number(int64(d.Held)), number(int64(d.Decisions)), yesNo(d.Applied))
	return t.flush()
}
