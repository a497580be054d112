package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// AuditConsumer reads the audit from a sequence on, without acknowledgements: who reads remembers how far. It lives in memory, and goes by itself
// when nobody has asked it for idle. Its own sequences are contiguous, so that a gap tells of a delivery that was lost.
func (s *Store) AuditConsumer(ctx context.Context, from uint64, idle time.Duration) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	c, err := s.node.JetStream().CreateConsumer(ctx, AuditStream, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: idle,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(from, 1),
	})
	if err != nil {
		return nil, fmt.Errorf("stream %s: consumer: %w", AuditStream, err)
	}
	return c, nil
}

// NoticeConsumer attaches to the durable consumer of the webhook: one notice at a time, in order. Made for the first time it begins with what is told
// from then on. A delivery that an earlier process did not end comes again at once.
func (s *Store) NoticeConsumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*OpTimeout)
	defer cancel()
	c, err := s.node.JetStream().CreateOrUpdateConsumer(ctx, OpsStream, jetstream.ConsumerConfig{
		Durable: WebhookConsumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.ackWait, MaxDeliver: -1, MaxAckPending: 1,
		DeliverPolicy: jetstream.DeliverNewPolicy,
	})
	if err != nil {
		return nil, fmt.Errorf("stream %s: consumer %s: %w", OpsStream, WebhookConsumer, err)
	}
	if c.CachedInfo().NumAckPending > 0 {
		if err := s.Reset(ctx, OpsStream, WebhookConsumer); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// DropNoticeConsumer removes it, so that a webhook that is set again later is not told what is old.
func (s *Store) DropNoticeConsumer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	err := s.node.JetStream().DeleteConsumer(ctx, OpsStream, WebhookConsumer)
	if err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return fmt.Errorf("stream %s: consumer %s: %w", OpsStream, WebhookConsumer, err)
}

// AckNotice settles a delivery of a notice, and waits until the server has heard of it.
func (s *Store) AckNotice(ctx context.Context, m jetstream.Msg) error {
	return s.do(ctx, "ack "+OpsStream, func(ctx context.Context) error { return m.DoubleAck(ctx) })
}
