package streams

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// OpTimeout bounds each single store operation. A full disk shows itself as a publish that is never answered.
const OpTimeout = 5 * time.Second

// Errors of the store. Every other error of a write means: not written, keep the source and repeat.
var (
	ErrNotFound = errors.New("not found")
	// ErrOccupied is a register that already holds something else than the write expected: read what stands and compare.
	ErrOccupied = errors.New("register is occupied")
	// ErrFull is a stream that refuses to grow.
	ErrFull = errors.New("stream is full")
	// ErrTooLarge is a message beyond what the stream or the server takes.
	ErrTooLarge = errors.New("message is too large")
)

// Store is everything that Siding reads and writes in JetStream. It is safe for concurrent use.
type Store struct {
	node   *Node
	limits Limits
	gate   func(op string)
	hold   *hold
	// stowing is held while a backup copies the sources, which functions publish to only out of their outbox.
	stowing *hold
	// ackWait of the consumers of functions.
	ackWait time.Duration

	mu      sync.Mutex
	js      jetstream.JetStream
	streams map[string]jetstream.Stream
}

// StoreOption changes how a Store is opened.
type StoreOption func(*Store)

// WithGate calls gate before and after each operation that changes a stream or the ledger, with the operation's name. Tests
// cut a run there; gate may block, and then the operation never happens.
func WithGate(gate func(op string)) StoreOption { return func(s *Store) { s.gate = gate } }

// WithAckWait changes how long JetStream waits for a word about a delivery; see DefaultAckWait.
func WithAckWait(d time.Duration) StoreOption { return func(s *Store) { s.ackWait = d } }

// AckWait is how long JetStream waits for a word about a delivery.
func (s *Store) AckWait() time.Duration { return s.ackWait }

// OpenStore makes the topology on a running node, advisories first, and returns the store on it.
func OpenStore(ctx context.Context, node *Node, options ...StoreOption) (*Store, error) {
	s := &Store{node: node, ackWait: DefaultAckWait, hold: &hold{}, stowing: &hold{}}
	for _, o := range options {
		o(s)
	}
	s.limits = Limits{MaxStore: node.MaxStore(), MaxPayload: node.MaxPayload()}
	if err := ensureTopology(ctx, node.JetStream(), s.limits); err != nil {
		return nil, err
	}
	return s, nil
}

// Ungated is the same store without its gate.
func (s *Store) Ungated() *Store {
	return &Store{node: s.node, limits: s.limits, ackWait: s.ackWait, hold: s.hold, stowing: s.stowing}
}

// Node returns the node that the store stands on.
func (s *Store) Node() *Node { return s.node }

// JetStream returns the client for reads that the store does not wrap.
func (s *Store) JetStream() jetstream.JetStream { return s.node.JetStream() }

// Message is one stored message as it was read.
type Message struct {
	Stream   string
	Subject  string
	Sequence uint64 // in Stream
	Header   nats.Header
	Data     []byte
	Time     time.Time
}

func fromRaw(stream string, m *jetstream.RawStreamMsg) Message {
	return Message{Stream: stream, Subject: m.Subject, Sequence: m.Sequence, Header: m.Header, Data: m.Data, Time: m.Time}
}

// Get reads the message with a sequence; ErrNotFound names stream and sequence.
func (s *Store) Get(ctx context.Context, stream string, sequence uint64) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	m, err := s.get(ctx, stream, sequence, "")
	if err != nil {
		return Message{}, fmt.Errorf("stream %s: sequence %d: %w", stream, sequence, err)
	}
	return m, nil
}

// Next reads the first message at or after a sequence whose subject matches filter.
func (s *Store) Next(ctx context.Context, stream string, sequence uint64, filter string) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	m, err := s.get(ctx, stream, max(sequence, 1), filter)
	if err != nil {
		return Message{}, fmt.Errorf("stream %s: %s from %d: %w", stream, filter, sequence, err)
	}
	return m, nil
}

func (s *Store) get(ctx context.Context, name string, sequence uint64, filter string) (Message, error) {
	var opts []jetstream.GetMsgOpt
	if filter != "" {
		opts = append(opts, jetstream.WithGetMsgSubject(filter))
	}
	var raw *jetstream.RawStreamMsg
	err := s.read(ctx, name, func(st jetstream.Stream) (err error) {
		raw, err = st.GetMsg(ctx, sequence, opts...)
		return err
	})
	if err != nil {
		return Message{}, err
	}
	return fromRaw(name, raw), nil
}

// read runs f on a stream and turns every form of "does not exist" into ErrNotFound. A direct get of a deleted stream says
// "no responders", which could as well be a stream that is not up yet: only the server's word that there is none counts.
func (s *Store) read(ctx context.Context, name string, f func(jetstream.Stream) error) error {
	st, err := s.stream(ctx, name)
	if err == nil {
		err = f(st)
	}
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		s.forget(name)
		if st, err = s.stream(ctx, name); err == nil {
			err = f(st)
		}
	}
	if notFound(err) {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			s.forget(name)
		}
		return ErrNotFound
	}
	return err
}

// stream returns a handle without asking the server for the stream's state: each read would pay a round trip.
func (s *Store) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	js := s.node.JetStream()
	if st := s.known(js, name); st != nil {
		return st, nil
	}
	st, err := js.Stream(ctx, name)
	if err == nil {
		s.learn(js, name, st)
	}
	return st, err
}

// known returns the handle of a stream that has been seen on this server, nil for any other.
func (s *Store) known(js jetstream.JetStream, name string) jetstream.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.js != js { // the node was restarted: its old client is gone
		s.js, s.streams = js, map[string]jetstream.Stream{}
	}
	return s.streams[name]
}

func (s *Store) learn(js jetstream.JetStream, name string, st jetstream.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.js == js {
		s.streams[name] = st
	}
}

func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, name)
}

// Last reads the newest message on a subject, which may have wildcards.
func (s *Store) Last(ctx context.Context, stream, subject string) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	var raw *jetstream.RawStreamMsg
	err := s.read(ctx, stream, func(st jetstream.Stream) (err error) {
		raw, err = st.GetLastMsgForSubject(ctx, subject)
		return err
	})
	if err != nil {
		return Message{}, fmt.Errorf("stream %s: %s: %w", stream, subject, err)
	}
	return fromRaw(stream, raw), nil
}

// Standing lists every event of a function at a place, by one subject listing.
func (s *Store) Standing(ctx context.Context, place Place, function string) ([]Ref, error) {
	return s.refs(ctx, place, function, place.Filter(function))
}

// Find returns the register in which an event of a function stands at a place, whatever its lane; ErrNotFound otherwise.
func (s *Store) Find(ctx context.Context, place Place, function string, sequence uint64) (Ref, error) {
	refs, err := s.refs(ctx, place, function, place.SequenceFilter(function, sequence))
	if err != nil {
		return Ref{}, err
	}
	if len(refs) == 0 {
		return Ref{}, fmt.Errorf("%s: %s/%d: %w", place.Stream(function), function, sequence, ErrNotFound)
	}
	return refs[0], nil
}

func (s *Store) refs(ctx context.Context, place Place, function, filter string) ([]Ref, error) {
	if !FunctionName(function) {
		return nil, nil
	}
	subjects, err := s.Subjects(ctx, place.Stream(function), filter)
	if err != nil {
		return nil, err
	}
	refs := make([]Ref, 0, len(subjects))
	for subject := range subjects {
		if _, ref, err := ParseSubject(subject); err == nil {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// Subjects lists the subjects that match filter with their message counts; a stream that does not exist has none.
func (s *Store) Subjects(ctx context.Context, stream, filter string) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*OpTimeout)
	defer cancel()
	var info *jetstream.StreamInfo
	err := s.read(ctx, stream, func(st jetstream.Stream) (err error) {
		info, err = st.Info(ctx, jetstream.WithSubjectFilter(filter))
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", stream, err)
	}
	return info.State.Subjects, nil
}

// ownHeader is the prefix of everything that Siding adds to a copy.
const ownHeader = "Siding-"

// CopyHeader returns the headers that a copy of an event carries: all of the event's own, byte for byte, but no `Nats-*` header
// (a copied Nats-Msg-Id makes the copy vanish as a duplicate, with a good PubAck) and none that an earlier copy was given.
func CopyHeader(h nats.Header) nats.Header {
	c := make(nats.Header, len(h)+4)
	for k, v := range h {
		if hasPrefixFold(k, "Nats-") || hasPrefixFold(k, ownHeader) {
			continue
		}
		c[k] = v
	}
	return c
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
