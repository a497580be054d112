package runtime

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// eventShow finds an event by its sequence, or by its id, and tells where it is for each function that subscribes to it.
func (r *Runtime) eventShow(ctx context.Context, ref, source string) (client.EventLife, error) {
	h, err := r.current()
	if err != nil {
		return client.EventLife{}, err
	}
	sequence, err := strconv.ParseUint(ref, 10, 64)
	if err != nil || source != "" {
		if sequence, err = h.find(ctx, ref, source); err != nil {
			return client.EventLife{}, err
		}
	}
	m, err := h.store.Get(ctx, streams.EventsStream, sequence)
	if errors.Is(err, streams.ErrNotFound) {
		return client.EventLife{}, newProblem(client.NotFound, "event %s: not found in %s", ref, streams.EventsStream)
	}
	if err != nil {
		return client.EventLife{}, err
	}
	life := client.EventLife{Stream: m.Stream, Sequence: m.Sequence, StoredAt: m.Time}
	life.Attributes, life.Payload = contentOf(m.Header, m.Data)
	if a, err := streams.ReadAttributes(m.Header, m.Data); err == nil {
		life.ID, life.Source, life.Type, life.Subject = a.ID(), a.Source(), a.Type(), a.Subject()
	}
	names, err := h.store.DeclaredNames(ctx)
	if err != nil {
		return client.EventLife{}, err
	}
	slices.Sort(names)
	for _, name := range names {
		state, ok, err := h.stateOf(ctx, name, m)
		if err != nil {
			return client.EventLife{}, err
		}
		if ok {
			life.Functions = append(life.Functions, state)
		}
	}
	return life, nil
}

// stateOf tells where an event is for a function; ok is false when the function does not subscribe to it.
func (h *host) stateOf(ctx context.Context, name string, m streams.Message) (client.EventState, bool, error) {
	d, err := h.store.Declared(ctx, name)
	if err != nil {
		return client.EventState{}, false, err
	}
	filters, err := streams.TypeFilters(d.Types)
	if err != nil {
		return client.EventState{}, false, err
	}
	if d.Stream != m.Stream || m.Sequence < d.Since || !slices.ContainsFunc(filters, func(f string) bool { return streams.MatchesType(f, m.Subject) }) {
		return client.EventState{}, false, nil
	}
	records, err := h.store.Records(ctx, name, m.Sequence)
	if err != nil {
		return client.EventState{}, false, err
	}
	history := advisories.Fold(records)
	state := client.EventState{Function: name, Cycle: history.Cycle, Attempts: history.Attempts, History: historyOf(records), State: "pending"}
	places := []struct {
		place streams.Place
		word  string
	}{{streams.InRetry, "retrying"}, {streams.InHeld, "held"}, {streams.InDeadLetters, "parked"}}
	for _, p := range places {
		ref, err := h.store.Find(ctx, p.place, name, m.Sequence)
		if errors.Is(err, streams.ErrNotFound) {
			continue
		}
		if err != nil {
			return client.EventState{}, false, err
		}
		state.State = p.word
		if _, err := h.store.Last(ctx, streams.DecisionsStream, streams.InDecisions.Subject(ref)); err == nil && p.place == streams.InDeadLetters {
			state.State = "redriving"
		}
		return state, true, nil
	}
	if len(records) > 0 && records[len(records)-1].Final() {
		state.State = string(records[len(records)-1].Kind)
		return state, true, nil
	}
	if o := h.owner(name); o != nil {
		switch {
		case o.ledger.Settled(m.Sequence):
			state.State = string(streams.RecordDelivered)
		case slices.ContainsFunc(o.ledger.Running(), func(run streams.RunningSlot) bool { return run.Sequence == m.Sequence }):
			state.State = "delivering"
		}
	}
	return state, true, nil
}

// find looks an event up by its id, the newest first kept. There is no index: it reads the headers of the stream once.
func (h *host) find(ctx context.Context, id, source string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	info, err := h.store.Source(ctx, streams.EventsStream)
	if err != nil {
		return 0, err
	}
	missing := newProblem(client.NotFound, "event %s: not found in %s", id, streams.EventsStream)
	if info.Last == 0 || info.First > info.Last {
		return 0, missing
	}
	consumer, err := h.store.JetStream().OrderedConsumer(ctx, streams.EventsStream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return 0, err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(512))
	if err != nil {
		return 0, err
	}
	defer messages.Stop()
	found := uint64(0)
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return 0, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return 0, err
		}
		if a, err := streams.ReadAttributes(m.Headers(), m.Data()); err == nil && a.ID() == id && (source == "" || a.Source() == source) {
			found = meta.Sequence.Stream
		}
		if meta.NumPending == 0 {
			break
		}
	}
	if found == 0 {
		return 0, missing
	}
	return found, nil
}
