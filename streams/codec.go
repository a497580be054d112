package streams

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
)

// Names of headers. ADR-4 of NATS calls header names case-insensitive, but clients keep and compare them exactly: any case is
// read, lower case is written.
const (
	attributePrefix       = "ce-"
	contentTypeHeader     = "content-type"
	dataContentTypeHeader = "ce-datacontenttype"
)

// Encode renders an event for NATS in binary mode: each attribute in a header `ce-<name>`, percent-encoded, the content type
// in ce-datacontenttype, the data as the body. The body is the event's own slice.
//
// It refuses with an *InvalidError whatever Decode would refuse, and what the SDK recorded as wrong while the event was built.
func Encode(e event.Event) (nats.Header, []byte, error) {
	for _, field := range slices.Sorted(maps.Keys(e.FieldErrors)) {
		return nil, nil, invalid(strings.TrimPrefix(field, "extension:"), e.FieldErrors[field].Error())
	}
	ec, ok := e.Context.(*event.EventContextV1)
	if !ok || ec == nil {
		return nil, nil, invalid("specversion", "only "+event.CloudEventsVersionV1+" is supported")
	}
	enc := encoder{header: make(nats.Header, 8+len(ec.Extensions)), values: make([]string, 0, 8+len(ec.Extensions))}
	enc.put("ce-specversion", event.CloudEventsVersionV1)
	enc.put("ce-id", ec.ID)
	enc.put("ce-source", ec.Source.String())
	enc.put("ce-type", ec.Type)
	if ec.Subject != nil {
		enc.put("ce-subject", *ec.Subject)
	}
	if ec.Time != nil && !ec.Time.IsZero() {
		text, ok := formatTime(ec.Time.Time)
		if !ok {
			enc.refuse("time", "is outside the years 0000 to 9999")
		}
		enc.put("ce-time", text)
	}
	if ec.DataSchema != nil {
		enc.put("ce-dataschema", ec.DataSchema.String())
	}
	if ec.DataContentType != nil {
		enc.put(dataContentTypeHeader, *ec.DataContentType)
	}
	for _, name := range slices.Sorted(maps.Keys(ec.Extensions)) {
		value, present, reason := canonical(ec.Extensions[name])
		switch {
		case reason != "":
			enc.refuse(name, reason)
		case present:
			enc.put(attributePrefix+name, value)
		}
	}
	if enc.bad != nil {
		return nil, nil, enc.bad
	}
	return enc.header, e.DataEncoded, nil
}

// encoder fills a header and keeps the first refusal.
type encoder struct {
	header nats.Header
	values []string // one array behind all values of the header
	check  draft
	bad    *InvalidError
}

func (enc *encoder) put(key, value string) {
	name := key[len(attributePrefix):]
	if reason := enc.check.set(name, value); reason != "" {
		enc.refuse(name, reason)
		return
	}
	enc.values = append(enc.values, percentEncode(value))
	n := len(enc.values)
	enc.header[key] = enc.values[n-1 : n : n]
}

func (enc *encoder) refuse(name, reason string) {
	if enc.bad == nil {
		enc.bad = invalid(name, reason)
	}
}

// Decode reads a stored message of either mode: structured if its Content-Type begins with application/cloudevents, binary
// otherwise, as the binding says. Header names may have any case. The event owns its data and shares nothing with the message.
//
// Extensions come out as their canonical strings in both modes, so that a handler sees one event whichever way it came
// (types.ToInteger and its like read them). Every error is an *InvalidError.
func Decode(h nats.Header, body []byte) (event.Event, error) {
	var e event.Event
	var bad *InvalidError
	switch contentType := firstHeader(h, contentTypeHeader); contentMode(contentType) {
	case structuredMode:
		e, bad = decodeStructured(body)
	case binaryMode:
		// The binding carries the type in ce-datacontenttype. Senders that treat NATS like HTTP use Content-Type.
		if !isMediaType(contentType) || headerValues(h, dataContentTypeHeader) != nil {
			contentType = ""
		}
		e, bad = decodeBinary(h, contentType, body)
	default:
		bad = unreadableFormat(contentType)
	}
	if bad != nil {
		return event.Event{}, bad
	}
	return e, nil
}

func unreadableFormat(contentType string) *InvalidError {
	return &InvalidError{Index: -1, Reason: "event format " + excerpt(contentType) + " cannot be read from a stored message; use application/cloudevents+json"}
}

// decodeBinary reads an event whose attributes are headers. A contentType that is not empty becomes datacontenttype.
func decodeBinary(h map[string][]string, contentType string, body []byte) (event.Event, *InvalidError) {
	var d draft
	var bad *InvalidError
	// Headers come in random order: of several errors, the one with the smallest name is told.
	refuse := func(name, reason string) {
		if reason != "" && (bad == nil || name < bad.Attribute) {
			bad = invalid(name, reason)
		}
	}
	if contentType != "" {
		refuse("datacontenttype", d.set("datacontenttype", contentType))
	}
	for key, values := range h {
		if !isAttributeHeader(key) || len(values) == 0 {
			continue
		}
		name := lowerASCII(key[len(attributePrefix):])
		if len(values) > 1 {
			refuse(name, "is given more than once")
			continue
		}
		refuse(name, d.set(name, percentDecode(values[0])))
	}
	if bad != nil {
		return event.Event{}, bad
	}
	if d.seen&^seenDataContentType == 0 && d.context.Extensions == nil {
		return event.Event{}, noEvent()
	}
	if name := d.missing(); name != "" {
		return event.Event{}, invalid(name, "is missing")
	}
	e := event.Event{Context: &d.context}
	if len(body) > 0 {
		e.DataEncoded = bytes.Clone(body)
		// Says how the SDK writes the data if somebody renders the event as JSON: text that is none would be mangled.
		e.DataBase64 = d.context.DataContentType != nil && !isJSON(*d.context.DataContentType) && !utf8.Valid(body)
	}
	return e, nil
}

func noEvent() *InvalidError {
	return &InvalidError{Index: -1, Reason: "no ce- header and no Content-Type application/cloudevents+json"}
}

// MessageID returns the Nats-Msg-Id of an event. CloudEvents identify by the pair (source, id); each part is framed by its
// length, so that no two pairs are hashed alike.
func MessageID(source, id string) string {
	buf := make([]byte, 0, 256)
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(source)))
	buf = append(buf, source...)
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(id)))
	buf = append(buf, id...)
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:16])
}
