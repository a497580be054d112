package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) function() *cobra.Command {
	return a.noun("function", "Functions and how much stands where", a.functionLs(), a.functionShow(), a.functionSuspend(), a.functionResume(), a.functionSetAside(), a.functionForget(), a.functionAdopt())
}

func (a *app) functionLs() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "ls", Short: "List functions", Args: arguments(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			node, err := a.client()
			if err != nil {
				return err
			}
			list, err := node.Functions(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(list)
			}
			if len(list) == 0 {
				a.say("no functions")
				return nil
			}
			now := time.Now()
			t := newTable(a.env.Stdout, "NAME", "STATE", "PENDING", "DELIVERING", "RETRYING", "HELD", "PARKED", "OLDEST")
			for _, f := range list {
				t.row(f.Name, f.State, number(f.Pending), number(f.Delivering), number(f.Retrying), number(f.Held),
					number(f.Parked), ago(now, f.OldestParkedAt))
			}
			return t.flush()
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) functionShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show NAME", Short: "Show a function", Args: arguments(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			node, err := a.client()
			if err != nil {
				return err
			}
			f, err := node.Function(c.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(f)
			}
			return a.printFunction(f)
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) printFunction(f client.Function) error {
	t := newTable(a.env.Stdout)
	t.row("name", f.Name)
	t.row("state", f.State)
	if s := f.Suspension; s != nil {
		now := time.Now()
		t.row("suspension", s.ID+", "+s.Phase)
		t.row("cause", s.Cause)
		t.row("since", at(now, s.Since))
		t.row("suspended", at(now, s.SuspendedAt)+" by "+s.By)
		t.row("because", cut(first(s.Reason, s.Evidence), 400))
		if s.Reason != "" && s.Evidence != "" && s.Evidence != s.Reason {
			t.row("evidence", cut(s.Evidence, 400))
		}
		t.row("failed probes", strconv.Itoa(s.FailedProbes))
		t.row("next probe", at(now, s.NextProbeAt))
		if !s.GaveUpAt.IsZero() {
			t.row("gave up", at(now, s.GaveUpAt))
		}
	}
	for _, s := range f.SetAside {
		t.row("sets aside", fmt.Sprintf("%s, by %s at %s: %s", s.Where, s.By, at(time.Now(), s.At), s.Reason))
	}
	if f.WaitingFor != "" {
		t.row("waiting for", f.WaitingFor)
	}
	t.row("hosted", yesNo(f.Hosted))
	if f.Chaos {
		t.row("chaos", "fails on purpose: this node rehearses")
	}
	t.row("types", strings.Join(f.Types, ", "))
	t.row("stream", fmt.Sprintf("%s, start %s, since sequence %d", f.Stream, f.Start, f.SinceSequence))
	if len(f.StreamRemoves) > 0 {
		t.row("stream removes", strings.Join(f.StreamRemoves, "; ")+": no more is promised than it keeps")
	}
	t.row("order by", f.OrderBy)
	t.row("attempts allowed", strconv.Itoa(f.AttemptsAllowed))
	t.row("timeout", f.Timeout)
	t.row("concurrency", strconv.Itoa(f.Concurrency))
	t.row("owner", f.Owner)
	t.row("version", f.Version)
	t.row("pending", number(f.Pending))
	t.row("delivering", number(f.Delivering))
	t.row("retrying", number(f.Retrying))
	t.row("held", number(f.Held))
	t.row("parked", number(f.Parked))
	t.row("oldest parked", at(time.Now(), f.OldestParkedAt))
	return t.flush()
}

func jsonFlag(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
