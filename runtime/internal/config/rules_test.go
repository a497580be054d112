package config

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/functions"
)

func TestRulesOfTheFileComeBeforeThoseOfTheCode(t *testing.T) {
	inGo := functions.OnIs(os.ErrNotExist, functions.ClassPermanent)
	code := []functions.Function{{
		Name: "audit", Types: []string{">"}, Handle: handled, Breaker: functions.Breaker{Off: true, Probes: 7},
		Rules: []functions.Rule{inGo, functions.OnText("slow", "").WithAttempts(9)},
	}}
	c, err := load(t, `
functions:
  audit:
    retry: {attempts: 4}
    breaker: {off: false, failures: 5, unavailable: 2, inflow: 0.25, probe: 1s, longest_probe: 2s}
    rules:
      - {text: connection refused, class: unavailable}
      - text: deadlock
        attempts: 3
        backoff: {delays: [5s]}
  u: {url: http://h, types: [a], rules: [{text: "400", class: permanent}]}
`, func(s *Sources) { s.Compiled = code })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range c.Resolved() {
		if strings.Contains(r.Key, ".rules") {
			got = append(got, strings.TrimSpace(strings.Join([]string{r.Key, r.Value, string(r.Origin), r.Where}, " ")))
		}
	}
	want := []string{
		`functions.audit.rules[0] "connection refused": unavailable file c.yaml:7`,
		`functions.audit.rules[1] "deadlock": 3 attempts, delays 5s file c.yaml:8`,
		"functions.audit.rules[2] what a Go function matches: permanent code",
		`functions.audit.rules[3] "slow": 4 attempts code`, // no more than the file allows
		`functions.u.rules[0] "400": permanent file c.yaml:11`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if got := code[0].Rules; len(got) != 2 || got[1].Attempts != 9 {
		t.Errorf("got the rules of the code changed to %v", got)
	}
	breaker := functions.Breaker{Failures: 5, Unavailable: 2, Inflow: 0.25, Probe: time.Second, LongestProbe: 2 * time.Second, Probes: 7}
	if got := c.Functions[0].Breaker; got != breaker {
		t.Errorf("got %+v, want %+v", got, breaker)
	}
}

// A class that the file knows and a function refuses would be a trap, and so would be the other way round.
func TestRulesInTheFileHaveTheClassesOfThoseInGo(t *testing.T) {
	for _, class := range functions.Classes() {
		f := compiled()[0]
		f.Rules = []functions.Rule{functions.OnText("x", class)}
		if inGo, inFile := f.Validate() == nil, slices.Contains(ruleClasses(), string(class)); inGo != inFile {
			t.Errorf("%s: got it accepted in Go: %v, in the file: %v", class, inGo, inFile)
		}
	}
}
