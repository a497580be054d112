package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
)

// maxExportLine bounds one line of an export: an event as large as a NATS
// message may be, in base64, with what the node says about it.
const maxExportLine = 128 << 20

// Exported is a dead letter with the event that its sender sent.
type Exported struct {
	DeadLetter
	// Event is the CloudEvent in the JSON format on one line: its own attributes,
	// and its data byte for byte. It is nil for what is no CloudEvent.
	Event json.RawMessage `json:"event,omitempty"`
	// NotEvent says why there is no Event.
	NotEvent string `json:"not_event,omitempty"`
}

// ExportEnd is the last line of an export: without it the answer was cut.
type ExportEnd struct {
	// Total is how many lines came before it, if the export is whole.
	Total *int `json:"total,omitempty"`
	// Problem is why it is not.
	Problem *Problem `json:"problem,omitempty"`
}

// Export calls yield for every dead letter that q selects, with its event, by
// function and sequence: the order in which they must be sent again. Limit and
// After are not used. It returns nil only if the node has sent them all. A node
// that is silent for three heartbeats is given up as unreachable.
func (c *Client) Export(ctx context.Context, q DeadLetterQuery, yield func(Exported) error) error {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(3*HeartbeatInterval, cancel)
	defer silence.Stop()
	resp, err := c.do(bounded, http.MethodGet, "/api/v1/dlq/export?"+q.values().Encode(), "", nil)
	if err != nil {
		return c.tailFailure(ctx, bounded, err)
	}
	defer resp.Body.Close()
	if err := problemIn(resp); err != nil {
		return err
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxExportLine)
	for got := 0; lines.Scan(); {
		silence.Reset(3 * HeartbeatInterval)
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var read struct {
			Exported
			ExportEnd
		}
		if err := json.Unmarshal(line, &read); err != nil {
			return c.failure(ctx, fmt.Errorf("a line of the export is not JSON: %w", err))
		}
		switch {
		case read.Problem != nil:
			return read.Problem
		case read.Total != nil && *read.Total != got:
			return c.failure(ctx, fmt.Errorf("the export is cut: got %d of %d dead letters", got, *read.Total))
		case read.Total != nil:
			return nil
		}
		got++
		if err := yield(read.Exported); err != nil {
			return err
		}
	}
	err = lines.Err()
	if err == nil {
		err = errors.New("the export is cut: the server ended it early")
	}
	return c.tailFailure(ctx, bounded, err)
}

// Line returns e as a line of the export, without its end. The event goes byte
// for byte, where encoding/json would compact it.
func (e Exported) Line() ([]byte, error) {
	raw := e.Event
	e.Event = nil
	head, err := json.Marshal(e)
	if err != nil || raw == nil {
		return head, err
	}
	head = append(head[:len(head)-1], `,"event":`...)
	return append(append(head, raw...), '}'), nil
}

// EventLine renders an event in the JSON format on one line with its data byte
// for byte. JSON data that spans lines goes as base64.
func EventLine(e event.Event) ([]byte, error) {
	line, err := structured(e, false)
	if err != nil || !bytes.ContainsAny(line, "\r\n") {
		return line, err
	}
	return structured(e, true)
}

// The extension attributes that [Exported.WithReason] adds.
const (
	ExtensionDeadLetter = "sidingdeadletter"
	ExtensionCause      = "sidingcause"
	ExtensionClass      = "sidingclass"
	ExtensionCode       = "sidingcode"
	ExtensionError      = "sidingerror"
	ExtensionAttempts   = "sidingattempts"
	ExtensionParkedAt   = "sidingparkedat"
	ExtensionTraceID    = "sidingtraceid"
)

// WithReason returns the event with what its sender must know to repair it, as
// extension attributes: which dead letter, the cause, and class, code and error
// of the last attempt. An event with them is another event than the one that
// was sent: a node that still remembers that one refuses it as a conflict.
func (e Exported) WithReason() (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(e.Event, &members); err != nil {
		return nil, fmt.Errorf("dead letter %s: event: %w", e.ID, err)
	}
	for _, x := range [][2]string{
		{ExtensionDeadLetter, e.ID}, {ExtensionCause, e.Cause}, {ExtensionClass, e.Class}, {ExtensionCode, printable(e.Code)},
		{ExtensionError, printable(e.Error)}, {ExtensionParkedAt, instant(e.ParkedAt)}, {ExtensionTraceID, e.TraceID},
	} {
		delete(members, x[0])
		if x[1] == "" {
			continue
		}
		text, err := json.Marshal(x[1])
		if err != nil {
			return nil, err
		}
		members[x[0]] = text
	}
	members[ExtensionAttempts] = fmt.Append(nil, e.Attempts)
	return object(members), nil
}

// maxReason bounds a text among the extension attributes, in bytes.
const maxReason = 1 << 10

// printable makes a text of a handler fit for an attribute, which may hold no
// control characters.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x20, r >= 0x7f && r < 0xa0, r >= 0xfdd0 && r <= 0xfdef, r&0xfffe == 0xfffe, r == utf8.RuneError:
			r = ' '
		}
		if b.Len()+utf8.RuneLen(r) > maxReason {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// object writes members by name, each value as it is.
func object(members map[string]json.RawMessage) []byte {
	out := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(fmt.Appendf(out, "%q:", name), members[name]...) // attribute names are a-z and 0-9
	}
	return append(out, '}')
}
