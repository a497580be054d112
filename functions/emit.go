package functions

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Bounds of what one attempt may emit.
const (
	MaxEmitted     = 100       // events
	MaxEmittedSize = 512 << 10 // bytes of all of them, attributes included
)

// causationAttribute names the event that an emitted one follows from.
const causationAttribute = "causationid"

// Emit has events accepted if the attempt succeeds, and only then: each of them
// exactly once, whatever dies in between. What a failed attempt emitted is
// forgotten. They appear in the stream EVENTS, in order, before anything later of
// the handled event's ordering key is attempted, and any function may subscribe
// to them.
//
// An event without an id gets one that the function, the source and id of the
// handled event and its place among those of the attempt determine: a receiver
// knows it again. The extension causationid is set to the id of the handled event,
// and the trace goes on.
//
// Events are checked at once, by the rules for accepting any other; no two of one
// attempt may have the same source and id. An error emits none of the call's
// events. What no retry can help parks the event, if the handler returns it: an
// event that would not be accepted, more than MaxEmitted, or more than
// MaxEmittedSize bytes. Outside an attempt the error is [ErrNoAttempt].
//
// Emit may be called any number of times, and by several goroutines; then their
// order, and with it the ids, are left to chance.
func Emit(ctx context.Context, events ...Event) error {
	a := attemptedIn(ctx)
	if a == nil || a.host == nil {
		return fmt.Errorf("emit: %w", ErrNoAttempt)
	}
	out := &a.emitted
	out.mu.Lock()
	defer out.mu.Unlock()
	if out.over {
		return fmt.Errorf("emit: %w", ErrNoAttempt)
	}
	all, size := slices.Clip(out.events), out.size
	for _, e := range events {
		if len(all) == MaxEmitted {
			return Park(fmt.Errorf("emit: more than %d events: at most %d in one attempt", MaxEmitted, MaxEmitted))
		}
		own, bytes, err := a.complete(ctx, e, len(all), size)
		if err != nil {
			return Park(fmt.Errorf("emit: event %d: %w", len(all), err))
		}
		if size += bytes; size > MaxEmittedSize {
			return Park(fmt.Errorf("emit: event %d: %d bytes with those before: at most %d in one attempt", len(all), size, MaxEmittedSize))
		}
		if slices.ContainsFunc(all, func(b Event) bool { return b.ID() == own.ID() && b.Source() == own.Source() }) {
			return Park(fmt.Errorf("emit: event %d: source %q and id %q were emitted before", len(all), own.Source(), own.ID()))
		}
		all = append(all, own)
	}
	out.events, out.size = all, size
	return nil
}

// complete returns an event as it will be accepted, as the index-th of its attempt
// and behind others of so many bytes.
func (a *attempted) complete(ctx context.Context, e Event, index, before int) (own Event, size int, err error) {
	if e.Context == nil {
		return own, 0, errors.New("has no attributes: hint: make it with event.New")
	}
	own = cloneEvent(e)
	if own.ID() == "" {
		own.SetID(emittedID(a.function, a.cause, index))
	}
	own.SetExtension(causationAttribute, a.cause.ID())
	size, err = a.host.CheckEmitted(ctx, &own, before)
	return own, size, err
}

// emittedID frames each part by its length, so that no two events are given the
// same id.
func emittedID(function string, cause Event, index int) string {
	b := []byte("siding emit\x00")
	for _, part := range []string{function, cause.Source(), cause.ID()} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(b, uint64(index))) //nolint:gosec // an index is not negative
	return hex.EncodeToString(sum[:16])
}

// emitted are the events of one attempt.
type emitted struct {
	mu     sync.Mutex
	events []Event
	size   int
	over   bool // so is the attempt
}

// end ends the attempt: nothing is emitted from then on.
func (e *emitted) end(succeeded bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	if !succeeded {
		e.events = nil
	}
}

// Emitted returns what is to be accepted after the call of [Invoke] that ctx was
// made for: what the attempt emitted, if it succeeded. It is for hosts.
func Emitted(ctx context.Context) []Event {
	a := attemptedIn(ctx)
	if a == nil {
		return nil
	}
	a.emitted.mu.Lock()
	defer a.emitted.mu.Unlock()
	if !a.emitted.over {
		return nil
	}
	return a.emitted.events
}
