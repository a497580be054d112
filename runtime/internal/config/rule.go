package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/siding-dev/siding/runtime/internal/spelling"
)

// fault is what a rule finds wrong with one value; the zero value is sound.
type fault struct{ text, hint string }

func faultf(hint, format string, args ...any) fault {
	return fault{text: fmt.Sprintf(format, args...), hint: hint}
}

// scalar is the rule of a single value. The file, the environment and the flags
// share it.
type scalar interface {
	rule
	// kind is the JSON type that a file must give: string, integer, number or
	// boolean.
	kind() string
	// parse reads a value that is written as text.
	parse(text string) (any, fault)
}

// example returns what to write, for an error.
type example string

// words is one of a closed set of words.
type words []string

func (words) kind() string { return "string" }

func (w words) parse(s string) (any, fault) {
	if slices.Contains(w, s) {
		return s, fault{}
	}
	hint := "write " + strings.Join(w, " or ")
	if near := spelling.Nearest(s, w); near != "" {
		hint = "did you mean " + near + "?"
	}
	return nil, faultf(hint, "%q is unknown", s)
}

func (w words) schema() map[string]any { return map[string]any{"enum": w.any()} }

func (w words) any() []any {
	all := make([]any, len(w))
	for i, word := range w {
		all[i] = word
	}
	return all
}

// text is a string of a shape. Want says what it is to be.
type text struct {
	want    example
	pattern *regexp.Regexp
}

func (text) kind() string { return "string" }

func (t text) parse(s string) (any, fault) {
	if !t.pattern.MatchString(s) {
		return nil, faultf("write "+string(t.want), "%q is not valid", s)
	}
	return s, fault{}
}

func (t text) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": t.pattern.String()}
}

// duration is a length of time, as Go writes it, of at most years and at least
// a microsecond, so that no sum overflows.
type duration struct {
	positive bool // zero would not mean what it says
	seconds  bool // in whole seconds
}

var (
	anyDuration   = regexp.MustCompile(`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h)){1,4}$`)
	wholeDuration = regexp.MustCompile(`^([0-9]{1,5}(s|m|h)){1,3}$`)
	notZero       = regexp.MustCompile(`[1-9]`)
)

func (duration) kind() string { return "string" }

func (d duration) pattern() (shape *regexp.Regexp, hint string) {
	if d.seconds {
		return wholeDuration, "write whole seconds, minutes or hours, as in 30s or 1m30s"
	}
	return anyDuration, "write a number and a unit (ms, s, m, h), as in 500ms or 1m30s"
}

func (d duration) parse(s string) (any, fault) {
	shape, hint := d.pattern()
	if !shape.MatchString(s) {
		return nil, faultf(hint, "%q is not a duration", s)
	}
	if d.positive && !notZero.MatchString(s) {
		return nil, faultf("write more than 0, or leave it out for the default", "%s is no time at all", s)
	}
	parsed, err := time.ParseDuration(s)
	if err != nil {
		return nil, faultf(hint, "%v", err)
	}
	return parsed, fault{}
}

func (d duration) schema() map[string]any {
	shape, _ := d.pattern()
	s := map[string]any{"type": "string", "pattern": shape.String()}
	if d.positive {
		s["allOf"] = []any{map[string]any{"pattern": notZero.String()}}
	}
	return s
}

// integer is a whole number from least to most.
type integer struct{ least, most int }

func (integer) kind() string { return "integer" }

func (i integer) parse(s string) (any, fault) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n != math.Trunc(n) || n < float64(i.least) || n > float64(i.most) {
		return nil, faultf(fmt.Sprintf("write a whole number from %d to %d", i.least, i.most), "%s is out of range", s)
	}
	return int(n), fault{}
}

func (i integer) schema() map[string]any {
	return map[string]any{"type": "integer", "minimum": i.least, "maximum": i.most}
}

// share is a number from 0 to 1.
type share struct {
	positive bool // zero would not mean what it says
}

func (share) kind() string { return "number" }

func (r share) parse(s string) (any, fault) {
	n, err := strconv.ParseFloat(s, 64)
	switch {
	case err == nil && n > 0 && n <= 1, err == nil && n == 0 && !r.positive:
		return n, fault{}
	case r.positive:
		return nil, faultf("write a number above 0, at most 1", "%s is out of range", s)
	}
	return nil, faultf("write a number from 0 to 1", "%s is out of range", s)
}

func (r share) schema() map[string]any {
	if r.positive {
		return map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": 1}
	}
	return map[string]any{"type": "number", "minimum": 0, "maximum": 1}
}

// rate is how many there may be in a second: 0 for any number, or from least to
// most.
type rate struct{ least, most float64 }

func (rate) kind() string { return "number" }

func (r rate) parse(s string) (any, fault) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n == 0 || n >= r.least && n <= r.most) {
		return nil, faultf(fmt.Sprintf("write a number from %g to %g, or 0 for no limit", r.least, r.most), "%s is out of range", s)
	}
	return n, fault{}
}

func (r rate) schema() map[string]any {
	return map[string]any{"type": "number", "anyOf": []any{map[string]any{"const": 0}, map[string]any{"minimum": r.least, "maximum": r.most}}}
}

// yesNo is true or false.
type yesNo struct{}

func (yesNo) kind() string { return "boolean" }

func (yesNo) parse(s string) (any, fault) {
	switch s {
	case "true":
		return true, fault{}
	case "false":
		return false, fault{}
	}
	return nil, faultf("write true or false", "%q is neither true nor false", s)
}

func (yesNo) schema() map[string]any { return map[string]any{"type": "boolean"} }
