package streams

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
)

// mode is how a message carries an event, told by its Content-Type alone.
type mode int

const (
	binaryMode mode = iota
	structuredMode
	batchMode
	unknownFormat // of application/cloudevents, but neither JSON nor a JSON batch
)

// contentMode compares without regard to case and ignores parameters.
func contentMode(contentType string) mode {
	const family = "application/cloudevents"
	if len(contentType) < len(family) || !strings.EqualFold(contentType[:len(family)], family) {
		return binaryMode
	}
	media, _, _ := strings.Cut(contentType[len(family):], ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "+json":
		return structuredMode
	case "-batch+json":
		return batchMode
	}
	return unknownFormat
}

// FromHTTP reads the events of a request in binary, structured or batch mode. Only the batch mode gives other than one event;
// an empty batch is valid. In binary mode Content-Type is the event's datacontenttype, and without one the event has none.
//
// Errors are an *InvalidError (a bad event; in a batch the first one refuses all and Index names it), or wrap
// ErrUnsupportedMedia: the Content-Type is an unknown event format, or it is none and there are no ce- headers either.
// The events own their data.
func FromHTTP(header http.Header, body []byte) ([]event.Event, error) {
	contentType := firstHeader(header, contentTypeHeader)
	switch contentMode(contentType) {
	case structuredMode:
		e, bad := decodeStructured(body)
		if bad != nil {
			return nil, bad
		}
		return []event.Event{e}, nil
	case batchMode:
		events, bad := decodeBatch(body)
		if bad != nil {
			return nil, bad
		}
		return events, nil
	case unknownFormat:
		return nil, fmt.Errorf("%w: event format %s; use application/cloudevents+json or application/cloudevents-batch+json", ErrUnsupportedMedia, excerpt(contentType))
	}
	if !hasAttributeHeader(header) {
		return nil, fmt.Errorf("%w: Content-Type %s without ce- headers is no event; use application/cloudevents+json or send ce-specversion, ce-id, ce-source and ce-type", ErrUnsupportedMedia, excerpt(contentType))
	}
	if len(headerValues(header, contentTypeHeader)) > 1 {
		return nil, invalid("datacontenttype", "is given more than once")
	}
	if headerValues(header, dataContentTypeHeader) != nil {
		return nil, invalid("datacontenttype", "must travel in Content-Type, not in a ce- header")
	}
	e, bad := decodeBinary(header, contentType, body)
	if bad != nil {
		return nil, bad
	}
	return []event.Event{e}, nil
}
