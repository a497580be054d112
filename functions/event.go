package functions

import (
	"context"

	"github.com/cloudevents/sdk-go/v2/event"
)

// Event is the event of the CloudEvents SDK, so that a handler can be shared
// with everything else that speaks CloudEvents.
type Event = event.Event

type eventKey struct{}

// EventFrom returns the event whose attempt ctx belongs to: the copy that this
// attempt owns, with all its attributes. It is how a [Typed] handler reads
// them. Outside of an attempt it returns the zero Event, whose attributes are
// empty.
func EventFrom(ctx context.Context) Event {
	e, _ := ctx.Value(eventKey{}).(Event)
	return e
}

func withEvent(ctx context.Context, e Event) context.Context {
	return context.WithValue(ctx, eventKey{}, e)
}

// cloneEvent copies all that a handler can change. The SDK's Clone panics on
// an event that was never given a context.
func cloneEvent(e Event) Event {
	if e.Context == nil {
		return Event{DataEncoded: append([]byte(nil), e.DataEncoded...), DataBase64: e.DataBase64}
	}
	return e.Clone()
}
