package functions

import (
	"context"
	"encoding/json"
)

// Host is what an attempt asks of whoever makes it, on behalf of [Once] and
// [Emit]: a node does it with its store, functionstest in memory. Its methods may
// be called by several goroutines at once, and not after the attempt.
type Host interface {
	// Steps returns what is recorded of the attempt's event, by step.
	Steps(ctx context.Context) (map[string]json.RawMessage, error)
	// RecordStep records the result of a step that has been done. It does not give
	// up before ctx has ended, and tries once even then.
	RecordStep(ctx context.Context, step string, result json.RawMessage) error
	// CheckEmitted says why the event could not be accepted, beside the events of so
	// many bytes that the attempt has emitted before, or how many bytes it has. It
	// may add to it what an event is given when it is accepted.
	CheckEmitted(ctx context.Context, e *Event, before int) (size int, err error)
}
