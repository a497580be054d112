package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// DefaultAckWait is how long the server waits for a word about a delivery. It is long because what waits in memory is kept alive by
// heartbeats, and because every expiry uses up a delivery that no attempt was made for.
const DefaultAckWait = 2 * time.Minute

// SourceConsumer attaches to a function's durable consumer on its source stream. A missing one is made again behind floor, and
// made is true then; one that exists keeps where it started. ackFloor is what the consumer has acknowledged for good.
func (s *Store) SourceConsumer(ctx context.Context, d Declared, floor uint64) (c jetstream.Consumer, made bool, ackFloor uint64, err error) {
	filters, err := SubjectFilters(d.Stream, d.Types)
	if err != nil {
		return nil, false, 0, fmt.Errorf("function %s: %w", d.Name, err)
	}
	cfg := jetstream.ConsumerConfig{
		Durable: d.Name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.ackWait,
		MaxDeliver: -1, MaxAckPending: -1, FilterSubjects: filters,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: floor + 1,
	}
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	js := s.node.JetStream()
	existing, err := js.Consumer(ctx, d.Stream, d.Name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		made = true
		c, err = js.CreateConsumer(ctx, d.Stream, cfg)
	case err == nil:
		old := existing.CachedInfo()
		ackFloor = old.AckFloor.Stream
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = old.Config.DeliverPolicy, old.Config.OptStartSeq, old.Config.OptStartTime
		c, err = js.UpdateConsumer(ctx, d.Stream, cfg)
	}
	if err != nil {
		return nil, false, 0, fmt.Errorf("stream %s: consumer %s: %w", d.Stream, d.Name, err)
	}
	return c, made, ackFloor, nil
}

// RetryConsumer attaches to a function's consumer on RETRY. attempts is the largest number that its policy allows: deliveries on RETRY
// equal attempts, so that JetStream's own counter enforces the policy.
func (s *Store) RetryConsumer(ctx context.Context, function string, attempts int) (jetstream.Consumer, error) {
	return s.workConsumer(ctx, InRetry, function, attempts)
}

// DecisionConsumer attaches to a function's consumer on DECISIONS.
func (s *Store) DecisionConsumer(ctx context.Context, function string) (jetstream.Consumer, error) {
	return s.workConsumer(ctx, InDecisions, function, -1)
}

func (s *Store) workConsumer(ctx context.Context, place Place, function string, maxDeliver int) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	c, err := s.node.JetStream().CreateOrUpdateConsumer(ctx, place.Stream(function), jetstream.ConsumerConfig{
		Durable: function, AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.ackWait,
		MaxDeliver: maxDeliver, MaxAckPending: -1, FilterSubject: place.Filter(function),
	})
	if err != nil {
		return nil, fmt.Errorf("stream %s: consumer %s: %w", place.Stream(function), function, err)
	}
	return c, nil
}

// AdvisoryConsumer attaches to the one consumer of the captured advisories.
func (s *Store) AdvisoryConsumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	c, err := s.node.JetStream().CreateOrUpdateConsumer(ctx, AdvisoriesStream, jetstream.ConsumerConfig{
		Durable: AdvisoriesConsumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second,
		MaxDeliver: -1, MaxAckPending: -1,
	})
	if err != nil {
		return nil, fmt.Errorf("stream %s: consumer %s: %w", AdvisoriesStream, AdvisoriesConsumer, err)
	}
	return c, nil
}

// Reset brings everything above a consumer's ack floor back at once and in order. Without it the pending messages of a process
// that died come back one AckWait later, after newer ones have overtaken them.
func (s *Store) Reset(ctx context.Context, stream, consumer string) error {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	if _, err := s.node.JetStream().ResetConsumer(ctx, stream, consumer); err != nil {
		return fmt.Errorf("stream %s: consumer %s: reset: %w", stream, consumer, err)
	}
	return nil
}

// CountFrom counts the messages of a stream at or above a sequence that a function's type patterns select.
func (s *Store) CountFrom(ctx context.Context, stream string, types []string, from uint64) (uint64, error) {
	filters, err := SubjectFilters(stream, types)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 6*OpTimeout)
	defer cancel()
	js := s.node.JetStream()
	c, err := js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, FilterSubjects: filters, MemoryStorage: true, InactiveThreshold: time.Minute,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(from, 1),
	})
	if err != nil {
		return 0, fmt.Errorf("stream %s: count: %w", stream, err)
	}
	info := c.CachedInfo()
	_ = js.DeleteConsumer(ctx, stream, info.Name)
	return info.NumPending, nil
}
