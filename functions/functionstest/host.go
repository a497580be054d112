package functionstest

import (
	"context"
	"encoding/json"
	"maps"
	"sync"

	"github.com/cloudevents/sdk-go/v2/types"

	"github.com/siding-dev/siding/functions"
)

// Host stands for a node in a test: it remembers the steps that functions.Once has
// recorded, so that a second attempt of the same event finds them. Its zero value
// remembers nothing yet. It may be used by parallel tests.
type Host struct {
	mu    sync.Mutex
	steps map[eventKey]map[string]json.RawMessage
}

// eventKey is what an event is known by to a function.
type eventKey struct{ function, source, id string }

// recorder is the host of one attempt.
type recorder struct {
	h     *Host
	event eventKey
}

func (r recorder) Steps(context.Context) (map[string]json.RawMessage, error) {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	return maps.Clone(r.h.steps[r.event]), nil
}

func (r recorder) RecordStep(_ context.Context, step string, result json.RawMessage) error {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	if r.h.steps == nil {
		r.h.steps = map[eventKey]map[string]json.RawMessage{}
	}
	if r.h.steps[r.event] == nil {
		r.h.steps[r.event] = map[string]json.RawMessage{}
	}
	r.h.steps[r.event][step] = result
	return nil
}

func (recorder) CheckEmitted(_ context.Context, e *functions.Event, _ int) (size int, err error) {
	if err := e.Validate(); err != nil {
		return 0, err
	}
	size = len(e.Data()) + len(e.ID()) + len(e.Source()) + len(e.Type()) + len(e.Subject())
	for name, value := range e.Extensions() {
		text, err := types.Format(value)
		if err != nil {
			return 0, err
		}
		size += len(name) + len(text)
	}
	return size, nil
}
