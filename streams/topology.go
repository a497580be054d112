package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// DedupeWindow is how long the store remembers the (source, id) of an accepted event.
	DedupeWindow = 10 * time.Minute

	// copyRoom is what a copy of an event may add to it: our own headers, and room for the protocol around them.
	copyRoom = 128 << 10

	// publishRoom is what a publish adds to an event: its message id, the stream that it is for, and trace contexts.
	publishRoom = 4 << 10

	// maxTraceState is the longest traceparent or tracestate that does not count as a part of an event.
	maxTraceState = 512

	// MaxEventHeader is the largest header block of an accepted event in bytes.
	MaxEventHeader = 32 << 10

	auditAge = 365 * 24 * time.Hour

	// What is only for telling is kept for as long as somebody may have been away.
	opsAge   = 30 * 24 * time.Hour
	opsBytes = 64 << 20
)

// MaxEventSize is the largest event that is accepted, headers included, for a server with this maximum payload (bytes).
func MaxEventSize(maxPayload int32) int32 { return maxPayload - copyRoom }

// Limits are the sizes from which the topology is derived.
type Limits struct {
	MaxStore   int64 // bytes that all streams together may take
	MaxPayload int32 // bytes of one NATS message
}

// eventBytes leaves a quarter of the store to retries, dead letters and records: when EVENTS is full, what is already
// accepted can still be parked.
func (l Limits) eventBytes() int64 { return l.MaxStore / 4 * 3 }

// opsBytes bounds what is kept of notices. A small store must not give much of itself to them.
func (l Limits) opsBytes() int64 { return min(opsBytes, l.MaxStore/64) }

// topology lists every stream that exists on a node before any consumer does. The advisory stream comes first: an advisory
// that is published while nobody captures it is not even encoded.
func topology(l Limits) []jetstream.StreamConfig {
	register := func(name string, place Place, retention jetstream.RetentionPolicy) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: name, Subjects: []string{"siding." + place.String() + ".>"},
			Retention: retention, Storage: jetstream.FileStorage,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowDirect: true,
		}
	}
	return []jetstream.StreamConfig{
		{
			Name: AdvisoriesStream, Subjects: []string{MaxDeliveriesSubject, TerminatedSubject},
			Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, AllowDirect: true,
		},
		{
			Name: EventsStream, Subjects: []string{eventsPrefix + ">"},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
			MaxBytes: l.eventBytes(), MaxMsgSize: MaxEventSize(l.MaxPayload) + publishRoom, Duplicates: DedupeWindow, AllowDirect: true,
		},
		register(RetryStream, InRetry, jetstream.WorkQueuePolicy),
		register(DecisionsStream, InDecisions, jetstream.WorkQueuePolicy),
		register(HeldStream, InHeld, jetstream.LimitsPolicy),
		{
			Name: OutboxStream, Subjects: []string{outboxPrefix + ">"},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowDirect: true,
		},
		{
			Name: AttemptsStream, Subjects: []string{attemptPrefix + ">"},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, AllowDirect: true,
		},
		{
			Name: AuditStream, Subjects: []string{auditPrefix + ">"}, MaxAge: auditAge,
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, AllowDirect: true,
		},
		{
			Name: OpsStream, Subjects: []string{opsPrefix + ">"}, MaxAge: opsAge, MaxBytes: l.opsBytes(), Discard: jetstream.DiscardOld,
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Duplicates: DedupeWindow, AllowDirect: true,
		},
	}
}

// deadLetters is the configuration of a function's dead-letter stream: no age limit, deleted one by one.
func deadLetters(function string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: DeadLetterStream(function), Subjects: []string{InDeadLetters.Filter(function)},
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowDirect: true,
	}
}

// ensureTopology creates what is missing and brings back what was changed behind our back. A stream that cannot take the
// configuration (another retention, say) is refused by name.
func ensureTopology(ctx context.Context, js jetstream.JetStream, l Limits) error {
	for _, cfg := range topology(l) {
		if _, err := js.CreateOrUpdateStream(ctx, cfg); err != nil {
			return fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
	}
	for _, bucket := range []string{FunctionsBucket, OnceBucket} {
		_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, History: 1, Storage: jetstream.FileStorage})
		if err != nil {
			return fmt.Errorf("bucket %s: %w", bucket, err)
		}
	}
	return nil
}

// notFound reports whether err says that a stream, consumer, key or message does not exist.
func notFound(err error) bool {
	return errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) ||
		errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrKeyNotFound) ||
		errors.Is(err, jetstream.ErrConsumerDoesNotExist)
}
