package demo

import (
	"context"
	"maps"

	"github.com/siding-dev/siding/runtime/client"
)

// end is the last step: what is claimed is checked, event by event.
func (t *tour) end(ctx context.Context) (client.FunctionAccount, error) {
	a, err := t.rest(ctx, 0, 0, int64(len(t.discarded)))
	if err != nil {
		return a, err
	}
	want := maps.Clone(t.sequences)
	maps.DeleteFunc(want, func(id string, _ uint64) bool { return t.discarded[id] })
	several, err := t.contracts.check(want)
	if err != nil {
		return a, err
	}
	if a.Delivered != int64(len(want)) || a.Accepted != int64(len(t.sequences)) {
		return a, faulty("the node delivered %d of %d events, want %d of %d", a.Delivered, a.Accepted, len(want), len(t.sequences))
	}
	t.heading("7. Nothing is lost, and everything was in order:")
	t.say("   The contract system's own book has all %d events once, and not the %d discarded.", len(want), len(t.discarded))
	t.say("   All %d policies with several events were handled in order; %d of them had waited for a decision.", several, len(t.portal.blocked))
	t.say("   The node's account (siding account), counted from its store, comes to the same.")
	return a, nil
}

// lookAround says what to type while the node is kept running.
func (t *tour) lookAround() {
	next := uint64(0)
	for _, sequence := range t.sequences {
		next = max(next, sequence+1)
	}
	t.heading("The node runs on at %s until Ctrl-C. Look around from another terminal:", t.url)
	for _, c := range []string{"account", "function show " + functionName, "event trace " + t.letters[0].EventID, "audit ls"} {
		t.command("%s --server %s", c, t.url)
	}
	t.say("\n   or have a report of your own parked, corrected and handled:")
	t.command(`event send --type %s --key POL-7 --data '{"policy":"POL-7","damage":"storm"}' --server %s`, reported, t.url)
	t.command("dlq ls --server %s", t.url)
	t.command("dlq edit %s/%d --set date_of_loss=2026-03-01 --reason 'asked by phone' --by me --server %s", functionName, next, t.url)
	t.command("event trace %d --server %s", next, t.url)
}
