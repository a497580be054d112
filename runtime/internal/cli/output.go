package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// printJSON prints a value of the API as a person can read it; the shape is the
// API's.
func (a *app) printJSON(v any) error {
	out := json.NewEncoder(a.env.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// printLine prints a value of the API on one line.
func (a *app) printLine(v any) error {
	out := json.NewEncoder(a.env.Stdout)
	out.SetEscapeHTML(false)
	return out.Encode(v)
}

// say talks to the person on standard error.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.env.Stderr, format+"\n", args...)
}

// table aligns rows in columns. Cells are cleaned: events are written by
// strangers, and a terminal obeys what is printed on it.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer, head ...string) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	if len(head) > 0 {
		t.row(head...)
	}
	return t
}

// row adds a row; an empty cell is shown as a dash, so that columns can be
// counted.
func (t table) row(cells ...string) {
	for i, c := range cells {
		if c = clean(c); c == "" {
			c = "-"
		}
		cells[i] = c
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t table) flush() error { return t.w.Flush() }

// clean makes every character that is not printable visible.
func clean(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, width := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && width == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// cleanLines cleans a text of several lines and indents them.
func cleanLines(s, indent string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = indent + clean(strings.ReplaceAll(l, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// cut shortens a text for a column.
func cut(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// ago tells how long before now then was, in its largest unit.
func ago(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	d := now.Sub(then)
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

// span rounds a duration down to its largest unit.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

// at gives a time both ways: when, and how long ago.
func at(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	return then.UTC().Format(time.RFC3339) + " (" + ago(now, then) + ")"
}
