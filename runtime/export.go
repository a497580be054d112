package runtime

import (
	"context"
	"errors"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// export calls yield for every dead letter that q selects, with the event as its sender sent it. It goes by function and sequence, which is the
// order that sending them again must keep. It holds one of them at a time, and what is decided about meanwhile is left out.
func (r *Runtime) export(ctx context.Context, q deadLetterQuery, yield func(client.Exported) error) error {
	h, err := r.current()
	if err != nil {
		return err
	}
	return h.eachLetter(ctx, q, func(ref streams.Ref, m streams.Message, d client.DeadLetter) (bool, error) {
		header, data, err := h.store.Resolve(ctx, ref, streams.ReadCopy(m.Header, m.Data))
		exported := client.Exported{DeadLetter: d}
		switch {
		case errors.Is(err, streams.ErrNotFound):
			exported.NotEvent = "the event was too large to be copied, and the stream does not keep it any more"
		case err != nil:
			return false, err
		default:
			exported.Event, exported.NotEvent = eventLine(header, data)
		}
		return true, yield(exported)
	})
}

// eventLine renders a stored event, or says why it is none.
func eventLine(header map[string][]string, data []byte) (line []byte, why string) {
	e, err := streams.Decode(header, data)
	if err == nil {
		line, err = client.EventLine(e)
	}
	if err != nil {
		return nil, err.Error()
	}
	return line, ""
}
