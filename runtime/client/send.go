package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
)

// Send stores one event. It returns after the node's store has it.
func (c *Client) Send(ctx context.Context, e event.Event) (Accepted, error) {
	body, err := structured(e, false)
	if err != nil {
		return Accepted{}, err
	}
	return c.SendJSON(ctx, body)
}

// SendJSON stores one event in the CloudEvents JSON format. The node checks it.
func (c *Client) SendJSON(ctx context.Context, structured []byte) (Accepted, error) {
	return post[Accepted](ctx, c, http.MethodPost, "/events", "application/cloudevents+json", structured)
}

// SendBatch stores events in the CloudEvents JSON format. One bad event refuses
// the whole batch; the *[Problem] names its index.
func (c *Client) SendBatch(ctx context.Context, structured []json.RawMessage) ([]Accepted, error) {
	var body bytes.Buffer
	body.WriteByte('[')
	for i, e := range structured {
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(e)
	}
	body.WriteByte(']')
	return post[[]Accepted](ctx, c, http.MethodPost, "/events", "application/cloudevents-batch+json", body.Bytes())
}

// structured renders e in the JSON format with its data byte for byte, which
// neither the SDK (it writes data of application/*+json as a string) nor
// json.Marshal (it compacts raw values) does. In base64, which keeps the bytes
// too, it is one line whatever the data.
func structured(e event.Event, inBase64 bool) ([]byte, error) {
	envelope := map[string]any{"specversion": e.SpecVersion(), "id": e.ID(), "source": e.Source(), "type": e.Type()}
	for name, value := range map[string]string{
		"subject": e.Subject(), "datacontenttype": e.DataContentType(), "dataschema": e.DataSchema(),
	} {
		if value != "" {
			envelope[name] = value
		}
	}
	if !e.Time().IsZero() {
		// The SDK would write it in UTC, and the same event sent again with its own offset would be another one.
		at := e.Time()
		if _, offset := at.Zone(); offset%60 != 0 { // which RFC 3339 cannot write
			at = at.UTC()
		}
		text, err := at.MarshalText()
		if err != nil {
			return nil, fmt.Errorf("event %s: attribute time: %w", e.ID(), err)
		}
		envelope["time"] = string(text)
	}
	for name, value := range e.Extensions() {
		switch value.(type) {
		case bool, int32:
			envelope[name] = value
		default:
			text, err := types.Format(value)
			if err != nil {
				return nil, fmt.Errorf("event %s: attribute %s: %w", e.ID(), name, err)
			}
			envelope[name] = text
		}
	}
	data, raw := e.Data(), []byte(nil)
	switch {
	case len(data) == 0:
	case inBase64:
		envelope["data_base64"] = data
	case isJSON(e.DataContentType()) && json.Valid(data):
		raw = data
	case !isJSON(e.DataContentType()) && utf8.Valid(data):
		text, err := json.Marshal(string(data))
		if err != nil {
			return nil, err
		}
		raw = text
	default:
		envelope["data_base64"] = data
	}
	head, err := json.Marshal(envelope)
	if err != nil || raw == nil {
		return head, err
	}
	out := append(head[:len(head)-1], `,"data":`...)
	return append(append(out, raw...), '}'), nil
}
