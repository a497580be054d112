package streams

import (
	"errors"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go"
)

// ErrData is what data that are not of the type that their event states are.
var ErrData = errors.New("data are not of their type")

// Edit returns a copy whose event has new data and is otherwise the same: its key, its attributes, and the type of its data. c has its headers and
// body, also where the copy stands by reference. Errors: ErrData, ErrTooLarge, or ErrNotEvent for what is no event.
//
// The edited event must leave the room that every copy needs: what does not fit is written by reference, and that leads to the data as they were.
func (s *Store) Edit(c Copy, data []byte) (Copy, error) {
	e, err := Decode(c.Header, c.Data)
	if err != nil {
		return Copy{}, fmt.Errorf("new data make no event of what is none: %w", err)
	}
	contentType := e.DataContentType()
	if contentType == "" {
		contentType = "application/json" // as the specification says
	}
	if isJSON(contentType) {
		if reason := checkJSON(data); reason != "" {
			return Copy{}, fmt.Errorf("%w: %s: %s", ErrData, contentType, reason)
		}
	}
	e.DataEncoded = data
	if err := s.Check(e); err != nil {
		return Copy{}, err
	}
	c.Referenced = false
	if contentMode(firstHeader(c.Header, contentTypeHeader)) == binaryMode {
		c.Data = data // the attributes stand beside it, and stay as they are
		return c, nil
	}
	encoded, body, err := Encode(e)
	if err != nil {
		return Copy{}, err
	}
	header := make(nats.Header, len(c.Header)+len(encoded))
	for key, values := range c.Header {
		if !isAttributeHeader(key) && lowerASCII(key) != contentTypeHeader {
			header[key] = values
		}
	}
	maps.Copy(header, encoded)
	c.Header, c.Data = header, body
	return c, nil
}
