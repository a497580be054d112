package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) functionSuspend() *cobra.Command {
	return a.functionChange("suspend", "Begin no attempt of a function until it is resumed",
		"What runs is not interrupted, events are accepted as before and wait in order, and no attempt is used up by waiting. It outlives restarts.",
		(*client.Client).SuspendFunction)
}

func (a *app) functionResume() *cobra.Command {
	return a.functionChange("resume", "Let a suspended function go on, whatever suspended it",
		"One attempt is made at first, then more and more at once. If everything still fails, the function is suspended again.", (*client.Client).ResumeFunction)
}

// functionChange is a verb that suspends a function or resumes it.
func (a *app) functionChange(verb, short, long string, call func(*client.Client, context.Context, client.SuspendRequest) (client.Function, error)) *cobra.Command {
	var r client.SuspendRequest
	var asJSON bool
	why := "why"
	if verb == "suspend" {
		why = "why (required)"
	}
	c := &cobra.Command{
		Use: verb + " NAME", Short: short, Long: short + ".\n\n" + long, Args: arguments(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			r.Function = args[0]
			if verb == "suspend" && strings.TrimSpace(r.Reason) == "" {
				return usage("say why with --reason: whoever finds it suspended will ask", "%s: no reason", command(c))
			}
			var err error
			if r.By, err = whoDecides(command(c), r.By, a.env.Getenv); err != nil {
				return err
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			f, err := call(node, c.Context(), r)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(f)
			}
			t := newTable(a.env.Stdout)
			t.row(f.Name, f.State, "pending "+number(f.Pending), "retrying "+number(f.Retrying))
			return t.flush()
		},
	}
	c.Flags().StringVar(&r.Reason, "reason", "", why)
	c.Flags().StringVar(&r.By, "by", "", "who decides (default: the user)")
	jsonFlag(c, &asJSON)
	return c
}
