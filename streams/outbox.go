package streams

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Outbox is what one attempt emitted, on its way to EVENTS: stored whole before anybody can see that the attempt succeeded. The record of that
// end names it, and then it is published; without one it was never emitted.
type Outbox struct {
	Function string
	Cause    uint64 // source sequence of the event whose attempt it was
	// ID is another one for each attempt. A copy of an earlier attempt, which a kill can bring back, is not the one that a record names.
	ID       string
	Events   []event.Event // to be stored
	Hop      nats.Header   // further headers of each of them: the trace context of the attempt
	Sequence uint64        // in SIDING_OUTBOX, once it is stored

	contents outboxContents
	sent     int // so many of them are in EVENTS for certain
}

// outboxContents are the messages as EVENTS gets them. They are stored as they are, in a form that no header and no body makes larger.
type outboxContents struct {
	ID       string
	Stored   time.Time
	After    uint64 // last sequence of EVENTS before any of them was published
	Messages []outboxMessage
}

type outboxMessage struct {
	Subject string
	Header  map[string][]string
	Data    []byte
}

// outboxRoom is what stands in an outbox beside its events.
const outboxRoom = 16 << 10

// EmittedSize returns how many bytes an event takes in an outbox that holds so many bytes before it. Errors: those of Check, ErrTooLarge.
func (s *Store) EmittedSize(e event.Event, before int) (int, error) {
	m, err := s.message(e, nil)
	if err != nil {
		return 0, err
	}
	size := m.Size() + maxTraceState*2
	if limit := s.maxCopy() - outboxRoom; before+size > limit {
		return 0, fmt.Errorf("%d bytes with those before it: at most %d: %w", before+size, limit, ErrTooLarge)
	}
	return size, nil
}

// Stow stores an outbox, in the place of one that an earlier attempt left. A backup that copies the sources holds it up: what is published meanwhile
// must have been stored before.
func (s *Store) Stow(ctx context.Context, o *Outbox) error {
	wait, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	leave, err := s.stowing.enter(wait)
	if err != nil {
		return fmt.Errorf("outbox of %s/%d: a backup copies stream %s: %w", o.Function, o.Cause, EventsStream, err)
	}
	defer leave()
	source, err := s.Source(ctx, EventsStream)
	if err != nil {
		return err
	}
	contents := outboxContents{ID: o.ID, Stored: time.Now(), After: source.Last}
	for _, e := range o.Events {
		m, err := s.message(e, o.Hop)
		if err != nil {
			return fmt.Errorf("event %q of the outbox of %s/%d: %w", e.ID(), o.Function, o.Cause, err)
		}
		contents.Messages = append(contents.Messages, outboxMessage{Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
	var data bytes.Buffer
	if err := gob.NewEncoder(&data).Encode(contents); err != nil {
		return err
	}
	m := &nats.Msg{Subject: OutboxSubject(o.Function, o.Cause), Data: data.Bytes()}
	return s.do(ctx, "stow", func(ctx context.Context) error {
		seq, err := s.publish(ctx, m, jetstream.WithExpectStream(OutboxStream))
		if err != nil {
			return fmt.Errorf("outbox of %s/%d: %w", o.Function, o.Cause, err)
		}
		o.Sequence, o.contents = seq, contents
		return nil
	})
}

// Outboxes reads what stands in the outbox of a function. What somebody else put there has an ID that no record names.
func (s *Store) Outboxes(ctx context.Context, function string) (all []*Outbox, err error) {
	for next := uint64(1); ; {
		m, err := s.Next(ctx, OutboxStream, next, OutboxFilter(function))
		if errors.Is(err, ErrNotFound) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		next = m.Sequence + 1
		o := &Outbox{Function: function, Sequence: m.Sequence}
		if _, o.Cause, _ = ParseOutboxSubject(m.Subject); o.Cause == 0 {
			continue
		}
		if err := gob.NewDecoder(bytes.NewReader(m.Data)).Decode(&o.contents); err != nil {
			o.contents = outboxContents{}
		}
		o.ID = o.contents.ID
		all = append(all, o)
	}
}

// Committed reports whether the attempt whose outbox it is has succeeded for good: the record that ended its event names it.
func (s *Store) Committed(ctx context.Context, o *Outbox) (bool, error) {
	if o.ID == "" {
		return false, nil
	}
	records, err := s.Records(ctx, o.Function, o.Cause)
	for _, r := range records {
		if r.Kind == RecordDelivered && r.Outbox == o.ID {
			return true, nil
		}
	}
	return false, err
}

// Emit publishes what stands in an outbox, each event once however often it is called. After an error some of them may have been.
func (s *Store) Emit(ctx context.Context, o *Outbox) error {
	for o.sent < len(o.contents.Messages) {
		if err := s.emit(ctx, o, o.sent); err != nil {
			return fmt.Errorf("event %d of the outbox of %s/%d: stream %s: %w", o.sent, o.Function, o.Cause, EventsStream, err)
		}
		o.sent++
	}
	return nil
}

func (s *Store) emit(ctx context.Context, o *Outbox, index int) error {
	stored, id := o.contents.Messages[index], o.ID+"/"+strconv.Itoa(index)
	// The server itself knows an id again for as long as its window is; beyond half of it, or with a clock that went back, the stream is asked.
	if age := time.Since(o.contents.Stored); age < 0 || age > DedupeWindow/2 {
		there, err := s.emitted(ctx, stored.Subject, id, o.contents.After+1)
		if err != nil || there {
			return err
		}
	}
	m := &nats.Msg{Subject: stored.Subject, Header: maps.Clone(stored.Header), Data: stored.Data}
	return s.do(ctx, "emit", func(ctx context.Context) error {
		_, err := s.node.JetStream().PublishMsg(ctx, m, jetstream.WithMsgID(id), jetstream.WithExpectStream(EventsStream), jetstream.WithRetryAttempts(0))
		if err != nil {
			return publishError(err)
		}
		return nil
	})
}

// emitted reports whether an event of an outbox is in EVENTS, at or after a sequence.
func (s *Store) emitted(ctx context.Context, subject, id string, from uint64) (bool, error) {
	for {
		m, err := s.Next(ctx, EventsStream, from, subject)
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		if err != nil || m.Header.Get(jetstream.MsgIDHeader) == id {
			return err == nil, err
		}
		from = m.Sequence + 1
	}
}

// FlushOutbox publishes what a function that nobody hosts has emitted, and forgets what it has not.
func (s *Store) FlushOutbox(ctx context.Context, function string) error {
	all, err := s.Outboxes(ctx, function)
	if err != nil {
		return err
	}
	for _, o := range all {
		committed, err := s.Committed(ctx, o)
		if err == nil && committed {
			err = s.Emit(ctx, o)
		}
		if err == nil {
			err = s.Delete(ctx, OutboxStream, o.Sequence)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// adoptOutbox moves what stands in the outbox of a function to its new name.
func (s *Store) adoptOutbox(ctx context.Context, old, name string) error {
	for {
		m, err := s.Next(ctx, OutboxStream, 1, OutboxFilter(old))
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, cause, ok := ParseOutboxSubject(m.Subject); ok {
			moved := &nats.Msg{Subject: OutboxSubject(name, cause), Data: m.Data}
			err = s.do(ctx, "stow", func(ctx context.Context) error {
				_, err := s.publish(ctx, moved, jetstream.WithExpectStream(OutboxStream))
				return err
			})
		}
		if err == nil {
			err = s.Delete(ctx, OutboxStream, m.Sequence)
		}
		if err != nil {
			return fmt.Errorf("outbox of %s: %w", old, err)
		}
	}
}
