package functions

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxNameLen     = 63
	maxStreamLen   = 255 // JetStream's own limit
	maxAttempts    = 1000
	maxConcurrency = 1024
	minRate        = 0.0001
	maxRate        = 100_000
)

// problem is one thing that is wrong, and the field it is about. Fields are
// written in lower case, which a reader of Go and a reader of a configuration
// file both recognise.
type problem struct{ field, text string }

func problemf(field, format string, args ...any) problem {
	return problem{field: field, text: fmt.Sprintf(format, args...)}
}

// Validate returns nil if f can be hosted, else one error that joins
// everything that is wrong with it; each part names the function and the
// field, and says what to write instead. Zero fields that have a default are
// sound.
func (f Function) Validate() error { return errors.Join(f.validate()...) }

// ValidateAll validates functions that are to be hosted together: each by
// itself, and that no two have the same name. It returns one error that joins
// everything that is wrong.
func ValidateAll(fns []Function) error {
	var errs []error
	count := make(map[string]int, len(fns))
	for _, f := range fns {
		errs = append(errs, f.validate()...)
		// An empty name has already been refused, for each that has it.
		if count[f.Name]++; count[f.Name] == 2 && f.Name != "" {
			errs = append(errs, f.wrong(problemf("name", "two functions have it; a name is where the events of one function stand, so rename one")))
		}
	}
	return errors.Join(errs...)
}

func (f Function) wrong(p problem) error {
	return &FieldError{Function: f.Name, Field: p.field, Text: p.text}
}

func (f Function) validate() []error {
	f = f.WithDefaults()
	var ps []problem
	if !validName(f.Name) {
		ps = append(ps, problemf("name", "is not valid; write a letter a to z, then letters, digits and hyphens, at most %d characters", maxNameLen))
	}
	ps = append(ps, typeProblems(f.Types)...)
	if text := streamProblem(f.Stream); text != "" {
		ps = append(ps, problemf("stream", "%q %s", f.Stream, text))
	}
	if text := f.OrderBy.problem(); text != "" {
		ps = append(ps, problemf("orderby", "%q %s", f.OrderBy, text))
	}
	if f.OnPark != Hold && f.OnPark != Continue {
		ps = append(ps, problemf("onpark", "%v is unknown; write Hold or Continue", f.OnPark))
	}
	ps = append(ps, f.HoldLimit.problems()...)
	ps = append(ps, f.Retry.problems()...)
	ps = append(ps, ruleProblems(f.Rules, f.Retry.Attempts)...)
	ps = append(ps, f.Breaker.problems()...)
	ps = append(ps, dependencyProblems(f.Dependencies)...)
	if f.Rate != 0 && !(f.Rate >= minRate && f.Rate <= maxRate) { // no comparison holds for what is no number
		ps = append(ps, problemf("rate", "%g is out of range; write attempts a second from %g to %d, or 0 for no limit", f.Rate, minRate, maxRate))
	}
	ps = append(ps, f.Window.problems()...)
	if f.Timeout < 0 {
		ps = append(ps, problemf("timeout", "%v is negative; write 0 for the default of %v", f.Timeout, DefaultTimeout))
	}
	if f.Concurrency < 1 || f.Concurrency > maxConcurrency {
		ps = append(ps, problemf("concurrency", "%d is out of range; write 1 to %d", f.Concurrency, maxConcurrency))
	}
	if f.Start != FromNow && f.Start != FromBeginning {
		ps = append(ps, problemf("start", "%v is unknown; write FromNow or FromBeginning", f.Start))
	}
	// Both travel in headers, where a line break would begin another header.
	for _, text := range []struct{ field, value string }{{"owner", f.Owner}, {"version", f.Version}} {
		if strings.ContainsFunc(text.value, unicode.IsControl) || !utf8.ValidString(text.value) {
			ps = append(ps, problemf(text.field, "%q has control characters or is not UTF-8; write one line of text", text.value))
		}
	}
	if f.Schema != nil && f.compiled.err != nil {
		ps = append(ps, problemf("schema", "%v", f.compiled.err))
	}
	if f.Handle == nil {
		ps = append(ps, problemf("handle", "is missing; write Typed(fn), HTTP(url) or a func(context.Context, functions.Event) error"))
	}
	errs := make([]error, 0, len(ps))
	for _, p := range ps {
		errs = append(errs, f.wrong(p))
	}
	return errs
}

// validName is [a-z][a-z0-9-]{0,62}: a name is a token of subjects, a part of
// the names of streams and of files, and a metric label.
func validName(name string) bool {
	if name == "" || len(name) > maxNameLen || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// streamProblem holds a stream's name to JetStream's own rule.
func streamProblem(name string) string {
	switch {
	case len(name) > maxStreamLen:
		return fmt.Sprintf("is longer than %d bytes", maxStreamLen)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, blank):
		return "has white space or control characters, which no stream's name has"
	case strings.ContainsAny(name, `.*>/\`):
		return `has one of . * > / \, which no stream's name has; write the name of the stream, not a subject`
	}
	return ""
}

func blank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
