package functions_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/functions"
)

func filed(id string, data any) functions.Event {
	e := event.New()
	e.SetType("claim.filed")
	e.SetSource("/claims")
	if id != "" {
		e.SetID(id)
	}
	_ = e.SetData(event.ApplicationJSON, data)
	return e
}

// emitting makes one attempt that emits events, one call each, and returns the last call's error.
func emitting(t *testing.T, h functions.Host, result error, events ...functions.Event) (emitted []functions.Event, err error) {
	_, ctx := attempt(t, h, func(ctx context.Context, e functions.Event) error {
		e.SetID("changed") // its own copy
		for _, each := range events {
			err = functions.Emit(ctx, each)
		}
		return result
	})
	if late := functions.Emit(ctx, filed("late", 1)); !errors.Is(late, functions.ErrNoAttempt) {
		t.Errorf("after the attempt: got %v, want %v", late, functions.ErrNoAttempt)
	}
	return functions.Emitted(ctx), err
}

func TestEmitIsForASuccessAlone(t *testing.T) {
	if got, err := emitting(t, &memory{}, nil, filed("", 1), filed("own", 2)); err != nil || len(got) != 2 || got[1].ID() != "own" {
		t.Errorf("got %v, %v, want both", got, err)
	}
	for _, failure := range []error{errors.New("no"), functions.Park(nil), functions.Discard(nil)} {
		if got, err := emitting(t, &memory{}, failure, filed("", 1)); err != nil || len(got) != 0 {
			t.Errorf("%v: got %v, %v, want nothing", failure, got, err)
		}
	}
}

func TestEmitGivesIDsThatTheCauseDetermines(t *testing.T) {
	first, _ := emitting(t, &memory{}, nil, filed("", 1), filed("", 2))
	again, _ := emitting(t, &memory{}, nil, filed("", 1), filed("", 2))
	if first[0].ID() != again[0].ID() || first[1].ID() != again[1].ID() || first[0].ID() == first[1].ID() {
		t.Errorf("got %s %s and %s %s, want the same two", first[0].ID(), first[1].ID(), again[0].ID(), again[1].ID())
	}
	for _, e := range first {
		if e.Extensions()["causationid"] != "1" {
			t.Errorf("got the cause %v, want the id of the event", e.Extensions()["causationid"])
		}
	}
}

func TestEmitNamesItsLimits(t *testing.T) {
	many := make([]functions.Event, functions.MaxEmitted+1)
	for i := range many {
		many[i] = filed(fmt.Sprint(i), 1)
	}
	large := filed("large", strings.Repeat("x", functions.MaxEmittedSize))
	for name, c := range map[string]struct {
		host   *memory
		events []functions.Event
		kept   int
		text   string
	}{
		"many":          {events: many, kept: functions.MaxEmitted, text: "more than 100 events: at most 100"},
		"large":         {events: []functions.Event{filed("a", 1), large}, kept: 1, text: "event 1: 524291 bytes with those before: at most 524288"},
		"refused":       {host: &memory{refused: errors.New("no such thing")}, events: []functions.Event{filed("a", 1)}, text: "event 0: no such thing"},
		"twice":         {events: []functions.Event{filed("a", 1), filed("a", 2)}, kept: 1, text: `id "a" were emitted before`},
		"no attributes": {events: []functions.Event{{}}, text: "event 0: has no attributes"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.host == nil {
				c.host = &memory{}
			}
			got, err := emitting(t, c.host, nil, c.events...)
			if err == nil || !strings.Contains(err.Error(), c.text) || functions.ResultOf(err).Outcome != functions.Parked {
				t.Errorf("got %v, want it parked with %q", err, c.text)
			}
			if len(got) != c.kept {
				t.Errorf("got %d events, want the %d that were taken", len(got), c.kept)
			}
		})
	}
}

func TestEmitTakesAllEventsOfACallOrNone(t *testing.T) {
	_, ctx := attempt(t, &memory{}, func(ctx context.Context, _ functions.Event) error {
		if err := functions.Emit(ctx, filed("a", 1), filed("b", 1), filed("a", 2)); err == nil {
			t.Error("got no error for a second event of one id")
		}
		return functions.Emit(ctx, filed("c", 1))
	})
	if got := functions.Emitted(ctx); len(got) != 1 || got[0].ID() != "c" {
		t.Errorf("got %v, want c alone", got)
	}
}

func TestEmitOutsideAnAttempt(t *testing.T) {
	if err := functions.Emit(t.Context(), filed("a", 1)); !errors.Is(err, functions.ErrNoAttempt) {
		t.Errorf("got %v, want %v", err, functions.ErrNoAttempt)
	}
}
