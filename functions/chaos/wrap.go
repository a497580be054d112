package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/siding-dev/siding/functions"
)

// ErrKilled is how an attempt ends that was to take the process with it and did
// not.
var ErrKilled = errors.New("killed by chaos")

// Error is a failure that a rule made.
type Error struct {
	Rule int    // its place in the plan, from 1
	Text string // as the rule states it
}

func (e *Error) Error() string { return e.Text }

// Code tells a failure that was meant from one that was not, in records, dead
// letters and their groups.
func (e *Error) Code() string { return "chaos" }

// Wrap returns f with a handler that does what p decides. Windows count from
// began. p is not checked: see [Plan.Validate].
func (p Plan) Wrap(f functions.Function, began time.Time) functions.Function {
	handle := f.Handle
	f.Handle = func(ctx context.Context, e functions.Event) error {
		d := p.Decide(f.Name, e, functions.AttemptFrom(ctx), time.Since(began))
		if err := wait(ctx, d.Delay); err != nil {
			return err
		}
		if d.Do == "" {
			return handle(ctx, e)
		}
		return p.act(ctx, d)
	}
	return f
}

// wait lasts for d, or until the attempt is over, which it then answers with.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("chaos: slow: %w", context.Cause(ctx))
	}
}

// act takes the handler's place.
func (p Plan) act(ctx context.Context, d Decision) error {
	failure := &Error{Rule: d.Rule, Text: d.Error}
	switch d.Do {
	case Park:
		return functions.Park(failure)
	case Unavailable:
		return functions.Unavailable(failure)
	case Panic:
		panic(failure)
	case Hang:
		<-ctx.Done()
		return fmt.Errorf("%w: %w", failure, context.Cause(ctx))
	case Kill:
		if p.Kill != nil {
			p.Kill()
		}
		return fmt.Errorf("%w: %w", failure, ErrKilled)
	case Fail, Slow:
	}
	return failure
}
