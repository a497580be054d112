package functions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// Bounds of what Once records of one event.
const (
	MaxStepName   = 128      // bytes of a step's name
	MaxStepResult = 64 << 10 // bytes of a step's result, as JSON
	MaxSteps      = 64       // steps of one event
)

// Once does a step of a handler that must not be done twice: whoever attempts
// the event again, after a failure, a redrive or a crash, gets the recorded
// result instead. fn is called at most once in an attempt that it succeeds in,
// and what it returns is recorded before Once returns.
//
//	number, err := functions.Once(ctx, "create-claim", func(ctx context.Context) (string, error) {
//		return core.Create(ctx, claim)
//	})
//
// A step is known by the function, the event's source and id, and its name. An
// error of fn is not recorded: the step is tried again. The result is what its
// JSON says, in the first attempt too, so that a field which does not survive it
// shows at once. Results are kept while the event can come back, and for a day
// after its end; an operator who edits a dead letter can have them forgotten.
//
// Between the end of fn and its record there is a moment in which the process can
// die, and then the step is done again. An effect that must not happen twice even
// so needs an idempotency key; the event's id and the step make one.
//
// What can never be recorded parks the event (see [Park]): a name that is empty
// or longer than MaxStepName, more than MaxSteps steps, a step within itself, a
// result beyond MaxStepResult or without a JSON form, of which the error says that
// the step was done, and a recorded result that is no T. A store that does not
// answer is asked again until ctx ends, and then the error is [Unavailable]; it
// says whether the step was done. Outside an attempt the error is [ErrNoAttempt].
//
// Several goroutines of one attempt may call Once; of those that name the same
// step one does it, and the others wait for its result.
func Once[T any](ctx context.Context, step string, fn func(context.Context) (T, error)) (T, error) {
	var result T
	recorded, err := once(ctx, step, func(ctx context.Context) (json.RawMessage, error) {
		done, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		data, err := json.Marshal(done)
		if err != nil {
			return nil, Park(fmt.Errorf("once: step %q was done, and its result cannot be recorded: %w", step, err))
		}
		return data, nil
	})
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(recorded, &result); err != nil {
		var none T
		return none, Park(fmt.Errorf("once: step %q was done, and its recorded result cannot be read: %w", step, err))
	}
	return result, nil
}

// steps are the steps of one attempt.
type steps struct {
	loading  sync.Mutex // held while results are read for the first time
	mu       sync.Mutex
	results  map[string]json.RawMessage // nil until they have been read
	underWay map[string]chan struct{}   // closed when whoever does the step is through
}

// stepKey marks the context of a step, by its name.
type stepKey string

func once(ctx context.Context, step string, do func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	a := attemptedIn(ctx)
	switch {
	case a == nil || a.host == nil:
		return nil, fmt.Errorf("once: step %q: %w", step, ErrNoAttempt)
	case step == "":
		return nil, Park(errors.New("once: a step has no name"))
	case len(step) > MaxStepName:
		return nil, Park(fmt.Errorf("once: step %q…: a name of %d bytes: at most %d", step[:32], len(step), MaxStepName))
	case ctx.Value(stepKey(step)) != nil:
		return nil, Park(fmt.Errorf("once: step %q is called within itself", step))
	}
	if err := a.loadSteps(ctx, step); err != nil {
		return nil, err
	}
	for {
		result, through, err := a.beginStep(step)
		if err != nil || result != nil {
			return result, err
		}
		if through != nil { // somebody else does it
			select {
			case <-through:
				continue
			case <-ctx.Done():
				return nil, fmt.Errorf("once: step %q: another goroutine does it: %w", step, context.Cause(ctx))
			}
		}
		return a.doStep(ctx, step, do)
	}
}

// loadSteps reads what is recorded, once in an attempt.
func (a *attempted) loadSteps(ctx context.Context, step string) error {
	s := &a.steps
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.underWay != nil {
		return nil
	}
	results, err := a.host.Steps(ctx)
	if err != nil {
		return Unavailable(fmt.Errorf("once: step %q was not done, because nobody can say whether it was done before: %w", step, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if results == nil {
		results = map[string]json.RawMessage{}
	}
	s.results, s.underWay = results, map[string]chan struct{}{}
	return nil
}

// beginStep returns the result of a step, or what tells when somebody else is
// through with it. With neither of them the caller does it, by doStep.
func (a *attempted) beginStep(step string) (result json.RawMessage, through <-chan struct{}, err error) {
	s := &a.steps
	s.mu.Lock()
	defer s.mu.Unlock()
	if result, done := s.results[step]; done {
		return result, nil, nil
	}
	if through := s.underWay[step]; through != nil {
		return nil, through, nil
	}
	if len(s.results)+len(s.underWay) >= MaxSteps {
		return nil, nil, Park(fmt.Errorf("once: step %q was not done: the event has %d steps already, at most %d", step, MaxSteps, MaxSteps))
	}
	s.underWay[step] = make(chan struct{})
	return nil, nil, nil
}

// doStep does a step and records its result. However do ends, also by a panic,
// whoever waits for the step goes on.
func (a *attempted) doStep(ctx context.Context, step string, do func(context.Context) (json.RawMessage, error)) (result json.RawMessage, err error) {
	s := &a.steps
	recorded := false
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if recorded {
			s.results[step] = result
		}
		close(s.underWay[step])
		delete(s.underWay, step)
	}()
	result, err = do(context.WithValue(ctx, stepKey(step), true))
	if err != nil {
		return nil, err
	}
	if len(result) > MaxStepResult {
		return nil, Park(fmt.Errorf("once: step %q was done, and its result of %d bytes cannot be recorded: at most %d", step, len(result), MaxStepResult))
	}
	if err := a.host.RecordStep(ctx, step, result); err != nil {
		return nil, Unavailable(fmt.Errorf("once: step %q was done, and is done again, because its result could not be recorded: %w", step, err))
	}
	recorded = true
	return result, nil
}
