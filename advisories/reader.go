package advisories

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
)

// Reader hands captured advisories to the owners of the functions that they are about. It knows no handlers.
type Reader struct {
	Store   *streams.Store
	Orphans *Orphans
	// Route gives a notice to the owner of the function named by its consumer. The owner calls done once, after it has applied the
	// verdict; false means that the owner cannot take it now, and it is offered again.
	Route func(n Notice, done func()) bool
	// Count is told what became of each advisory.
	Count func(kind Kind, verdict string)
	// Wait is how long a request for advisories stays open before it is made anew; 0 = 5 s.
	Wait time.Duration
	Log  *slog.Logger
}

// Verdict words for advisories that no function of ours is concerned by.
const (
	foreign = "foreign"
	invalid = "invalid"
)

const (
	readBatch = 256
	readWait  = 5 * time.Second
	// retryLater is the pause before an advisory that could not be handled is offered again.
	retryLater = time.Second
	// offerAgain is the pause before an owner that has its hands full is asked again: it works off what it has in less.
	offerAgain = 100 * time.Millisecond
)

// Run reads until ctx ends. An advisory is acknowledged last: whatever happens before, it comes again.
func (r *Reader) Run(ctx context.Context) error {
	consumer, err := r.Store.AdvisoryConsumer(ctx)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, cmp.Or(r.Wait, readWait))
		batch, err := consumer.Fetch(readBatch, jetstream.FetchContext(wait))
		if err == nil {
			for m := range batch.Messages() {
				r.handle(ctx, m)
			}
			err = batch.Error()
		}
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			r.Log.Warn("advisories are not readable", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(retryLater):
			}
			// Somebody may have deleted the consumer; what it had not acknowledged comes again.
			if again, err := r.Store.AdvisoryConsumer(ctx); err == nil {
				consumer = again
			}
		}
	}
	return nil
}

func (r *Reader) handle(ctx context.Context, m jetstream.Msg) {
	ack := func() { r.Store.Ack(m) }
	n, err := Parse(m.Data())
	switch {
	case err != nil:
		r.Count(n.Kind, invalid)
		ack()
	case !r.Orphans.Hosted(n.Consumer):
		r.orphan(ctx, n, m, ack)
	case !r.Route(n, ack):
		r.Store.Nak(m, offerAgain)
	}
}

// orphan handles what is not about a hosted function: a function of earlier days, or somebody else's consumer.
func (r *Reader) orphan(ctx context.Context, n Notice, m jetstream.Msg, ack func()) {
	if n.Kind != MaxDeliveries || n.Stream != streams.RetryStream {
		r.Count(n.Kind, foreign)
		ack()
		return
	}
	verdict, err := r.Orphans.Exhausted(ctx, n.Consumer, n.Sequence)
	if err != nil {
		r.Log.Warn("advisory for a function that is not hosted", "function", n.Consumer, "err", err)
		r.Store.Nak(m, retryLater)
		return
	}
	r.Count(n.Kind, string(verdict))
	ack()
}
