package streams

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"pgregory.net/rapid"
)

// drawKey draws keys that lie close together: those that look like an encoding, like no key, like a subject; and long ones.
func drawKey(t *rapid.T) string {
	return rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune("_%#.*>5F23aA \t\x00é€")), 0, 6, -1),
		rapid.String(),
		rapid.StringOfN(rapid.RuneFrom([]rune("ab.é")), 30, 250, -1),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 0, 220).Draw(t, "bytes")) }),
		rapid.Custom(func(t *rapid.T) string { return Lane(rapid.StringN(0, 120, -1).Draw(t, "key of a lane")) }),
	).Draw(t, "key")
}

// decodeToken undoes the percent-encoding of a token; ok is false where it is not canonical.
func decodeToken(token string) (decoded string, ok bool) {
	if token == emptyToken {
		return "", true
	}
	var b []byte
	for i := 0; i < len(token); i++ {
		if token[i] != '%' {
			b = append(b, token[i])
			continue
		}
		if i+2 >= len(token) {
			return "", false
		}
		c, err := hex.DecodeString(token[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b, i = append(b, c...), i+2
	}
	return string(b), true
}

// checkLane reads the key back out of its lane, which no two keys could share then, or finds its hash there.
func checkLane(t interface {
	Helper()
	Errorf(format string, args ...any)
}, key string) {
	t.Helper()
	lane := Lane(key)
	subject := "siding.retry.f." + lane + ".1"
	if !server.IsValidLiteralSubject(subject) || strings.Count(subject, ".") != 4 {
		t.Errorf("key %q: got the lane %q, which is not one literal token", key, lane)
	}
	for _, c := range []byte(lane) {
		if c <= ' ' || c > '~' || c == '*' || c == '>' {
			t.Errorf("key %q: got %q, with a byte that has a meaning", key, lane)
		}
	}
	if hash, found := strings.CutPrefix(lane, "#"); found {
		sum := sha256.Sum256([]byte(key))
		if hash != hex.EncodeToString(sum[:]) || len(key) <= maxLaneToken/3 {
			t.Errorf("key %q: got %q, want its hash only for what does not fit", key, lane)
		}
		return
	}
	if len(lane) > maxLaneToken {
		t.Errorf("key %q: got %d characters, want at most %d", key, len(lane), maxLaneToken)
	}
	if lane == NoLane {
		if key != "" {
			t.Errorf("key %q: got the lane of no key", key)
		}
		return
	}
	if got, ok := decodeToken(lane); !ok || got != key || key == "" {
		t.Errorf("key %q: got %q, which is the lane of %q", key, lane, got)
	}
}

func TestNoTwoKeysShareALane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawKey(t), drawKey(t)
		checkLane(t, a)
		if (a == b) != (Lane(a) == Lane(b)) {
			t.Errorf("got %q for %q and %q for %q", Lane(a), a, Lane(b), b)
		}
	})
}

func FuzzLane(f *testing.F) {
	for _, key := range []string{"", "_", "%5F", "%", "#", "a.b", "*", ">", "é", "\x00", strings.Repeat("x", 101)} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) { checkLane(t, key) })
}

func TestLanesOfParticularKeys(t *testing.T) {
	long := func(n int) string { return strings.Repeat("k", n) }
	hash := func(key string) string {
		sum := sha256.Sum256([]byte(key))
		return "#" + hex.EncodeToString(sum[:])
	}
	for key, want := range map[string]string{
		"":                       "_",
		"_":                      "%5F",
		"__":                     "__",
		"%5F":                    "%255F",
		"claim-4711":             "claim-4711",
		"a.b":                    "a%2Eb",
		"*":                      "%2A",
		">":                      "%3E",
		"#":                      "%23",
		"a b":                    "a%20b",
		"Müller":                 "M%C3%BCller",
		"a\r\nb":                 "a%0D%0Ab",
		"\x00":                   "%00",
		"\xff":                   "%FF",
		long(100):                long(100),
		long(101):                hash(long(101)),
		strings.Repeat(" ", 33):  strings.Repeat("%20", 33),
		strings.Repeat(" ", 34):  hash(strings.Repeat(" ", 34)),
		long(201):                hash(long(201)),
		strings.Repeat("x", 1e6): hash(strings.Repeat("x", 1e6)),
	} {
		if got := Lane(key); got != want {
			t.Errorf("key %q: got %s, want %s", excerpt(key), got, want)
		}
	}
}

func TestTypesBecomeSubjectsTokenByToken(t *testing.T) {
	for eventType, want := range map[string]string{
		"com.insurer.claim.reported": "events.com.insurer.claim.reported",
		"a":                          "events.a",
		"a..b":                       "events.a.%.b",
		".a.":                        "events.%.a.%",
		"%":                          "events.%25",
		"a b":                        "events.a%20b",
		"a.*.b":                      "events.a.%2A.b",
		"a.>":                        "events.a.%3E",
		"Größe.x":                    "events.Gr%C3%B6%C3%9Fe.x",
		"a/b:c":                      "events.a/b:c",
		"_":                          "events._",
	} {
		got, err := EventSubject(eventType)
		if err != nil || got != want || !server.IsValidLiteralSubject(got) {
			t.Errorf("type %q: got %q, %v, want the literal subject %q", eventType, got, err, want)
		}
	}
}

func TestOnlyWholeTokensOfAPatternAreWildcards(t *testing.T) {
	for pattern, want := range map[string]string{
		">":     "events.>",
		"*":     "events.*",
		"a.*.b": "events.a.*.b",
		"a.>":   "events.a.>",
		"a*":    "events.a%2A",
		"a.>b":  "events.a.%3Eb",
		"a.>.b": "events.a.%3E.b",
		"a..*":  "events.a.%.*",
		"a.**":  "events.a.%2A%2A",
		"ä.>":   "events.%C3%A4.>",
	} {
		got, err := TypeFilter(pattern)
		if err != nil || got != want || !server.IsValidSubject(got) {
			t.Errorf("pattern %q: got %q, %v, want %q", pattern, got, err, want)
		}
	}
}

func TestNoTwoTypesShareASubject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		eventType := drawType(t)
		subject, err := EventSubject(eventType)
		if err != nil {
			t.Fatal(err)
		}
		tokens := strings.Split(strings.TrimPrefix(subject, eventsPrefix), ".")
		for i, token := range tokens {
			var ok bool
			if tokens[i], ok = decodeToken(token); !ok {
				t.Errorf("type %q: got the token %q", eventType, token)
			}
		}
		if got := strings.Join(tokens, "."); got != eventType || !server.IsValidLiteralSubject(subject) {
			t.Errorf("type %q: got %q, which is the subject of %q", eventType, subject, got)
		}
	})
}

func drawType(t *rapid.T) string {
	return rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune("ab.*>% é")), 0, 8, -1),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", ">", "", "%"}), 1, 5), func(s []string) string { return strings.Join(s, ".") }),
		rapid.StringN(0, 100, -1),
	).Draw(t, "type")
}

func drawPattern(t *rapid.T) string {
	return rapid.OneOf(
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", ">", ""}), 1, 5), func(s []string) string { return strings.Join(s, ".") }),
		rapid.StringOfN(rapid.RuneFrom([]rune("ab.*>% é")), 0, 8, -1),
	).Draw(t, "pattern")
}

// matchesPattern is the meaning of a pattern, said on the type itself.
func matchesPattern(pattern, eventType string) bool {
	p, e := strings.Split(pattern, "."), strings.Split(eventType, ".")
	if last := len(p) - 1; p[last] == ">" {
		if len(e) < len(p) {
			return false
		}
		p, e = p[:last], e[:last]
	}
	return slices.EqualFunc(p, e, func(p, e string) bool { return p == "*" || p == e })
}

func TestAPatternSelectsItsTypesExactlyAsTheServerMatches(t *testing.T) {
	matched, checked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pattern, eventType := drawPattern(t), drawType(t)
		filter, err := TypeFilter(pattern)
		if err != nil {
			t.Fatal(err)
		}
		subject, err := EventSubject(eventType)
		if err != nil {
			t.Fatal(err)
		}
		want := server.SubjectMatchesFilter(subject, filter)
		if got := MatchesType(filter, subject); got != want {
			t.Errorf("%s in %s: got %v, want the server's %v", subject, filter, got, want)
		}
		if said := matchesPattern(pattern, eventType); said != want {
			t.Errorf("type %q, pattern %q: got %v from the server for %s in %s, want %v", eventType, pattern, want, subject, filter, said)
		}
		if checked++; want {
			matched++
		}
	})
	if matched == 0 || matched == checked {
		t.Errorf("got %d of %d drawn types matched, want some", matched, checked)
	}
}

func TestAFilterCoversAnotherExactlyAsTheServerSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wide, err1 := TypeFilter(drawPattern(t))
		narrow, err2 := TypeFilter(drawPattern(t))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got, want := covers(wide, narrow), server.SubjectMatchesFilter(narrow, wide); got != want {
			t.Errorf("%s covers %s: got %v, want %v", wide, narrow, got, want)
		}
	})
}

func TestFiltersDropWhatAnotherCoversAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		patterns := rapid.SliceOfN(rapid.Custom(drawPattern), 0, 6).Draw(t, "patterns")
		filters, err := TypeFilters(patterns)
		if err != nil {
			t.Fatal(err)
		}
		all := make([]string, len(patterns))
		for i, p := range patterns {
			if all[i], err = TypeFilter(p); err != nil {
				t.Fatal(err)
			}
		}
		at := 0
		for _, f := range filters { // each filter in the order of its pattern
			for at < len(all) && all[at] != f {
				at++
			}
			if at++; at > len(all) {
				t.Fatalf("patterns %q: got %q, want them in order", patterns, filters)
			}
		}
		for _, f := range all {
			if !slices.ContainsFunc(filters, func(g string) bool { return server.SubjectMatchesFilter(f, g) }) {
				t.Errorf("patterns %q: got %q, in which %s is missing", patterns, filters, f)
			}
		}
		for i, f := range filters {
			for j, g := range filters {
				if i != j && server.SubjectMatchesFilter(f, g) {
					t.Errorf("patterns %q: got %q, in which %s covers %s", patterns, filters, g, f)
				}
			}
		}
	})
	got, err := TypeFilters([]string{"a.b", "c", "a.*", "c", "a.>", "b.*.d"})
	if diff := cmp.Diff([]string{"events.c", "events.a.>", "events.b.*.d"}, got); diff != "" || err != nil {
		t.Errorf("error %v, filters (-want +got):\n%s", err, diff)
	}
}

func TestTypesThatAreTooLongForASubjectAreRefused(t *testing.T) {
	fits, tooLong := strings.Repeat("é", MaxTypeSubject/6), strings.Repeat("é", MaxTypeSubject/6+1)
	for name, build := range map[string]func(string) (string, error){"type": EventSubject, "type pattern": TypeFilter} {
		if subject, err := build(fits); err != nil || len(subject) > len(eventsPrefix)+MaxTypeSubject {
			t.Errorf("%s: got %d bytes, %v, want a subject", name, len(subject), err)
		}
		_, err := build(tooLong)
		if want := name + " of " + strconv.Itoa(len(tooLong)) + " bytes"; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want an error that begins with %q", name, err, want)
		}
	}
	if _, err := TypeFilters([]string{"a", tooLong}); err == nil {
		t.Error("patterns: got no error")
	}
}
