package streams

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Decision is what an operator or a program decided about one dead letter. It names the dead letter and its cycle, so that it can
// never be applied to a later failure of the same event.
type Decision struct {
	Action string    `json:"action"` // redrive, edit, discard or release
	Cycle  int       `json:"cycle"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	// Tail, of a discard, ends what is held behind the dead letter too, up to the source sequence Through: what arrived after somebody had
	// decided was not decided about.
	Tail    bool   `json:"tail,omitempty"`
	Through uint64 `json:"through,omitempty"`
	// Source, of an edit, says where the new data come from.
	Source string `json:"source,omitempty"`
	// ForgetSteps, of an edit, has the steps done again that were done for the event.
	ForgetSteps bool `json:"forget_steps,omitempty"`
	// Data, of an edit, are the event's new data.
	Data []byte `json:"-"`
}

// The actions of a decision.
const (
	ActionRedrive = "redrive" // send it through its function again
	ActionEdit    = "edit"    // the same, with new data
	ActionDiscard = "discard" // it will never be handled
	ActionRelease = "release" // it stays a dead letter, and what is held behind it goes on without it, out of order
)

// DecisionPendingError refuses a second decision while the first waits to be applied.
type DecisionPendingError struct {
	Ref   Ref
	First Decision
}

func (e *DecisionPendingError) Error() string {
	return fmt.Sprintf("dead letter %s: %s by %s at %s waits to be applied", e.Ref.ID(), e.First.Action, e.First.By, e.First.At.UTC().Format(time.RFC3339))
}

// Decide states a decision. One subject per dead letter: a second one is refused with *DecisionPendingError, which says who was
// first and when. The sequence returned is that of the decision.
func (s *Store) Decide(ctx context.Context, ref Ref, d Decision) (uint64, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return 0, err
	}
	if d.Action == ActionEdit { // a line, and what comes behind it are the data, byte for byte
		data = append(append(data, '\n'), d.Data...)
	}
	m := &nats.Msg{Subject: InDecisions.Subject(ref), Data: data}
	var seq uint64
	err = s.do(ctx, "decide", func(ctx context.Context) (err error) {
		seq, err = s.publish(ctx, m, jetstream.WithExpectStream(DecisionsStream), jetstream.WithExpectLastSequencePerSubject(0))
		return err
	})
	if errors.Is(err, ErrOccupied) {
		first, lastErr := s.Last(ctx, DecisionsStream, m.Subject)
		if lastErr == nil {
			pending := &DecisionPendingError{Ref: ref}
			pending.First, _ = ReadDecision(first.Data)
			return 0, pending
		}
	}
	if err != nil {
		return 0, fmt.Errorf("decision on %s: %w", ref.ID(), err)
	}
	return seq, nil
}

// ReadDecision is the inverse of what Decide stored.
func ReadDecision(message []byte) (Decision, error) {
	var d Decision
	line, data, edits := bytes.Cut(message, []byte{'\n'})
	if err := json.Unmarshal(line, &d); err != nil {
		return Decision{}, fmt.Errorf("decision: %w", err)
	}
	switch d.Action {
	case ActionRedrive, ActionDiscard, ActionRelease:
		return d, nil
	case ActionEdit:
		if !edits {
			return d, errors.New("decision: an edit without data")
		}
		d.Data = data
		return d, nil
	}
	return d, fmt.Errorf("decision: unknown action %q", d.Action)
}
