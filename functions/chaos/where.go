package chaos

import (
	"strings"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/types"

	"github.com/siding-dev/siding/functions"
)

// condition is one attribute and the pattern that it must match.
type condition struct{ name, pattern string }

// conditions reads a Where. The text says what is wrong with it and what to write
// instead, and is empty for a sound one.
func conditions(where string) (all []condition, text string) {
	if where == "" {
		return nil, ""
	}
	for part := range strings.SplitSeq(where, ",") {
		name, pattern, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		switch {
		case !ok:
			return nil, "has a part without =; write attribute=pattern, as in source=//broker*,type=claim.*"
		case name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "":
			return nil, "names no attribute; CloudEvents allows the letters a to z and digits"
		case name == "data":
			return nil, "asks for the data; write an attribute or an extension"
		}
		all = append(all, condition{name, strings.TrimSpace(pattern)})
	}
	return all, ""
}

// holds says whether an event satisfies a Where; an unsound one holds for none.
func holds(where string, e functions.Event) bool {
	all, text := conditions(where)
	for _, c := range all {
		if !matches(c.pattern, attribute(e, c.name)) {
			return false
		}
	}
	return text == ""
}

// matches says whether a pattern covers the whole of s. It goes back to the last
// * alone, which is enough: an earlier one could only take less.
func matches(pattern, s string) bool {
	star, resume := -1, 0 // where the last * stands, and where what it covers ends
	p, i := 0, 0
	for i < len(s) {
		_, width := utf8.DecodeRuneInString(s[i:])
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, i
			p++
		case p < len(pattern) && pattern[p] == '?':
			p, i = p+1, i+width
		case p < len(pattern) && pattern[p] == s[i]:
			p, i = p+1, i+1
		case star >= 0:
			_, width = utf8.DecodeRuneInString(s[resume:])
			resume += width
			p, i = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// attribute returns an attribute or extension of e in its canonical form, and
// nothing if e does not have it.
func attribute(e functions.Event, name string) string {
	if e.Context == nil {
		return ""
	}
	switch name {
	case "specversion":
		return e.SpecVersion()
	case "id":
		return e.ID()
	case "source":
		return e.Source()
	case "type":
		return e.Type()
	case "subject":
		return e.Subject()
	case "datacontenttype":
		return e.DataContentType()
	case "dataschema":
		return e.DataSchema()
	case "time":
		if e.Time().IsZero() {
			return ""
		}
		return types.FormatTime(e.Time())
	}
	value, ok := e.Extensions()[name]
	if !ok {
		return ""
	}
	text, err := types.Format(value)
	if err != nil {
		return ""
	}
	return text
}
