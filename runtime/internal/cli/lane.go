package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) lane() *cobra.Command {
	return a.noun("lane", "Lanes: each function's line for each ordering key", a.laneLs(), a.laneShow(), a.lanePause(), a.laneResume())
}

func (a *app) laneLs() *cobra.Command {
	var q client.LaneQuery
	var asJSON bool
	c := &cobra.Command{
		Use: "ls", Short: "List lanes that have something in them or are paused", Args: arguments(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkLaneQuery(q); err != nil {
				return err
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			list, err := node.Lanes(c.Context(), q)
			if err != nil {
				return err
			}
			if len(list) == q.Limit {
				last := list[len(list)-1]
				a.say("there may be more: --after '%s/%s'", clean(last.Function), clean(last.Lane))
			}
			if asJSON {
				return a.printJSON(list)
			}
			if len(list) == 0 {
				a.say("no lanes")
				return nil
			}
			return a.printLanes(list)
		},
	}
	f := c.Flags()
	f.StringVar(&q.Function, "function", "", "of this function")
	f.StringVar(&q.State, "state", "", "in this state: "+strings.Join(client.LaneStates(), ", "))
	f.IntVar(&q.Limit, "limit", client.DefaultLimit, "at most so many")
	f.StringVar(&q.After, "after", "", "those after this FUNCTION/LANE")
	jsonFlag(c, &asJSON)
	return c
}

func checkLaneQuery(q client.LaneQuery) error {
	if q.Limit < 1 || q.Limit > client.MaxLimit {
		return usage("use --after to see more", "--limit %d: not from 1 to %d", q.Limit, client.MaxLimit)
	}
	if q.State != "" && !slices.Contains(client.LaneStates(), q.State) {
		hint := "use one of " + strings.Join(client.LaneStates(), ", ")
		if near := nearest(q.State, client.LaneStates()); near != "" {
			hint = "did you mean " + near + "?"
		}
		return usage(hint, "--state %s: unknown", q.State)
	}
	if function, lane, _ := strings.Cut(q.After, "/"); q.After != "" && (function == "" || lane == "") {
		return usage("it is what the page before named: FUNCTION/LANE", "--after %s: not a lane", strconv.Quote(q.After))
	}
	return nil
}

func (a *app) printLanes(list []client.Lane) error {
	now := time.Now()
	t := newTable(a.env.Stdout, "FUNCTION", "STATE", "BLOCKER", "STANDS", "HELD", "EVENTS", "SINCE", "PAUSED", "KEY")
	for _, l := range list {
		var blocker, stands string
		if l.Blocker != nil {
			blocker, stands = l.Blocker.ID, l.Blocker.State
		}
		t.row(l.Function, l.State, blocker, stands, strconv.Itoa(l.Held), strconv.Itoa(l.Events), ago(now, l.HeldSince), cut(l.PausedBy, 24), cut(l.Key, 60))
	}
	return t.flush()
}

func (a *app) laneShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show FUNCTION KEY", Short: "Show a lane: what it waits for, and what is held in it", Args: arguments(2, 2, "FUNCTION KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkKey(c, args[1]); err != nil {
				return err
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			l, err := node.Lane(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(l)
			}
			return a.printLane(l)
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func checkKey(c *cobra.Command, key string) error {
	if key == "" {
		return usage("siding lane ls shows the keys that there are", "%s: no key: an event without one has no lane", command(c))
	}
	return nil
}

func (a *app) printLane(l client.LaneDetail) error {
	now := time.Now()
	t := newTable(a.env.Stdout)
	t.row("function", l.Function)
	t.row("key", l.Key)
	t.row("lane", l.Lane.Lane)
	t.row("state", l.State)
	blocker := ""
	if l.Blocker != nil {
		blocker = l.Blocker.ID + ", " + l.Blocker.State
	}
	t.row("waits for", blocker)
	t.row("held", strconv.Itoa(l.Held))
	t.row("events", strconv.Itoa(l.Events))
	t.row("held since", at(now, l.HeldSince))
	if l.PausedBy != "" {
		t.row("paused", fmt.Sprintf("by %s at %s: %s", l.PausedBy, at(now, l.PausedAt), l.PauseReason))
	}
	if err := t.flush(); err != nil {
		return err
	}
	return a.printTail(now, l.Tail, l.Held)
}

// printTail names what is held, in order; held counts those that do not fit too.
func (a *app) printTail(now time.Time, tail []client.HeldEvent, held int) error {
	if len(tail) == 0 {
		return nil
	}
	fmt.Fprintln(a.env.Stdout, "\nheld, in order")
	t := newTable(a.env.Stdout, "  ID", "EVENT", "TYPE", "SINCE")
	for _, e := range tail {
		t.row("  "+e.ID, cut(e.EventID, 40), cut(e.Type, 40), at(now, e.HeldAt))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if more := held - len(tail); more > 0 {
		fmt.Fprintf(a.env.Stdout, "  … and %d more\n", more)
	}
	return nil
}
