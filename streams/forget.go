package streams

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nats-io/nats.go/jetstream"
)

// DropConsumers removes the three consumers of a function that nobody hosts. Those that are gone already are fine.
func (s *Store) DropConsumers(ctx context.Context, d Declared) error {
	for _, stream := range []string{d.Stream, RetryStream, DecisionsStream} {
		err := s.do(ctx, "drop consumer", func(ctx context.Context) error {
			return s.node.JetStream().DeleteConsumer(ctx, stream, d.Name)
		})
		if err != nil && !notFound(err) {
			return fmt.Errorf("stream %s: consumer %s: remove: %w", stream, d.Name, err)
		}
	}
	return nil
}

// DropDeadLetters removes a function's dead-letter stream, with all that stands in it.
func (s *Store) DropDeadLetters(ctx context.Context, function string) error {
	name := DeadLetterStream(function)
	err := s.do(ctx, "drop dead letters", func(ctx context.Context) error {
		s.forget(name)
		return s.node.JetStream().DeleteStream(ctx, name)
	})
	if err != nil && !notFound(err) {
		return fmt.Errorf("stream %s: remove: %w", name, err)
	}
	return nil
}

// DropLedger removes the ledger of a function that has no owner.
func (s *Store) DropLedger(function string) (err error) {
	s.Gated("drop ledger", func() { err = os.Remove(LedgerPath(s.node.dir.path, function)) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Undeclare forgets what a function said of itself: the node does not know it from then on.
func (s *Store) Undeclare(ctx context.Context, function string) error {
	return s.do(ctx, "undeclare", func(ctx context.Context) error {
		kv, err := s.node.JetStream().KeyValue(ctx, FunctionsBucket)
		if err == nil {
			err = kv.Purge(ctx, function)
		}
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			return fmt.Errorf("function %s: undeclare: %w", function, err)
		}
		return nil
	})
}
