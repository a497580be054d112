package functions_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/functionstest"
)

// memory is a host that can be broken.
type memory struct {
	mu      sync.Mutex
	steps   map[string]json.RawMessage
	loads   int
	read    error
	written error
	refused error
}

func (m *memory) Steps(context.Context) (map[string]json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads++
	return m.steps, m.read
}

func (m *memory) RecordStep(context.Context, string, json.RawMessage) error { return m.written }

func (m *memory) CheckEmitted(_ context.Context, e *functions.Event, _ int) (int, error) {
	return len(e.Data()), m.refused
}

// attempt makes one attempt with a host.
func attempt(t *testing.T, h functions.Host, handle functions.Handler) (functions.Result, context.Context) {
	ctx := functions.WithHost(t.Context(), functions.Attempt{Number: 1}, h)
	return functions.Invoke(ctx, functions.Function{Name: "f", Handle: handle}, functionstest.NewEvent("t", nil)), ctx
}

// inOnce makes one attempt in which a step returns result and err.
func inOnce[T any](t *testing.T, h functions.Host, step string, result T, err error) (got T, done int, r functions.Result) {
	r, _ = attempt(t, h, func(ctx context.Context, _ functions.Event) error {
		var onceErr error
		got, onceErr = functions.Once(ctx, step, func(context.Context) (T, error) { done++; return result, err })
		return onceErr
	})
	return got, done, r
}

func TestOnceReturnsWhatIsRecorded(t *testing.T) {
	got, done, r := inOnce(t, &memory{steps: map[string]json.RawMessage{"a": []byte("7")}}, "a", 8, nil)
	if got != 7 || done != 0 || r.Outcome != functions.Done {
		t.Errorf("got %d after %d calls, %v, want what is recorded", got, done, r)
	}
	if _, done, r := inOnce(t, &memory{steps: map[string]json.RawMessage{"a": []byte(`"x"`)}}, "a", 8, nil); done != 0 || r.Outcome != functions.Parked || !strings.Contains(r.Err.Error(), "cannot be read") {
		t.Errorf("no T: got %d calls, %v, want it parked", done, r)
	}
}

// TestOnceReturnsWhatIsReadBack: a result that does not survive its JSON shows in the first attempt, and not in the first retry.
func TestOnceReturnsWhatIsReadBack(t *testing.T) {
	type result struct{ Kept, lost int }
	got, _, r := inOnce(t, &memory{}, "a", result{1, 2}, nil)
	if got != (result{Kept: 1}) {
		t.Errorf("got %+v, %v, want what JSON keeps", got, r)
	}
}

func TestOnceNamesItsLimits(t *testing.T) {
	full := &memory{steps: map[string]json.RawMessage{}}
	for i := range functions.MaxSteps {
		full.steps[strconv.Itoa(i)] = []byte("1")
	}
	away := errors.New("away")
	for name, c := range map[string]struct {
		host    *memory
		step    string
		result  any
		err     error
		outcome functions.Outcome
		class   functions.Class
		done    int
		text    string
	}{
		"no name":      {step: "", outcome: functions.Parked, text: "no name"},
		"long name":    {step: strings.Repeat("x", functions.MaxStepName+1), outcome: functions.Parked, text: "a name of 129 bytes: at most 128"},
		"many steps":   {host: full, step: "new", outcome: functions.Parked, text: `"new" was not done: the event has 64 steps already, at most 64`},
		"large":        {step: "a", result: strings.Repeat("x", functions.MaxStepResult), done: 1, outcome: functions.Parked, text: `"a" was done, and its result of 65538 bytes cannot be recorded: at most 65536`},
		"no JSON":      {step: "a", result: func() {}, done: 1, outcome: functions.Parked, text: `"a" was done, and its result cannot be recorded`},
		"unreadable":   {host: &memory{read: away}, step: "a", outcome: functions.Retried, class: functions.ClassUnavailable, text: `"a" was not done`},
		"unwritable":   {host: &memory{written: away}, step: "a", done: 1, outcome: functions.Retried, class: functions.ClassUnavailable, text: `"a" was done, and is done again`},
		"its own":      {step: "a", err: away, done: 1, outcome: functions.Retried, class: functions.ClassTransient, text: "away"},
		"longest name": {step: strings.Repeat("x", functions.MaxStepName), result: strings.Repeat("x", functions.MaxStepResult-2), done: 1, outcome: functions.Done},
	} {
		t.Run(name, func(t *testing.T) {
			if c.host == nil {
				c.host = &memory{}
			}
			_, done, r := inOnce(t, c.host, c.step, c.result, c.err)
			if r.Outcome != c.outcome || done != c.done || c.class != "" && r.Class != c.class {
				t.Errorf("got %v (%s) after %d calls, want %v after %d", r.Outcome, r.Class, done, c.outcome, c.done)
			}
			if c.text != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), c.text)) {
				t.Errorf("got %v, want %q", r.Err, c.text)
			}
		})
	}
}

func TestOnceOutsideAnAttempt(t *testing.T) {
	for name, ctx := range map[string]context.Context{"none": t.Context(), "without a host": functions.WithAttempt(t.Context(), functions.Attempt{})} {
		if _, err := functions.Once(ctx, "a", func(context.Context) (int, error) { t.Error("the step was done"); return 0, nil }); !errors.Is(err, functions.ErrNoAttempt) {
			t.Errorf("%s: got %v, want %v", name, err, functions.ErrNoAttempt)
		}
	}
}

// TestOnceWithinItself would wait for itself.
func TestOnceWithinItself(t *testing.T) {
	r, _ := attempt(t, &memory{}, func(ctx context.Context, _ functions.Event) error {
		_, err := functions.Once(ctx, "a", func(ctx context.Context) (int, error) {
			return functions.Once(ctx, "b", func(ctx context.Context) (int, error) {
				return functions.Once(ctx, "a", func(context.Context) (int, error) { return 1, nil })
			})
		})
		return err
	})
	if r.Outcome != functions.Parked || !strings.Contains(r.Err.Error(), `"a" is called within itself`) {
		t.Errorf("got %v, want it refused", r)
	}
}

// TestOnceOfSeveralGoroutines: one does the step, and a failure or a panic of it lets the next one try.
func TestOnceOfSeveralGoroutines(t *testing.T) {
	var done, failed atomic.Int64
	m := &memory{}
	r, _ := attempt(t, m, func(ctx context.Context, _ functions.Event) error {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				defer func() { _ = recover() }()
				got, err := functions.Once(ctx, "a", func(context.Context) (int64, error) {
					time.Sleep(time.Millisecond) // so that others come meanwhile
					switch n := failed.Add(1); n {
					case 1:
						return 0, errors.New("no")
					case 2:
						panic("no")
					}
					return done.Add(1), nil
				})
				if err == nil && got != 1 {
					t.Errorf("got %d, want the one result", got)
				}
			})
		}
		all.Wait()
		return nil
	})
	if r.Outcome != functions.Done || done.Load() != 1 || m.loads != 1 {
		t.Errorf("got %v, %d times done, %d times read, want once", r, done.Load(), m.loads)
	}
}
