package functions_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
)

type codedError struct{ code string }

func (e codedError) Error() string { return "declined" }
func (e codedError) Code() string  { return e.code }

// problems cannot be compared: an == between two of them panics.
type problems []string

func (p problems) Error() string { return fmt.Sprint([]string(p)) }

func TestResultOf(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		name string
		err  error
		want functions.Result // Err is compared with err
	}{
		{"nil", nil, functions.Result{Outcome: functions.Done}},
		{"plain", io.EOF, functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient}},
		{"cannot be compared", problems{"a"}, functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient}},
		{"retry after", functions.RetryAfter(7*s, io.EOF), functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient, After: 7 * s}},
		{"retry after nothing", functions.RetryAfter(-s, io.EOF), functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient}},
		{"unavailable", functions.Unavailable(io.EOF), functions.Result{Outcome: functions.Retried, Class: functions.ClassUnavailable}},
		{"park", functions.Park(io.EOF), functions.Result{Outcome: functions.Parked, Class: functions.ClassPermanent}},
		{"undecodable", functions.Undecodable(io.EOF), functions.Result{Outcome: functions.Parked, Class: functions.ClassUndecodable}},
		{"discard", functions.Discard(io.EOF), functions.Result{Outcome: functions.Discarded, Class: functions.ClassPermanent}},
		{"wrapped", fmt.Errorf("claim 7: %w", functions.Park(io.EOF)), functions.Result{Outcome: functions.Parked, Class: functions.ClassPermanent}},
		{"joined", errors.Join(io.EOF, functions.Discard(io.EOF)), functions.Result{Outcome: functions.Discarded, Class: functions.ClassPermanent}},
		{"outermost wins: retry", functions.RetryAfter(s, functions.Park(io.EOF)), functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient, After: s}},
		{"outermost wins: park", functions.Park(functions.RetryAfter(s, io.EOF)), functions.Result{Outcome: functions.Parked, Class: functions.ClassPermanent}},
		{"unavailable for a time", functions.RetryAfter(s, functions.Unavailable(io.EOF)), functions.Result{Outcome: functions.Retried, Class: functions.ClassUnavailable, After: s}},
		{"unavailable for a time, the other way", functions.Unavailable(fmt.Errorf("x: %w", functions.RetryAfter(s, io.EOF))), functions.Result{Outcome: functions.Retried, Class: functions.ClassUnavailable, After: s}},
		{"outer delay wins", functions.RetryAfter(s, functions.RetryAfter(9*s, io.EOF)), functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient, After: s}},
		{"code", codedError{"card_declined"}, functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient, Code: "card_declined"}},
		{"code within", functions.Park(fmt.Errorf("pay: %w", codedError{"23505"})), functions.Result{Outcome: functions.Parked, Class: functions.ClassPermanent, Code: "23505"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := functions.ResultOf(tc.err)
			if (got.Err == nil) != (tc.err == nil) || (got.Err != nil && got.Err.Error() != tc.err.Error()) {
				t.Errorf("error: got %v, want %v", got.Err, tc.err)
			}
			got.Err = nil
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestOutcomesKeepTheirCause(t *testing.T) {
	cause := fmt.Errorf("ledger: %w", codedError{"locked"})
	for name, err := range map[string]error{
		"retry after": functions.RetryAfter(time.Second, cause),
		"unavailable": functions.Unavailable(cause),
		"park":        functions.Park(cause),
		"undecodable": functions.Undecodable(cause),
		"discard":     functions.Discard(cause),
	} {
		if !errors.Is(err, cause) {
			t.Errorf("%s: errors.Is does not find the cause", name)
		}
		if _, ok := errors.AsType[codedError](err); !ok {
			t.Errorf("%s: errors.As does not find the cause", name)
		}
		if got := err.Error(); got != cause.Error() {
			t.Errorf("%s: got text %q, want the cause's, %q", name, got, cause)
		}
	}
}

func TestOutcomesNeedNoCause(t *testing.T) {
	for want, err := range map[string]error{
		"retry asked for":          functions.RetryAfter(time.Second, nil),
		"resource unavailable":     functions.Unavailable(nil),
		"parked by the handler":    functions.Park(nil),
		"data does not decode":     functions.Undecodable(nil),
		"discarded by the handler": functions.Discard(nil),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// The words are stored, exported and filtered by: they stay what they are.
func TestWordsOfTheClosedSets(t *testing.T) {
	want := []functions.Class{"transient", "permanent", "unavailable", "timeout", "panic", "crash", "stopping", "undecodable"}
	if got := functions.Classes(); !slices.Equal(got, want) {
		t.Errorf("classes: got %v, want %v", got, want)
	}
	functions.Classes()[0] = "changed"
	if got := functions.Classes()[0]; got != "transient" {
		t.Errorf("classes can be changed: got %v", got)
	}
	outcomes := []functions.Outcome{functions.Done, functions.Retried, functions.Parked, functions.Discarded}
	if want := []functions.Outcome{"done", "retry", "park", "discard"}; !slices.Equal(outcomes, want) {
		t.Errorf("outcomes: got %v, want %v", outcomes, want)
	}
}
