package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/siding-dev/siding/runtime/client"
)

// outlet ends the story when nobody reads it any more.
type outlet struct {
	w   io.Writer
	end context.CancelCauseFunc
}

func (o outlet) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		o.end(fmt.Errorf("output: %w", err))
	}
	return n, err
}

// screen is where the story is told.
type screen struct {
	out        io.Writer
	live, bold bool
	width      int   // of the line of progress that stands there
	done       int64 // the most that it has shown
}

func (s *screen) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// heading begins a step of the story.
func (s *screen) heading(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.bold {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	s.say("\n%s", text)
}

// command shows what a person would type.
func (s *screen) command(format string, args ...any) {
	s.say("   $ siding "+format, args...)
}

// progress rewrites the line of progress, on a terminal of 80 columns. It never
// goes back: the node's counts are not taken at one instant.
func (s *screen) progress(done, total int64, note string) {
	if !s.live {
		return
	}
	const cells = 20
	s.done = max(s.done, min(done, total))
	full := int(cells * s.done / max(1, total))
	line := fmt.Sprintf("   [%s%s] %d of %d %s", strings.Repeat("#", full), strings.Repeat(".", cells-full), s.done, total, note)
	fmt.Fprintf(s.out, "\r%-*s", s.width, line)
	s.width = len(line)
}

// clear takes the line of progress away.
func (s *screen) clear() {
	if s.width > 0 {
		fmt.Fprintf(s.out, "\r%*s\r", s.width, "")
		s.width = 0
	}
}

// table prints rows in columns.
func (s *screen) table(rows ...[]string) {
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, "   "+strings.Join(row, "\t"))
	}
	_ = t.Flush() // it fails as s.out does
}

// sayAccount prints the sum in which every event is found.
func (s *screen) sayAccount(a client.FunctionAccount) {
	s.say("account: %d accepted = %d delivered + %d parked + %d discarded", a.Accepted, a.Delivered, a.Parked, a.Discarded)
}

// clock writes a time as a watch shows it, and how long ago it was.
func clock(at time.Time) string {
	return fmt.Sprintf("%s (%s ago)", at.Local().Format("15:04:05"), time.Since(at).Round(100*time.Millisecond))
}

// plural writes a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
