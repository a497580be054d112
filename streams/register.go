package streams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Copy is an event as it is written to a place outside its source stream.
type Copy struct {
	Cycle    int    // how often it has been redriven
	Attempts int    // attempts already made in this cycle
	Key      string // the ordering key itself
	Source   string // the stream that the event came from
	Header   nats.Header
	Data     []byte
	// Referenced is set on a copy that was read: headers and body were too large to be copied, Source keeps them.
	Referenced bool
	// Extra headers of ours (a dead letter's report).
	Extra map[string]string
}

// Headers that a copy carries besides the event's own.
const (
	cycleHeader     = "Siding-Cycle"
	attemptsHeader  = "Siding-Attempts"
	keyHeader       = "Siding-Key"
	sourceHeader    = "Siding-Source"
	referenceHeader = "Siding-Reference"
)

// message renders the copy for a register. What does not fit into maxPayload bytes, or has more headers than leave room for a
// report, stands there by reference.
func (c Copy) message(place Place, ref Ref, maxPayload int) *nats.Msg {
	m := &nats.Msg{Subject: place.Subject(ref), Header: nats.Header{}}
	own := nats.Header{
		cycleHeader:    {strconv.Itoa(c.Cycle)},
		attemptsHeader: {strconv.Itoa(c.Attempts)},
		sourceHeader:   {c.Source},
	}
	if c.Key != "" && len(c.Key) <= MaxEventHeader {
		own[keyHeader] = []string{percentEncode(c.Key)}
	}
	for k, v := range c.Extra {
		own[k] = []string{v}
	}
	if !c.Referenced {
		m.Header, m.Data = CopyHeader(c.Header), c.Data
		wide := m.Size()-len(m.Subject)-len(m.Data) > MaxEventHeader+publishRoom // which no accepted event is
		maps.Copy(m.Header, own)
		if !wide && m.Size() <= maxPayload {
			return m
		}
	}
	own[referenceHeader] = []string{c.Source}
	m.Header, m.Data = own, nil
	return m
}

// ReadCopy is the inverse of the rendering: what a message at a place says about itself.
func ReadCopy(h nats.Header, data []byte) Copy {
	c := Copy{Header: CopyHeader(h), Data: data, Source: h.Get(sourceHeader), Referenced: h.Get(referenceHeader) != ""}
	c.Cycle, _ = strconv.Atoi(h.Get(cycleHeader))
	c.Attempts, _ = strconv.Atoi(h.Get(attemptsHeader))
	c.Key = percentDecode(h.Get(keyHeader))
	return c
}

// Ours reports whether a copy that was read is one that Siding wrote. A guest can make the server publish its answers at any subject,
// so that a bare PubAck may stand in a register; it has no headers.
func (c Copy) Ours() bool { return c.Source != "" }

// Resolve fetches the headers and the body of a copy that stands by reference.
func (s *Store) Resolve(ctx context.Context, ref Ref, c Copy) (nats.Header, []byte, error) {
	if !c.Referenced {
		return c.Header, c.Data, nil
	}
	m, err := s.Get(ctx, c.Source, ref.Sequence)
	return m.Header, m.Data, err
}

// Placed says what became of a Place.
type Placed struct {
	Sequence uint64 // of the copy in the place's stream
	Stale    bool   // a higher cycle stands there: ours has been overtaken and was not written
	Already  bool   // the same cycle stood there before: an earlier try of this very move
}

// Place writes a copy into its register and settles every race with what may stand there. JetStream checks the expected sequence
// of the subject, so a write either creates, replaces exactly what was read, or changes nothing:
// the same cycle stands there → done already; a lower one, or what is not ours at all → replaced; a higher one → ours is stale.
// Any error means: not written.
func (s *Store) Place(ctx context.Context, place Place, ref Ref, c Copy) (Placed, error) {
	m := c.message(place, ref, s.maxCopy())
	expect := uint64(0)
	for range 4 {
		seq, err := s.write(ctx, place, ref, m, expect)
		if err == nil {
			return Placed{Sequence: seq}, nil
		}
		if !errors.Is(err, ErrOccupied) {
			return Placed{}, err
		}
		stands, err := s.Last(ctx, place.Stream(ref.Function), m.Subject)
		if errors.Is(err, ErrNotFound) {
			expect = 0
			continue
		}
		if err != nil {
			return Placed{}, err
		}
		switch there := ReadCopy(stands.Header, nil); {
		case !there.Ours():
			// Not a copy of the event: it must not be taken for one.
		case there.Cycle == c.Cycle:
			return Placed{Sequence: stands.Sequence, Already: true}, nil
		case there.Cycle > c.Cycle:
			return Placed{Sequence: stands.Sequence, Stale: true}, nil
		}
		expect = stands.Sequence
	}
	return Placed{}, fmt.Errorf("%s: %s: %w", place.Stream(ref.Function), ref.ID(), ErrOccupied)
}

// Replace writes a copy over exactly the message with sequence expect, which restarts JetStream's delivery count for it.
// ErrOccupied: something else, or nothing, stands there now.
func (s *Store) Replace(ctx context.Context, place Place, ref Ref, c Copy, expect uint64) (uint64, error) {
	return s.write(ctx, place, ref, c.message(place, ref, s.maxCopy()), expect)
}

// maxCopy leaves room for the publish protocol's own headers.
func (s *Store) maxCopy() int { return int(s.limits.MaxPayload) - 4<<10 }

func (s *Store) write(ctx context.Context, place Place, ref Ref, m *nats.Msg, expect uint64) (sequence uint64, err error) {
	stream := place.Stream(ref.Function)
	err = s.do(ctx, "place "+place.String(), func(ctx context.Context) error {
		for {
			known := true
			if place == InDeadLetters {
				if known, err = s.ensureDeadLetters(ctx, ref.Function); err != nil {
					return err
				}
			}
			sequence, err = s.publish(ctx, m, jetstream.WithExpectStream(stream), jetstream.WithExpectLastSequencePerSubject(expect))
			if _, answered := errors.AsType[*jetstream.APIError](err); place == InDeadLetters && err != nil && !answered {
				s.forget(stream)
				if known && errors.Is(err, jetstream.ErrNoStreamResponse) {
					continue
				}
			}
			return err
		}
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %s: %w", place.Stream(ref.Function), ref.ID(), err)
	}
	return sequence, nil
}

// publish writes one message and names the refusals that callers act on. A PubAck marked as a duplicate is an error here: a copy
// carries no message id, so the ack cannot be for it.
func (s *Store) publish(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (uint64, error) {
	ack, err := s.node.JetStream().PublishMsg(ctx, m, append(opts, jetstream.WithRetryAttempts(0))...)
	if err != nil {
		return 0, publishError(err)
	}
	if ack.Duplicate {
		return 0, fmt.Errorf("swallowed as a duplicate of sequence %d", ack.Sequence)
	}
	return ack.Sequence, nil
}

// Error codes of JetStream that its client does not name as values.
const (
	codeWrongLastSequence = 10071
	codeMaximumMessages   = 10077 // a generic store failure; also "maximum bytes exceeded"; never "already there"
	codeMessageTooLarge   = 10054
)

func publishError(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case !errors.As(err, &api):
		return err
	case api.ErrorCode == codeWrongLastSequence:
		return fmt.Errorf("%w: %w", ErrOccupied, err)
	case api.ErrorCode == codeMaximumMessages:
		return fmt.Errorf("%w: %w", ErrFull, err)
	case api.ErrorCode == codeMessageTooLarge:
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return err
}

// ensureDeadLetters makes a function's dead-letter stream, unless it is known: asking costs as much as ten writes. Somebody may have deleted
// it by hand since it was known; a write to a subject without a stream is only a missing answer, and after one the stream is not known any more.
func (s *Store) ensureDeadLetters(ctx context.Context, function string) (known bool, err error) {
	js, name := s.node.JetStream(), DeadLetterStream(function)
	if s.known(js, name) != nil {
		return true, nil
	}
	st, err := js.CreateStream(ctx, deadLetters(function))
	switch {
	case err == nil:
		s.learn(js, name, st)
	case !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
		return false, err
	}
	return false, nil
}

// Delete removes one message by its sequence; one that is gone already is fine.
func (s *Store) Delete(ctx context.Context, stream string, sequence uint64) error {
	return s.do(ctx, "delete "+stream, func(ctx context.Context) error {
		err := s.read(ctx, stream, func(st jetstream.Stream) error { return st.DeleteMsg(ctx, sequence) })
		if err == nil || errors.Is(err, ErrNotFound) {
			return nil
		}
		if _, absent := s.get(ctx, stream, sequence, ""); errors.Is(absent, ErrNotFound) {
			return nil // the server has several errors for a message that is not there
		}
		return fmt.Errorf("stream %s: delete %d: %w", stream, sequence, err)
	})
}

// Ack settles a delivery of a limits stream. It only says what the ledger has said already, so it is not waited for.
func (s *Store) Ack(m jetstream.Msg) {
	s.Gated("ack", func() { _ = m.Ack() })
}

// AckGone settles a delivery of a work queue and waits until the message has been deleted there, which is what makes it durable.
// When the answer stays away the message is deleted by its sequence instead.
func (s *Store) AckGone(ctx context.Context, stream string, sequence uint64, m jetstream.Msg) error {
	if m == nil {
		return s.Delete(ctx, stream, sequence)
	}
	err := s.do(ctx, "ack "+stream, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return m.DoubleAck(ctx)
	})
	if err == nil {
		return nil
	}
	return s.Delete(ctx, stream, sequence)
}

// Nak gives a delivery back for the time of delay.
func (s *Store) Nak(m jetstream.Msg, delay time.Duration) {
	s.Gated("nak", func() {
		if delay <= 0 {
			_ = m.Nak()
			return
		}
		_ = m.NakWithDelay(delay)
	})
}
