package functionstest

import (
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/functions"
)

// NewEvent returns a valid event of this type for a test. data becomes its JSON
// data; bytes are taken as they are, and nil is no data. Its id is "1", its
// source "/functionstest", and it has no time, so that equal calls give equal
// events; each of with may set what a test needs:
//
//	functionstest.NewEvent("order.placed", order, func(e *functions.Event) { e.SetSubject("order/7") })
//
// Data that JSON cannot encode is a mistake in the test, and NewEvent panics.
func NewEvent(eventType string, data any, with ...func(*functions.Event)) functions.Event {
	e := event.New()
	e.SetID("1")
	e.SetSource("/functionstest")
	e.SetType(eventType)
	if data != nil {
		if err := e.SetData(event.ApplicationJSON, data); err != nil {
			panic(fmt.Sprintf("functionstest: data of %q: %v", eventType, err))
		}
	}
	for _, change := range with {
		change(&e)
	}
	return e
}
