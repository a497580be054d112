package cli

import "github.com/spf13/cobra"

func (a *app) version() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Say what this binary is built from", Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			v := a.env.Version
			if asJSON {
				return a.printJSON(v)
			}
			t := newTable(a.env.Stdout)
			t.row("siding", v.Version)
			t.row("commit", v.Commit)
			t.row("go", v.Go)
			t.row("nats-server", v.NATSServer)
			return t.flush()
		},
	}
	jsonFlag(c, &asJSON)
	return c
}
