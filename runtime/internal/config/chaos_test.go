package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/functions/chaos"
)

func TestAChaosFileIsReadAsItIsMeant(t *testing.T) {
	const content = `
seed: 7
rules:
  - function: file-claim
    where: source=//broker*,type=claim.*
    share: 0.1
    do: fail
    times: 3
    error: "contract system: connection refused"
    window: {after: 30s, for: 10m}
  - do: slow
    delay: 2s
  - {do: park, window: {for: 1h}}
`
	got, problems := parseChaos("c.yaml", []byte(content), compiled())
	want := chaos.Plan{Seed: 7, Rules: []chaos.Rule{
		{
			Function: "file-claim", Where: "source=//broker*,type=claim.*", Share: 0.1, Do: chaos.Fail, Times: 3,
			Error: "contract system: connection refused", Window: chaos.Window{After: 30 * time.Second, For: 10 * time.Minute},
		},
		{Do: chaos.Slow, Delay: 2 * time.Second},
		{Do: chaos.Park, Window: chaos.Window{For: time.Hour}},
	}}
	if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
		t.Errorf("problems: %v; plan (-want +got):\n%s", problems.err(), diff)
	}
	for _, action := range chaos.Actions() {
		content := "rules: [{do: " + string(action) + "}]"
		if action == chaos.Slow {
			content = "rules: [{do: slow, delay: 1ms}]"
		}
		if got, problems := parseChaos("c.yaml", []byte(content), nil); len(problems) > 0 || got.Rules[0].Do != action {
			t.Errorf("%s: got %+v and %v", content, got, problems.err())
		}
	}
}

func TestWhatIsWrongWithAChaosFileIsNamedWithItsLine(t *testing.T) {
	for content, want := range map[string]string{
		"":                                                   "c.yaml: is empty: hint: write rules: and below it - do: fail",
		"# nothing\n":                                        "c.yaml: is empty: hint: write rules: and below it - do: fail",
		"seed: 7\n":                                          "c.yaml:1:1: has seed alone: hint: write rules: and below it - do: fail",
		"rules: []\n":                                        "c.yaml:1:8: rules: the list is empty: hint: name at least one",
		"rules:\n  do: fail\n":                               "c.yaml:2:3: rules: got mapping, want a list: hint: write a list, as in [a, b]",
		"seed: -1\nrules: [{do: fail}]\n":                    "c.yaml:1:7: seed: -1 is out of range: hint: write a whole number from 0 to 2147483647",
		"rules:\n  - times: 2\n":                             "c.yaml:2:5: rules[0]: has times alone: hint: write what it does, as in do: fail; one of fail, park, hang, panic, kill, unavailable, slow",
		"rules:\n  - do: fial\n":                             `c.yaml:2:9: rules[0].do: "fial" is unknown: hint: did you mean fail?`,
		"rules:\n  - do: fail\n    tiems: 2\n":               "c.yaml:3:5: rules[0].tiems: unknown key: hint: did you mean times?",
		"rules:\n  - do: fail\n    times: 0\n":               "c.yaml:3:12: rules[0].times: 0 is out of range: hint: write a whole number from 1 to 1000",
		"rules:\n  - do: fail\n    share: 0\n":               "c.yaml:3:12: rules[0].share: 0 picks no event at all: hint: write more than 0, or leave it out for all events",
		"rules:\n  - do: fail\n    share: 10\n":              "c.yaml:3:12: rules[0].share: 10 is out of range: hint: write a number from 0 to 1",
		"rules:\n  - do: slow\n    delay: 0s\n":              "c.yaml:3:12: rules[0].delay: 0s is no time at all: hint: write more than 0, or leave it out for the default",
		"rules:\n  - do: fail\n  - do: slow\n":               "c.yaml:3:5: rules[1].delay: is missing: hint: write how long a slow attempt waits",
		"rules:\n  - do: hang\n    error: no\n":              "c.yaml:3:12: rules[0].error: does not belong to hang: hint: leave it out",
		"rules:\n  - do: fail\n    where: type\n":            `c.yaml:3:12: rules[0].where: "type" has a part without =: hint: write attribute=pattern, as in source=//broker*,type=claim.*`,
		"rules:\n  - do: fail\n    window: 10m\n":            `c.yaml:3:13: rules[0].window: got string, want a mapping: hint: write key: value lines`,
		"rules:\n  - do: fail\n    window: {for: 10}\n":      "c.yaml:3:19: rules[0].window.for: got the integer 10, want a string: hint: write a unit, as in 10s",
		"rules:\n  - do: fail\n    function: file-clam\n":    "c.yaml:3:15: rules[0].function: function file-clam is not hosted here: hint: did you mean file-claim?",
		"rules:\n  - do: fail\n    function: elsewhere-9\n":  "c.yaml:3:15: rules[0].function: function elsewhere-9 is not hosted here: hint: this node hosts file-claim, audit",
		"rules: [{do: fial}, {do: fail, times: x}, {do: a}]": "", // all of them
	} {
		_, problems := parseChaos("c.yaml", []byte(content), compiled())
		err := problems.err()
		if want == "" {
			if len(problems) != 3 {
				t.Errorf("%q: got %v, want 3 problems", content, err)
			}
			continue
		}
		if len(problems) != 1 || err.Error() != want {
			t.Errorf("%q:\ngot  %v\nwant %s", content, err, want)
		}
	}
}

func TestAChaosFileThatIsNotThereIsRefused(t *testing.T) {
	_, err := LoadChaos(filepath.Join(t.TempDir(), "nowhere.yaml"), nil)
	if problems := AllProblems(err); len(problems) != 1 || problems[0].Hint != "name the file with --chaos" {
		t.Errorf("got %v", err)
	}
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("rules: [{do: fail}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if plan, err := LoadChaos(path, nil); err != nil || len(plan.Rules) != 1 {
		t.Errorf("got %+v and %v, want one rule", plan, err)
	}
}

// Whatever the bytes are, they are a sound plan or refused with a place in the file.
func FuzzParseChaos(f *testing.F) {
	for _, seed := range []string{
		"", "rules: [{do: fail}]", "seed: 1\nrules:\n  - do: slow\n    delay: 1s\n    window: {after: 1s}\n", "rules: [[]]", "rules: [null]", "rules: &x [*x]",
		"rules:\n  - do: fail\n    where: a=b,\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		plan, problems := parseChaos("c.yaml", content, compiled())
		lines := 1 + bytes.Count(content, []byte("\n")) + bytes.Count(content, []byte("\r"))
		for _, p := range problems {
			if p.Text == "" || strings.Contains(p.Text, "\n") || p.Line > lines {
				t.Errorf("got %+v of %d lines, want a text on one line and a line of the file", p, lines)
			}
		}
		if len(problems) == 0 && (len(plan.Rules) == 0 || plan.Validate() != nil) {
			t.Errorf("got %+v accepted, which is no sound plan: %v", plan, plan.Validate())
		}
	})
}
