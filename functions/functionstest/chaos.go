package functionstest

import (
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/chaos"
)

// Chaos returns f with failures on purpose, so that a test can see what becomes
// of an event whose handler fails, panics or hangs, without a broker and without
// a handler made for it:
//
//	f = functionstest.Chaos(t, f, chaos.Plan{Seed: 7, Rules: []chaos.Rule{{Do: chaos.Fail, Times: 2}}})
//	r := functionstest.Run(t, f, e, func(a *functions.Attempt) { a.Number = 2 })
//
// The rules mean what they mean in the file of siding dev --chaos. Windows count
// from this call. An attempt that kills calls plan.Kill, and does not end the test:
// its error is [chaos.ErrKilled]. A plan that Validate refuses, or whose rules name
// another function only, ends the test, which would show nothing.
func Chaos(t testing.TB, f functions.Function, plan chaos.Plan) functions.Function {
	t.Helper()
	if err := plan.Validate(); err != nil {
		t.Fatalf("functionstest: %v", err)
	}
	if !plan.Touches(f.Name) {
		t.Fatalf("functionstest: chaos: no rule is about function %q; hint: leave Rule.Function out for all functions", f.Name)
	}
	return plan.Wrap(f, time.Now())
}
