package streams

import (
	"errors"
	"fmt"
	"math"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
)

// ErrNotEvent is what every InvalidError is: retrying does not help, the bytes are no CloudEvent.
var ErrNotEvent = errors.New("not a CloudEvent")

// ErrUnsupportedMedia says that a request's Content-Type is an event format we do not read, or that nothing in the request
// says that it is an event at all. In HTTP it is status 415.
var ErrUnsupportedMedia = errors.New("unsupported media type")

// InvalidError says which part of something is no CloudEvent 1.0, and why.
type InvalidError struct {
	// Index is the position of the bad event in a batch, from 0; -1 outside a batch.
	Index int
	// Attribute is the attribute that is missing or wrong, under its lower-case name; empty if it is none.
	Attribute string
	// Path is the place in a structured event or batch, like $.data_base64 or $[3].id; empty in binary mode.
	Path string
	// Reason is a phrase for people, without the name of the attribute.
	Reason string
}

// Error names the event in the batch, the attribute or else the path, and the reason.
func (e *InvalidError) Error() string {
	s := ErrNotEvent.Error()
	if e.Index >= 0 {
		s += ": event " + strconv.Itoa(e.Index)
	}
	switch {
	case e.Attribute != "":
		s += ": attribute " + excerpt(e.Attribute)
	case e.Path != "" && e.Path != "$":
		s += ": " + e.Path
	}
	return s + ": " + e.Reason
}

// Is makes errors.Is(err, ErrNotEvent) true.
func (e *InvalidError) Is(target error) bool { return target == ErrNotEvent }

func invalid(attribute, reason string) *InvalidError {
	return &InvalidError{Index: -1, Attribute: attribute, Reason: reason}
}

// maxExcerpt bounds how much of a foreign text an error repeats: errors travel in headers and log lines.
const maxExcerpt = 64

// excerpt quotes the beginning of a foreign text so that it fits into an error.
func excerpt(s string) string {
	if len(s) <= maxExcerpt {
		return strconv.Quote(s)
	}
	cut := maxExcerpt
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "…"
}

// checkName returns why name cannot be an attribute's name, or "".
func checkName(name string) string {
	switch name {
	case "":
		return "has no name"
	case "data", "data_base64":
		return "is reserved for the data of an event"
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return "is no attribute name: only a-z and 0-9 are allowed"
		}
	}
	return ""
}

// checkText returns why value cannot be the string form of an attribute, or "". The set is that of the CloudEvents type system:
// no control characters (a header would silently lose them), no noncharacters, valid UTF-8.
func checkText(value string) string {
	for i := 0; i < len(value); {
		if c := value[i]; c >= 0x20 && c < 0x7F {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(value[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return "is not valid UTF-8"
		case r < 0x20 || r >= 0x7F && r <= 0x9F:
			return fmt.Sprintf("contains the control character U+%04X", r)
		case r >= 0xFDD0 && r <= 0xFDEF || r&0xFFFE == 0xFFFE:
			return fmt.Sprintf("contains the noncharacter U+%04X", r)
		}
		i += size
	}
	return ""
}

// The attributes that the specification itself defines, as bits of draft.seen.
const (
	seenSpecVersion uint8 = 1 << iota
	seenID
	seenSource
	seenType
	seenSubject
	seenTime
	seenDataSchema
	seenDataContentType
)

// coreAttribute returns the bit of an attribute that the specification defines, 0 for an extension.
func coreAttribute(name string) uint8 {
	switch name {
	case "specversion":
		return seenSpecVersion
	case "id":
		return seenID
	case "source":
		return seenSource
	case "type":
		return seenType
	case "subject":
		return seenSubject
	case "time":
		return seenTime
	case "dataschema":
		return seenDataSchema
	case "datacontenttype":
		return seenDataContentType
	}
	return 0
}

// draft collects the attributes of one event from their string forms. Encoding, decoding and HTTP all pass through it, so
// what one of them accepts the others accept too. The setters of the SDK's event are not used: they trim and re-escape.
type draft struct {
	context event.EventContextV1
	seen    uint8
}

// set adds an attribute and returns why it cannot, or "".
func (d *draft) set(name, value string) string {
	if reason := checkName(name); reason != "" {
		return reason
	}
	if reason := checkText(value); reason != "" {
		return reason
	}
	bit := coreAttribute(name)
	if bit == 0 {
		if _, ok := d.context.Extensions[name]; ok {
			return "is given more than once"
		}
		if d.context.Extensions == nil {
			d.context.Extensions = make(map[string]any, 4)
		}
		d.context.Extensions[name] = value
		return ""
	}
	if d.seen&bit != 0 {
		return "is given more than once"
	}
	d.seen |= bit
	if value == "" {
		return "is empty"
	}
	switch bit {
	case seenSpecVersion:
		if value != event.CloudEventsVersionV1 {
			return fmt.Sprintf("is %s; only %s is supported", excerpt(value), event.CloudEventsVersionV1)
		}
	case seenID:
		d.context.ID = value
	case seenType:
		d.context.Type = value
	case seenSubject:
		d.context.Subject = &value
	case seenSource:
		u, ok := parseURI(value)
		if !ok {
			return excerpt(value) + " is not a URI reference"
		}
		d.context.Source = types.URIRef{URL: u}
	case seenDataSchema:
		u, ok := parseURI(value)
		if !ok || u.Scheme == "" {
			return excerpt(value) + " is not an absolute URI"
		}
		d.context.DataSchema = &types.URI{URL: u}
	case seenDataContentType:
		if !isMediaType(value) {
			return excerpt(value) + " is not a media type"
		}
		d.context.DataContentType = &value
	case seenTime:
		t, ok := parseTime(value)
		if !ok {
			return excerpt(value) + " is not an RFC 3339 time"
		}
		// The zero time is what Go programs write for "no time"; the SDK cannot tell it from an absent one.
		if !t.IsZero() {
			d.context.Time = &types.Timestamp{Time: t}
		}
	}
	return ""
}

// missing returns the first required attribute that was not set, or "".
func (d *draft) missing() string {
	switch {
	case d.seen&seenSpecVersion == 0:
		return "specversion"
	case d.seen&seenID == 0:
		return "id"
	case d.seen&seenSource == 0:
		return "source"
	case d.seen&seenType == 0:
		return "type"
	}
	return ""
}

// isMediaType reports whether value is type/subtype with well-formed parameters.
func isMediaType(value string) bool {
	if value == event.ApplicationJSON {
		return true
	}
	media, _, err := mime.ParseMediaType(value)
	return err == nil && strings.Contains(media, "/")
}

// parseURI parses a URI reference so that its String is value again, byte for byte. url.URL by itself lower-cases schemes,
// escapes what is not ASCII and drops an empty fragment; such a reference is kept whole in the opaque part.
func parseURI(value string) (url.URL, bool) {
	u, err := url.Parse(value)
	if err != nil {
		return url.URL{}, false
	}
	if u.String() == value {
		return *u, true
	}
	if scheme, rest, ok := strings.Cut(value, ":"); ok && strings.EqualFold(scheme, u.Scheme) {
		return url.URL{Scheme: scheme, Opaque: rest}, true
	}
	return url.URL{Opaque: value}, true
}

// parseTime reads an RFC 3339 time with up to nanoseconds. The shape is checked here because time.Parse also lets through
// one-digit hours, commas and offsets of 24 hours (golang/go#54580).
func parseTime(value string) (time.Time, bool) {
	value = strings.ToUpper(value)
	const shape = "0000-00-00T00:00:00"
	if len(value) <= len(shape) || !hasShape(value[:len(shape)], shape) {
		return time.Time{}, false
	}
	zone := value[len(shape):]
	if zone[0] == '.' {
		zone = strings.TrimLeft(zone[1:], "0123456789")
	}
	offset := len(zone) == 6 && (hasShape(zone, "+00:00") || hasShape(zone, "-00:00")) && zone[1:3] < "24" && zone[4:] < "60"
	if zone != "Z" && !offset {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, value)
	return t, err == nil
}

// hasShape reports whether s equals shape, in which 0 stands for any digit. Both have the same length.
func hasShape(s, shape string) bool {
	for i := range len(shape) {
		if shape[i] == '0' && (s[i] < '0' || s[i] > '9') || shape[i] != '0' && s[i] != shape[i] {
			return false
		}
	}
	return true
}

// formatTime writes a time as RFC 3339 with its nanoseconds and its offset; false if its year has not four digits.
func formatTime(t time.Time) (string, bool) {
	// RFC 3339 offsets have no seconds, which local mean times of the 19th century need.
	if _, offset := t.Zone(); offset%60 != 0 {
		t = t.UTC()
	}
	text, err := t.MarshalText()
	return string(text), err == nil
}

// canonical returns the string form of an extension's value as CloudEvents defines it. A nil value is an absent attribute.
func canonical(v any) (value string, present bool, reason string) {
	switch f := v.(type) {
	case nil:
		return "", false, ""
	case string:
		return f, true, ""
	case float32:
		v = float64(f)
	}
	if f, ok := v.(float64); ok && f != math.Trunc(f) {
		return "", false, fmt.Sprintf("is %v; only integers are allowed", f)
	}
	v, err := types.Validate(v)
	if err != nil {
		return "", false, err.Error()
	}
	if v == nil {
		return "", false, ""
	}
	if t, ok := v.(types.Timestamp); ok {
		text, ok := formatTime(t.Time)
		if !ok {
			return "", false, "is a time outside the years 0000 to 9999"
		}
		return text, true, ""
	}
	value, err = types.Format(v)
	if err != nil {
		return "", false, err.Error()
	}
	return value, true, ""
}
