package chaos_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/chaos"
	"github.com/siding-dev/siding/functions/functionstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run makes one attempt under a plan of these rules, and says whether the handler was called.
func run(t *testing.T, plan chaos.Plan) (r functionstest.Result, called bool, took time.Duration) {
	t.Helper()
	f := functions.Function{Name: "file-claim", Types: []string{"claim.reported"}, Handle: func(context.Context, functions.Event) error {
		called = true
		return nil
	}}
	begin := time.Now()
	r = functionstest.Run(t, plan.Wrap(f, begin), functionstest.NewEvent("claim.reported", nil))
	return r, called, time.Since(begin)
}

func TestEachActionHasItsOutcome(t *testing.T) {
	for do, want := range map[chaos.Action]struct {
		outcome func(functionstest.Result) bool
		class   functions.Class
		took    time.Duration
	}{
		chaos.Fail:        {functionstest.Result.Retried, functions.ClassTransient, 0},
		chaos.Park:        {functionstest.Result.Parked, functions.ClassPermanent, 0},
		chaos.Unavailable: {functionstest.Result.Retried, functions.ClassUnavailable, 0},
		chaos.Panic:       {functionstest.Result.Retried, functions.ClassPanic, 0},
		chaos.Hang:        {functionstest.Result.Retried, functions.ClassTimeout, functions.DefaultTimeout},
		chaos.Kill:        {functionstest.Result.Retried, functions.ClassTransient, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, called, took := run(t, chaos.Plan{Rules: []chaos.Rule{{Do: do}}})
			if !want.outcome(r) || r.Class() != want.class || called || took != want.took {
				t.Errorf("%s: got %v, handler called: %t, after %v; want class %s after %v", do, r, called, took, want.class, want.took)
			}
			meant, ok := errors.AsType[*chaos.Error](r.Err())
			if !ok || meant.Rule != 1 || meant.Code() != "chaos" {
				t.Errorf("%s: got %v, want an error of rule 1", do, r.Err())
			}
		})
	}
}

func TestAFailureHasTheTextOfItsRule(t *testing.T) {
	r, _, _ := run(t, chaos.Plan{Rules: []chaos.Rule{{Do: chaos.Fail, Error: "contract system: connection refused"}}})
	if got := r.Err().Error(); got != "contract system: connection refused" || r.Code() != "chaos" {
		t.Errorf("got %q and code %q", got, r.Code())
	}
}

func TestASlowAttemptIsStillMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if r, called, took := run(t, chaos.Plan{Rules: []chaos.Rule{{Do: chaos.Slow, Delay: 2 * time.Second}}}); !r.Done() || !called || took != 2*time.Second {
			t.Errorf("got %v, handler called: %t, after %v; want it done after 2s", r, called, took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r, called, took := run(t, chaos.Plan{Rules: []chaos.Rule{{Do: chaos.Slow, Delay: time.Hour}}})
		if r.Class() != functions.ClassTimeout || called || took != functions.DefaultTimeout {
			t.Errorf("got %v, handler called: %t, after %v; want the timeout, and no call", r, called, took)
		}
	})
}

func TestAKillEndsTheProcessOrTheAttempt(t *testing.T) {
	kills := 0
	r, called, _ := run(t, chaos.Plan{Rules: []chaos.Rule{{Do: chaos.Kill}}, Kill: func() { kills++ }})
	if kills != 1 || called || !errors.Is(r.Err(), chaos.ErrKilled) {
		t.Errorf("got %d kills, handler called: %t, and %v; want one, no call, and ErrKilled", kills, called, r.Err())
	}
}

// A stop is no failure of the event: the host must hear that it was the stop that ended the attempt.
func TestAStopEndsWhatHangsAndWhatIsSlow(t *testing.T) {
	for _, rule := range []chaos.Rule{{Do: chaos.Hang}, {Do: chaos.Slow, Delay: time.Hour}} {
		ctx, stop := context.WithCancelCause(t.Context())
		stop(functions.ErrStopping)
		f := chaos.Plan{Rules: []chaos.Rule{rule}}.Wrap(functions.Function{Handle: func(context.Context, functions.Event) error { return io.EOF }}, time.Now())
		if r := functions.Invoke(ctx, f, functions.Event{}); r.Class != functions.ClassStopping {
			t.Errorf("%s: got %+v, want class stopping", rule.Do, r)
		}
	}
}

func TestAnOutageEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		f := functions.Function{Name: "f", Handle: func(context.Context, functions.Event) error { calls++; return nil }}
		f = chaos.Plan{Rules: []chaos.Rule{{Do: chaos.Unavailable, Window: chaos.Window{After: 30 * time.Second, For: 10 * time.Minute}}}}.Wrap(f, time.Now())
		got := ""
		for range 13 {
			got += map[functions.Outcome]string{functions.Done: "+", functions.Retried: "-"}[functions.Invoke(t.Context(), f, functions.Event{}).Outcome]
			time.Sleep(time.Minute)
		}
		if want := "+----------++"; got != want || calls != 3 {
			t.Errorf("got %s and %d calls, want %s and 3", got, calls, want)
		}
	})
}
