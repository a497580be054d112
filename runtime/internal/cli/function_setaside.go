package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) functionSetAside() *cobra.Command {
	var r client.SetAsideRequest
	var asJSON bool
	c := &cobra.Command{
		Use: "set-aside NAME --where CONDITIONS", Short: "Park events that conditions pick before they run", Args: arguments(1, 1, "NAME"),
		Long: `Park events that conditions pick before they run, with the cause set-aside. Later events of their keys go on.

Conditions are parted by commas, and all of them must hold:

  --where 'source=/partners/acme/*,type=com.insurer.claim.reported,size>65536'

A name is that of an attribute or extension, compared with = or !=, or size, the bytes of data, compared with > or <. In a value * stands for
anything; a value in double quotes means just what it says. A rule holds for what waits already and for what comes, and outlives restarts, until
--end ends it. What it has parked stays parked: 'siding dlq redrive --function NAME --cause set-aside' attempts it, and it is not set aside again.`,
		RunE: func(c *cobra.Command, args []string) error {
			r.Function = args[0]
			if r.Where == "" {
				return usage("say which, as in --where 'source=/partners/acme/*,size>65536'", "%s: no --where", command(c))
			}
			if !r.End && strings.TrimSpace(r.Reason) == "" {
				return usage("say why with --reason: whoever finds them parked will ask", "%s: no reason", command(c))
			}
			var err error
			if r.By, err = whoDecides(command(c), r.By, a.env.Getenv); err != nil {
				return err
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			f, err := node.SetAside(c.Context(), r)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(f)
			}
			if r.End {
				a.say("function %s: the rule is ended; `siding dlq redrive --function %s --cause set-aside` attempts what it has parked", clean(f.Name), clean(f.Name))
				return nil
			}
			t := newTable(a.env.Stdout, "FUNCTION", "SETS ASIDE", "BY", "REASON")
			for _, s := range f.SetAside {
				t.row(f.Name, s.Where, s.By, s.Reason)
			}
			return t.flush()
		},
	}
	c.Flags().StringVar(&r.Where, "where", "", "which events (required)")
	c.Flags().BoolVar(&r.End, "end", false, "end the rule with these conditions")
	c.Flags().StringVar(&r.Reason, "reason", "", "why (required, unless it ends)")
	c.Flags().StringVar(&r.By, "by", "", "who decides (default: the user)")
	jsonFlag(c, &asJSON)
	return c
}
