package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Typed makes a handler of a function that takes the event's data, decoded from
// JSON by encoding/json, instead of the event; [EventFrom] gives it the event.
// The datacontenttype is not asked: what decodes is accepted.
//
// Data that does not decode as T parks the event as undecodable, without a
// call of fn and without a retry. So does absent data (no bytes, or a JSON null
// that would leave T untouched), because an fn that wants a claim must not
// be given an empty one; a pointer for T takes absent data as nil.
func Typed[T any](fn func(ctx context.Context, data T) error) Handler {
	t := reflect.TypeFor[T]()
	isPointer := t.Kind() == reflect.Pointer
	// Null has a meaning of its own for these, so it is left to the decoder.
	_, decodesItself := any(new(T)).(json.Unmarshaler)
	takesNull := decodesItself || isPointer ||
		t.Kind() == reflect.Map || t.Kind() == reflect.Slice || t.Kind() == reflect.Interface

	return func(ctx context.Context, e Event) error {
		var data T
		err := func() error {
			raw := bytes.TrimSpace(e.Data())
			switch {
			case len(raw) == 0 && isPointer:
				return nil
			case len(raw) == 0:
				return errors.New("the event has no data")
			case !takesNull && string(raw) == "null":
				return errors.New("the data is null")
			}
			return json.Unmarshal(raw, &data)
		}()
		if err != nil {
			return Undecodable(fmt.Errorf("data of %q as %v: %w", e.Type(), t, err))
		}
		return fn(ctx, data)
	}
}
