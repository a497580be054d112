package streams

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// codecOverHTTP writes a request in HTTP/1.1, reads it as a server does, and gives it to FromHTTP.
func codecOverHTTP(req *http.Request) ([]event.Event, error) {
	var wire bytes.Buffer
	if err := req.Write(&wire); err != nil {
		return nil, err
	}
	received, err := http.ReadRequest(bufio.NewReader(&wire))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(received.Body)
	if err != nil {
		return nil, err
	}
	return FromHTTP(received.Header, body)
}

func TestFromHTTPReadsBinaryMode(t *testing.T) {
	for _, c := range []struct {
		header http.Header
		body   string
		want   map[string]string
	}{
		{
			http.Header{
				"Ce-Specversion": {"1.0"}, "Ce-Type": {"com.example.someevent"}, "Ce-Time": {"2018-04-05T03:56:24Z"}, "Ce-Id": {"1234-1234-1234"},
				"Ce-Source": {"/mycontext/subcontext"}, "Ce-Partitionkey": {"Euro%20%E2%82%AC"}, "Content-Type": {"application/json; charset=utf-8"}, "Content-Length": {"3"},
			},
			`{ }`,
			map[string]string{
				"type": "com.example.someevent", "time": "2018-04-05T03:56:24Z", "id": "1234-1234-1234", "source": "/mycontext/subcontext",
				"ext partitionkey": "Euro €", "datacontenttype": "application/json; charset=utf-8", "data": "{ }",
			},
		},
		{ // without a Content-Type the event has no datacontenttype; names in any case
			http.Header{"ce-specversion": {"1.0"}, "CE-TYPE": {"t"}, "ce-Id": {`"a b"`}, "Ce-source": {"/s"}},
			"\x00\x01",
			map[string]string{"type": "t", "id": "a b", "source": "/s", "data": "\x00\x01"},
		},
		{ // Content-Type is an ordinary header: its percent signs mean themselves
			http.Header{"Ce-Specversion": {"1.0"}, "Ce-Type": {"t"}, "Ce-Id": {"1"}, "Ce-Source": {"/s"}, "content-type": {`text/plain; x="100%25"`}},
			"",
			map[string]string{"type": "t", "id": "1", "source": "/s", "datacontenttype": `text/plain; x="100%25"`, "data": ""},
		},
	} {
		events, err := FromHTTP(c.header, []byte(c.body))
		if err != nil || len(events) != 1 {
			t.Errorf("%v: got %d events, %v", c.header, len(events), err)
			continue
		}
		if diff := cmp.Diff(c.want, codecView(t, events[0])); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestFromHTTPRefusesBadBinaryMode(t *testing.T) {
	for _, c := range []struct{ name, value, attribute string }{
		{"Ce-Specversion", "0.3", "specversion"},
		{"Ce-Id", "", "id"},
		{"Ce-Subject", "%C0%A0", "subject"},
		{"Ce-Subject", "%0D%0A", "subject"},
		{"Ce-Bad_name", "x", "bad_name"},
		{"Ce-Data", "x", "data"},
		{"Ce-Datacontenttype", "text/plain", "datacontenttype"},
		{"Content-Type", "garbage", "datacontenttype"},
	} {
		h := http.Header{"Ce-Specversion": {"1.0"}, "Ce-Type": {"t"}, "Ce-Id": {"1"}, "Ce-Source": {"/s"}, "Content-Type": {"text/plain"}}
		h[c.name] = []string{c.value}
		_, err := FromHTTP(h, nil)
		codecWantInvalid(t, err, c.attribute, "")
	}
	h := http.Header{"Ce-Specversion": {"1.0"}, "Ce-Type": {"t"}, "Ce-Id": {"1"}, "Ce-Source": {"/s"}, "Content-Type": {"text/plain", "text/html"}}
	_, err := FromHTTP(h, nil)
	codecWantInvalid(t, err, "datacontenttype", "")
	h.Del("Content-Type")
	h.Set("Ce-Datacontenttype", "text/plain")
	_, err = FromHTTP(h, nil)
	codecWantInvalid(t, err, "datacontenttype", "")
}

func TestFromHTTPReadsStructuredMode(t *testing.T) {
	body := ` {"specversion":"1.0","type":"t","id":"json","source":"/s","datacontenttype":"application/vnd.x+json","data": {"a": 1} } `
	for _, contentType := range []string{"application/cloudevents+json", "application/cloudevents+json; charset=utf-8", "APPLICATION/CloudEvents+JSON"} {
		// Attributes may be repeated as headers; the body rules.
		events, err := FromHTTP(http.Header{"Content-Type": {contentType}, "Ce-Id": {"header"}}, []byte(body))
		if err != nil || len(events) != 1 || events[0].ID() != "json" || string(events[0].Data()) != `{"a": 1}` {
			t.Errorf("%s: got %v, %v", contentType, events, err)
		}
	}
	_, err := FromHTTP(http.Header{"Content-Type": {"application/cloudevents+json"}}, []byte(`{"specversion":"1.0","type":"t","id":"1"}`))
	codecWantInvalid(t, err, "source", "$.source")
}

func TestFromHTTPReadsABatchAsAWhole(t *testing.T) {
	h := http.Header{"Content-Type": {"application/cloudevents-batch+json; charset=utf-8"}}
	good := `{"specversion":"1.0","type":"t","id":"1","source":"/s","data":[1, "]"]}`
	events, err := FromHTTP(h, []byte(" [ "+good+" , "+good+"] "))
	if err != nil || len(events) != 2 || string(events[1].Data()) != `[1, "]"]` {
		t.Fatalf("got %v, %v, want two events", events, err)
	}
	if events, err := FromHTTP(h, []byte("[]")); err != nil || events == nil || len(events) != 0 {
		t.Errorf("empty batch: got %v, %v, want no event and no error", events, err)
	}
	for _, c := range []struct {
		bad, attribute, path string
	}{
		{`{"specversion":"1.0","type":"t","source":"/s"}`, "id", "$[2].id"},
		{`{"specversion":"1.0","type":"t","id":"3","source":"/s","x":1.5}`, "x", "$[2].x"},
		{`{"specversion":"1.0","type":"t","id":"3","source":"/s","data_base64":"?"}`, "", "$[2].data_base64"},
		{`{"specversion":"0.3","type":"t","id":"3","source":"/s"}`, "specversion", "$[2].specversion"},
		{`"text"`, "", "$[2]"},
		{`[` + good + `]`, "", "$[2]"},
	} {
		events, err := FromHTTP(h, []byte("["+good+","+good+","+c.bad+","+c.bad+"]"))
		bad := codecWantInvalid(t, err, c.attribute, c.path)
		if bad.Index != 2 || events != nil || !strings.Contains(err.Error(), "event 2") {
			t.Errorf("%s: got index %d, %d events, %v, want index 2", c.bad, bad.Index, len(events), err)
		}
	}
	for _, body := range []string{good, "[" + good, "[" + good + "] x", "", "null"} {
		_, err := FromHTTP(h, []byte(body))
		if bad := codecWantInvalid(t, err, "", "$"); bad.Index != -1 {
			t.Errorf("%q: got index %d, want -1", body, bad.Index)
		}
	}
}

// functions-framework accepts such posts as events of undefined fields.
func TestRequestsThatAreNoEventAreUnsupportedMedia(t *testing.T) {
	for _, h := range []http.Header{
		{},
		{"Content-Type": {"application/json"}},
		{"Content-Type": {"text/plain"}, "X-Ce-Id": {"1"}},
		{"Content-Type": {"application/cloudevents+xml"}},
		{"Content-Type": {"application/cloudevents+avro"}, "Ce-Specversion": {"1.0"}, "Ce-Type": {"t"}, "Ce-Id": {"1"}, "Ce-Source": {"/s"}},
		{"Content-Type": {"application/cloudevents-batch+xml"}},
		{"Content-Type": {"application/cloudevents"}},
	} {
		_, err := FromHTTP(h, []byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t"}`))
		if !errors.Is(err, ErrUnsupportedMedia) || errors.Is(err, ErrNotEvent) {
			t.Errorf("%v: got %v, want ErrUnsupportedMedia", h, err)
		}
	}
}

func TestAttributesSurviveAnHTTPConnection(t *testing.T) {
	for _, value := range codecTrickyValues() {
		e, ec := codecEvent()
		ec.ID, ec.Subject, ec.Extensions = value, &value, map[string]any{"partitionkey": value}
		h, _, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com/events", strings.NewReader(value))
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range h {
			req.Header.Set(name, values[0])
		}
		e.DataEncoded = []byte(value)
		events, err := codecOverHTTP(req)
		if err != nil || len(events) != 1 {
			t.Errorf("%q: got %d events, %v", value, len(events), err)
			continue
		}
		if diff := cmp.Diff(codecView(t, e), codecView(t, events[0])); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
	}
}

// The SDK is the peer most senders use. It writes attributes raw, so only what needs no encoding can be compared.
func TestEventsOfTheSDKsHTTPEncoderArriveEqual(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := codecRandomEvent(rt)
		ec := e.Context.(*event.EventContextV1)
		plain := rapid.StringMatching(`[A-Za-z0-9./:-][A-Za-z0-9 ./:;,=_-]{0,10}[A-Za-z0-9]`)
		ec.ID, ec.Type = plain.Draw(rt, "plain id"), plain.Draw(rt, "plain type")
		if ec.Subject != nil {
			*ec.Subject = plain.Draw(rt, "plain subject")
		}
		for name, v := range ec.Extensions {
			if _, ok := v.(string); ok {
				ec.Extensions[name] = plain.Draw(rt, "plain "+name)
			}
		}
		e.SetSource(rapid.SampledFrom([]string{"/s", "https://example.com/a?b=c", "urn:x:y"}).Draw(rt, "plain source"))
		ctx := t.Context()
		structured := rapid.Bool().Draw(rt, "structured")
		if structured {
			// The SDK mangles data of application/*+json in this mode (sdk-go#1161), so base64 it is.
			ctx, e.DataBase64 = binding.WithForceStructured(ctx), true
		} else {
			ctx = binding.WithForceBinary(ctx)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://example.com/events", nil)
		if err != nil {
			rt.Fatal(err)
		}
		if err := cehttp.WriteRequest(ctx, (*binding.EventMessage)(&e), req); err != nil {
			rt.Fatal(err)
		}
		events, err := codecOverHTTP(req)
		if err != nil || len(events) != 1 {
			rt.Fatalf("got %d events, %v", len(events), err)
		}
		if diff := cmp.Diff(codecView(rt, e), codecView(rt, events[0])); diff != "" {
			rt.Fatalf("(-sent +received):\n%s", diff)
		}
	})
}

func TestEventsOfTheSDKsBatchEncoderArriveEqual(t *testing.T) {
	first, second := event.New(), event.New()
	for i, e := range []*event.Event{&first, &second} {
		e.SetID([]string{"1", "2"}[i])
		e.SetSource("/s")
		e.SetType("t")
		e.SetExtension("n", 5)
		if err := e.SetData("application/json", map[string]string{"euro": "€"}); err != nil {
			t.Fatal(err)
		}
	}
	req, err := cehttp.NewHTTPRequestFromEvents(t.Context(), "http://example.com/events", []event.Event{first, second})
	if err != nil {
		t.Fatal(err)
	}
	events, err := codecOverHTTP(req)
	if err != nil || len(events) != 2 {
		t.Fatalf("got %d events, %v, want 2", len(events), err)
	}
	for i, sent := range []event.Event{first, second} {
		if diff := cmp.Diff(codecView(t, sent), codecView(t, events[i])); diff != "" {
			t.Errorf("event %d (-sent +received):\n%s", i, diff)
		}
	}
}

func FuzzFromHTTP(f *testing.F) {
	f.Add("Ce-Specversion: 1.0\nCe-Id: 1\nCe-Source: /s\nCe-Type: t\nContent-Type: text/plain", []byte("x"))
	f.Add("Content-Type: application/cloudevents+json", []byte(`{"specversion":"1.0","id":"1","source":"a:B#","type":"t","data":"x","datacontenttype":"text/plain"}`))
	f.Add("Content-Type: application/cloudevents-batch+json", []byte(`[{"specversion":"1.0","id":"1","source":"/s","type":"t","data":[{}]},{"specversion":"1.0","id":"2","source":"/s","type":"t","data_base64":"AA=="}]`))
	f.Fuzz(func(t *testing.T, lines string, body []byte) {
		events, err := FromHTTP(codecHeader(lines), body)
		if err != nil {
			if !errors.Is(err, ErrNotEvent) && !errors.Is(err, ErrUnsupportedMedia) {
				t.Fatalf("got %v, want ErrNotEvent or ErrUnsupportedMedia", err)
			}
			return
		}
		for _, e := range events {
			codecCheckReencodes(t, e)
			h, stored, _ := Encode(e)
			codecCheckAttributes(t, h, stored, e)
		}
	})
}
