package runtime

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

func TestExportedEventsAreThoseThatWereSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{
			w.function(functions.Function{}, always, func(context.Context, string, functions.Attempt) error { return functions.Park(errNo) }),
		})
		<-l.host.started
		var sent []functions.Event
		for _, data := range []struct{ contentType, data string }{
			{"application/json", `{"b": 1,  "a":"<é>"}`}, {"application/json", "{\n\t\"a\": 1\r\n}"}, {"application/vnd.x+json; charset=utf-8", `[1, 2]`},
			{"text/plain", "a \"b\"\n"}, {"application/octet-stream", "\xff\x00"}, {"application/json", `{"cut`}, {"", ""},
		} {
			e := newEvent(string(rune('a' + len(sent))))
			e.DataEncoded = []byte(data.data)
			e.SetDataContentType(data.contentType)
			if data.contentType == "" {
				e.DataEncoded = nil
				e.SetDataContentType("text/plain")
			}
			e.SetExtension("partitionkey", "policy € "+e.ID()) // one lane each, or they would be held
			e.SetSubject("s")
			e.SetTime(time.Date(2026, 1, 2, 3, 4, 5, 100, time.FixedZone("east", 7200)))
			sent = append(sent, e)
			l.sendEvent(e)
		}
		l.publish("events.t", nats.Header{"ce-id": {"only"}}, []byte("\x00raw"))
		l.settle("f")
		var got []client.Exported
		if err := l.runtime().export(t.Context(), deadLetterQuery{}, func(e client.Exported) error { got = append(got, e); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(sent)+1 {
			t.Fatalf("got %d dead letters, want %d", len(got), len(sent)+1)
		}
		for i, e := range got[:len(sent)] {
			for what, line := range map[string]func() (json.RawMessage, error){
				"as sent": func() (json.RawMessage, error) { return e.Event, nil }, "with reason": e.WithReason,
			} {
				text, err := line()
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range text {
					if c == '\n' || c == '\r' {
						t.Errorf("event %d %s: got %q, want one line", i, what, text)
					}
				}
				read, err := streams.Decode(nats.Header{"content-type": {"application/cloudevents+json"}}, text)
				if err != nil {
					t.Errorf("event %d %s: %v in %s", i, what, err, text)
					continue
				}
				if what == "with reason" {
					x := read.Extensions()
					if x[client.ExtensionCause] != "permanent" || x[client.ExtensionError] != "no" || x[client.ExtensionDeadLetter] != e.ID || x[client.ExtensionAttempts] != "1" {
						t.Errorf("event %d: got extensions %v, want why it was parked", i, x)
					}
					continue
				}
				if !streams.Same(sent[i], read) {
					t.Errorf("event %d: got %s, want what was sent: %s", i, text, sent[i])
				}
			}
		}
		last := got[len(sent)]
		if last.Event != nil || last.NotEvent == "" || last.Cause != "undecodable" {
			t.Errorf("got %+v, want it named as no event", last)
		}
		n := 0
		if err := l.runtime().export(t.Context(), deadLetterQuery{Cause: "undecodable"}, func(client.Exported) error { n++; return nil }); err != nil || n != 1 {
			t.Errorf("by cause: got %d and %v, want 1", n, err)
		}
	})
}
