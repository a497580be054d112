package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) lanePause() *cobra.Command {
	return a.laneChange("pause", "Start nothing in a lane until it is resumed",
		"What runs is not interrupted, and events that come meanwhile are held. A lane may be paused before anything is in it.", (*client.Client).PauseLane)
}

func (a *app) laneResume() *cobra.Command {
	return a.laneChange("resume", "Let a paused lane go on", "It goes on in order, where it was paused.", (*client.Client).ResumeLane)
}

// laneChange is a verb that pauses a lane or resumes it.
func (a *app) laneChange(verb, short, long string, call func(*client.Client, context.Context, client.PauseRequest) (client.Lane, error)) *cobra.Command {
	var r client.PauseRequest
	var asJSON bool
	why := "why"
	if verb == "pause" {
		why = "why (required)"
	}
	c := &cobra.Command{
		Use: verb + " FUNCTION KEY", Short: short, Long: short + ".\n\n" + long, Args: arguments(2, 2, "FUNCTION KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			r.Function, r.Key = args[0], args[1]
			if err := checkKey(c, r.Key); err != nil {
				return err
			}
			if verb == "pause" && strings.TrimSpace(r.Reason) == "" {
				return usage("say why with --reason: whoever finds it paused will ask", "%s: no reason", command(c))
			}
			var err error
			if r.By, err = whoDecides(command(c), r.By, a.env.Getenv); err != nil {
				return err
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			l, err := call(node, c.Context(), r)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(l)
			}
			t := newTable(a.env.Stdout)
			t.row(l.Function, cut(l.Key, 60), l.State, "held "+strconv.Itoa(l.Held), "events "+strconv.Itoa(l.Events))
			return t.flush()
		},
	}
	c.Flags().StringVar(&r.Reason, "reason", "", why)
	c.Flags().StringVar(&r.By, "by", "", "who decides (default: the user)")
	jsonFlag(c, &asJSON)
	return c
}

// whoDecides is who is named, or the user. Where there is neither, in a container, say, the node names the owner of the token.
func whoDecides(command, by string, getenv func(string) string) (string, error) {
	if by = strings.TrimSpace(first(by, getenv("USER"), getenv("USERNAME"))); by == "" && getenv("SIDING_TOKEN") == "" {
		return "", usage("say who decides with --by", "%s: nobody named", command)
	}
	return by, nil
}
