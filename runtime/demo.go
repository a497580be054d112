package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
)

// Demo is a short tour on a temporary node: a dozen events go through success, retry, parking, redrive and discard, and each step is
// printed on out.
func Demo(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "siding-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &demo{out: out}
	r, err := New(Config{DataDir: dir, Grace: time.Second}, d.function())
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-done)
	}()
	select {
	case <-r.Ready():
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-done:
		done <- nil
		return err
	}
	d.node = r
	return d.tour(ctx)
}

type demo struct {
	out  io.Writer
	node *Runtime
	// fixed is set once the handler can deal with claims that lack a date.
	fixed atomic.Bool
}

// function files claims: those of the mobile app come while its backend is away for a moment, and one broker forgets the date.
func (d *demo) function() functions.Function {
	return functions.Function{
		Name: "file-claim", Types: []string{"com.insurer.claim.reported"}, Version: "1.0.0",
		Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(300 * time.Millisecond)},
		Handle: func(ctx context.Context, e functions.Event) error {
			a := functions.AttemptFrom(ctx)
			switch {
			case e.Subject() == "mobile" && a.Number == 1:
				return functions.Unavailable(errors.New("policy service: connection refused"))
			case e.Subject() == "broker" && !d.fixed.Load():
				return errors.New("claim has no date of loss")
			case e.Subject() == "spam":
				return functions.Park(errors.New("policy number is not one of ours"))
			}
			return nil
		},
	}
}

func (d *demo) tour(ctx context.Context) error {
	d.say("A node runs with one function, file-claim: 3 attempts, 300 ms between them.")
	var events []event.Event
	for i, subject := range []string{"web", "web", "web", "web", "web", "web", "mobile", "mobile", "broker", "broker", "spam", "web"} {
		e := event.New()
		e.SetID("claim-" + strconv.Itoa(i+1))
		e.SetSource("/portal")
		e.SetType("com.insurer.claim.reported")
		e.SetSubject(subject)
		if err := e.SetData("application/json", map[string]any{"claim": i + 1}); err != nil {
			return err
		}
		events = append(events, e)
	}
	if _, err := d.node.accept(ctx, nil, events); err != nil {
		return err
	}
	d.say("\n1. %d claims are sent. Nine can be handled, two of them at the second attempt; two fail every time, one is refused for good.", len(events))
	if err := d.await(ctx, func(a client.FunctionAccount) bool { return a.Delivered == 9 && a.Parked == 3 }); err != nil {
		return err
	}
	letters, err := d.letters(ctx)
	if err != nil {
		return err
	}
	d.say("\n2. The dead letters say why (siding dlq ls):")
	for _, l := range letters {
		d.say("   %-14s %-9s %-9s %d attempts, noticed by %-8s  %q", l.ID, l.Cause, l.Class, l.Attempts, l.ParkedBy, l.Error)
	}
	d.fixed.Store(true)
	d.say("\n3. The missing date is dealt with in the code, so what was exhausted is redriven (siding dlq redrive):")
	for _, l := range letters {
		action, reason := client.Redrive, "fixed in 1.0.1"
		if l.Cause != "exhausted" {
			action, reason = client.Discard, "not ours"
		}
		decided, err := d.node.decide(ctx, client.Decision{Function: l.Function, Sequence: l.Sequence, Action: action, Reason: reason, By: "demo"})
		if err != nil {
			return err
		}
		d.say("   %-14s %s: %s (applied: %t)", l.ID, action, reason, decided.Applied)
	}
	if err := d.await(ctx, func(a client.FunctionAccount) bool { return a.Delivered == 11 && a.Discarded == 1 }); err != nil {
		return err
	}
	d.say("\n4. Nothing is left over. Now try it with functions of your own: README.md shows how, `siding serve --help` what a node takes.")
	return nil
}

// await waits until the account of the function shows what it should, and prints it.
func (d *demo) await(ctx context.Context, reached func(client.FunctionAccount) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		all, err := d.node.account(ctx)
		if err != nil {
			return err
		}
		for _, a := range all.Functions {
			if reached(a) && a.Holds {
				d.say("   account: %d accepted = %d delivered + %d parked + %d discarded", a.Accepted, a.Delivered, a.Parked, a.Discarded)
				return nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the demo does not come to rest: %+v", all.Functions)
		}
	}
}

func (d *demo) letters(ctx context.Context) ([]client.DeadLetter, error) {
	return d.node.deadLetters(ctx, deadLetterQuery{Limit: client.DefaultLimit})
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }
