package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxRules = 1000
	// maxDelay keeps the sum of all slow rules far from the end of a duration.
	maxDelay = 24 * time.Hour
)

// RuleError is one thing that is wrong with a rule. What Validate returns joins
// these.
type RuleError struct {
	Rule  int    // its place, from 1; 0 is the plan itself
	Field string // in lower case, as in window.after
	Text  string // what is wrong, and behind "; " what to write instead
}

func (e *RuleError) Error() string {
	if e.Rule == 0 {
		return fmt.Sprintf("chaos: %s: %s", e.Field, e.Text)
	}
	return fmt.Sprintf("chaos: rule %d: %s: %s", e.Rule, e.Field, e.Text)
}

// Validate returns nil if p can be rehearsed, else one error that joins all that
// is wrong with it.
func (p Plan) Validate() error {
	var errs []error
	if len(p.Rules) > maxRules {
		errs = append(errs, &RuleError{0, "rules", fmt.Sprintf("there are %d; write at most %d", len(p.Rules), maxRules)})
	}
	for i, r := range p.Rules {
		for _, problem := range r.problems() {
			problem.Rule = i + 1
			errs = append(errs, problem)
		}
	}
	return errors.Join(errs...)
}

func (r Rule) problems() []*RuleError {
	var all []*RuleError
	wrong := func(field, format string, args ...any) {
		all = append(all, &RuleError{Field: field, Text: fmt.Sprintf(format, args...)})
	}
	known := slices.Contains(Actions(), r.Do)
	if !known {
		wrong("do", "%q is unknown; write %s", r.Do, strings.Join(words(), ", "))
	}
	if _, text := conditions(r.Where); text != "" {
		wrong("where", "%q %s", r.Where, text)
	}
	if !(r.Share >= 0 && r.Share <= 1) {
		wrong("share", "%v is out of range; write a number above 0 and up to 1, or leave it out for all events", r.Share)
	}
	if r.Times < 0 {
		wrong("times", "%d is negative; write the number of attempts, or leave it out for all", r.Times)
	}
	switch {
	case r.Delay < 0 || r.Delay > maxDelay:
		wrong("delay", "%v is out of range; write at most %v", r.Delay, maxDelay)
	case r.Do == Slow && r.Delay == 0:
		wrong("delay", "is missing; write how long a slow attempt waits")
	case known && r.Do != Slow && r.Delay > 0:
		wrong("delay", "does not belong to %s; write a rule of its own with slow, they add up", r.Do)
	}
	// What does not fail has no text, and a text becomes a field of a record that people read.
	switch {
	case r.Error == "":
	case r.Do == Slow || r.Do == Hang || r.Do == Kill:
		wrong("error", "does not belong to %s; leave it out", r.Do)
	case strings.ContainsFunc(r.Error, unicode.IsControl) || !utf8.ValidString(r.Error):
		wrong("error", "%q has control characters or is not UTF-8; write one line of text", r.Error)
	}
	if r.Window.After < 0 {
		wrong("window.after", "%v is negative; write 0 for the start", r.Window.After)
	}
	if r.Window.For < 0 {
		wrong("window.for", "%v is negative; leave it out for no end", r.Window.For)
	}
	return all
}

func words() []string {
	var all []string
	for _, a := range Actions() {
		all = append(all, string(a))
	}
	return all
}
