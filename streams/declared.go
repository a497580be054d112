package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Declared is what a node remembers about a function in the bucket SIDING_FUNCTIONS, so that its leftovers can be parked, shown
// and ended when it is no longer compiled in.
type Declared struct {
	Name          string        `json:"name"`
	Types         []string      `json:"types"`
	Stream        string        `json:"stream"`
	StreamCreated time.Time     `json:"stream_created"` // with Stream: the identity of every sequence number we keep
	Since         uint64        `json:"since"`          // first source sequence that is this function's
	Head          uint64        `json:"head,omitempty"` // last source sequence when it was first hosted: what was missing then was no event of its
	OrderBy       string        `json:"order_by"`
	Attempts      int           `json:"attempts"` // allowed per cycle
	Timeout       time.Duration `json:"timeout"`  // nanoseconds
	Concurrency   int           `json:"concurrency"`
	Owner         string        `json:"owner,omitempty"`
	Version       string        `json:"version,omitempty"`
	OnPark        string        `json:"on_park,omitempty"` // what its lanes do behind a dead letter
	Paused        []PausedLane  `json:"paused,omitempty"`
	SetAside      []SetAside    `json:"set_aside,omitempty"` // what is parked before it runs
	Suspension    *Suspension   `json:"suspension,omitempty"`
	Outages       []Outage      `json:"outages,omitempty"`  // the last ones, the oldest first
	Deaths        []Death       `json:"deaths,omitempty"`   // of the process, of late, in which it had a part; the oldest first
	From          string        `json:"from,omitempty"`     // the name that it had, until it is hosted by the new one
	Adopting      *Adopting     `json:"adopting,omitempty"` // who gets all of this; it is not hosted until that is finished
}

// PausedLane is a lane that an operator has paused. It stays paused over restarts, until it is resumed.
type PausedLane struct {
	Lane   string    `json:"lane"` // as in subjects
	Key    string    `json:"key"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Death is a death of the process while, or just after, an event of the function was attempted.
type Death struct {
	At   time.Time `json:"at"`
	Boot uint32    `json:"boot"` // the life that died, as the ledger counts them
}

// SetAside is a rule by which an operator has events parked before they run. It stands over restarts, until it is ended.
type SetAside struct {
	Where  string    `json:"where"` // which events, in the one way in which conditions are written
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Declare writes what a function says of itself.
func (s *Store) Declare(ctx context.Context, d Declared) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.do(ctx, "declare", func(ctx context.Context) error {
		kv, err := s.node.JetStream().KeyValue(ctx, FunctionsBucket)
		if err == nil {
			_, err = kv.Put(ctx, d.Name, data)
		}
		if err != nil {
			return fmt.Errorf("function %s: declare: %w", d.Name, err)
		}
		return nil
	})
}

// Declared reads one function's declaration; ErrNotFound when it was never hosted here.
func (s *Store) Declared(ctx context.Context, name string) (Declared, error) {
	if !FunctionName(name) {
		return Declared{}, fmt.Errorf("function %s: %w", excerpt(name), ErrNotFound)
	}
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	kv, err := s.node.JetStream().KeyValue(ctx, FunctionsBucket)
	if err != nil {
		return Declared{}, fmt.Errorf("bucket %s: %w", FunctionsBucket, err)
	}
	entry, err := kv.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey) {
		return Declared{}, fmt.Errorf("function %s: %w", name, ErrNotFound)
	}
	if err != nil {
		return Declared{}, fmt.Errorf("function %s: %w", name, err)
	}
	var d Declared
	if err := json.Unmarshal(entry.Value(), &d); err != nil {
		return Declared{}, fmt.Errorf("function %s: declaration: %w", name, err)
	}
	return d, nil
}

// DeclaredNames lists every function that was ever hosted here, in no particular order.
func (s *Store) DeclaredNames(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	kv, err := s.node.JetStream().KeyValue(ctx, FunctionsBucket)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", FunctionsBucket, err)
	}
	keys, err := kv.Keys(ctx)
	if errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", FunctionsBucket, err)
	}
	return slices.DeleteFunc(keys, func(key string) bool { return !FunctionName(key) }), nil
}

// Source describes the stream that a function reads.
type Source struct {
	Name    string
	Created time.Time
	First   uint64
	Last    uint64
	Deleted int // sequences between First and Last that were removed one by one

	config jetstream.StreamConfig
}

// Source reads a source stream's identity and bounds; ErrNotFound when there is none.
func (s *Store) Source(ctx context.Context, name string) (Source, error) {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	st, err := s.node.JetStream().Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return Source{}, fmt.Errorf("stream %s: %w", name, ErrNotFound)
	}
	if err != nil {
		return Source{}, fmt.Errorf("stream %s: %w", name, err)
	}
	info := st.CachedInfo()
	return Source{Name: name, Created: info.Created, First: info.State.FirstSeq, Last: info.State.LastSeq, Deleted: info.State.NumDeleted, config: info.Config}, nil
}
