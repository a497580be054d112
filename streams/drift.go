package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Drift is one setting of a stream or consumer that is not as Siding made it.
type Drift struct {
	Stream   string
	Consumer string // "" when the setting is the stream's own
	Field    string // "" when all of it is missing
	Got      string
	Want     string
}

// StreamUse is how full a stream is, and when it was last written to.
type StreamUse struct {
	Name     string
	Bytes    uint64
	MaxBytes int64 // from which on it takes no more; 0 = no limit of its own, or one beyond which the oldest goes
	Last     time.Time
}

// Uses lists every stream of the node.
func (s *Store) Uses(ctx context.Context) (uses []StreamUse, err error) {
	lister := s.node.JetStream().ListStreams(ctx)
	for info := range lister.Info() {
		use := StreamUse{Name: info.Config.Name, Bytes: info.State.Bytes, Last: info.State.LastTime}
		if info.Config.Discard == jetstream.DiscardNew {
			use.MaxBytes = max(info.Config.MaxBytes, 0)
		}
		uses = append(uses, use)
	}
	if err := lister.Err(); err != nil {
		return nil, fmt.Errorf("list of streams: %w", err)
	}
	return uses, nil
}

// StreamDrift compares the streams that Siding makes with how it makes them. functions are those whose dead-letter streams are looked at too;
// one that has none yet is fine.
func (s *Store) StreamDrift(ctx context.Context, functions []string) (drifts []Drift, err error) {
	wanted := topology(s.limits)
	always := len(wanted)
	for _, function := range functions {
		wanted = append(wanted, deadLetters(function))
	}
	for i, want := range wanted {
		st, err := s.node.JetStream().Stream(ctx, want.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			if i < always {
				drifts = append(drifts, Drift{Stream: want.Name})
			}
			continue
		case err != nil:
			return nil, fmt.Errorf("stream %s: %w", want.Name, err)
		}
		drifts = append(drifts, compareStream(want, st.CachedInfo().Config)...)
	}
	return drifts, nil
}

// setting is one that is compared; unlimited is written as 0 or -1.
type setting struct {
	field     string
	got, want any
}

func differing(settings []setting) (drifts []Drift) {
	for _, s := range settings {
		if got, want := fmt.Sprint(s.got), fmt.Sprint(s.want); got != want {
			drifts = append(drifts, Drift{Field: s.field, Got: got, Want: want})
		}
	}
	return drifts
}

func compareStream(want, got jetstream.StreamConfig) []Drift {
	drifts := differing([]setting{
		{"subjects", got.Subjects, want.Subjects},
		{"retention", got.Retention, want.Retention},
		{"storage", got.Storage, want.Storage},
		{"discard", got.Discard, want.Discard},
		{"max messages per subject", max(got.MaxMsgsPerSubject, 0), max(want.MaxMsgsPerSubject, 0)},
		{"max messages", max(got.MaxMsgs, 0), max(want.MaxMsgs, 0)},
		{"max bytes", max(got.MaxBytes, 0), max(want.MaxBytes, 0)},
		{"max age", got.MaxAge, want.MaxAge},
		{"max message size", max(got.MaxMsgSize, 0), max(want.MaxMsgSize, 0)},
		{"sealed", got.Sealed, false},
	})
	if want.Duplicates != 0 && got.Duplicates != want.Duplicates {
		drifts = append(drifts, Drift{Field: "duplicate window", Got: got.Duplicates.String(), Want: want.Duplicates.String()})
	}
	for i := range drifts {
		drifts[i].Stream = want.Name
	}
	return drifts
}

// ConsumerDrift compares the three consumers of a hosted function with how its owner makes them.
func (s *Store) ConsumerDrift(ctx context.Context, d Declared) (drifts []Drift, err error) {
	filters, err := TypeFilters(d.Types)
	if err != nil {
		return nil, err
	}
	for _, want := range []struct {
		stream     string
		maxDeliver int
		filters    []string
	}{
		{d.Stream, -1, filters},
		{RetryStream, d.Attempts, []string{InRetry.Filter(d.Name)}},
		{DecisionsStream, -1, []string{InDecisions.Filter(d.Name)}},
	} {
		c, err := s.node.JetStream().Consumer(ctx, want.stream, d.Name)
		var found []Drift
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
			found = []Drift{{}}
		case err != nil:
			return nil, fmt.Errorf("stream %s: consumer %s: %w", want.stream, d.Name, err)
		default:
			got := c.CachedInfo().Config
			found = differing([]setting{
				{"filters", slices.Sorted(slices.Values(filtersOf(got))), slices.Sorted(slices.Values(want.filters))},
				{"ack policy", got.AckPolicy, jetstream.AckExplicitPolicy},
				{"max deliver", got.MaxDeliver, want.maxDeliver},
				{"max ack pending", got.MaxAckPending, -1},
				{"ack wait", got.AckWait, s.ackWait},
			})
		}
		for i := range found {
			found[i].Stream, found[i].Consumer = want.stream, d.Name
		}
		drifts = append(drifts, found...)
	}
	return drifts, nil
}

func filtersOf(c jetstream.ConsumerConfig) []string {
	if c.FilterSubject != "" {
		return []string{c.FilterSubject}
	}
	return c.FilterSubjects
}
