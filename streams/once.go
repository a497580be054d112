package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Step is a step of a handler that was done for an event, with its result: an entry of the bucket SIDING_ONCE. Event and step are known by
// the function, the event's source and id, and the step's name.
type Step struct {
	Function string          `json:"function"`
	Source   string          `json:"source"`
	ID       string          `json:"id"`
	Name     string          `json:"step"`
	Sequence uint64          `json:"sequence"` // of the event in its source stream
	Result   json.RawMessage `json:"result"`
	Ended    bool            `json:"ended,omitempty"` // the event was found to have ended when this was written
}

func (s Step) subject() string { return onceSubject(s.Function, s.Source, s.ID, s.Name) }

// readStep reads an entry; ok is false for what somebody else put there.
func readStep(m Message) (step Step, ok bool) {
	err := json.Unmarshal(m.Data, &step)
	return step, err == nil && step.Sequence > 0 && step.subject() == m.Subject
}

// Steps reads the steps that were done for an event.
func (s *Store) Steps(ctx context.Context, function, source, id string) (steps []Step, err error) {
	err = s.eachStep(ctx, onceEventFilter(function, source, id), func(_ Message, step Step) error {
		steps = append(steps, step)
		return nil
	})
	return steps, err
}

// eachStep calls f for the entries below a filter, as long as it returns no error.
func (s *Store) eachStep(ctx context.Context, filter string, f func(Message, Step) error) error {
	for next := uint64(1); ; {
		m, err := s.Next(ctx, onceStream, next, filter)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if step, ok := readStep(m); ok {
			if err := f(m, step); err != nil {
				return err
			}
		}
		next = m.Sequence + 1
	}
}

// RecordStep records a step that was done. One that is recorded already stays as it is: it may be an earlier try of this very write whose answer
// was lost. Any error means: not recorded.
func (s *Store) RecordStep(ctx context.Context, step Step) error {
	expect := uint64(0)
	for range 4 {
		err := s.writeStep(ctx, step, expect)
		if !errors.Is(err, ErrOccupied) {
			return err
		}
		stands, err := s.Last(ctx, onceStream, step.subject())
		if errors.Is(err, ErrNotFound) {
			expect = 0
			continue
		}
		if err != nil {
			return err
		}
		if _, ours := readStep(stands); ours {
			return nil
		}
		expect = stands.Sequence
	}
	return fmt.Errorf("bucket %s: step %s: %w", OnceBucket, step.Name, ErrOccupied)
}

// TakeSteps gives steps that were recorded for an event of an earlier sequence to a later one with the same source and id: they are kept as long as
// either can come back.
func (s *Store) TakeSteps(ctx context.Context, function, source, id string, sequence uint64) error {
	return s.eachStep(ctx, onceEventFilter(function, source, id), func(m Message, step Step) error {
		if step.Sequence >= sequence {
			return nil
		}
		step.Sequence, step.Ended = sequence, false
		return s.writeStep(ctx, step, m.Sequence)
	})
}

func (s *Store) writeStep(ctx context.Context, step Step, expect uint64) error {
	data, err := json.Marshal(step)
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: step.subject(), Data: data}
	return s.do(ctx, "record step", func(ctx context.Context) error {
		_, err := s.publish(ctx, m, jetstream.WithExpectStream(onceStream), jetstream.WithExpectLastSequencePerSubject(expect))
		if err != nil {
			return fmt.Errorf("bucket %s: step %s: %w", OnceBucket, step.Name, err)
		}
		return nil
	})
}

// ForgetSteps forgets what was done for an event, so that all of it is done again.
func (s *Store) ForgetSteps(ctx context.Context, function, source, id string) error {
	return s.purgeSteps(ctx, onceEventFilter(function, source, id))
}

// ForgetAllSteps forgets what was done for any event of a function.
func (s *Store) ForgetAllSteps(ctx context.Context, function string) error {
	return s.purgeSteps(ctx, onceFilter(function))
}

// purgeSteps leaves no markers of what was there, as deleting keys of a bucket would.
func (s *Store) purgeSteps(ctx context.Context, filter string) error {
	if _, err := s.Next(ctx, onceStream, 1, filter); errors.Is(err, ErrNotFound) {
		return nil
	}
	return s.do(ctx, "forget steps", func(ctx context.Context) error {
		err := s.read(ctx, onceStream, func(st jetstream.Stream) error {
			return st.Purge(ctx, jetstream.WithPurgeSubject(filter))
		})
		if err != nil {
			return fmt.Errorf("bucket %s: forget %s: %w", OnceBucket, filter, err)
		}
		return nil
	})
}

// SweepSteps forgets the steps of events that ended more than age ago. It looks at what was written that long ago: an entry whose event has ended is
// written once more, with that, and forgotten when it is found like that again. So nobody need note at the end of an event that there are steps
// of it, and each entry is kept for age to twice that after the end.
func (s *Store) SweepSteps(ctx context.Context, age time.Duration, ended func(context.Context, Step) (bool, error)) error {
	limit := time.Now().Add(-age)
	for next := uint64(1); ; {
		m, err := s.Next(ctx, onceStream, next, onceAll)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if m.Time.After(limit) { // and so is all that was written later
			return nil
		}
		next = m.Sequence + 1
		step, ok := readStep(m)
		if !ok {
			if err := s.purgeSteps(ctx, m.Subject); err != nil {
				return err
			}
			continue
		}
		over, err := ended(ctx, step)
		switch {
		case err != nil:
		case over && step.Ended:
			err = s.purgeSteps(ctx, m.Subject)
		case over != step.Ended:
			step.Ended = over
			if err = s.writeStep(ctx, step, m.Sequence); errors.Is(err, ErrOccupied) {
				err = nil // it is in use
			}
		}
		if err != nil {
			return err
		}
	}
}

// adoptSteps gives the steps of a function to its new name.
func (s *Store) adoptSteps(ctx context.Context, old, name string) error {
	err := s.eachStep(ctx, onceFilter(old), func(_ Message, step Step) error {
		step.Function = name
		return s.RecordStep(ctx, step)
	})
	if err != nil {
		return err
	}
	return s.ForgetAllSteps(ctx, old)
}
