package functions

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// maxViolation bounds each part of what is told about data, in bytes: it travels in
// records, dead letters and answers.
const maxViolation = 200

// firstViolation is the violation whose place comes first. The validator finds
// them in the order of a map.
func firstViolation(e *jsonschema.ValidationError) *SchemaError {
	var first *SchemaError
	words := message.NewPrinter(language.English)
	var visit func(*jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		switch e.ErrorKind.(type) {
		case *kind.AnyOf, *kind.OneOf:
			// One of several must hold: what is wrong with each is no violation by itself.
		default:
			if len(e.Causes) > 0 {
				for _, cause := range e.Causes {
					visit(cause)
				}
				return
			}
		}
		found := &SchemaError{Path: shorten(pointer(e.InstanceLocation)), Reason: e.ErrorKind.LocalizedString(words)}
		if len(e.Causes) > 0 {
			// The first of the alternatives tells more than that none of them holds.
			found.Reason += ", for one because " + because(firstViolation(e.Causes[0]), found.Path)
		}
		found.Reason = shorten(found.Reason)
		if first == nil || found.Path < first.Path || found.Path == first.Path && found.Reason < first.Reason {
			first = found
		}
	}
	visit(e)
	return first
}

func because(v *SchemaError, path string) string {
	if v.Path == path {
		return v.Reason
	}
	return "at " + v.Path + ": " + v.Reason
}

// maxNumber is how long a number may be written, and how large its exponent may be. No float64 needs more, and the
// validator computes with exact fractions: 1e999999 would keep it busy.
const maxNumber = 400

// absurdNumber finds a number that is not to be computed with.
func absurdNumber(v any, path []string) *SchemaError {
	switch v := v.(type) {
	case json.Number:
		text := strings.ToLower(string(v))
		_, exponent, _ := strings.Cut(text, "e")
		n, err := strconv.Atoi(exponent)
		if len(text) > maxNumber || exponent != "" && (err != nil || n > maxNumber || n < -maxNumber) {
			return &SchemaError{Path: shorten(pointer(path)), Reason: fmt.Sprintf("the number %.25s is too long or too large", text)}
		}
	case []any:
		for i, item := range v {
			if bad := absurdNumber(item, append(path, strconv.Itoa(i))); bad != nil {
				return bad
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if bad := absurdNumber(v[name], append(path, name)); bad != nil {
				return bad
			}
		}
	}
	return nil
}

// pointer writes a JSON pointer.
func pointer(path []string) string {
	var b strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, token := range path {
		b.WriteByte('/')
		b.WriteString(escape.Replace(token))
	}
	return b.String()
}

// shorten bounds a text from outside.
func shorten(s string) string {
	if len(s) > maxViolation {
		s = s[:maxViolation] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
