package functionstest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/functionstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func function(h functions.Handler) functions.Function {
	return functions.Function{Name: "file-claim", Types: []string{"claim.reported"}, Handle: h}
}

func returning(err error) functions.Function {
	return function(func(context.Context, functions.Event) error { return err })
}

func TestRunAnswersWithExactlyOneOutcome(t *testing.T) {
	for _, tc := range []struct {
		err    error
		want   string // done, retried, parked, discarded
		class  functions.Class
		string string
	}{
		{nil, "1000", "", "done"},
		{io.EOF, "0100", functions.ClassTransient, "retry (transient): EOF"},
		{functions.Park(io.EOF), "0010", functions.ClassPermanent, "park (permanent): EOF"},
		{functions.Discard(io.EOF), "0001", functions.ClassPermanent, "discard (permanent): EOF"},
	} {
		r := functionstest.Run(t, returning(tc.err), functionstest.NewEvent("claim.reported", nil))
		got := ""
		for _, holds := range []bool{r.Done(), r.Retried(), r.Parked(), r.Discarded()} {
			got += map[bool]string{true: "1", false: "0"}[holds]
		}
		if got != tc.want || r.Class() != tc.class || r.String() != tc.string {
			t.Errorf("%v: got %s, %q, %q; want %s, %q, %q", tc.err, got, r.Class(), r, tc.want, tc.class, tc.string)
		}
		if !errors.Is(r.Err(), tc.err) {
			t.Errorf("%v: got error %v", tc.err, r.Err())
		}
	}
}

func TestRunPassesDelayAndPanicOn(t *testing.T) {
	e := functionstest.NewEvent("claim.reported", nil)
	if r := functionstest.Run(t, returning(functions.RetryAfter(time.Minute, io.EOF)), e); r.After() != time.Minute {
		t.Errorf("got %v, want 1m0s", r.After())
	}
	r := functionstest.Run(t, function(func(context.Context, functions.Event) error { panic("boom") }), e)
	if r.Class() != functions.ClassPanic || !strings.Contains(r.String(), "run_test.go") {
		t.Errorf("got %v, want class panic and where it happened", r)
	}
}

func TestRunGivesTheFirstAttempt(t *testing.T) {
	f := function(func(ctx context.Context, _ functions.Event) error {
		return fmt.Errorf("%+v", functions.AttemptFrom(ctx))
	})
	f.OrderBy = functions.ByExtension("lane")
	f.Retry.Attempts = 3
	e := functionstest.NewEvent("claim.reported", nil, func(e *functions.Event) { e.SetExtension("lane", 7) })

	want := fmt.Sprintf("%+v", functions.Attempt{Number: 1, Allowed: 3, Key: "7", Sequence: 1})
	if got := functionstest.Run(t, f, e).Err().Error(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want = fmt.Sprintf("%+v", functions.Attempt{Number: 3, Allowed: 3, Key: "7", Sequence: 1})
	got := functionstest.Run(t, f, e, func(a *functions.Attempt) { a.Number = a.Allowed }).Err().Error()
	if got != want {
		t.Errorf("last attempt: got %s, want %s", got, want)
	}
}

func TestRunFindsEveryKindOfKey(t *testing.T) {
	key := func(k functions.Key, e functions.Event) string {
		f := function(func(ctx context.Context, _ functions.Event) error { return errors.New(functions.AttemptFrom(ctx).Key) })
		f.OrderBy = k
		return functionstest.Run(t, f, e).Err().Error()
	}
	e := functionstest.NewEvent("claim.reported", nil, func(e *functions.Event) {
		e.SetSubject("sub")
		e.SetExtension("partitionkey", "pk")
	})
	for k, want := range map[functions.Key]string{
		functions.PartitionKey: "pk", functions.BySubject: "sub", functions.BySource: "/functionstest",
		functions.Unordered: "", functions.ByExtension("absent"): "",
	} {
		if got := key(k, e); got != want {
			t.Errorf("%v: got %q, want %q", k, got, want)
		}
	}
	if got := key(functions.PartitionKey, functions.Event{}); got != "" {
		t.Errorf("empty event: got %q, want no key", got)
	}
}

func TestRunEndsTheContextAtTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := function(func(ctx context.Context, _ functions.Event) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		begin := time.Now()
		r := functionstest.Run(t, f, functionstest.NewEvent("claim.reported", nil))
		if took := time.Since(begin); took != functions.DefaultTimeout || r.Class() != functions.ClassTimeout {
			t.Errorf("got %v after %v, want timeout after %v", r, took, functions.DefaultTimeout)
		}
		if !errors.Is(r.Err(), functions.ErrTimeout) {
			t.Errorf("cause: got %v, want %v", r.Err(), functions.ErrTimeout)
		}
	})
}

// fatal stands for the test that Run ends.
type fatal struct {
	testing.TB
	text string
}

func (f *fatal) Helper() {}
func (f *fatal) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	panic(f)
}

func TestRunRefusesAnUnsoundFunction(t *testing.T) {
	f := &fatal{TB: t}
	func() {
		defer func() { _ = recover() }()
		functionstest.Run(f, functions.Function{Name: "x"}, functions.Event{})
	}()
	if want := `functionstest: function "x": types: `; !strings.HasPrefix(f.text, want) {
		t.Errorf("got %q, want %q", f.text, want)
	}
}

func TestNewEvent(t *testing.T) {
	e := functionstest.NewEvent("claim.reported", map[string]int{"n": 7})
	if err := e.Validate(); err != nil {
		t.Errorf("got %v, want a valid event", err)
	}
	if got := string(e.Data()); got != `{"n":7}` || e.Type() != "claim.reported" || e.DataContentType() != "application/json" {
		t.Errorf("got %v", e)
	}
	if got := string(functionstest.NewEvent("x", []byte("{")).Data()); got != "{" {
		t.Errorf("bytes: got %q, want them as they are", got)
	}
	if got := functionstest.NewEvent("x", nil); got.Data() != nil || got.DataContentType() != "" {
		t.Errorf("got %v, want no data", got)
	}
	defer func() {
		if r := recover(); r == nil {
			t.Error("got no panic for data that JSON cannot encode")
		}
	}()
	functionstest.NewEvent("x", func() {})
}
