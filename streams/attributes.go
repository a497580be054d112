package streams

import (
	"bytes"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
)

// Attributes is a view of a stored event's attributes for routing: which function, which lane, which trace. It builds no event
// and never looks at the data; in binary mode it refers to the message's header, which must not change while it is used.
// Safe for concurrent reads.
//
// It checks only what routing needs. Whatever Decode accepts ReadAttributes accepts with the same values, but Decode may still
// refuse what ReadAttributes accepted.
type Attributes struct {
	id, source, eventType, subject string

	header  map[string][]string // binary mode
	members map[string]string   // structured mode
}

// ReadAttributes reads the attributes of a stored message of either mode. It requires specversion 1.0, id, source and type.
// Every error is an *InvalidError.
func ReadAttributes(h nats.Header, body []byte) (Attributes, error) {
	a := Attributes{header: h}
	if headerValues(h, contentTypeHeader) != nil {
		switch contentType := firstHeader(h, contentTypeHeader); contentMode(contentType) {
		case structuredMode:
			var bad *InvalidError
			if a, bad = structuredAttributes(body); bad != nil {
				return Attributes{}, bad
			}
		case binaryMode:
		default:
			return Attributes{}, unreadableFormat(contentType)
		}
	}
	version, reason := a.read("specversion")
	switch {
	case reason == "" && version == "" && a.members == nil && !hasAttributeHeader(h):
		return Attributes{}, noEvent()
	case reason == "" && version != "" && version != event.CloudEventsVersionV1:
		reason = "is " + excerpt(version) + "; only " + event.CloudEventsVersionV1 + " is supported"
	}
	if bad := a.required("specversion", version, reason); bad != nil {
		return Attributes{}, bad
	}
	a.id, reason = a.read("id")
	if bad := a.required("id", a.id, reason); bad != nil {
		return Attributes{}, bad
	}
	a.source, reason = a.read("source")
	if bad := a.required("source", a.source, reason); bad != nil {
		return Attributes{}, bad
	}
	a.eventType, reason = a.read("type")
	if bad := a.required("type", a.eventType, reason); bad != nil {
		return Attributes{}, bad
	}
	if a.subject, reason = a.read("subject"); reason != "" {
		return Attributes{}, a.refuse("subject", reason)
	}
	return a, nil
}

// structuredAttributes parses the JSON once. Only the attributes are taken out of it.
func structuredAttributes(body []byte) (Attributes, *InvalidError) {
	if reason := checkJSON(body); reason != "" {
		return Attributes{}, &InvalidError{Index: -1, Path: "$", Reason: reason}
	}
	members := make(map[string]string, 12)
	found, bad := readEnvelope(bytes.TrimSpace(body), "$", func(name, value string) string {
		members[name] = value
		return checkText(value)
	})
	if bad != nil {
		return Attributes{}, bad
	}
	if _, ok := members["datacontenttype"]; !ok && found.data != nil && found.base64 == nil {
		members["datacontenttype"] = event.ApplicationJSON
	}
	return Attributes{members: members}, nil
}

// ID returns the id, unique within the source.
func (a Attributes) ID() string { return a.id }

// Source returns the source as it is written in the event.
func (a Attributes) Source() string { return a.source }

// Type returns the event's type.
func (a Attributes) Type() string { return a.eventType }

// Subject returns the subject, "" if the event has none.
func (a Attributes) Subject() string { return a.subject }

// Get returns any attribute or extension by its lower-case name, decoded; "" if it is absent or cannot be decoded.
func (a Attributes) Get(name string) string {
	value, reason := a.read(name)
	if reason != "" {
		return ""
	}
	return value
}

func (a Attributes) read(name string) (value, reason string) {
	if a.members != nil {
		return a.members[name], ""
	}
	if checkName(name) != "" {
		return "", ""
	}
	values := headerValues(a.header, attributePrefix+name)
	switch {
	case len(values) == 1:
		value = percentDecode(values[0])
		return value, checkText(value)
	case len(values) > 1:
		return "", "is given more than once"
	case name == "datacontenttype":
		if contentType := firstHeader(a.header, contentTypeHeader); isMediaType(contentType) {
			return contentType, ""
		}
	}
	return "", ""
}

// required refuses an attribute that could not be read or is empty.
func (a Attributes) required(name, value, reason string) *InvalidError {
	switch {
	case reason != "":
		return a.refuse(name, reason)
	case value == "":
		return a.refuse(name, "is missing")
	}
	return nil
}

func (a Attributes) refuse(name, reason string) *InvalidError {
	bad := invalid(name, reason)
	if a.members != nil {
		bad.Path = "$." + name
	}
	return bad
}

// headerValues returns the values under a lower-case header name, whatever its case in h; nil if there are none. The exact
// name is one look-up; any other case is found by a scan, which for the dozen headers of a message costs less than an index.
func headerValues(h map[string][]string, lower string) []string {
	if values := h[lower]; len(values) > 0 {
		return values
	}
	var found string
	for key, values := range h {
		// Of several spellings the smallest is taken, so that the answer does not depend on the order of a map.
		if len(key) == len(lower) && len(values) > 0 && (found == "" || key < found) && strings.EqualFold(key, lower) {
			found = key
		}
	}
	if found == "" {
		return nil
	}
	return h[found]
}

// firstHeader returns the first value of a header without the whitespace around it, "" if it is absent.
func firstHeader(h map[string][]string, lower string) string {
	if values := headerValues(h, lower); values != nil {
		return strings.Trim(values[0], " \t")
	}
	return ""
}

// isAttributeHeader reports whether a header carries an attribute.
func isAttributeHeader(key string) bool {
	return len(key) >= len(attributePrefix) && strings.EqualFold(key[:len(attributePrefix)], attributePrefix)
}

func hasAttributeHeader(h map[string][]string) bool {
	for key, values := range h {
		if len(values) > 0 && isAttributeHeader(key) {
			return true
		}
	}
	return false
}

// lowerASCII is strings.ToLower without Unicode, which would turn the Kelvin sign into a k.
func lowerASCII(s string) string {
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			continue
		}
		b := []byte(s)
		for j := i; j < len(b); j++ {
			if b[j] >= 'A' && b[j] <= 'Z' {
				b[j] += 'a' - 'A'
			}
		}
		return string(b)
	}
	return s
}
