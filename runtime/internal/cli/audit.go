package cli

import (
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) audit() *cobra.Command {
	return a.noun("audit", "What happened, and who decided why", a.auditLs(), a.auditShow())
}

func (a *app) auditLs() *cobra.Command {
	var q client.AuditQuery
	var asJSON bool
	c := &cobra.Command{
		Use: "ls", Short: "List the audit, the newest entry first", Args: arguments(0, 0, ""),
		Example: "  siding audit ls --by anna --since 24h\n  siding audit ls --event file-claim/42",
		RunE: func(c *cobra.Command, _ []string) error {
			if q.Limit < 1 || q.Limit > client.MaxLimit {
				return usage("use --after to see more", "--limit %d: not from 1 to %d", q.Limit, client.MaxLimit)
			}
			if q.Event != "" {
				if _, _, err := parseID(q.Event); err != nil {
					return err
				}
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			list := []client.AuditEntry{}
			// A node looks at a bounded number of entries for a page; what is rare may be pages away.
			for page := (client.AuditPage{Next: q.After}); ; {
				ask := q
				ask.After, ask.Limit = page.Next, q.Limit-len(list)
				if page, err = node.Audit(c.Context(), ask); err != nil {
					return err
				}
				if list = append(list, page.Entries...); page.Next == 0 {
					break
				}
				if len(list) >= q.Limit {
					a.say("there may be more: --after %d", page.Next)
					break
				}
			}
			if asJSON {
				return a.printJSON(list)
			}
			if len(list) == 0 {
				a.say("no audit entries")
				return nil
			}
			now := time.Now()
			t := newTable(a.env.Stdout, "SEQUENCE", "AT", "WHAT", "ABOUT", "BY", "REASON")
			for _, e := range list {
				t.row(strconv.FormatUint(e.Sequence, 10), at(now, e.At), e.What, about(e), cut(e.By, 24), cut(e.Reason, 80))
			}
			return t.flush()
		},
	}
	f := c.Flags()
	f.StringVar(&q.Function, "function", "", "of this function")
	f.StringVar(&q.What, "what", "", "of this kind: parked, held, released, redriven, discarded, refused, paused, resumed, suspended, possibly_delivered_twice, …")
	f.StringVar(&q.By, "by", "", "by this person, or part of the node")
	f.StringVar(&q.Event, "event", "", "about this event, named as a dead letter is: FUNCTION/SEQUENCE")
	f.StringVar(&q.EventID, "event-id", "", "about the events whose sender called them so")
	f.Var((*instant)(&q.Since), "since", "not older than this: a time such as 2026-01-02T03:04:05Z, or how long ago, such as 2h")
	f.Var((*instant)(&q.Until), "until", "not younger than this")
	f.IntVar(&q.Limit, "limit", client.DefaultLimit, "at most so many")
	f.Uint64Var(&q.After, "after", 0, "those behind this one, which is older")
	jsonFlag(c, &asJSON)
	return c
}

// about names what an entry is about.
func about(e client.AuditEntry) string {
	switch {
	case e.Event != "":
		return e.Event
	case e.Key != "":
		return e.Function + ", key " + cut(e.Key, 24)
	}
	return e.Function
}

func (a *app) auditShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show SEQUENCE", Short: "Show an entry of the audit", Args: arguments(1, 1, "SEQUENCE"),
		RunE: func(c *cobra.Command, args []string) error {
			sequence, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil || sequence == 0 {
				return usage("siding audit ls lists them with their sequences", "%s: not a sequence", strconv.Quote(args[0]))
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			e, err := node.AuditBySequence(c.Context(), sequence)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(e)
			}
			return a.printAudit(e)
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) printAudit(e client.AuditEntry) error {
	t := newTable(a.env.Stdout)
	t.row("audit entry", strconv.FormatUint(e.Sequence, 10))
	t.row("what", e.What)
	t.row("at", at(time.Now(), e.At))
	t.row("by", e.By)
	t.row("reason", e.Reason)
	t.row("function", e.Function)
	if e.Event != "" {
		t.row("about", e.Event+" in cycle "+strconv.Itoa(e.Cycle))
		t.row("event", e.EventID)
		t.row("source", e.Source)
		t.row("type", e.Type)
	}
	names := make([]string, 0, len(e.Detail))
	for name := range e.Detail {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.row(name, e.Detail[name])
	}
	return t.flush()
}
