package functionstest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/chaos"
	"github.com/siding-dev/siding/functions/functionstest"
)

func TestChaosTakesTheHandlersPlace(t *testing.T) {
	calls := 0
	f := functionstest.Chaos(t, function(func(context.Context, functions.Event) error { calls++; return nil }),
		chaos.Plan{Rules: []chaos.Rule{{Function: "file-claim", Do: chaos.Kill, Times: 1}, {Do: chaos.Fail, Times: 2}}})
	e := functionstest.NewEvent("claim.reported", nil)
	if r := functionstest.Run(t, f, e); !errors.Is(r.Err(), chaos.ErrKilled) {
		t.Errorf("got %v, want it killed", r)
	}
	for number := 1; number <= 3; number++ {
		r := functionstest.Run(t, f, e, func(a *functions.Attempt) { a.Number, a.Crashes = number, 1 })
		if r.Done() != (number == 3) || r.Retried() != (number < 3) {
			t.Errorf("attempt %d: got %v, want two failures and then success", number, r)
		}
	}
	if calls != 1 {
		t.Errorf("got %d calls of the handler, want 1", calls)
	}
}

func TestChaosThatShowsNothingEndsTheTest(t *testing.T) {
	for want, rules := range map[string][]chaos.Rule{
		`functionstest: chaos: rule 1: do: "explode" is unknown; write `:                   {{Do: "explode"}},
		`functionstest: chaos: no rule is about function "file-claim"; hint: leave Rule.F`: {{Function: "fileclaim", Do: chaos.Fail}},
	} {
		f := &fatal{TB: t}
		func() {
			defer func() { _ = recover() }()
			functionstest.Chaos(f, returning(nil), chaos.Plan{Rules: rules})
		}()
		if !strings.HasPrefix(f.text, want) {
			t.Errorf("got %q, want %q", f.text, want)
		}
	}
}
