package digest

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestWhatDiffersFromEventToEventIsLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		"":                                           "",
		"date of loss is missing":                    "date of loss is missing",
		"policy 8831 not found":                      "policy # not found",
		"policy CLM-2026-000123-XKQ not found":       "policy # not found",
		`policy "P-8831" not found`:                  `policy "…" not found`,
		"policy 'it's gone' isn't there":             "policy '…' isn't there",
		"open `a b`: “x” and «y»":                    "open `…`: “…” and «…»",
		`a "\"quoted\" value" b`:                     `a "…" b`,
		`cut in "the mid`:                            `cut in "…`,
		"id 550e8400-e29b-41d4-a716-446655440000!":   "id #!",
		"id deadbeefcafe":                            "id #",
		"commit 4f1c9a2b3d":                          "commit #",
		"dial tcp 10.0.0.1:5432: connection refused": "dial tcp #: connection refused",
		"dial tcp [2001:db8::7]:53: i/o timeout":     "dial tcp #: i/o timeout",
		"dial tcp [::1]:53: std::bad_alloc":          "dial tcp #: std::bad_alloc",
		"at 2026-12-01T02:10:00Z":                    "at #",
		"at 2026-12-01T02:10:00.123+01:00":           "at #",
		"at 2026-12-01 02:10:00 +0000 UTC, late":     "at #, late",
		"after 1m30.5s":                              "after #",
		"after 45s":                                  "after #",
		"got 1,234.5, want -7 or 1e-9":               "got #, want # or #",
		"pointer 0xc0000142a0":                       "pointer #",
		"utf8 and sha256":                            "utf# and sha#",
		"main.go:123: no":                            "main.go:#: no",
		"two\nlines\tand\x1b[31m red":                "two lines and [# red",
		"bad \xff\xfe bytes":                         "bad ?? bytes",
		"the handler's fault":                        "the handler's fault",
	} {
		if got := Normalise(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestAFingerprintIsTheSameOnEveryMachineAndInEveryVersion(t *testing.T) {
	for _, tc := range []struct{ class, text, want string }{
		{"permanent", "date of loss is missing", "03ef803b1b"},
		{"transient", "date of loss is missing", "eec2f1ca5a"},
		{"transient", "policy 7 not found", "a1090d35a0"},
		{"", "", "6e340b9cff"},
	} {
		if got := Fingerprint(tc.class, tc.text); got != tc.want {
			t.Errorf("%s, %q: got %s, want %s", tc.class, tc.text, got, tc.want)
		}
	}
}

// hostile draws what an error may say: words, numbers, ids, quotes, and any bytes.
func hostile() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			" ", "-", ":", ".", ",", "/", "+", "#", "…", `"`, "'", "`", "“", "”", "‘", "’", "«", "»", `\`, "[", "]", "%", "=", "T", "Z", "s", "m", "h",
			"0x", "0", "7", "12", "2026-12-01", "02:10:00", "1m30s", "fe80::1", "::", "deadbeef", "550e8400-e29b-41d4-a716-446655440000", "a", "policy", "é", "٣", "\x00",
			"\xff", "\u2028", "\u200b", "e-", "E5", "_",
		}),
		rapid.StringN(0, 12, -1),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }),
	)
	return rapid.Map(rapid.SliceOfN(piece, 0, 40), func(pieces []string) string { return strings.Join(pieces, "") })
}

// checkNormal holds what Normalise makes against its contract.
func checkNormal(t rapid.TB, text string) {
	t.Helper()
	once := Normalise(text)
	if twice := Normalise(once); twice != once {
		t.Fatalf("%q: got %q and then %q", text, once, twice)
	}
	if len(once) > maxWhy || !utf8.ValidString(once) || strings.ContainsFunc(once, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		t.Fatalf("%q: got %q, want a short line of valid UTF-8", text, once)
	}
}

func TestNormalisingAgainChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { checkNormal(rt, hostile().Draw(rt, "text")) })
}

func FuzzNormalise(f *testing.F) {
	for _, seed := range []string{"", `a "b" 'c' 12`, "“x", "2026-12-01T02:10:00Z", "fe80::1%eth0", strings.Repeat("ab1", 5000), "\xff\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) { checkNormal(t, text) })
}

func TestNumbersIdsAndQuotedPartsDoNotChangeTheFingerprint(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[g-z]{1,12}`), 1, 8).Draw(rt, "words")
		value := rapid.OneOf(
			rapid.Map(rapid.Uint64(), func(n uint64) string { return decimal(n) }),
			rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
			rapid.StringMatching(`0x[0-9a-f]{1,12}`),
			rapid.StringMatching(`[0-9a-f]{8,40}`),
			rapid.StringMatching(`[0-9]{1,3}(\.[0-9]{1,3}){3}:[0-9]{1,5}`),
			rapid.StringMatching(`[1-9][0-9]?(ms|s|h|m)`),
		)
		quoted := rapid.StringMatching(`[^"\\\x00-\x1f]{1,30}`)
		render := func(label string) string {
			text := ""
			for i, word := range words {
				switch i % 3 {
				case 0:
					text += word + " " + value.Draw(rt, label) + " "
				case 1:
					text += word + ` "` + quoted.Draw(rt, label) + `": `
				default:
					text += word + decimal(rapid.Uint64().Draw(rt, label)) + " "
				}
			}
			return text
		}
		a, b := render("a"), render("b")
		if Fingerprint("c", a) != Fingerprint("c", b) {
			rt.Fatalf("got %q of %q and %q of %q, want them alike", Normalise(a), a, Normalise(b), b)
		}
	})
}

func decimal(n uint64) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return decimal(n/10) + decimal(n%10)
}

func TestCleanTextIsOneBoundedLine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text, most := hostile().Draw(rt, "text"), rapid.IntRange(0, 50).Draw(rt, "most")
		got := Clean(text, most)
		if len(got) > most || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x00\x1b") {
			rt.Fatalf("%q, %d: got %q", text, most, got)
		}
	})
	if got := Clean("kept: 12 \"as it is\"", 100); got != "kept: 12 \"as it is\"" {
		t.Errorf("got %q", got)
	}
}
