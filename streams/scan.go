package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// scanBatch is how many messages one pull of a scan asks for.
const scanBatch = 1000

// Headers reads the headers of everything that stands of a function at a place, oldest first, without the bodies. It is for starts, where a
// question for each message would cost a round trip each. What is written meanwhile may be seen or not.
func (s *Store) Headers(ctx context.Context, place Place, function string, each func(Ref, nats.Header)) error {
	stream := place.Stream(function)
	ctx, cancel := context.WithTimeout(ctx, 12*OpTimeout)
	defer cancel()
	js := s.node.JetStream()
	c, err := js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, FilterSubject: place.Filter(function), HeadersOnly: true,
		MemoryStorage: true, InactiveThreshold: time.Minute,
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: headers: %w", stream, err)
	}
	defer func() { _ = js.DeleteConsumer(context.WithoutCancel(ctx), stream, c.CachedInfo().Name) }()
	for left := c.CachedInfo().NumPending; left > 0; {
		batch, err := c.Fetch(int(min(left, scanBatch)), jetstream.FetchContext(ctx))
		if err != nil {
			return fmt.Errorf("stream %s: headers: %w", stream, err)
		}
		for m := range batch.Messages() {
			left--
			if meta, err := m.Metadata(); err == nil && meta.NumPending == 0 {
				left = 0 // fewer than there were: something has been deleted meanwhile
			}
			if _, ref, err := ParseSubject(m.Subject()); err == nil {
				each(ref, m.Headers())
			}
		}
		if err := batch.Error(); err != nil {
			return fmt.Errorf("stream %s: headers: %w", stream, err)
		}
	}
	return nil
}
