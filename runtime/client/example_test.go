package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime"
	"github.com/siding-dev/siding/runtime/client"
)

// decideAll is a program that decides about the dead letters of a function: tests are discarded, everything else goes through the function
// again. It reads the dead letters with nothing but a NATS client, since each is a CloudEvent in binary mode, and decides in the order of
// the events: the earlier one of a key first.
func decideAll(ctx context.Context, nc *nats.Conn, node *client.Client, function string) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	letters, err := js.OrderedConsumer(ctx, "DLQ_"+function, jetstream.OrderedConsumerConfig{})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // nothing has ever been parked
	} else if err != nil {
		return err
	}
	batch, err := letters.FetchNoWait(1000)
	if err != nil {
		return err
	}
	var decisions []client.Decision
	for m := range batch.Messages() {
		d := client.Decision{Function: function, Action: client.Redrive, Reason: "the bank is known now", By: "claims-bot"}
		if m.Headers().Get("ce-subject") == "test" {
			d.Action, d.Reason = client.Discard, m.Headers().Get("ce-id")+" is a test"
		}
		// The subject ends in the event's sequence. The cycle pins the decision to the dead letter that was read.
		d.Sequence, _ = strconv.ParseUint(m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:], 10, 64)
		cycle, _ := strconv.Atoi(m.Headers().Get("Siding-Cycle"))
		d.Cycle = &cycle
		decisions = append(decisions, d)
	}
	slices.SortFunc(decisions, func(a, b client.Decision) int { return int(a.Sequence) - int(b.Sequence) })
	for _, d := range decisions {
		if _, err := node.Decide(ctx, d); err != nil {
			return err
		}
	}
	return batch.Error()
}

// Payments of policy-7 go to a bank that is not known at first, and the first one of policy-9 is a test. A program decides about what is
// parked because of that, and what comes later of the same policy keeps its place behind it.
func ExampleClient_Decide() {
	if err := payClaims(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// policy-7: [claim-1 claim-3 claim-5]
	// policy-9: [claim-4]
	// delivered 4, discarded 1
}

func payClaims() (err error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var mu sync.Mutex
	bankKnown, paid := false, map[string][]string{}
	dir, err := os.MkdirTemp("", "siding-example-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	node, err := runtime.New(runtime.Config{DataDir: dir, HTTP: "127.0.0.1:0", NATS: "127.0.0.1:0"}, functions.Function{
		Name: "pay-claim", Types: []string{"com.insurer.claim.approved"}, OrderBy: functions.PartitionKey, Concurrency: 1,
		Handle: func(ctx context.Context, e functions.Event) error {
			mu.Lock()
			defer mu.Unlock()
			policy := functions.AttemptFrom(ctx).Key
			switch {
			case e.Subject() == "test":
				return functions.Park(errors.New("no claim has this number"))
			case policy == "policy-7" && !bankKnown:
				return functions.Park(errors.New("bank is not known"))
			}
			paid[policy] = append(paid[policy], e.ID())
			return nil
		},
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	select {
	case <-node.Ready():
	case <-ctx.Done():
		return context.Cause(ctx)
	}

	api, err := client.New(node.HTTPAddr(), "")
	if err != nil {
		return err
	}
	for i, policy := range []string{"policy-7", "policy-9", "policy-7", "policy-9", "policy-7"} {
		e := event.New()
		e.SetID("claim-" + strconv.Itoa(i+1))
		e.SetSource("/claims")
		e.SetType("com.insurer.claim.approved")
		e.SetExtension("partitionkey", policy)
		if i == 1 {
			e.SetSubject("test")
		}
		if _, err := api.Send(ctx, e); err != nil {
			return err
		}
	}
	// Whatever is neither delivered nor discarded now is parked, or held behind what is parked.
	if _, err := atRest(ctx, api, func(a client.FunctionAccount) bool { return a.Parked > 0 }); err != nil {
		return err
	}
	mu.Lock()
	bankKnown = true
	mu.Unlock()
	nc, err := nats.Connect(node.NATSAddr())
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := decideAll(ctx, nc, api, "pay-claim"); err != nil {
		return err
	}
	a, err := atRest(ctx, api, func(a client.FunctionAccount) bool { return a.Parked+a.Held == 0 })
	if err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	for _, policy := range []string{"policy-7", "policy-9"} {
		fmt.Printf("%s: %v\n", policy, paid[policy])
	}
	fmt.Printf("delivered %d, discarded %d\n", a.Delivered, a.Discarded)
	return nil
}

// atRest waits until nothing is on its way and the account of the function shows what it should.
func atRest(ctx context.Context, api *client.Client, reached func(client.FunctionAccount) bool) (client.FunctionAccount, error) {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		all, err := api.Account(ctx)
		if err != nil {
			return client.FunctionAccount{}, err
		}
		if a := all.Functions[0]; a.Holds && a.Pending+a.Delivering+a.Retrying == 0 && reached(a) {
			return a, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return client.FunctionAccount{}, context.Cause(ctx)
		}
	}
}
