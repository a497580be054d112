package functions

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// sound is the rule for patterns written once more in another way.
var sound = regexp.MustCompile(`^(([^.*>]+|\*)(\.([^.*>]+|\*))*(\.>)?|>)$`)

func FuzzTypePattern(f *testing.F) {
	for _, s := range []string{"", ">", "*", "a", "a.b", "a.*.c", "a.>", "a.>.b", "a..b", ".a", "a.", "a*", "*a", "a>", "a b", "a\nb", "\x00", "é.ü", "\xff", "a.\u0085", "a%b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		want := sound.MatchString(pattern) && utf8.ValidString(pattern) &&
			!strings.ContainsFunc(pattern, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
		fn := Function{Name: "f", Types: []string{pattern}, Handle: func(context.Context, Event) error { return nil }}
		if err := fn.Validate(); (err == nil) != want {
			t.Errorf("%q: got %v, want it accepted: %v", pattern, err, want)
		}
		if want && !covers(pattern, pattern) {
			t.Errorf("%q does not cover itself", pattern)
		}
	})
}

// matches is NATS's rule for a subject without wildcards.
func matches(pattern, subject []string) bool {
	if len(pattern) == 0 || len(subject) == 0 {
		return len(pattern) == len(subject)
	}
	if pattern[0] == ">" {
		return true
	}
	return (pattern[0] == "*" || pattern[0] == subject[0]) && matches(pattern[1:], subject[1:])
}

// Over all types of up to four tokens from an alphabet that has one more
// letter than the patterns use, covering is the same as matching all that the
// other matches.
func TestCoversIsInclusionOfWhatIsMatched(t *testing.T) {
	var subjects [][]string
	var grow func(prefix []string)
	grow = func(prefix []string) {
		if len(prefix) > 0 {
			subjects = append(subjects, prefix)
		}
		if len(prefix) < 4 {
			for _, token := range []string{"a", "b", "other"} {
				grow(append(slices.Clip(prefix), token))
			}
		}
	}
	grow(nil)
	draw := rapid.Custom(func(t *rapid.T) []string {
		p := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*"}), 0, 3).Draw(t, "tokens")
		if len(p) == 0 || rapid.Bool().Draw(t, "open") {
			p = append(p, ">")
		}
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		wide, narrow := draw.Draw(t, "wide"), draw.Draw(t, "narrow")
		want := true
		for _, s := range subjects {
			if matches(narrow, s) && !matches(wide, s) {
				want = false
			}
		}
		if got := covers(strings.Join(wide, "."), strings.Join(narrow, ".")); got != want {
			t.Fatalf("%q covers %q: got %v, want %v", wide, narrow, got, want)
		}
	})
}
