package functions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/siding-dev/siding/functions"
)

type claim struct {
	N int `json:"n"`
}

// maybe decodes a null by itself.
type maybe struct{ null bool }

func (m *maybe) UnmarshalJSON(raw []byte) error {
	m.null = bytes.Equal(raw, []byte("null"))
	return nil
}

// decode invokes a typed handler with data and returns what it was given.
func decode[T any](t *testing.T, data string) (got T, called bool, r functions.Result) {
	t.Helper()
	e := reported()
	e.DataEncoded = []byte(data)
	r = functions.Invoke(t.Context(), handler(functions.Typed(func(_ context.Context, in T) error {
		got, called = in, true
		return nil
	})), e)
	return got, called, r
}

func TestTypedDecodes(t *testing.T) {
	if got, _, r := decode[claim](t, ` {"n":7,"unknown":true}`); got.N != 7 || r.Outcome != functions.Done {
		t.Errorf("struct: got %+v, %+v", got, r)
	}
	if got, _, r := decode[*claim](t, `{"n":7}`); got == nil || got.N != 7 || r.Outcome != functions.Done {
		t.Errorf("pointer: got %+v, %+v", got, r)
	}
	for _, nothing := range []string{"", "  \n", "null"} {
		if got, called, r := decode[*claim](t, nothing); got != nil || !called || r.Outcome != functions.Done {
			t.Errorf("pointer without data: got %+v, called %v, %+v; want nil", got, called, r)
		}
	}
	if got, called, _ := decode[[]int](t, "null"); got != nil || !called {
		t.Errorf("slice of null: got %v, called %v; want nil", got, called)
	}
	if got, _, _ := decode[json.RawMessage](t, "null"); string(got) != "null" {
		t.Errorf("raw: got %q, want null", got)
	}
	if got, _, _ := decode[maybe](t, "null"); !got.null {
		t.Errorf("own decoder: got %+v, want it asked", got)
	}
}

func TestTypedParksWhatDoesNotDecode(t *testing.T) {
	for _, data := range []string{"", "null", "{", `{"n":"seven"}`, `[1]`, `{"n":7} {"n":8}`, "\xff", "<claim/>"} {
		_, called, r := decode[claim](t, data)
		if called || r.Outcome != functions.Parked || r.Class != functions.ClassUndecodable {
			t.Errorf("%q: got %+v, called %v; want it parked as undecodable, not called", data, r, called)
			continue
		}
		if text := r.Err.Error(); !strings.HasPrefix(text, `data of "com.insurer.claim.reported" as functions_test.claim: `) {
			t.Errorf("%q: got %q, want the type and what it was to be", data, text)
		}
	}
	if _, called, r := decode[map[string]int](t, ""); called || r.Class != functions.ClassUndecodable {
		t.Errorf("map without data: got %+v, called %v; want undecodable", r, called)
	}
	_, _, r := decode[claim](t, "{")
	if _, ok := errors.AsType[*json.SyntaxError](r.Err); !ok {
		t.Errorf("got %v, want the decoder's error within", r.Err)
	}
}

func TestTypedPassesTheHandlersErrorOn(t *testing.T) {
	f := handler(functions.Typed(func(ctx context.Context, c claim) error {
		if got := functions.EventFrom(ctx).Extensions()["tenant"]; got != "t1" {
			t.Errorf("extension: got %v, want t1", got)
		}
		return functions.Discard(io.EOF)
	}))
	if got := functions.Invoke(t.Context(), f, reported()); got.Outcome != functions.Discarded || !errors.Is(got.Err, io.EOF) {
		t.Errorf("got %+v, want it discarded", got)
	}
}
