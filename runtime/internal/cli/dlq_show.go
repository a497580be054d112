package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) dlqShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show ID", Short: "Show a dead letter: why, how often, when, and its event", Args: arguments(1, 1, "FUNCTION/SEQUENCE"),
		RunE: func(c *cobra.Command, args []string) error {
			function, sequence, err := parseID(args[0])
			if err != nil {
				return err
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			d, err := node.DeadLetter(c.Context(), function, sequence)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(d)
			}
			return a.printDeadLetter(d)
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) printDeadLetter(d client.DeadLetterDetail) error {
	now := time.Now()
	t := newTable(a.env.Stdout)
	t.row("dead letter", d.ID)
	t.row("cause", fmt.Sprintf("%s, noticed by %s", d.Cause, d.ParkedBy))
	t.row("last error", strings.TrimSpace(strings.Join([]string{d.Class, d.Code, d.Error}, " ")))
	if d.Diagnosis != "" {
		t.row("diagnosis", d.Diagnosis)
	}
	attempts := fmt.Sprintf("%d in cycle %d", d.Attempts, d.Cycle)
	if d.GivenBack > 0 {
		attempts += fmt.Sprintf(", and %d that were not charged", d.GivenBack)
	}
	t.row("attempts", attempts)
	t.row("parked", at(now, d.ParkedAt))
	t.row("first failed", at(now, d.FirstFailedAt))
	t.row("last failed", at(now, d.LastFailedAt))
	t.row("held behind it", strconv.Itoa(d.Held))
	t.row("key", d.Key)
	t.row("event", d.EventID)
	t.row("source", d.Source)
	t.row("type", d.Type)
	t.row("stands at", fmt.Sprintf("%s, subject %s", d.Stream, d.Subject))
	if d.Reference != "" {
		t.row("data stands at", d.Reference)
	}
	t.row("trace", d.TraceID)
	t.row("version", d.Version)
	attributeRows(t, d.Attributes)
	if err := t.flush(); err != nil {
		return err
	}
	if err := a.printTail(now, d.Tail, d.Held); err != nil {
		return err
	}
	if len(d.History) > 0 {
		fmt.Fprintln(a.env.Stdout, "\nhistory")
		if err := a.printHistory(now, d.History); err != nil {
			return err
		}
	}
	if d.Stack != "" {
		fmt.Fprintf(a.env.Stdout, "\nstack\n%s\n", cleanLines(d.Stack, "  "))
	}
	a.printData(d.Payload)
	if d.Truncated {
		a.say("long texts were cut when it was parked")
	}
	return nil
}

// attributeRows adds the attributes that have no row of their own.
func attributeRows(t table, attributes map[string]string) {
	var names []string
	for name := range attributes {
		switch name {
		case "id", "source", "type", "specversion":
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		t.row("ce-"+name, attributes[name])
	}
}

func (a *app) printHistory(now time.Time, history []client.Attempt) error {
	t := newTable(a.env.Stdout, "  CYCLE", "ATTEMPT", "KIND", "STARTED", "TOOK", "CLASS", "CODE", "ERROR")
	for _, h := range history {
		took, class := "", h.Class
		if !h.StartedAt.IsZero() && !h.EndedAt.IsZero() {
			took = h.EndedAt.Sub(h.StartedAt).Round(time.Millisecond).String()
		}
		if class != "" && !h.Charged {
			class += " (not charged)"
		}
		t.row("  "+strconv.Itoa(h.Cycle), strconv.Itoa(h.Attempt), h.Kind, at(now, h.StartedAt), took, class, h.Code, cut(h.Error, 80))
	}
	if err := t.flush(); err != nil {
		return err
	}
	a.printCrashes(now, history)
	return nil
}

// printCrashes says of each crash in a history in which life of the process it happened, what the process said last, and what else ran then.
func (a *app) printCrashes(now time.Time, history []client.Attempt) {
	first := true
	for _, h := range history {
		if h.Beside == "" {
			continue
		}
		if first {
			fmt.Fprintln(a.env.Stdout, "\ncrashes")
			first = false
		}
		fmt.Fprintf(a.env.Stdout, "  %s, life %d: %s; %s\n", at(now, h.EndedAt), h.Boot, clean(h.Error), clean(h.Beside))
	}
}

// printData shows data that is text as such, and of other data its size.
func (a *app) printData(p client.Payload) {
	data := p.Bytes()
	switch {
	case len(data) == 0:
		return
	case utf8.Valid(data):
		fmt.Fprintf(a.env.Stdout, "\ndata\n%s\n", cleanLines(string(data), "  "))
	default:
		fmt.Fprintf(a.env.Stdout, "\ndata\n  %d bytes of %s; --json has them\n", len(data), clean(p.DataContentType))
	}
}
