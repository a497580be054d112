package demo

import (
	"context"
	"errors"
	"time"

	"github.com/siding-dev/siding/functions"
)

const functionName = "file-claim"

// handling is how long a paper takes, so that there is something to watch.
const handling = 5 * time.Millisecond

// function files claims and their invoices. While the contract system is away it
// is suspended, and probes soon, so that nobody has to wait for the demo.
func function(c *contracts) functions.Function {
	return functions.Function{
		Name:        functionName,
		Types:       []string{"com.insurer.claim.*"},
		OrderBy:     functions.PartitionKey,
		Retry:       functions.Retry{Attempts: 12, Backoff: functions.Exponential(100*time.Millisecond, time.Second).WithJitter(0.2)},
		Breaker:     functions.Breaker{Probe: 300 * time.Millisecond, LongestProbe: time.Second},
		Concurrency: 8,
		Owner:       "claims-team",
		Version:     "1.0.0",
		Handle: functions.Typed(func(ctx context.Context, p paper) error {
			return fileClaim(ctx, c, p)
		}),
	}
}

// fileClaim is the handler. Its errors are the outcomes: what the next attempt
// may find better is retried, what it cannot is parked.
func fileClaim(ctx context.Context, c *contracts, p paper) error {
	e := functions.EventFrom(ctx)
	if e.Type() == reported && p.DateOfLoss == "" {
		return functions.Park(errors.New("the report has no date of loss"))
	}
	select {
	case <-time.After(handling):
	case <-ctx.Done():
		return ctx.Err()
	}
	err := c.file(e.ID(), p)
	var twice *twiceError
	switch {
	case errors.Is(err, errAway):
		return functions.Unavailable(err)
	case errors.Is(err, errNoClaim), errors.As(err, &twice):
		return functions.Park(err)
	}
	return err
}
