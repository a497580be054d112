package streams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrDifferent is an event that carries the (source, id) of an earlier one within the dedupe window, but says something else.
var ErrDifferent = errors.New("the same source and id were accepted with different content")

// Accepted is the store's answer for one event.
type Accepted struct {
	Sequence  uint64 // in EVENTS; of the first one if Duplicate
	Duplicate bool
}

// message renders an event for EVENTS, or says why the store does not take it: *InvalidError or ErrTooLarge. An event that was let
// in by Check must not be refused by Accept, so its size is taken without what is added in between: hop, and the trace context.
func (s *Store) message(e event.Event, hop nats.Header) (*nats.Msg, error) {
	subject, err := EventSubject(e.Type())
	if err != nil {
		return nil, &InvalidError{Index: -1, Attribute: "type", Reason: err.Error()}
	}
	header, data, err := Encode(e)
	if err != nil {
		return nil, err
	}
	m := &nats.Msg{Subject: subject, Header: header, Data: data}
	size := m.Size()
	for _, name := range []string{"ce-traceparent", "ce-tracestate"} {
		if v := header.Get(name); v != "" && len(v) <= maxTraceState {
			size -= len(name) + len(": ") + len(v) + len("\r\n")
		}
	}
	if attributes := size - len(data); attributes > MaxEventHeader {
		return nil, fmt.Errorf("attributes of %d bytes: at most %d: %w", attributes, MaxEventHeader, ErrTooLarge)
	}
	if limit := int(MaxEventSize(s.limits.MaxPayload)); size > limit {
		return nil, fmt.Errorf("event of %d bytes: at most %d: %w", size, limit, ErrTooLarge)
	}
	maps.Copy(header, hop)
	return m, nil
}

// Check says whether Accept would take an event, without storing it, so that a batch can be refused as a whole.
func (s *Store) Check(e event.Event) error {
	_, err := s.message(e, nil)
	return err
}

// Accept stores an event in EVENTS, at most once per (source, id) and DedupeWindow. hop are further headers of this copy (the
// publisher's trace context). When it returns without error the event survives kill -9. Errors: *InvalidError, ErrTooLarge,
// ErrFull, ErrDifferent; any other one means that the event was not stored.
func (s *Store) Accept(ctx context.Context, e event.Event, hop nats.Header) (Accepted, error) {
	m, err := s.message(e, hop)
	if err != nil {
		return Accepted{}, err
	}
	var ack *jetstream.PubAck
	err = s.unheld(ctx, "accept", func(ctx context.Context) (err error) {
		ack, err = s.node.JetStream().PublishMsg(ctx, m, jetstream.WithMsgID(MessageID(e.Source(), e.ID())),
			jetstream.WithExpectStream(EventsStream), jetstream.WithRetryAttempts(0))
		return err
	})
	if err != nil {
		return Accepted{}, fmt.Errorf("stream %s: %w", EventsStream, publishError(err))
	}
	if !ack.Duplicate {
		return Accepted{Sequence: ack.Sequence}, nil
	}
	first, err := s.Get(ctx, EventsStream, ack.Sequence)
	if err == nil && !sameEvent(first, e) {
		return Accepted{}, fmt.Errorf("stream %s: sequence %d: %w", EventsStream, ack.Sequence, ErrDifferent)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Accepted{}, err
	}
	return Accepted{Sequence: ack.Sequence, Duplicate: true}, nil
}

// sameEvent compares a stored event with one that claims to be it.
func sameEvent(stored Message, e event.Event) bool {
	first, err := Decode(stored.Header, stored.Data)
	return err == nil && Same(first, e)
}

// Same reports whether two events say the same. The trace context does not count: the store may have added one to the first copy.
func Same(a, b event.Event) bool {
	a, b = a.Clone(), b.Clone()
	for _, name := range []string{"traceparent", "tracestate"} {
		a.SetExtension(name, nil)
		b.SetExtension(name, nil)
	}
	ha, da, errA := Encode(a)
	hb, db, errB := Encode(b)
	return errA == nil && errB == nil && bytes.Equal(da, db) && maps.EqualFunc(ha, hb, func(x, y []string) bool {
		return len(x) == len(y) && (len(x) == 0 || x[0] == y[0])
	})
}
