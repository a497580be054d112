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
	m, err := h.stored(ctx, ref, source)
	if err != nil {
		return client.EventLife{}, err
	}
	life := client.EventLife{Stream: m.Stream, Sequence: m.Sequence, StoredAt: m.Time}
	life.Attributes, life.Payload = contentOf(m.Header, m.Data)
	if a, err := streams.ReadAttributes(m.Header, m.Data); err == nil {
		life.ID, life.Source, life.Type, life.Subject = a.ID(), a.Source(), a.Type(), a.Subject()
	}
	life.Functions, err = h.states(ctx, m)
	return life, err
}

// eventStates tells where the event at a sequence is for each function that takes it.
func (r *Runtime) eventStates(ctx context.Context, sequence uint64) ([]client.EventState, error) {
	h, err := r.current()
	if err != nil {
		return nil, err
	}
	m, err := h.stored(ctx, strconv.FormatUint(sequence, 10), "")
	if err != nil {
		return nil, err
	}
	return h.states(ctx, m)
}

// stored reads the event that a reference names: digits without a source are a sequence, anything else is an id.
func (h *host) stored(ctx context.Context, ref, source string) (streams.Message, error) {
	sequence, err := strconv.ParseUint(ref, 10, 64)
	if err != nil || source != "" {
		if sequence, err = h.find(ctx, ref, source); err != nil {
			return streams.Message{}, err
		}
	}
	m, err := h.store.Get(ctx, streams.EventsStream, sequence)
	if errors.Is(err, streams.ErrNotFound) {
		return streams.Message{}, newProblem(client.NotFound, "event %s: not found in %s", ref, streams.EventsStream)
	}
	return m, err
}

// states tells where an event is for each function that takes it, by name.
func (h *host) states(ctx context.Context, m streams.Message) ([]client.EventState, error) {
	names, err := h.store.DeclaredNames(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var states []client.EventState
	for _, name := range names {
		takes, err := h.takes(ctx, name, m)
		if err != nil {
			return nil, err
		}
		if !takes {
			continue
		}
		state, _, err := h.standing(ctx, name, m.Sequence)
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}

// takes reports whether a function subscribes to an event.
func (h *host) takes(ctx context.Context, name string, m streams.Message) (bool, error) {
	d, err := h.store.Declared(ctx, name)
	if err != nil {
		return false, err
	}
	filters, err := streams.TypeFilters(d.Types)
	if err != nil {
		return false, err
	}
	return d.Stream == m.Stream && m.Sequence >= d.Since && slices.ContainsFunc(filters, func(f string) bool { return streams.MatchesType(f, m.Subject) }), nil
}

// standing tells where an event of a function is, with its records. It is asked while the event moves: each move writes a record first and
// creates the copy before the source goes, so that an event that was seen at no place must be looked for again.
func (h *host) standing(ctx context.Context, name string, sequence uint64) (state client.EventState, records []streams.Record, err error) {
	for range 4 {
		// Before the records: what is settled and has none was handled on the hot path. What is settled because it was moved has one.
		o, settled := h.owner(name), false
		if o != nil {
			settled = o.ledger.Settled(sequence)
		}
		if records, err = h.store.Records(ctx, name, sequence); err != nil {
			return client.EventState{}, nil, err
		}
		history := advisories.Fold(records)
		state = client.EventState{Function: name, Cycle: history.Cycle, Attempts: history.Attempts, History: historyOf(records), State: "pending"}
		found, err := h.place(ctx, name, sequence, &state)
		if err != nil {
			return client.EventState{}, nil, err
		}
		last := streams.Record{}
		if len(records) > 0 {
			last = records[len(records)-1]
		}
		switch {
		case found:
			if state.State == "retrying" {
				state.DueAt = history.Due
			}
			// The last attempt may have been recorded behind our back; the park is, just after it stands.
			if state.State != client.StateParked || history.Parked {
				return state, records, nil
			}
		case last.Final():
			state.State = string(last.Kind)
			return state, records, nil
		case settled && len(records) == 0:
			state.State = client.StateDelivered
			return state, records, nil
		case settled:
			state.State = "delivering" // it moves
		case o != nil && slices.ContainsFunc(o.ledger.Running(), func(run streams.RunningSlot) bool { return run.Sequence == sequence }):
			state.State = "delivering"
			return state, records, nil
		default:
			return state, records, nil
		}
	}
	return state, records, nil
}

// place looks for an event of a function outside its source stream.
func (h *host) place(ctx context.Context, name string, sequence uint64, state *client.EventState) (found bool, err error) {
	places := []struct {
		place streams.Place
		word  string
	}{{streams.InRetry, "retrying"}, {streams.InHeld, "held"}, {streams.InDeadLetters, client.StateParked}}
	for _, p := range places {
		ref, err := h.store.Find(ctx, p.place, name, sequence)
		if errors.Is(err, streams.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		state.State = p.word
		switch p.place {
		case streams.InHeld:
			// An owner that stops cannot say; then it is only not known what the event waits for.
			if v, ok, err := h.laneReader(name).laneView(ctx, ref.Lane); err == nil && ok && v.blocker != 0 && v.blocker != sequence {
				state.Behind = streams.Ref{Function: name, Sequence: v.blocker}.ID()
			}
		case streams.InDeadLetters:
			if _, err := h.store.Last(ctx, streams.DecisionsStream, streams.InDecisions.Subject(ref)); err == nil {
				state.State = "redriving"
			}
		case streams.InRetry, streams.InDecisions:
		}
		return true, nil
	}
	return false, nil
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
