package where

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestConditionsPickWhatTheySay(t *testing.T) {
	event := map[string]string{"source": "/partners/acme/7", "type": "com.insurer.claim.reported", "tenant": `a,"b"*`}
	get := func(name string) string { return event[name] }
	for text, want := range map[string]bool{
		"source=/partners/acme/7":           true,
		"source=/partners/acme/*":           true,
		"source=/partners/acme":             false,
		"source=*acme*":                     true,
		"source=*7*acme*":                   false,
		"source=/partners/acme/7*7":         false,
		"source!=/partners/*":               false,
		"type != com.insurer.claim.closed":  true,
		`tenant="a,\"b\"*"`:                 true,
		`tenant="a,\"b\"x"`:                 false,
		`tenant="a*"`:                       false,
		"tenant=a*":                         true,
		`region=""`:                         true,
		`region!=""`:                        false,
		"size>99":                           true,
		"size>100":                          false,
		"size<101, size>99":                 true,
		"source=/partners/acme/*,size>1000": false,
		" source=*, type=com.insurer.claim.reported ,size<200": true,
	} {
		w, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := w.Match(get, 100); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	if (Where{}).Match(get, 100) {
		t.Error("no condition at all picked an event")
	}
}

func TestWhatIsNoConditionIsRefusedWithAHint(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "condition 1: no attribute",
		"Source=x":                  "names are lower case",
		"source":                    "source: no comparison: write source=VALUE",
		"source~x":                  "source: no comparison",
		"source=":                   `source: no value: write ""`,
		"source=x,":                 "condition 2: no attribute",
		"source=x,,type=y":          "condition 2: no attribute",
		`source="x`:                 "source: its quotation has no end",
		`source="x"y`:               "put a comma between conditions",
		"size=5":                    "size: is compared with > or <",
		"size>1MB":                  `size: "1MB" is no number of bytes`,
		"size>-1":                   `size: "-1" is no number of bytes`,
		"time>5":                    "time>: only size is compared as a number",
		"sise>5":                    "did you mean size?",
		strings.Repeat("a=b,", 300): "conditions of 1200 bytes: longer than 1024",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestConditionsComeBackAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		value := rapid.StringMatching(`[ -~é]{0,12}`)
		var parts []string
		for range rapid.IntRange(1, 4).Draw(rt, "conditions") {
			parts = append(parts, rapid.OneOf(
				rapid.Map(value, func(v string) string {
					return `tenant="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`
				}),
				rapid.Map(rapid.StringMatching(`[a-c*]{1,8}`), func(v string) string { return "source!=" + v }),
				rapid.SampledFrom([]string{"size>7", "size < 007"}),
			).Draw(rt, "condition"))
		}
		text := strings.Join(parts, ",")
		w, err := Parse(text)
		if err != nil {
			rt.Fatalf("%s: %v", text, err)
		}
		again, err := Parse(w.String())
		if err != nil || again.String() != w.String() {
			rt.Fatalf("%s: got %s, then %s, %v", text, w, again, err)
		}
		event := map[string]string{"tenant": value.Draw(rt, "tenant"), "source": rapid.StringMatching(`[a-c]{0,6}`).Draw(rt, "source")}
		size := rapid.IntRange(0, 12).Draw(rt, "size")
		get := func(name string) string { return event[name] }
		if w.Match(get, size) != again.Match(get, size) {
			rt.Fatalf("%s and %s differ about %v of %d bytes", text, w, event, size)
		}
	})
}

func TestAStarStandsForAnything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[ab]{0,8}`).Draw(rt, "text")
		pattern := rapid.StringMatching(`[ab*]{0,6}`).Draw(rt, "pattern")
		want, err := path.Match(pattern, text) // the same, where no text has a slash in it
		if err != nil {
			rt.Fatal(err)
		}
		if got := like(text, pattern); got != want {
			rt.Fatalf("%s like %s: got %v, want %v", text, pattern, got, want)
		}
	})
}
