package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/siding-dev/siding/runtime/client"
)

const dateMissing = "the date of loss was missing"

// oneCase is the fourth step: one dead letter from end to end.
func (t *tour) oneCase(ctx context.Context) error {
	t.heading("4. One case from end to end: it is looked at, corrected and handled, and its policy goes on.")
	at := slices.IndexFunc(t.letters, func(l client.DeadLetter) bool { return t.answers[l.ID] != nil })
	if at < 0 {
		return faulty("no dead letter has an answer")
	}
	letter, err := t.api.DeadLetter(ctx, functionName, t.letters[at].Sequence)
	if err != nil {
		return err
	}
	t.first = letter.ID
	want := []string{letter.EventID}
	for _, held := range letter.Tail {
		want = append(want, held.EventID)
	}
	t.command("dlq show %s", letter.ID)
	t.table(
		[]string{"event", letter.EventID + " from " + letter.Source},
		[]string{"key", letter.Key},
		[]string{"why", letter.Cause + ": " + letter.Error},
		[]string{"parked", fmt.Sprintf("%s, after %s", clock(letter.ParkedAt), plural(letter.Attempts, "attempt"))},
		[]string{"held behind it", strings.Join(want[1:], ", ")},
		[]string{"data", string(letter.Data)},
	)
	var corrected paper
	if err := json.Unmarshal(t.answers[letter.ID], &corrected); err != nil {
		return err
	}
	t.say("")
	t.command("dlq edit %s --set date_of_loss=%s --source %q --reason %q --by %s",
		letter.ID, corrected.DateOfLoss, t.answerOf(), dateMissing, decider)
	if err := t.edit(ctx, letter.DeadLetter); err != nil {
		return err
	}
	for _, id := range want {
		if err := t.delivered(ctx, id); err != nil {
			return err
		}
	}
	got := t.contracts.of(letter.Key)
	if !slices.Equal(got, want) {
		return faulty("policy %s was handled as %v, want %v", letter.Key, got, want)
	}
	t.say("   The contract system has %s of %s, in order.\n", strings.Join(got, ", "), letter.Key)
	return t.trace(ctx, letter.EventID, letter.Source)
}

// trace tells the life of an event as a list.
func (t *tour) trace(ctx context.Context, id, source string) error {
	t.command("event trace %s", id)
	life, err := t.api.TraceByID(ctx, id, source)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, s := range life.Steps {
		gap, err := time.ParseDuration(s.Gap)
		if err != nil {
			return faulty("%s: step %s comes after %q, which is no duration", id, s.What, s.Gap)
		}
		rows = append(rows, []string{"+" + gap.Round(time.Millisecond).String(), s.What, s.Detail})
	}
	t.table(rows...)
	return nil
}

// theRest is the fifth step: all other answers, in order.
func (t *tour) theRest(ctx context.Context) error {
	t.heading("5. The other %d, in the order in which they were sent, each with its own answer:", len(t.answers)-1)
	var others, behind int64 // which nobody has answered, and what they hold
	for _, l := range t.letters {
		switch {
		case t.answers[l.ID] == nil:
			others, behind = others+1, behind+int64(l.Held)
			continue
		case l.ID == t.first:
			continue
		}
		if err := t.edit(ctx, l); err != nil {
			return err
		}
		if err := t.show(ctx); err != nil {
			return err
		}
	}
	a, err := t.rest(ctx, others, behind, 0)
	if err != nil {
		return err
	}
	t.say("   %d of %d events are handled now, %d parked, %d held.", a.Delivered, a.Accepted, a.Parked, a.Held)
	return nil
}

// twice is the sixth step: what must not be handled is discarded, and what
// waits behind it goes on.
func (t *tour) twice(ctx context.Context) error {
	t.heading("6. What was reported twice must not be handled: it is discarded, and it stays on record why.")
	const reason = "the broker confirms: one loss, reported twice"
	for _, l := range t.letters {
		if t.answers[l.ID] != nil {
			continue
		}
		t.say("   %s from %s: %s", l.EventID, l.Source, l.Error)
		t.command("dlq discard %s --reason %q --by %s", l.ID, reason, decider)
		_, err := t.api.Decide(ctx, client.Decision{
			Function: functionName, Sequence: l.Sequence, Cycle: &l.Cycle, Action: client.Discard, Reason: reason, By: decider,
		})
		if err != nil {
			return err
		}
		t.discarded[l.EventID] = true
		t.say("   %s held behind it may go on.", plural(l.Held, "event"))
	}
	_, err := t.rest(ctx, 0, 0, int64(len(t.discarded)))
	return err
}

// edit sends a dead letter through its function again with the data that its
// sender has answered.
func (t *tour) edit(ctx context.Context, l client.DeadLetter) error {
	_, err := t.api.Decide(ctx, client.Decision{
		Function: functionName, Sequence: l.Sequence, Cycle: &l.Cycle, Action: client.Edit,
		Data: t.answers[l.ID], Source: t.answerOf(), Reason: dateMissing, By: decider,
	})
	return err
}

// answerOf says where the corrected data come from.
func (t *tour) answerOf() string { return "answer of " + t.sender }

// delivered waits until an event is delivered.
func (t *tour) delivered(ctx context.Context, id string) error {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, patience, faulty("%s is not handled after %s", id, patience))
	defer cancel()
	for {
		outcome, err := t.api.Wait(ctx, t.sequences[id], client.MaxWait)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case outcome.Well():
			return nil
		}
		select { // an event that has just been released may still be seen where it was
		case <-time.After(glance):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
