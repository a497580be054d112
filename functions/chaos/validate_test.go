package chaos

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAnUnsoundRuleIsRefusedByItsField(t *testing.T) {
	for _, tc := range []struct {
		field string
		rule  Rule
	}{
		{"do", Rule{}},
		{"do", Rule{Do: "explode"}},
		{"where", Rule{Do: Fail, Where: "type"}},
		{"where", Rule{Do: Fail, Where: "type=a,"}},
		{"where", Rule{Do: Fail, Where: "=a"}},
		{"where", Rule{Do: Fail, Where: "Type=a"}},
		{"where", Rule{Do: Fail, Where: "data=a"}},
		{"share", Rule{Do: Fail, Share: -0.1}},
		{"share", Rule{Do: Fail, Share: 1.1}},
		{"share", Rule{Do: Fail, Share: math.NaN()}},
		{"times", Rule{Do: Fail, Times: -1}},
		{"delay", Rule{Do: Slow}},
		{"delay", Rule{Do: Slow, Delay: -1}},
		{"delay", Rule{Do: Slow, Delay: 25 * time.Hour}},
		{"delay", Rule{Do: Fail, Delay: time.Second}},
		{"error", Rule{Do: Hang, Error: "no"}},
		{"error", Rule{Do: Kill, Error: "no"}},
		{"error", Rule{Do: Slow, Delay: time.Second, Error: "no"}},
		{"error", Rule{Do: Fail, Error: "a\nb"}},
		{"window.after", Rule{Do: Fail, Window: Window{After: -1}}},
		{"window.for", Rule{Do: Fail, Window: Window{For: -1}}},
	} {
		err := Plan{Rules: []Rule{{Do: Fail}, tc.rule}}.Validate()
		wrong, ok := errors.AsType[*RuleError](err)
		if !ok || wrong.Rule != 2 || wrong.Field != tc.field || !strings.Contains(wrong.Text, "; ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: got %v, want one error about %s of rule 2, with a hint", tc.rule, err, tc.field)
		}
	}
	if err := (Plan{Rules: make([]Rule, 1001)}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "chaos: rules: there are 1001; ") {
		t.Errorf("got %v, want too many rules refused", err)
	}
}

func TestASoundRuleIsAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRule(t)
		if err := (Plan{Rules: []Rule{r}}).Validate(); err != nil {
			t.Errorf("%+v: got %v", r, err)
		}
	})
}
