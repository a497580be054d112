package runtime

import (
	"errors"
	"slices"
	"strconv"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// checkSchemas refuses an event whose data does not satisfy the schema of a hosted function that would get it. Only what comes over HTTP is
// asked: what a NATS client stores is there already, and each function parks it for itself.
func (h *host) checkSchemas(e event.Event) error {
	for _, fn := range h.fns {
		if fn.Schema == nil || fn.Stream != streams.EventsStream {
			continue
		}
		subject, err := streams.EventSubject(e.Type())
		if err != nil {
			return err
		}
		filters, err := streams.TypeFilters(fn.Types)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(filters, func(f string) bool { return streams.MatchesType(f, subject) }) {
			continue
		}
		if err := fn.CheckData(e); err != nil {
			return violation(fn.Name, e, err)
		}
	}
	return nil
}

func violation(function string, e event.Event, err error) error {
	p := newProblem(client.Refused, "event %s: function %s: %v", strconv.Quote(e.ID()), function, err).
		WithHint("correct the data and send the event again, with the same id: it was not stored")
	p.Function = function
	if bad, ok := errors.AsType[*functions.SchemaError](err); ok {
		p.Path = bad.Path
	}
	return p
}
