package functionstest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/functionstest"
)

func TestOnceIsKeptByAHostAndForgottenByRun(t *testing.T) {
	done := 0
	f := function(func(ctx context.Context, _ functions.Event) error {
		_, err := functions.Once(ctx, "step", func(context.Context) (int, error) { done++; return done, nil })
		return errors.Join(err, errors.New("later"))
	})
	e := functionstest.NewEvent("claim.reported", nil)
	var host functionstest.Host
	host.Run(t, f, e)
	host.Run(t, f, e, func(a *functions.Attempt) { a.Number = 2 })
	if done != 1 {
		t.Errorf("got the step done %d times by a host, want once", done)
	}
	other := functionstest.NewEvent("claim.reported", nil, func(e *functions.Event) { e.SetID("2") })
	host.Run(t, f, other)
	functionstest.Run(t, f, e)
	if done != 3 {
		t.Errorf("got %d, want it done for another event and by another host", done)
	}
}

func TestEmittedEventsAreReturnedIfTheHandlerIsDone(t *testing.T) {
	fail := false
	f := function(func(ctx context.Context, _ functions.Event) error {
		filed := event.New() // it gets its id
		filed.SetType("claim.filed")
		filed.SetSource("/claims")
		err := functions.Emit(ctx, filed)
		if fail {
			err = errors.Join(err, errors.New("later"))
		}
		return err
	})
	e := functionstest.NewEvent("claim.reported", nil)
	r := functionstest.Run(t, f, e)
	if !r.Done() || len(r.Emitted()) != 1 {
		t.Fatalf("got %v and %v, want one event", r, r.Emitted())
	}
	if got := r.Emitted()[0]; got.Type() != "claim.filed" || got.ID() == "" || got.Extensions()["causationid"] != "1" {
		t.Errorf("got %v, want it completed", got)
	}
	fail = true
	if r := functionstest.Run(t, f, e); !r.Retried() || len(r.Emitted()) != 0 {
		t.Errorf("got %v and %v, want nothing emitted", r, r.Emitted())
	}
}
