package runtime

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// pulling says how long a pull request stays open and how often the server says that it still does. nats.go's Consume can lose a
// pull request under load and then idles until its heartbeat is missed, so the loop is our own and the heartbeat is short.
type pulling struct {
	expires   time.Duration
	heartbeat time.Duration
}

var defaultPulling = pulling{expires: 5 * time.Second, heartbeat: 500 * time.Millisecond}

// delivered is one message that JetStream handed us.
type delivered struct {
	msg     jetstream.Msg
	meta    *jetstream.MsgMetadata
	credits *credits
}

// fetch pulls from a consumer into out until ctx ends. It returns what it has received but could not hand over to nobody: the
// server delivers it again after the next reset.
func (p pulling) fetch(ctx context.Context, consumer jetstream.Consumer, c *credits, out chan<- delivered, failed func(error)) {
	for ctx.Err() == nil {
		n := c.take(ctx)
		if n == 0 {
			return
		}
		used, err := p.pull(ctx, consumer, n, c, out)
		c.put(n - used)
		if err != nil && ctx.Err() == nil {
			failed(err)
			select {
			case <-ctx.Done():
			case <-time.After(p.heartbeat):
			}
		}
	}
}

func (p pulling) pull(ctx context.Context, consumer jetstream.Consumer, n int, c *credits, out chan<- delivered) (used int, err error) {
	wait, cancel := context.WithTimeout(ctx, p.expires)
	defer cancel()
	batch, err := consumer.Fetch(n, jetstream.FetchContext(wait), jetstream.FetchHeartbeat(p.heartbeat))
	if err != nil {
		return 0, err
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return used, err
		}
		select {
		case out <- delivered{msg: m, meta: meta, credits: c}:
			used++
		case <-ctx.Done():
			return used, nil
		}
	}
	err = batch.Error()
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrNoMessages) {
		err = nil
	}
	return used, err
}
