package functions_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/functionstest"
)

const claimSchema = `{
	"type": "object", "required": ["policy", "date"], "additionalProperties": false,
	"properties": {
		"policy": {"type": "string", "pattern": "^[0-9]+$"}, "date": {"type": "string", "format": "date"}, "cents": {"type": "integer", "minimum": 0},
		"a/b~c": {"type": "array", "items": {"$ref": "#/$defs/line"}}, "pay": {"anyOf": [{"type": "string"}, {"required": ["iban"]}]}
	},
	"$defs": {"line": {"type": "object", "properties": {"n": {"exclusiveMinimum": 1, "multipleOf": 0.5}}}}
}`

func withSchema(s string, h functions.Handler) functions.Function {
	f := handler(h)
	f.Schema = []byte(s)
	return f
}

func TestASchemaIsCompiledByValidate(t *testing.T) {
	for schema, want := range map[string]string{
		claimSchema: "", "{}": "", "true": "", `{"$ref": "https://json-schema.org/draft/2020-12/schema"}`: "",
		`{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "$ref": "#/definitions/a"}`: "",
		"":                                  "is not JSON: EOF",
		"{\n\"type\":\n}":                   "is not JSON: line 3: invalid character",
		"[]":                                "is no JSON Schema: got array, want boolean or object",
		`{"properties":{"a":{"type":"x"}}}`: "is no JSON Schema: at /properties/a/type: 'anyOf' failed, for one because value must be one of",
		`{"pattern":"(?=a)"}`:               "is no JSON Schema: at /pattern: '(?=a)' is not valid regex",
		`{"$ref":"#/$defs/a"}`:              `is no JSON Schema: json-pointer in "#/$defs/a" not found`,
		`{"$ref":"other.json"}`:             `refers to "other.json", and nothing is loaded; write it into the schema itself`,
		`{"$ref":"file:///etc/passwd"}`:     `refers to "file:///etc/passwd", and nothing is loaded`,
		`{"items":{"$ref":"http://localhost:1/x#/y"}}`: `refers to "http://localhost:1/x", and nothing is loaded`,
		`{"$schema":"https://example.com/own"}`:        `refers to "https://example.com/own", and nothing is loaded`,
	} {
		err := withSchema(schema, ignore).Validate()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: got %v, want it valid", schema, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), `schema: `+want) || len(err.Error()) > 500):
			t.Errorf("%s: got %v, want %q", schema, err, want)
		}
	}
}

func TestCheckDataNamesTheFirstViolation(t *testing.T) {
	f := withSchema(claimSchema, ignore).WithDefaults()
	long := strings.Repeat("x", 5000)
	for data, want := range map[string]functions.SchemaError{
		`{"policy":"7","date":"2026-01-02"}`:                               {},
		`{"policy":"7","date":"2026-01-02","a/b~c":[{"n":1.5}],"pay":"x"}`: {},
		`{"policy":"7"}`: {Reason: "missing property 'date'"},
		`{"policy":7,"date":"2026-01-02","cents":-1}`:                                     {Path: "/cents", Reason: "minimum: got -1, want 0"},
		`{"policy":"7","date":"yesterday"}`:                                               {Path: "/date", Reason: "'yesterday' is not valid date: "},
		`{"policy":"7","date":"2026-01-02","a/b~c":[{},{"n":1}]}`:                         {Path: "/a~1b~0c/1/n", Reason: "exclusiveMinimum: got 1, want 1"},
		`{"policy":"7","date":"2026-01-02","pay":{}}`:                                     {Path: "/pay", Reason: "'anyOf' failed, for one because got object, want string"},
		`{"policy":"7","date":"2026-01-02","cents":1e999999}`:                             {Path: "/cents", Reason: "the number 1e999999 is too long or too large"},
		`{"policy":"7","date":"2026-01-02","a/b~c":[{"n":1e99999999999999999999}]}`:       {Path: "/a~1b~0c/0/n", Reason: "the number 1e99999999999999999999 is too"},
		`{"policy":"7","date":"2026-01-02","cents":` + strings.Repeat("9", 100_000) + `}`: {Path: "/cents", Reason: "the number 999"},
		`{"policy":"` + long + `","date":"2026-01-02"}`:                                   {Path: "/policy", Reason: "'xxx"},
		`{"policy":"7","date":"2026-01-02"`:                                               {Reason: "the data is not JSON: unexpected EOF"},
		`{"policy":"7","date":"2026-01-02"} {}`:                                           {Reason: "the data is not JSON: "},
		` `:                                                                               {Reason: "the event has no data"},
		`null`:                                                                            {Reason: "got null, want object"},
	} {
		e := reported()
		e.DataEncoded = []byte(data)
		for range 20 { // the validator visits in the order of a map
			err := f.CheckData(e)
			if want == (functions.SchemaError{}) && err == nil {
				continue
			}
			got, ok := errors.AsType[*functions.SchemaError](err)
			if !ok || got.Path != want.Path || !strings.HasPrefix(got.Reason, want.Reason) || want.Reason == "" || len(got.Reason) > 210 {
				t.Errorf("%.80s: got %v, want %+v", data, err, want)
				break
			}
		}
	}
}

func TestASchemaIsForJSON(t *testing.T) {
	f := withSchema("true", ignore).WithDefaults()
	for kind, ok := range map[string]bool{
		"application/json": true, "Application/Vnd.X+JSON; charset=utf-8": true, "text/json": true, "": true, `application/json; charset`: true,
		"text/plain": false, "application/jsonl": false, "application/xml": false, "json": false,
	} {
		e := reported()
		e.SetDataContentType(kind)
		if err := f.CheckData(e); (err == nil) != ok {
			t.Errorf("%q: got %v, want ok %v", kind, err, ok)
		}
	}
	if err := f.CheckData(functions.Event{DataEncoded: []byte("1")}); err != nil {
		t.Errorf("without attributes: got %v, want it read as JSON", err)
	}
	if err := handler(ignore).CheckData(reported()); err != nil {
		t.Errorf("without a schema: got %v, want nil", err)
	}
	if err := withSchema("{", ignore).CheckData(reported()); err == nil || !strings.HasPrefix(err.Error(), "schema: is not JSON") {
		t.Errorf("with a broken schema: got %v, want an error about it", err)
	}
}

// The bytes may change after the function was made, and the functions that are made from one share what is compiled.
func TestTheSchemaInForceIsTheOneThatIsWritten(t *testing.T) {
	raw := []byte(`{"type":"object"}`)
	f := handler(ignore)
	f.Schema = raw
	f = f.WithDefaults()
	copy(raw, `{"type":"string"}`)
	if err := f.CheckData(reported()); err != nil {
		t.Errorf("got %v, want the schema as it was", err)
	}
	f.Schema = []byte(`{"type":"string"}`)
	if err := f.WithDefaults().CheckData(reported()); err == nil {
		t.Error("got nil, want the schema that was written last")
	}
	if err := f.CheckData(reported()); err == nil {
		t.Error("without WithDefaults: got nil, want the schema that was written last")
	}
}

func TestWhatViolatesTheSchemaIsUndecodableWithoutACall(t *testing.T) {
	called := false
	f := withSchema(claimSchema, func(context.Context, functions.Event) error { called = true; return nil })
	r := functionstest.Run(t, f, reported())
	bad, ok := errors.AsType[*functions.SchemaError](r.Err())
	if called || !r.Parked() || r.Class() != functions.ClassUndecodable || !ok || bad.Path != "" {
		t.Errorf("got %v, called %v; want it parked without a call", r, called)
	}
	if want := "data does not satisfy the schema: additional properties 'n' not allowed"; r.Err().Error() != want {
		t.Errorf("got %q, want %q", r.Err(), want)
	}
	good := functionstest.NewEvent("claim.reported", map[string]string{"policy": "7", "date": "2026-01-02"})
	if r := functionstest.Run(t, f, good); !r.Done() || !called {
		t.Errorf("got %v, called %v; want it done", r, called)
	}
}

// Compiling costs many times what checking does.
func TestASchemaIsNotCompiledForEachEvent(t *testing.T) {
	f := withSchema(claimSchema, ignore).WithDefaults()
	e := functionstest.NewEvent("claim.reported", map[string]string{"policy": "7", "date": "2026-01-02"})
	compiled := testing.AllocsPerRun(10, func() { _ = withSchema(claimSchema, ignore).CheckData(e) })
	ready := testing.AllocsPerRun(10, func() { _ = f.CheckData(e) })
	if ready*5 > compiled {
		t.Errorf("got %v allocations for one event, and %v with a compilation", ready, compiled)
	}
}

func TestSuspensionIsPartOfTheResult(t *testing.T) {
	cause := errors.New("contract ended")
	for name, err := range map[string]error{
		"plain": functions.Suspend(cause), "with a delay": functions.RetryAfter(time.Second, functions.Suspend(cause)),
		"within": functions.Unavailable(functions.Suspend(cause)), "around": functions.Suspend(functions.RetryAfter(time.Second, cause)),
	} {
		r := functions.ResultOf(err)
		if !r.Suspend || r.Outcome != functions.Retried || r.Class != functions.ClassUnavailable || !errors.Is(r.Err, cause) {
			t.Errorf("%s: got %+v, want a retry that suspends", name, r)
		}
	}
	if r := functions.ResultOf(functions.Park(functions.Suspend(cause))); r.Suspend || r.Outcome != functions.Parked {
		t.Errorf("parked around it: got %+v, want it parked alone", r)
	}
	if err := functions.Suspend(nil); err == nil || err.Error() != "function suspended by the handler" {
		t.Errorf("without a cause: got %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		e := event.New()
		f := handler(func(context.Context, functions.Event) error { return functions.Suspend(cause) })
		if r := functionstest.Run(t, f, e); !r.Suspended() || !r.Retried() || r.Done() {
			t.Errorf("got %v, want it suspended", r)
		}
	})
}
