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

// scanWait is how long a pull stays open that gets less than it asks for: what it waits for has been deleted.
const scanWait = time.Second

// scan reads many messages of a stream by a consumer of its own, oldest first: a question for each would cost a round trip each. What is written
// meanwhile may be seen or not.
func (s *Store) scan(ctx context.Context, stream string, cfg jetstream.ConsumerConfig, each func(jetstream.Msg)) error {
	ctx, cancel := context.WithTimeout(ctx, 12*OpTimeout)
	defer cancel()
	js := s.node.JetStream()
	cfg.AckPolicy, cfg.MemoryStorage, cfg.InactiveThreshold = jetstream.AckNonePolicy, true, time.Minute
	c, err := js.CreateConsumer(ctx, stream, cfg)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: scan: %w", stream, err)
	}
	defer func() { _ = js.DeleteConsumer(context.WithoutCancel(ctx), stream, c.CachedInfo().Name) }()
	for read, left := uint64(0), c.CachedInfo().NumPending; left > 0; {
		asked := min(left, scanBatch)
		batch, err := c.Fetch(int(asked), jetstream.FetchMaxWait(scanWait))
		if err != nil {
			return fmt.Errorf("stream %s: scan: %w", stream, err)
		}
		before := read
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return fmt.Errorf("stream %s: scan: %w", stream, err)
			}
			if read++; meta.Sequence.Consumer != read {
				return fmt.Errorf("stream %s: scan: a message was lost on its way behind %d others", stream, read-1)
			}
			each(m)
			if left = meta.NumPending; left == 0 {
				return nil // perhaps fewer than there were: something has been deleted meanwhile, and the request would wait for it
			}
		}
		if err := batch.Error(); err != nil {
			return fmt.Errorf("stream %s: scan: %w", stream, err)
		}
		if read-before == asked {
			continue
		}
		info, err := c.Info(ctx)
		if err != nil {
			return fmt.Errorf("stream %s: scan: %w", stream, err)
		}
		if left = info.NumPending; info.Delivered.Consumer != read {
			return fmt.Errorf("stream %s: scan: got %d of %d messages in time", stream, read, info.Delivered.Consumer)
		}
	}
	return nil
}

// Headers reads the headers of everything that stands of a function at a place, without the bodies.
func (s *Store) Headers(ctx context.Context, place Place, function string, each func(Ref, nats.Header)) error {
	cfg := jetstream.ConsumerConfig{FilterSubject: place.Filter(function), HeadersOnly: true}
	return s.scan(ctx, place.Stream(function), cfg, func(m jetstream.Msg) {
		if _, ref, err := ParseSubject(m.Subject()); err == nil {
			each(ref, m.Headers())
		}
	})
}

// LastRecords reads the newest record of each event of a function that has one, by sequence, without its long texts.
func (s *Store) LastRecords(ctx context.Context, function string) (map[uint64]Record, error) {
	records := map[uint64]Record{}
	var foreign []uint64
	cfg := jetstream.ConsumerConfig{FilterSubject: AttemptFilter(function), DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	err := s.scan(ctx, AttemptsStream, cfg, func(m jetstream.Msg) {
		_, seq, ok := ParseAttemptSubject(m.Subject())
		if !ok {
			return
		}
		r, ok := readRecord(m.Data(), function, seq)
		if !ok {
			foreign = append(foreign, seq)
			return
		}
		r.Stack, r.Error = "", ""
		records[seq] = r
	})
	if err != nil {
		return nil, err
	}
	for _, seq := range foreign { // somebody else wrote there last
		r, ok, err := s.LastRecord(ctx, function, seq)
		if err != nil {
			return nil, err
		}
		if ok {
			records[seq] = r
		}
	}
	return records, nil
}
