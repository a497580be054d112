package functions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/cloudevents/sdk-go/v2/types"
)

// Headers with the facts of an attempt.
const (
	headerAttempt = "Siding-Attempt"
	headerCycle   = "Siding-Cycle"
)

// request renders the event in HTTP binary mode. An error says that this event
// can never be sent.
func (p *poster) request(ctx context.Context, e Event) (*http.Request, error) {
	if e.Context == nil {
		return nil, errors.New("the event has no attributes")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(e.Data()))
	if err != nil {
		return nil, err
	}
	req.Header = p.header.Clone()
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "siding")
	}
	if err := setContentType(req.Header, e.DataContentType()); err != nil {
		return nil, err
	}
	if err := setAttributes(req.Header, e); err != nil {
		return nil, err
	}
	if a := AttemptFrom(ctx); a.Number > 0 {
		req.Header.Set(headerAttempt, strconv.Itoa(a.Number))
		req.Header.Set(headerCycle, strconv.Itoa(a.Cycle))
	}
	if t := TraceFrom(ctx); t.Parent != "" {
		req.Header.Set("traceparent", t.Parent)
		req.Header.Del("tracestate")
		if t.State != "" {
			req.Header.Set("tracestate", t.State)
		}
	}
	return req, nil
}

func setContentType(header http.Header, value string) error {
	const family = "application/cloudevents"
	switch {
	case value == "":
		header.Del("Content-Type")
		return nil
	case len(value) >= len(family) && strings.EqualFold(value[:len(family)], family):
		return fmt.Errorf("datacontenttype %q: a receiver would read the data as the event itself: hint: send such data under another type, or handle it in Go", value)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("datacontenttype %q: has control characters, which no Content-Type may have", value)
	}
	header.Set("Content-Type", value)
	return nil
}

// setAttributes writes every attribute but datacontenttype, which has a header
// of its own.
func setAttributes(header http.Header, e Event) error {
	set := func(name, value string) {
		if value != "" {
			header.Set("ce-"+name, percentEncode(value))
		}
	}
	set("specversion", e.SpecVersion())
	set("id", e.ID())
	set("source", e.Source())
	set("type", e.Type())
	set("subject", e.Subject())
	set("dataschema", e.DataSchema())
	if t := e.Time(); !t.IsZero() {
		// RFC 3339 offsets have no seconds, which local mean times of the 19th century need.
		if _, offset := t.Zone(); offset%60 != 0 {
			t = t.UTC()
		}
		text, err := t.MarshalText()
		if err != nil {
			return fmt.Errorf("time: %w", err)
		}
		set("time", string(text))
	}
	for name, value := range e.Extensions() {
		text, err := types.Format(value)
		if err != nil {
			return fmt.Errorf("extension %s: %w", name, err)
		}
		set(name, text)
	}
	return nil
}

// percentEncode is the header form of an attribute's value: space, `"`, `%` and
// every byte outside U+0021 to U+007E become %XX. Package streams, which is a
// leaf as this one is, has the same rule for the headers of NATS.
func percentEncode(value string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(value) {
		c := value[i]
		if c <= ' ' || c == '"' || c == '%' || c > '~' {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
