package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// notJSONError is an event of a file, counted from 1, that is not JSON.
type notJSONError struct {
	event int
	err   error
}

func (e *notJSONError) Error() string { return fmt.Sprintf("event %d: %v", e.event, e.err) }

func (e *notJSONError) Unwrap() error { return e.err }

// eachEvent calls yield for every JSON value of a stream that is one value, an
// array of them, or one after the other. It holds one value at a time.
func eachEvent(in io.Reader, yield func(json.RawMessage) error) error {
	buffered := bufio.NewReader(in)
	dec := json.NewDecoder(buffered)
	count := 0
	one := func() error {
		count++
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			if errors.Is(err, io.EOF) {
				return io.EOF
			}
			return &notJSONError{count, err}
		}
		return yield(raw)
	}
	array, err := startsArray(buffered)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	if !array {
		for {
			if err := one(); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
		}
	}
	if _, err := dec.Token(); err != nil {
		return &notJSONError{1, err}
	}
	for dec.More() {
		err := one()
		if errors.Is(err, io.EOF) {
			return &notJSONError{count, io.ErrUnexpectedEOF}
		}
		if err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return &notJSONError{count + 1, err}
	}
	return nil
}

// startsArray skips white space and reports whether an array follows.
func startsArray(in *bufio.Reader) (bool, error) {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return false, err
		}
		switch b {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return b == '[', in.UnreadByte()
	}
}
