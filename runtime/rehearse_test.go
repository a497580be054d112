package runtime

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/chaos"
)

func handled(context.Context, string, functions.Attempt) error { return nil }

// rehearsed starts a process whose one function fails as the plan says.
func (w *world) rehearsed(plan chaos.Plan, f functions.Function) *life {
	w.t.Helper()
	fns, err := rehearse(plan, []functions.Function{w.function(f, forever, handled)})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.start(testTiming(), fns)
}

func TestARehearsedOutageEndsAndTheEventIsDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		plan := chaos.Plan{Rules: []chaos.Rule{{Do: chaos.Unavailable, Error: "contract system: connection refused", Window: chaos.Window{For: 10 * time.Minute}}}}
		began := time.Now()
		l := w.rehearsed(plan, functions.Function{Retry: functions.Retry{Attempts: 20, Backoff: functions.Delays(time.Minute)}})
		l.send(1)
		l.settle("f")
		records, err := l.store.Records(t.Context(), "f", 1)
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		for _, r := range records {
			if r.Class == string(functions.ClassUnavailable) && r.Code == "chaos" && r.Error == plan.Rules[0].Error {
				failed++
			}
		}
		calls := w.calls("1")
		if len(calls) != 1 || calls[0].attempt.Number != failed+1 || failed < 9 || failed > 10 {
			t.Fatalf("got %d failures and calls %+v, want one call of the handler, after a failure every minute of the outage", failed, calls)
		}
		if after := calls[0].at.Sub(began); after < 10*time.Minute || after > 11*time.Minute+time.Second {
			t.Errorf("got the handler called after %v, want at the first attempt after the outage of 10m", after)
		}
		l.end()
	})
}

// What a kill takes is charged to nobody, so that only the records know how often it struck: the rule must not strike for ever.
func TestARehearsedKillStrikesAsOftenAsItSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules []chaos.Rule
		kills int
		want  functions.Attempt // zero: the event is parked
	}{
		"in the first attempt": {[]chaos.Rule{{Do: chaos.Kill, Times: 1}}, 1, functions.Attempt{Number: 1, Crashes: 1}},
		"in a retry":           {[]chaos.Rule{{Do: chaos.Fail, Times: 1}, {Do: chaos.Kill, Times: 1}}, 1, functions.Attempt{Number: 2, Crashes: 1}},
		"twice":                {[]chaos.Rule{{Do: chaos.Kill, Times: 2}}, 2, functions.Attempt{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				f := functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}}
				for kill := range c.kills {
					m := newMortal(w, 1, false)
					l := w.rehearsed(chaos.Plan{Rules: c.rules, Kill: func() { m.gate("kill") }}, f)
					if kill == 0 {
						l.send(1)
					}
					select {
					case <-m.killed:
					case <-time.After(time.Minute):
						t.Fatalf("got no kill number %d within a minute", kill+1)
					}
					l.bury(m)
				}
				l := w.rehearsed(chaos.Plan{Rules: c.rules, Kill: func() { t.Error("got another kill") }}, f)
				a := l.settle("f")
				if c.want == (functions.Attempt{}) {
					if a.Parked != 1 || len(w.calls("1")) != 0 {
						t.Errorf("got %+v, want the event convicted, and its handler never reached", a)
					}
					return
				}
				if a.Delivered != 1 {
					t.Errorf("got %+v, want the event delivered", a)
				}
				calls := w.calls("1")
				if len(calls) != 1 {
					t.Fatalf("got %d calls of the handler, want 1", len(calls))
				}
				got := functions.Attempt{Number: calls[0].attempt.Number, Crashes: calls[0].attempt.Crashes}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("attempt (-want +got):\n%s", diff)
				}
				l.end()
			})
		})
	}
}

func TestARehearsalIsCheckedAndTouchesOnlyWhatItNames(t *testing.T) {
	if _, err := New(Config{Chaos: chaos.Plan{Rules: []chaos.Rule{{Do: "explode"}}}}); err == nil || !strings.HasPrefix(err.Error(), "chaos: rule 1: do: ") {
		t.Errorf("got %v, want the plan refused", err)
	}
	quiet := func(context.Context, functions.Event) error { return nil }
	r, err := New(Config{Chaos: chaos.Plan{Rules: []chaos.Rule{{Function: "a", Do: chaos.Park}}}},
		functions.Function{Name: "a", Types: []string{"t"}, Handle: quiet}, functions.Function{Name: "b", Types: []string{"t"}, Handle: quiet})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []functions.Outcome{functions.Parked, functions.Done} {
		if got := functions.Invoke(t.Context(), r.fns[i], newEvent("1")).Outcome; got != want {
			t.Errorf("function %s: got %s, want %s", r.fns[i].Name, got, want)
		}
	}
}
