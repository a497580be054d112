package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/siding-dev/siding/runtime/client"
)

const (
	// decider is who decides in the story.
	decider = "demo"
	// batch is how many events the portal sends in one request.
	batch = 20
	// glance is how often the node is asked how far it is.
	glance = 100 * time.Millisecond
	// stillness is how long a node may stand still where it should not before
	// the demo believes it. A released event is nowhere for a moment only.
	stillness = 5 * time.Second
)

// tour is the story as far as it is told.
type tour struct {
	*screen
	api       *client.Client
	url, dir  string
	portal    *portal
	contracts *contracts
	sequences map[string]uint64 // where the node stored each event, by id
	discarded map[string]bool

	letters []client.DeadLetter        // of the second step
	sender  string                     // who must be asked
	answers map[string]json.RawMessage // the corrected data, by dead letter
	first   string                     // the dead letter of the one case
}

// story tells every step and returns the account of the end.
func (t *tour) story(ctx context.Context) (client.FunctionAccount, error) {
	t.say("A node runs on %s with one function, %s. Everything below goes through its HTTP API.", t.url, functionName)
	for _, step := range []func(context.Context) error{t.send, t.look, t.ask, t.oneCase, t.theRest, t.twice} {
		if err := step(ctx); err != nil {
			return client.FunctionAccount{}, err
		}
	}
	return t.end(ctx)
}

// send is the first step: the events, the outage, and what becomes of both.
func (t *tour) send(ctx context.Context) error {
	t.heading("1. The brokers' portal sends %d claim reports, garages send %d invoices for them:", t.portal.count(reported), t.portal.count(invoiced))
	t.say("   The key of an event is its policy number: events of one policy are handled in order.")
	t.say("   In the middle of it the contract system is away for a moment.")
	for from := 0; from < len(t.portal.events); from += batch {
		var structured []json.RawMessage
		for _, e := range t.portal.events[from:min(from+batch, len(t.portal.events))] {
			line, err := client.EventLine(e)
			if err != nil {
				return err
			}
			structured = append(structured, line)
		}
		accepted, err := t.api.SendBatch(ctx, structured)
		if err != nil {
			return err
		}
		for _, a := range accepted {
			t.sequences[a.ID] = a.Sequence
		}
		if err := t.show(ctx); err != nil {
			return err
		}
	}
	a, err := t.rest(ctx, int64(len(t.portal.blocked)), int64(t.portal.behind), 0)
	if err != nil {
		return err
	}
	events, failures, err := t.outage(ctx)
	if err != nil {
		return err
	}
	t.say("   %d accepted: %d handled, %d parked, %d held behind these.", a.Accepted, a.Delivered, a.Parked, a.Held)
	t.say("   %s came while the contract system was away: %s failed, then the function was suspended until a probe succeeded. None is parked for that.",
		plural(events, "event"), plural(failures, "attempt"))
	return nil
}

// outage counts, from the records of attempts, the events that failed because
// of it and how often they did.
func (t *tour) outage(ctx context.Context) (events, failures int, err error) {
	for id, sequence := range t.sequences {
		life, err := t.api.EventBySequence(ctx, sequence)
		if err != nil {
			return 0, 0, err
		}
		before := failures
		for _, state := range life.Functions {
			for _, h := range state.History {
				if h.Class != "unavailable" {
					continue
				}
				failures++
				if state.State == client.StateParked && h.Attempt == state.Attempts {
					return 0, 0, faulty("%s was parked because the contract system was away", id)
				}
			}
		}
		if failures > before {
			events++
		}
	}
	if events == 0 {
		return 0, 0, faulty("no attempt failed while the contract system was away")
	}
	return events, failures, nil
}

// rest waits until nothing moves any more and the node stands where it should,
// and returns its account. A node that rests elsewhere is an error at once.
func (t *tour) rest(ctx context.Context, parked, held, discarded int64) (client.FunctionAccount, error) {
	defer t.clear()
	var before client.FunctionAccount
	since := time.Now()
	for {
		if err := t.show(ctx); err != nil {
			return before, err
		}
		a, err := t.account(ctx)
		if err != nil {
			return before, err
		}
		still := a.Pending+a.Delivering+a.Retrying == 0 && a.Accepted == int64(len(t.sequences))
		if still && a.Holds && a.Parked == parked && a.Held == held && a.Discarded == discarded && a.Gone == 0 {
			return a, nil
		}
		if !still || a.Accepted != before.Accepted || a.Delivered != before.Delivered || a.Parked != before.Parked || a.Held != before.Held {
			since, before = time.Now(), a
		}
		if time.Since(since) > stillness {
			return a, faulty("of %d events sent the node accepted %d and rests with %d delivered, %d parked, %d held and %d discarded; want %d parked, %d held and %d discarded",
				len(t.sequences), a.Accepted, a.Delivered, a.Parked, a.Held, a.Discarded, parked, held, discarded)
		}
		select {
		case <-time.After(glance):
		case <-ctx.Done():
			return a, context.Cause(ctx)
		}
	}
}

// show rewrites the line of progress.
func (t *tour) show(ctx context.Context) error {
	if !t.live {
		return nil
	}
	f, err := t.api.Function(ctx, functionName)
	if err != nil {
		return err
	}
	sent := int64(len(t.sequences))
	open := f.Pending + f.Delivering + f.Retrying + f.Held + f.Parked
	t.progress(sent-open, int64(len(t.portal.events)), fmt.Sprintf("handled, %d retrying, %d parked, %d held", f.Retrying, f.Parked, f.Held))
	return nil
}

func (t *tour) account(ctx context.Context) (client.FunctionAccount, error) {
	all, err := t.api.Account(ctx)
	if err != nil {
		return client.FunctionAccount{}, err
	}
	for _, a := range all.Functions {
		if a.Function == functionName {
			return a, nil
		}
	}
	return client.FunctionAccount{}, faulty("the account does not know %s", functionName)
}
