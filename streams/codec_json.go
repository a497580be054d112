package streams

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
)

// The JSON format is read here and not by the SDK, whose decoder truncates 1.5 to 1, lets duplicate members pass and refuses
// objects in application/*+json (cloudevents/sdk-go#1161). encoding/json checks the whole document once; after that the
// envelope is cut out of it by hand, so that `data` keeps its bytes.

// checkJSON returns why text is not one JSON document in UTF-8, or "".
func checkJSON(text []byte) string {
	if !utf8.Valid(text) {
		return "is not valid UTF-8"
	}
	if json.Valid(text) {
		return ""
	}
	var raw json.RawMessage
	err := json.Unmarshal(text, &raw)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return "is not valid JSON: " + syntax.Error() + " at byte " + strconv.FormatInt(syntax.Offset, 10)
	}
	return "is not valid JSON"
}

// decodeStructured reads one event in the JSON format.
func decodeStructured(body []byte) (event.Event, *InvalidError) {
	if reason := checkJSON(body); reason != "" {
		return event.Event{}, &InvalidError{Index: -1, Path: "$", Reason: reason}
	}
	return decodeObject(bytes.TrimSpace(body), "$")
}

// decodeBatch reads a JSON array of events. The first bad one refuses them all.
func decodeBatch(body []byte) ([]event.Event, *InvalidError) {
	if reason := checkJSON(body); reason != "" {
		return nil, &InvalidError{Index: -1, Path: "$", Reason: reason}
	}
	array := bytes.TrimSpace(body)
	if array[0] != '[' {
		return nil, &InvalidError{Index: -1, Path: "$", Reason: "must be a JSON array of events"}
	}
	events := []event.Event{}
	for element := range jsonValues(array) {
		i := len(events)
		e, bad := decodeObject(element, "$["+strconv.Itoa(i)+"]")
		if bad != nil {
			bad.Index = i
			return nil, bad
		}
		events = append(events, e)
	}
	return events, nil
}

// decodeObject reads an event from valid JSON that stands at path.
func decodeObject(object []byte, path string) (event.Event, *InvalidError) {
	var d draft
	content, bad := readEnvelope(object, path, d.set)
	if bad != nil {
		return event.Event{}, bad
	}
	if name := d.missing(); name != "" {
		return event.Event{}, &InvalidError{Index: -1, Attribute: name, Path: path + "." + name, Reason: "is missing"}
	}
	e := event.Event{Context: &d.context}
	switch {
	case content.base64 != nil:
		var reason string
		if e.DataEncoded, reason = decodeBase64(content.base64); reason != "" {
			return event.Event{}, &InvalidError{Index: -1, Path: path + ".data_base64", Reason: reason}
		}
		e.DataBase64 = true
	case content.data != nil:
		if d.context.DataContentType == nil {
			// In this format no type means JSON, in the others it does not: the type becomes explicit before it is lost.
			implied := event.ApplicationJSON
			d.context.DataContentType = &implied
		}
		var reason string
		if e.DataEncoded, reason = decodeData(content.data, *d.context.DataContentType); reason != "" {
			return event.Event{}, &InvalidError{Index: -1, Path: path + ".data", Reason: reason}
		}
	}
	return e, nil
}

// content is the data of a structured event as it is written there: JSON values, nil where absent.
type content struct{ data, base64 []byte }

// readEnvelope walks over one structured event and gives each attribute to set, as its canonical string; set returns why it
// refuses one. null is an absent attribute, but an explicit null as data.
func readEnvelope(object []byte, path string, set func(name, value string) string) (content, *InvalidError) {
	if object[0] != '{' {
		return content{}, &InvalidError{Index: -1, Path: path, Reason: "must be a JSON object"}
	}
	var found content
	seen := make(map[string]struct{}, 16)
	for key, value := range jsonMembers(object) {
		name, reason := unquoteJSON(key)
		if reason == "" {
			if _, ok := seen[name]; ok {
				reason = "is given more than once"
			}
		}
		if reason == "" {
			seen[name] = struct{}{}
			switch {
			case name == "data":
				found.data = value
				continue
			case name == "data_base64":
				if string(value) != "null" {
					found.base64 = value
				}
				continue
			case checkName(name) != "":
				reason = checkName(name)
			case string(value) == "null":
				continue
			default:
				var text string
				if text, reason = attributeText(name, value); reason == "" {
					reason = set(name, text)
				}
			}
		}
		if reason != "" {
			bad := &InvalidError{Index: -1, Attribute: name, Path: memberPath(path, name), Reason: reason}
			if name == "data" || name == "data_base64" {
				bad.Attribute = ""
			}
			return content{}, bad
		}
	}
	if found.data != nil && found.base64 != nil {
		return content{}, &InvalidError{Index: -1, Path: path + ".data_base64", Reason: "data and data_base64 exclude each other"}
	}
	return found, nil
}

// attributeText returns the canonical string of an attribute's JSON value. The attributes of the specification are strings;
// extensions may also be booleans and 32-bit integers.
func attributeText(name string, value []byte) (text, reason string) {
	if value[0] == '"' {
		return unquoteJSON(value)
	}
	if coreAttribute(name) != 0 {
		return "", "must be a JSON string"
	}
	switch value[0] {
	case 't', 'f':
		return string(value), ""
	case '{', '[':
		return "", "must be a string, an integer or a boolean, not an object or array"
	}
	n, err := strconv.ParseInt(string(value), 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "", "is a number outside the 32-bit integers"
	case err != nil:
		return "", "is the number " + excerpt(string(value)) + "; only integers without fraction and exponent are allowed"
	}
	return strconv.FormatInt(n, 10), ""
}

// decodeData returns the bytes of a `data` member: for JSON content exactly what is written there, else the text of a string.
// Senders also put objects under other types; those keep their JSON.
func decodeData(value []byte, contentType string) (data []byte, reason string) {
	switch {
	case isJSON(contentType):
		return bytes.Clone(value), ""
	case value[0] == '"':
		text, reason := unquoteJSON(value)
		return []byte(text), reason
	case string(value) == "null":
		return nil, ""
	}
	return bytes.Clone(value), ""
}

func decodeBase64(value []byte) (data []byte, reason string) {
	if value[0] != '"' {
		return nil, "must be a JSON string"
	}
	text, reason := unquoteJSON(value)
	if reason != "" {
		return nil, reason
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, "is not valid base64"
	}
	return data, ""
}

// isJSON reports whether a content type declares JSON: */json or */*+json in any case and with any parameters.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	_, subtype, _ := strings.Cut(strings.ToLower(strings.TrimSpace(media)), "/")
	return subtype == "json" || strings.HasSuffix(subtype, "+json")
}

// memberPath returns the JSON path of a member: $.name, or $["na me"] if the name is not a plain word.
func memberPath(path, name string) string {
	for _, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return path + "[" + excerpt(name) + "]"
		}
	}
	return path + "." + name
}

// jsonMembers yields the members of an object, keys still quoted. The text must be valid JSON.
func jsonMembers(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		var key []byte
		for value := range jsonValues(object) {
			if key == nil {
				key = value
				continue
			}
			if !yield(key, value) {
				return
			}
			key = nil
		}
	}
}

// jsonValues yields the values directly inside an array, or the keys and values of an object in turn. The text must be valid JSON.
func jsonValues(composite []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := 1; ; {
			switch composite[i] {
			case ' ', '\t', '\r', '\n', ',', ':':
				i++
			case ']', '}':
				return
			default:
				end := jsonEnd(composite, i)
				if !yield(composite[i:end:end]) {
					return
				}
				i = end
			}
		}
	}
}

// jsonEnd returns the position behind the value that begins at i. The text must be valid JSON.
func jsonEnd(text []byte, i int) int {
	switch text[i] {
	case '"':
		return stringEnd(text, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch text[i] {
			case '"':
				i = stringEnd(text, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(text) && bytes.IndexByte([]byte(",:]} \t\r\n"), text[i]) < 0 {
		i++
	}
	return i
}

func stringEnd(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// unquoteJSON returns the text of a valid JSON string. Half of a surrogate pair is refused, because encoding/json would silently
// replace it.
func unquoteJSON(quoted []byte) (text, reason string) {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), ""
	}
	if hasLoneSurrogate(inner) {
		return "", "contains half of a surrogate pair"
	}
	if err := json.Unmarshal(quoted, &text); err != nil {
		return "", err.Error()
	}
	return text, ""
}

func hasLoneSurrogate(inner []byte) bool {
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			continue
		}
		i++
		if inner[i] != 'u' {
			continue
		}
		unit := escapedUnit(inner[i+1:])
		i += 4
		switch {
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return true
		case unit >= 0xD800 && unit <= 0xDBFF:
			rest := inner[i+1:]
			if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
				return true
			}
			if low := escapedUnit(rest[2:]); low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 6
		}
	}
	return false
}

// escapedUnit returns the UTF-16 code unit of four hexadecimal digits.
func escapedUnit(digits []byte) uint16 {
	var unit uint16
	for _, c := range digits[:4] {
		unit = unit<<4 | uint16(hexDigit(c))
	}
	return unit
}
