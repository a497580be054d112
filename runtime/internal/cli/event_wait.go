package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/siding-dev/siding/runtime/client"
)

// defaultWait is how long --wait waits when it does not say.
const defaultWait = "1m"

// waitOf reads --wait; waits is false without it.
func waitOf(value string, args []string) (timeout time.Duration, waits bool, err error) {
	if value == "" {
		return 0, false, nil
	}
	timeout, err = time.ParseDuration(value)
	if err != nil || timeout <= 0 {
		return 0, false, usage("give it as in --wait=30s", "--wait %s: not a duration", strconv.Quote(value))
	}
	if len(args) == 1 {
		if _, err := time.ParseDuration(args[0]); err == nil {
			return 0, false, usage("give it as in --wait="+args[0], "%s: a file, or how long to wait?", args[0])
		}
	}
	return timeout, true, nil
}

// await waits until every function that takes the events has an end for them,
// and prints what has become of each.
func (a *app) await(ctx context.Context, node *client.Client, accepted []client.Accepted, timeout time.Duration, show func([]client.Sent) error) error {
	end := time.Now().Add(timeout)
	sent := make([]client.Sent, 0, len(accepted))
	for _, e := range accepted {
		o, err := node.Wait(ctx, e.Sequence, time.Until(end))
		if err != nil {
			return err
		}
		sent = append(sent, client.Sent{Accepted: e, Done: o.Done, Functions: o.Functions})
	}
	if err := show(sent); err != nil {
		return err
	}
	return ended(sent, timeout)
}

// ended is nil if every event was delivered or discarded, and otherwise names
// the first one that was not.
func ended(sent []client.Sent, timeout time.Duration) error {
	bad := 0
	var worst *failure
	for _, e := range sent {
		for _, f := range e.Functions {
			id := f.Function + "/" + strconv.FormatUint(e.Sequence, 10)
			switch {
			case f.State == client.StateDelivered || f.State == client.StateDiscarded:
				continue
			case f.State == client.StateParked:
				worst = cmp.Or(worst, failed("siding dlq show "+id+" says why", "%s was parked after %s", id, times(f.Attempts)))
			case f.Ended():
				worst = cmp.Or(worst, failed("siding account names what is missing", "%s is %s", id, f.State))
			default:
				worst = cmp.Or(worst, failed("siding event trace "+strconv.FormatUint(e.Sequence, 10)+" tells more; it goes on without you",
					"%s is not finished after %s: %s%s", id, timeout, f.State, behind(f)))
			}
			bad++
		}
	}
	if worst == nil {
		return nil
	}
	if bad > 1 {
		worst.text += fmt.Sprintf(", and %d more did not end well", bad-1)
	}
	return worst
}

func times(attempts int) string {
	if attempts == 1 {
		return "1 attempt"
	}
	return strconv.Itoa(attempts) + " attempts"
}

// behind says what an unfinished event waits for.
func behind(f client.EventState) string {
	switch {
	case f.Behind != "":
		return " behind " + f.Behind
	case !f.DueAt.IsZero():
		return " after " + times(f.Attempts) + ", due at " + f.DueAt.UTC().Format(time.RFC3339)
	}
	return ""
}

func (a *app) printSent(sent []client.Sent) error {
	t := newTable(a.env.Stdout, "SEQUENCE", "ID", "FUNCTION", "STATE", "ATTEMPTS", "DETAIL")
	for _, e := range sent {
		sequence := strconv.FormatUint(e.Sequence, 10)
		if len(e.Functions) == 0 {
			a.say("no function takes %s", clean(e.ID))
			t.row(sequence, e.ID, "", "stored", "", "")
		}
		for _, f := range e.Functions {
			detail := behind(f)
			if n := len(f.History); n > 0 && f.State == client.StateParked {
				detail = lastError(f.History)
			}
			attempts := ""
			if f.Attempts > 0 { // no record is kept of what succeeded at once
				attempts = strconv.Itoa(f.Attempts)
			}
			t.row(sequence, e.ID, f.Function, f.State, attempts, cut(strings.TrimSpace(detail), 80))
		}
	}
	return t.flush()
}

// lastError is what the last attempt that failed said.
func lastError(history []client.Attempt) string {
	for _, h := range slices.Backward(history) {
		if h.Kind == "attempt" || h.Kind == "crash" {
			return h.Error
		}
	}
	return ""
}
