package cli

import "github.com/spf13/cobra"

func (a *app) demo() *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "See in a minute what is retried, parked, held, corrected and handled in order",
		Long: "Tells a story on a node of its own, in a temporary directory and on a free port of this machine: claim reports arrive, a\n" +
			"system is away for a moment, what cannot be handled is parked, and its sender is asked. It checks what it says, and\n" +
			"exits 1 where something does not hold.",
		Args: arguments(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return a.env.Demo(c.Context(), keep) },
	}
	c.Flags().BoolVar(&keep, "keep", false, "leave the node running until Ctrl-C, to look around in it")
	return c
}
