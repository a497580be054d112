package runtime

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/siding-dev/siding/functions"
)

const (
	checkGrace   = 100 * time.Millisecond // what a check gets to notice that its context is done
	longestCheck = 200                    // characters of what is said about a failed one
)

// checks are the checks of dependencies that run. They outlive owners: one that starts again in the same process must not call a check beside
// one that has not returned, and so a check that hangs costs one goroutine however often its function starts. It is safe for concurrent use.
type checks struct {
	mu      sync.Mutex
	running map[checkOf]bool
}

type checkOf struct{ function, dependency string }

func newChecks() *checks { return &checks{running: map[checkOf]bool{}} }

func (c *checks) begin(of checkOf) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[of] {
		return false
	}
	c.running[of] = true
	return true
}

func (c *checks) end(of checkOf) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, of)
}

// ask makes one check and returns what is wrong, "" if the dependency is there. It returns soon after the check's time is over, whatever the
// check does.
func (c *checks) ask(ctx context.Context, function string, d functions.Dependency) string {
	of := checkOf{function, d.Name}
	if !c.begin(of) {
		return "the last check has not returned yet"
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	answer := make(chan string, 1) // so that a late one ends too
	go func() {
		said := "the check did not return"
		defer func() {
			c.end(of)
			answer <- said
		}()
		said = guarded(ctx, d.Check)
	}()
	late := fmt.Sprintf("no answer within %s", d.Timeout)
	select {
	case said := <-answer:
		if said != "" && ctx.Err() != nil {
			return late // it is what the check has made of its context
		}
		return said
	case <-ctx.Done():
	}
	grace := time.NewTimer(checkGrace)
	defer grace.Stop()
	select {
	case <-answer:
	case <-grace.C:
	}
	return late
}

// guarded calls a check. A panic of it, or of its error, is a failure like any other.
func guarded(ctx context.Context, check func(context.Context) error) (said string) {
	defer func() {
		if p := recover(); p != nil {
			said = inOneLine(fmt.Sprintf("the check panicked: %v", p))
		}
	}()
	if err := check(ctx); err != nil {
		return inOneLine(err.Error())
	}
	return ""
}

// inOneLine is what is said of text that somebody else has made. It is never empty.
func inOneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > longestCheck {
		text = string(runes[:longestCheck]) + "…"
	}
	if text == "" {
		return "an error without a text"
	}
	return text
}
