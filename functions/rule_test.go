package functions_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/siding-dev/siding/functions"
)

func refused() error {
	return fmt.Errorf("ledger: %w", &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")})
}

func returning(err error, rules ...functions.Rule) functions.Function {
	f := handler(func(context.Context, functions.Event) error { return err })
	f.Rules = rules
	return f
}

func TestARuleSpeaksWhereTheHandlerHasNot(t *testing.T) {
	unavailable := functions.OnText("refused", functions.ClassUnavailable)
	permanent := functions.OnText("refused", functions.ClassPermanent)
	for _, tc := range []struct {
		name    string
		err     error
		rule    functions.Rule
		outcome functions.Outcome
		class   functions.Class
		after   time.Duration
		ruled   bool
	}{
		{"plain", refused(), unavailable, functions.Retried, functions.ClassUnavailable, 0, true},
		{"plain, permanent", refused(), permanent, functions.Parked, functions.ClassPermanent, 0, true},
		{"plain, undecodable", refused(), functions.OnText("refused", functions.ClassUndecodable), functions.Parked, functions.ClassUndecodable, 0, true},
		{"no match", io.EOF, permanent, functions.Retried, functions.ClassTransient, 0, false},
		{"part of the text in other letters", errors.New("Refused"), permanent, functions.Retried, functions.ClassTransient, 0, false},
		{"text is no pattern", errors.New("refused"), functions.OnText("r.fused", functions.ClassPermanent), functions.Retried, functions.ClassTransient, 0, false},
		{"no class", refused(), functions.OnText("refused", "").WithAttempts(2), functions.Retried, functions.ClassTransient, 0, true},
		{"a type", refused(), functions.OnError[*net.OpError](functions.ClassUnavailable), functions.Retried, functions.ClassUnavailable, 0, true},
		{"another type", io.EOF, functions.OnError[*net.OpError](functions.ClassUnavailable), functions.Retried, functions.ClassTransient, 0, false},
		{"a value", fmt.Errorf("read: %w", io.EOF), functions.OnIs(io.EOF, functions.ClassPermanent), functions.Parked, functions.ClassPermanent, 0, true},
		{"a type and a text", refused(), functions.Rule{Text: "reset", Match: functions.OnError[*net.OpError]("").Match, Class: functions.ClassPermanent}, functions.Retried, functions.ClassTransient, 0, false},
		{"asked for a delay", functions.RetryAfter(time.Minute, refused()), unavailable, functions.Retried, functions.ClassUnavailable, time.Minute, true},
		{"asked for a delay, permanent", functions.RetryAfter(time.Minute, refused()), permanent, functions.Parked, functions.ClassPermanent, 0, true},
		{"the handler's unavailable", functions.Unavailable(refused()), permanent, functions.Retried, functions.ClassUnavailable, 0, false},
		{"the handler's park", functions.Park(refused()), unavailable, functions.Parked, functions.ClassPermanent, 0, false},
		{"the handler's undecodable", functions.Undecodable(refused()), unavailable, functions.Parked, functions.ClassUndecodable, 0, false},
		{"the handler's discard", functions.Discard(refused()), unavailable, functions.Discarded, functions.ClassPermanent, 0, false},
		{"the handler's suspend", functions.Suspend(refused()), permanent, functions.Retried, functions.ClassUnavailable, 0, false},
		{"done", nil, permanent, functions.Done, "", 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := functions.Invoke(t.Context(), returning(tc.err, tc.rule), reported())
			if got.Outcome != tc.outcome || got.Class != tc.class || got.After != tc.after || (got.Rule != nil) != tc.ruled {
				t.Errorf("got %s, %s, after %v, rule %v; want %s, %s, %v, by rule: %v", got.Outcome, got.Class, got.After, got.Rule, tc.outcome, tc.class, tc.after, tc.ruled)
			}
			if !errors.Is(got.Err, tc.err) {
				t.Errorf("got error %v, want %v", got.Err, tc.err)
			}
		})
	}
}

func TestTheFirstRuleThatMatchesDecides(t *testing.T) {
	var asked []string
	about := func(name string, matches bool) functions.Rule {
		return functions.Rule{Class: functions.ClassUnavailable, Match: func(error) bool { asked = append(asked, name); return matches }}
	}
	f := returning(io.EOF, about("a", false), about("b", true).WithAttempts(2), about("c", true))
	if got := functions.Invoke(t.Context(), f, reported()); got.Rule == nil || got.Rule.Attempts != 2 || strings.Join(asked, "") != "ab" {
		t.Errorf("got rule %v after asking %v, want b, and c not asked", got.Rule, asked)
	}
}

func TestARuleSeesPanicsAndTimeoutsButNoStop(t *testing.T) {
	waits := func(ctx context.Context, _ functions.Event) error { <-ctx.Done(); return errors.New("no answer") }
	for _, tc := range []struct {
		name   string
		cause  error
		handle functions.Handler
		rule   functions.Rule
		want   functions.Class
	}{
		{"panic", nil, func(context.Context, functions.Event) error { panic(io.EOF) }, functions.OnIs(io.EOF, functions.ClassPermanent), functions.ClassPermanent},
		{"goexit", nil, func(context.Context, functions.Event) error { runtime.Goexit(); return nil }, functions.OnText("Goexit", functions.ClassTransient), functions.ClassTransient},
		{"panic of another kind", nil, func(context.Context, functions.Event) error { panic("boom") }, functions.OnIs(io.EOF, functions.ClassPermanent), functions.ClassPanic},
		{"timeout by its text", functions.ErrTimeout, waits, functions.OnText("no answer", functions.ClassUnavailable), functions.ClassUnavailable},
		{"timeout by what it is", functions.ErrTimeout, waits, functions.OnIs(functions.ErrTimeout, functions.ClassUnavailable), functions.ClassUnavailable},
		{"stop", functions.ErrStopping, waits, functions.OnText("no answer", functions.ClassPermanent), functions.ClassStopping},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				time.AfterFunc(time.Second, func() { cancel(tc.cause) })
				f := handler(tc.handle)
				f.Rules = []functions.Rule{tc.rule}
				got := functions.Invoke(ctx, f, reported())
				if got.Class != tc.want || got.Err == nil || strings.Contains(got.Err.Error(), "timed out") {
					t.Errorf("got %s, %v; want %s and the handler's own text", got.Class, got.Err, tc.want)
				}
			})
		})
	}
	if got := functions.Invoke(t.Context(), returning(io.EOF, functions.OnIs(functions.ErrTimeout, functions.ClassPermanent)), reported()); got.Rule != nil {
		t.Errorf("got %+v, want no timeout before the deadline", got)
	}
}

func TestARuleThatPanicsIsAFailedAttempt(t *testing.T) {
	for name, match := range map[string]func(error) bool{
		"panic":  func(error) bool { panic("boom") },
		"goexit": func(error) bool { runtime.Goexit(); return true },
	} {
		later := functions.OnText("", functions.ClassPermanent)
		later.Match = func(error) bool { return true }
		got := functions.Invoke(t.Context(), returning(io.EOF, functions.Rule{Match: match, Class: functions.ClassPermanent}, later), reported())
		if got.Outcome != functions.Retried || got.Class != functions.ClassPanic || got.Rule != nil || !errors.Is(got.Err, io.EOF) || got.Stack == "" {
			t.Errorf("%s: got %+v, want class panic with what the handler said, and no rule", name, got)
		}
		if !strings.HasPrefix(got.Err.Error(), "a rule of the function: panic: ") {
			t.Errorf("%s: got %v, want the rule blamed", name, got.Err)
		}
	}
}

func TestRulesAreCheckedAtRegistration(t *testing.T) {
	always := func(error) bool { return true }
	for _, tc := range []struct {
		rule functions.Rule
		want string
	}{
		{functions.OnText("x", functions.ClassUnavailable), ""},
		{functions.Rule{Match: always, Attempts: 12}, ""},
		{functions.OnText("x", "").WithBackoff(functions.Delays(time.Second)), ""},
		{functions.Rule{}, "rules[0]: matches nothing"},
		{functions.Rule{Class: functions.ClassPermanent}, "rules[0]: matches nothing"},
		{functions.OnText("x", ""), "rules[0]: changes nothing"},
		{functions.OnText("x", "fatal"), `rules[0].class: "fatal" is no class that a rule gives`},
		{functions.OnText("x", functions.ClassStopping), `rules[0].class: "stopping" is no class that a rule gives`},
		{functions.OnText("x", functions.ClassPermanent).WithAttempts(2), "rules[0]: is permanent, which parks at once"},
		{functions.OnText("x", functions.ClassUndecodable).WithBackoff(functions.Delays(time.Second)), "rules[0]: is undecodable, which parks at once"},
		{functions.OnText("x", "").WithAttempts(13), "rules[0].attempts: 13 is out of range; write 1 to 12"},
		{functions.OnText("x", "").WithAttempts(-1), "rules[0].attempts: -1 is out of range"},
		{functions.OnText("x", "").WithBackoff(functions.Delays()), "rules[0].backoff: there is no delay"},
		{functions.OnText("x", "").WithBackoff(functions.Exponential(2, 1)), "rules[0].backoff: the longest delay"},
	} {
		f := valid()
		f.Retry, f.Rules = functions.Retry{}, []functions.Rule{tc.rule}
		switch err := f.Validate(); {
		case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.Contains(err.Error(), ": "+tc.want)):
			t.Errorf("%v: got %v, want %q", tc.rule, err, tc.want)
		}
	}
}

func TestRulesDoNotChangeAfterRegistration(t *testing.T) {
	f := valid()
	f.Rules = []functions.Rule{functions.OnText("x", functions.ClassUnavailable)}
	registered := f.WithDefaults()
	f.Rules[0].Class = functions.ClassPermanent
	if got := registered.Rules[0].Class; got != functions.ClassUnavailable {
		t.Errorf("got %s, want the class at registration", got)
	}
}

// However an event fails, a rule never gives it more attempts than the policy,
// and what the rule does not say stays the policy's.
func TestARuleOnlyTightensAPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		backoff := func(label string) functions.Backoff {
			return functions.Delays(time.Duration(rapid.IntRange(0, 100).Draw(t, label)) * time.Second)
		}
		r := functions.Retry{Attempts: rapid.IntRange(1, 6).Draw(t, "attempts"), Backoff: backoff("delay"), Budget: time.Duration(rapid.IntRange(0, 300).Draw(t, "budget")) * time.Second}
		rule := functions.Rule{Attempts: rapid.IntRange(0, r.Attempts).Draw(t, "rule's attempts")}
		if rapid.Bool().Draw(t, "its own delay") {
			rule.Backoff = backoff("rule's delay")
		}
		asked := time.Duration(rapid.IntRange(0, 1).Draw(t, "asked")) * time.Minute
		failed := rapid.IntRange(1, 7).Draw(t, "failed")
		now := failedAt.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "since")) * time.Second)

		delay, again := r.For(functions.Result{Rule: &rule}).Next(failed, failedAt, now, asked, 0.5)
		want := r.Backoff.Delay(failed, 0.5)
		if rule.Backoff.String() != (functions.Backoff{}).String() {
			want = rule.Backoff.Delay(failed, 0.5)
		}
		if asked > 0 {
			want = asked
		}
		_, without := functions.Retry{Attempts: r.Attempts, Backoff: functions.Delays(want), Budget: r.Budget}.Next(failed, failedAt, now, 0, 0.5)
		wantAgain := without && (rule.Attempts == 0 || failed < rule.Attempts)
		if again != wantAgain || again && delay != want {
			t.Errorf("got %v after %v, want %v after %v", again, delay, wantAgain, want)
		}
		if plain := r.For(functions.Result{}); plain.Attempts != r.Attempts || plain.Backoff.String() != r.Backoff.String() || plain.Budget != r.Budget {
			t.Errorf("got %+v without a rule, want the policy itself", plain)
		}
	})
}

func TestARuleIsDescribedInOneLine(t *testing.T) {
	for want, rule := range map[string]functions.Rule{
		`"deadlock": transient, 3 attempts, delays 1s`:   functions.OnText("deadlock", functions.ClassTransient).WithAttempts(3).WithBackoff(functions.Delays(time.Second)),
		`what a Go function matches: permanent`:          functions.OnIs(io.EOF, functions.ClassPermanent),
		`"x" and what a Go function matches: 2 attempts`: {Text: "x", Match: func(error) bool { return true }, Attempts: 2},
	} {
		if got := rule.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
