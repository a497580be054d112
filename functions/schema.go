package functions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// SchemaError is data that does not satisfy a function's schema: the first
// thing that is wrong with it, by its place in the data.
type SchemaError struct {
	Path   string // a JSON pointer into the data, such as /lines/0/amount; "" is the data as a whole
	Reason string
}

// Error says where in the data is what.
func (e *SchemaError) Error() string {
	if e.Path == "" {
		return "data does not satisfy the schema: " + e.Reason
	}
	return "data does not satisfy the schema: at " + e.Path + ": " + e.Reason
}

// CheckData returns a [*SchemaError] if f has a schema and the data of e does
// not satisfy it. Data is read as JSON where datacontenttype says so or is
// absent; data of any other type, and absent data, do not satisfy a schema. It
// is what [Invoke] asks before it calls the handler, and what a host asks
// before it accepts an event.
//
// The schema is compiled once, by WithDefaults. A schema that Validate refuses
// is an error of another type.
func (f Function) CheckData(e Event) error {
	if f.Schema == nil {
		return nil
	}
	s := f.compiled.of(f.Schema)
	if s.err != nil {
		return fmt.Errorf("schema: %w", s.err)
	}
	return s.check(e)
}

// schema is a JSON Schema that has been compiled. It does not change and is
// safe for concurrent use.
type schema struct {
	source   []byte
	compiled *jsonschema.Schema
	err      error // why there is none
}

// of returns s, or what source compiles to if that is not what s was made of.
func (s *schema) of(source []byte) *schema {
	if s == nil || !bytes.Equal(s.source, source) {
		return compileSchema(bytes.Clone(source))
	}
	return s
}

// schemaURL is the base of what a schema without an $id refers to.
const schemaURL = "siding:///schema"

func compileSchema(source []byte) *schema {
	s := &schema{source: source}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		s.err = fmt.Errorf("is not JSON: %w", err)
		if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
			line := 1 + bytes.Count(source[:min(int(bad.Offset), len(source))], []byte{'\n'})
			s.err = fmt.Errorf("is not JSON: line %d: %w", line, err)
		}
		return s
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat() // whoever writes a format means it
	c.UseLoader(loadsNothing{})
	if err = c.AddResource(schemaURL, document); err == nil {
		s.compiled, err = c.Compile(schemaURL)
	}
	if err != nil {
		s.err = schemaProblem(err)
	}
	return s
}

// loadsNothing keeps a schema from reading files and from asking the network.
type loadsNothing struct{}

var errNotLoaded = errors.New("nothing is loaded")

func (loadsNothing) Load(string) (any, error) { return nil, errNotLoaded }

// schemaProblem says what is wrong with a schema, and where.
func schemaProblem(err error) error {
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return fmt.Errorf("refers to %q, and nothing is loaded; write it into the schema itself, under $defs", strings.TrimPrefix(load.URL, "siding:///"))
	}
	if refused, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		err = refused.Err
	}
	if bad, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		v := firstViolation(bad)
		if v.Path == "" {
			return errors.New("is no JSON Schema: " + v.Reason)
		}
		return fmt.Errorf("is no JSON Schema: at %s: %s", v.Path, v.Reason)
	}
	return fmt.Errorf("is no JSON Schema: %s", shorten(strings.ReplaceAll(err.Error(), schemaURL, "")))
}

func (s *schema) check(e Event) error {
	if kind := e.DataContentType(); e.Context != nil && kind != "" && !isJSON(kind) {
		return &SchemaError{Reason: fmt.Sprintf("datacontenttype is %q, not JSON", shorten(kind))}
	}
	raw := e.Data()
	if len(bytes.TrimSpace(raw)) == 0 {
		return &SchemaError{Reason: "the event has no data"}
	}
	data, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return &SchemaError{Reason: "the data is not JSON: " + shorten(err.Error())}
	}
	if bad := absurdNumber(data, nil); bad != nil {
		return bad
	}
	err = s.compiled.Validate(data)
	if bad, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return firstViolation(bad)
	}
	if err != nil {
		return &SchemaError{Reason: shorten(err.Error())}
	}
	return nil
}

// isJSON says whether a media type is JSON.
func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media, _, _ = strings.Cut(strings.ToLower(contentType), ";")
		media = strings.TrimSpace(media)
	}
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}
