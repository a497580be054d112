package streams

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"
)

// sdk-go#1334, #814: names, datacontenttype and value encoding as the NATS binding has them.
func TestEncodeWritesTheNATSBinding(t *testing.T) {
	e, ec := codecEvent()
	subject, contentType := "Euro € 😀", "application/json; charset=utf-8"
	ec.ID, ec.Type = "1234-1234-1234", "com.example.someevent"
	ec.Subject, ec.DataContentType = &subject, &contentType
	ec.Source = types.URIRef{URL: url.URL{Path: "/mycontext/subcontext"}}
	ec.Time = &types.Timestamp{Time: time.Date(2018, 4, 5, 3, 56, 24, 0, time.UTC)}
	ec.DataSchema = &types.URI{URL: url.URL{Scheme: "https", Host: "example.com", Path: "/schema"}}
	ec.Extensions = map[string]any{"partitionkey": `50% "off"`}
	e.DataEncoded = []byte(`{"a": 1}`)
	h, body, err := Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	want := nats.Header{
		"ce-specversion":     {"1.0"},
		"ce-id":              {"1234-1234-1234"},
		"ce-source":          {"/mycontext/subcontext"},
		"ce-type":            {"com.example.someevent"},
		"ce-subject":         {"Euro%20%E2%82%AC%20%F0%9F%98%80"},
		"ce-time":            {"2018-04-05T03:56:24Z"},
		"ce-dataschema":      {"https://example.com/schema"},
		"ce-datacontenttype": {"application/json;%20charset=utf-8"},
		"ce-partitionkey":    {"50%25%20%22off%22"},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	if string(body) != `{"a": 1}` {
		t.Errorf("body: got %q, want the data", body)
	}
	// A value added to one header must not land in the next one, although all share one array.
	h.Add("ce-id", "second")
	if got := h.Get("ce-source"); got != "/mycontext/subcontext" {
		t.Errorf("source after adding to id: got %q", got)
	}
}

// The SDK reads canonical-case headers as structured mode and finds no specversion.
func TestHeaderNamesMayHaveAnyCase(t *testing.T) {
	for _, names := range [][]string{
		{"ce-specversion", "ce-id", "ce-source", "ce-type", "ce-partitionkey", "ce-datacontenttype"},
		{"Ce-Specversion", "Ce-Id", "Ce-Source", "Ce-Type", "Ce-Partitionkey", "Ce-Datacontenttype"},
		{"CE-SPECVERSION", "CE-ID", "CE-SOURCE", "CE-TYPE", "CE-PARTITIONKEY", "CE-DATACONTENTTYPE"},
		{"Ce-Specversion", "CE-ID", "ce-source", "ce-type", "cE-PartitionKey", "ce-DataContentType"},
	} {
		h := nats.Header{}
		for i, value := range []string{"1.0", "1", "/s", "t", "k%20k", "text/plain"} {
			h.Set(names[i], value)
		}
		e, err := Decode(h, []byte("x"))
		if err != nil {
			t.Errorf("%v: %v", names, err)
			continue
		}
		want := map[string]string{"id": "1", "source": "/s", "type": "t", "ext partitionkey": "k k", "datacontenttype": "text/plain", "data": "x"}
		if diff := cmp.Diff(want, codecView(t, e)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", names, diff)
		}
		a, err := ReadAttributes(h, nil)
		if err != nil || a.ID() != "1" || a.Source() != "/s" || a.Type() != "t" || a.Get("partitionkey") != "k k" {
			t.Errorf("%v: attributes %+v, %v", names, a, err)
		}
	}
}

func TestModeIsToldByContentType(t *testing.T) {
	body := []byte(`{"specversion":"1.0","id":"json","source":"/s","type":"t"}`)
	headers := func(contentType ...string) nats.Header {
		h := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"header"}, "ce-source": {"/s"}, "ce-type": {"t"}}
		for i := 0; i < len(contentType); i += 2 {
			h.Set(contentType[i], contentType[i+1])
		}
		return h
	}
	for _, c := range []struct {
		header nats.Header
		want   string
	}{
		{headers(), "header"},
		{headers("Content-Type", "application/json"), "header"},
		{headers("Content-Type", "text/cloudevents"), "header"},
		{headers("Content-Type", "application/cloudevents+json"), "json"},
		{headers("content-type", "application/cloudevents+json"), "json"},
		{headers("CONTENT-TYPE", " Application/CloudEvents+JSON ; charset=UTF-8"), "json"},
	} {
		e, err := Decode(c.header, body)
		if err != nil || e.ID() != c.want {
			t.Errorf("%v: got %q, %v, want %q", c.header, e.ID(), err, c.want)
		}
		if a, err := ReadAttributes(c.header, body); err != nil || a.ID() != c.want {
			t.Errorf("%v: attributes: got %q, %v, want %q", c.header, a.ID(), err, c.want)
		}
	}
	// NATS has no batch mode, and XML is a format we do not read.
	for _, contentType := range []string{"application/cloudevents-batch+json", "application/cloudevents+xml", "application/cloudevents"} {
		_, err := Decode(headers("Content-Type", contentType), body)
		codecWantInvalid(t, err, "", "")
		_, err = ReadAttributes(headers("Content-Type", contentType), body)
		codecWantInvalid(t, err, "", "")
	}
}

func TestDataContentTypeOverNATSComesFromItsOwnHeader(t *testing.T) {
	for _, c := range []struct{ own, plain, want string }{
		{"", "", ""},
		{"text/plain", "", "text/plain"},
		{"text/plain", "application/json", "text/plain"},
		{"", "application/xml", "application/xml"}, // senders that treat NATS like HTTP
		{"", "nonsense", ""},                       // no attribute, so not checked as one
	} {
		h := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/s"}, "ce-type": {"t"}}
		if c.own != "" {
			h.Set("ce-datacontenttype", c.own)
		}
		if c.plain != "" {
			h.Set("Content-Type", c.plain)
		}
		e, err := Decode(h, nil)
		if err != nil || e.DataContentType() != c.want {
			t.Errorf("%+v: got %q, %v", c, e.DataContentType(), err)
		}
		if a, err := ReadAttributes(h, nil); err != nil || a.Get("datacontenttype") != c.want {
			t.Errorf("%+v: attributes: got %q, %v", c, a.Get("datacontenttype"), err)
		}
	}
}

func TestDecodeRefusesByName(t *testing.T) {
	for _, c := range []struct {
		change    func(h nats.Header)
		attribute string
	}{
		{func(h nats.Header) { h.Del("ce-specversion") }, "specversion"},
		{func(h nats.Header) { h.Set("ce-specversion", "0.3") }, "specversion"},
		{func(h nats.Header) { h.Del("ce-id") }, "id"},
		{func(h nats.Header) { h.Set("ce-id", "") }, "id"},
		{func(h nats.Header) { h.Set("ce-id", "%C0%A0") }, "id"}, // overlong space
		{func(h nats.Header) { h.Set("ce-id", "\xff") }, "id"},
		{func(h nats.Header) { h.Set("Ce-Id", "2") }, "id"},
		{func(h nats.Header) { h.Add("ce-id", "1") }, "id"},
		{func(h nats.Header) { h.Set("ce-key", "1"); h.Set("Ce-Key", "1") }, "key"},
		{func(h nats.Header) { h.Del("ce-source") }, "source"},
		{func(h nats.Header) { h.Set("ce-source", "://") }, "source"},
		{func(h nats.Header) { h.Del("ce-type") }, "type"},
		{func(h nats.Header) { h.Set("ce-subject", "") }, "subject"},
		{func(h nats.Header) { h.Set("ce-subject", "%C2%80") }, "subject"}, // C1
		{func(h nats.Header) { h.Set("ce-subject", "a%0Ab") }, "subject"},
		{func(h nats.Header) { h.Set("ce-subject", "%EF%BF%BE") }, "subject"}, // noncharacter
		{func(h nats.Header) { h.Set("ce-subject", "%ED%A0%80") }, "subject"}, // surrogate
		{func(h nats.Header) { h.Set("ce-time", "noon") }, "time"},
		{func(h nats.Header) { h.Set("ce-time", "") }, "time"},
		{func(h nats.Header) { h.Set("ce-dataschema", "/relative") }, "dataschema"},
		{func(h nats.Header) { h.Set("ce-dataschema", "") }, "dataschema"},
		{func(h nats.Header) { h.Set("ce-datacontenttype", "json") }, "datacontenttype"},
		{func(h nats.Header) { h.Set("ce-bad_name", "x") }, "bad_name"},
		{func(h nats.Header) { h.Set("ce-", "x") }, ""},
		{func(h nats.Header) { h.Set("ce-\u212Aey", "x") }, "\u212Aey"}, // Kelvin sign, a k to strings.ToLower
		{func(h nats.Header) { h.Set("ce-data", "x") }, "data"},
		{func(h nats.Header) { h.Set("ce-data_base64", "eA==") }, "data_base64"},
		{func(h nats.Header) { h.Set("ce-zzz", "\n"); h.Set("ce-aaa", "%0A"); h.Set("ce-mmm", "\r") }, "aaa"},
	} {
		h := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/s"}, "ce-type": {"t"}}
		c.change(h)
		_, err := Decode(h, []byte("x"))
		bad := codecWantInvalid(t, err, c.attribute, "")
		if bad.Index != -1 || bad.Path != "" {
			t.Errorf("%v: got index %d, path %q, want -1 and none", h, bad.Index, bad.Path)
		}
	}
}

// ThreeDotsLabs/watermill#184: bytes that are no event must be told apart for good, not retried.
func TestBytesThatAreNoEventAreRefused(t *testing.T) {
	for _, h := range []nats.Header{nil, {}, {"X-Other": {"1"}}, {"Content-Type": {"application/json"}}, {"ce-id": {}}} {
		for _, body := range []string{"", "\x00\xff", `{"some":"json"}`} {
			_, err := Decode(h, []byte(body))
			codecWantInvalid(t, err, "", "")
			_, err = ReadAttributes(h, []byte(body))
			codecWantInvalid(t, err, "", "")
		}
	}
}

// The SDK's Validate lets CR and LF through, and nats.go then turns them into spaces.
func TestEncodeRefusesControlCharactersAndBadText(t *testing.T) {
	for _, value := range []string{"a\nb", "a\rb", "\x00", "\x1f", "\x7f", "\u0080", "\u009f", "\xff", "\uFDD0", "\U0001FFFF"} {
		for _, attribute := range []string{"id", "type", "subject", "extra", "datacontenttype"} {
			e, ec := codecEvent()
			switch attribute {
			case "id":
				ec.ID = value
			case "type":
				ec.Type = value
			case "subject":
				ec.Subject = &value
			case "datacontenttype":
				ec.DataContentType = &value
			default:
				ec.Extensions = map[string]any{attribute: value}
			}
			codecWantRefusal(t, e, attribute)
		}
	}
}

func TestEncodeRefusesByName(t *testing.T) {
	empty := ""
	for _, c := range []struct {
		change    func(e *event.Event, ec *event.EventContextV1)
		attribute string
	}{
		{func(e *event.Event, _ *event.EventContextV1) { e.Context = nil }, "specversion"},
		{func(e *event.Event, _ *event.EventContextV1) { e.Context = (*event.EventContextV1)(nil) }, "specversion"},
		{func(e *event.Event, _ *event.EventContextV1) { e.SetSpecVersion("0.3") }, "specversion"},
		{func(_ *event.Event, ec *event.EventContextV1) { ec.ID = "" }, "id"},
		{func(_ *event.Event, ec *event.EventContextV1) { ec.Source = types.URIRef{} }, "source"},
		{func(_ *event.Event, ec *event.EventContextV1) { ec.Type = "" }, "type"},
		{func(_ *event.Event, ec *event.EventContextV1) { ec.Subject = &empty }, "subject"},
		{func(_ *event.Event, ec *event.EventContextV1) { ec.DataContentType = &empty }, "datacontenttype"},
		{func(_ *event.Event, ec *event.EventContextV1) {
			ec.DataSchema = &types.URI{URL: url.URL{Path: "/relative"}}
		}, "dataschema"},
		{func(_ *event.Event, ec *event.EventContextV1) { ec.Extensions = map[string]any{"Upper": "x"} }, "Upper"},
		{func(_ *event.Event, ec *event.EventContextV1) { ec.Extensions = map[string]any{"id": "x"} }, "id"},
		{func(_ *event.Event, ec *event.EventContextV1) { ec.Extensions = map[string]any{"data": "x"} }, "data"},
		{func(e *event.Event, _ *event.EventContextV1) { e.SetExtension("bad_name", "x") }, "bad_name"},
		{func(e *event.Event, _ *event.EventContextV1) { e.SetExtension("big", int64(99999999999)) }, "big"},
		{func(e *event.Event, _ *event.EventContextV1) { e.SetSource("://") }, "source"},
	} {
		e, ec := codecEvent()
		c.change(&e, ec)
		codecWantRefusal(t, e, c.attribute)
	}
}

func TestDecodedEventSharesNothingWithTheMessage(t *testing.T) {
	h := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/s"}, "ce-type": {"t"}, "ce-datacontenttype": {"text/plain"}}
	structured := nats.Header{"Content-Type": {"application/cloudevents+json"}}
	for _, c := range []struct {
		header nats.Header
		body   string
	}{{h, "data"}, {structured, `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1}}`}} {
		body := []byte(c.body)
		e, err := Decode(c.header, body)
		if err != nil {
			t.Fatal(err)
		}
		for i := range e.DataEncoded {
			e.DataEncoded[i] = 'X'
		}
		if string(body) != c.body {
			t.Errorf("body after the handler wrote to the data: got %q, want %q", body, c.body)
		}
	}
}

func TestBinaryDataIsNeverRenderedAsText(t *testing.T) {
	h := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/s"}, "ce-type": {"t"}, "ce-datacontenttype": {"image/png"}}
	e, err := Decode(h, []byte{0x89, 'P', 'N', 'G', 0xff})
	if err != nil {
		t.Fatal(err)
	}
	text, err := e.MarshalJSON()
	if err != nil || !bytes.Contains(text, []byte(`"data_base64":"iVBOR/8="`)) {
		t.Errorf("got %s, %v, want data_base64", text, err)
	}
}

func TestMessageIDFramesSourceAndID(t *testing.T) {
	if got := MessageID("/s", "1"); len(got) != 32 || got != MessageID("/s", "1") || strings.ToLower(got) != got {
		t.Errorf("got %q, want 32 stable lower-case hex characters", got)
	}
	seen := map[string]string{}
	for _, pair := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"", "abc"}, {"a\x00", "b"}, {"a", "\x00b"}, {"bc", "a"}} {
		got := MessageID(pair[0], pair[1])
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q share the id %s", pair, other, got)
		}
		seen[got] = fmt.Sprint(pair)
	}
	// Written into streams that outlive the binary: this value must never change.
	if got, want := MessageID("https://example.com/source", "42"), "79edf1d2c70169904ca3864158a7b8f9"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// codecRandomEvent draws any event that Encode must accept.
func codecRandomEvent(t *rapid.T) event.Event {
	runes := rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune(" \"%\\aZ9€😀"))).Filter(func(r rune) bool { return checkText(string(r)) == "" })
	text := rapid.StringOfN(runes, 1, 12, -1)
	e, ec := codecEvent()
	ec.ID, ec.Type = text.Draw(t, "id"), text.Draw(t, "type")
	source := rapid.OneOf(rapid.SampledFrom([]string{"/s", "urn:x:y", "HTTPS://Ä.example/a b?c#"}), text).Filter(func(s string) bool { _, ok := parseURI(s); return ok }).Draw(t, "source")
	u, _ := parseURI(source)
	ec.Source = types.URIRef{URL: u}
	if rapid.Bool().Draw(t, "has subject") {
		s := text.Draw(t, "subject")
		ec.Subject = &s
	}
	if rapid.Bool().Draw(t, "has time") {
		at := time.Unix(rapid.Int64Range(-62135596799, 253402300799-86400).Draw(t, "seconds"), rapid.Int64Range(0, 999999999).Draw(t, "nanoseconds"))
		ec.Time = &types.Timestamp{Time: at.In(time.FixedZone("", rapid.IntRange(-50000, 50000).Draw(t, "offset")))}
		if ec.Time.Year() < 0 || ec.Time.Year() > 9999 {
			ec.Time.Time = at.UTC()
		}
	}
	if rapid.Bool().Draw(t, "has schema") {
		ec.DataSchema = types.ParseURI(rapid.SampledFrom([]string{"https://example.com/s", "urn:schema:1", "x:"}).Draw(t, "schema"))
	}
	if rapid.Bool().Draw(t, "has type") {
		contentType := rapid.SampledFrom([]string{"application/json", "text/plain; charset=\"utf-8\"", "application/vnd.x+json", "image/png"}).Draw(t, "content type")
		ec.DataContentType = &contentType
	}
	names := rapid.StringMatching(`[a-z0-9]{1,20}`).Filter(func(s string) bool { return coreAttribute(s) == 0 && s != "data" })
	values := rapid.OneOf(text.AsAny(), rapid.Just(any("")), rapid.Bool().AsAny(), rapid.Int32().AsAny(), rapid.SliceOf(rapid.Byte()).AsAny())
	ec.Extensions = rapid.MapOfN(names, values, 0, 5).Draw(t, "extensions")
	e.DataEncoded = rapid.SliceOf(rapid.Byte()).Draw(t, "data")
	return e
}

// codecTrickyValues are texts that header encodings of others lose or change.
func codecTrickyValues() []string {
	return []string{"plain", "Euro € 😀", " padded ", `"quoted"`, `"`, `\`, "100%", "%20", "%C0%A0", "a%0Ab", "a,b;c=d", "ä\u0301", "\u00a0", "\ufeffbom", "�"}
}

func TestEncodeDecodeRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := codecRandomEvent(t)
		want := codecView(t, e)
		h, body, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(h, body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, codecView(t, got)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		again, _, err := Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(h, again); diff != "" {
			t.Fatalf("second encoding (-first +second):\n%s", diff)
		}
		codecCheckAttributes(t, h, body, got)
	})
}

// sdk-go#1331, spec#1397: what stands in an attribute arrives through a real connection, which trims and replaces in headers.
func TestAttributesSurviveARealNATSConnection(t *testing.T) {
	srv, err := server.NewServer(&server.Options{DontListen: true, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("events.>")
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range codecTrickyValues() {
		e, ec := codecEvent()
		ec.ID, ec.Subject, ec.Extensions = value, &value, map[string]any{"partitionkey": value}
		e.DataEncoded = []byte(value)
		h, body, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.PublishMsg(&nats.Msg{Subject: "events.t", Header: h, Data: body}); err != nil {
			t.Fatal(err)
		}
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(m.Header, m.Data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(codecView(t, e), codecView(t, got)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
	}
}

// codecCheckAttributes checks that the cheap view of a message says what its decoded event says.
func codecCheckAttributes(t interface {
	Helper()
	Fatalf(string, ...any)
}, h nats.Header, body []byte, e event.Event,
) {
	t.Helper()
	a, err := ReadAttributes(h, body)
	if err != nil {
		t.Fatalf("ReadAttributes refuses what Decode accepts: %v", err)
	}
	got := map[string]string{"id": a.ID(), "source": a.Source(), "type": a.Type(), "subject": a.Subject(), "datacontenttype": a.Get("datacontenttype")}
	want := map[string]string{"id": e.ID(), "source": e.Source(), "type": e.Type(), "subject": e.Subject(), "datacontenttype": e.DataContentType()}
	for name, value := range e.Extensions() {
		got[name], want[name] = a.Get(name), fmt.Sprint(value)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("attributes (-decoded +read):\n%s", diff)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("ce-specversion: 1.0\nce-id: 1\nCe-Source: /s\nCE-TYPE: t\nce-subject: Euro%20%E2%82%AC", []byte("x"))
	f.Add("ce-specversion: 1.0\nce-id: \"a b\"\nce-source: HTTP://x/#\nce-type: t\nce-time: 2026-01-01T00:00:00.5+01:00", []byte{})
	f.Add("Content-Type: application/cloudevents+json", []byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","n":5,"b":true,"z":null,"data":{"a":[1,"]"]}}`))
	f.Add("Content-Type: application/cloudevents+json", []byte(`{"specversion":"1.0","id":"\ud83d\ude00","source":"/s","type":"t","datacontenttype":"image/png","data_base64":"\u002Bw=="}`))
	f.Fuzz(func(t *testing.T, lines string, body []byte) {
		h := codecHeader(lines)
		e, err := Decode(h, body)
		if err != nil {
			if !errors.Is(err, ErrNotEvent) {
				t.Fatalf("got %v, want ErrNotEvent", err)
			}
			return
		}
		codecCheckAttributes(t, h, body, e)
		codecCheckReencodes(t, e)
	})
}

func codecHeader(lines string) map[string][]string {
	h := map[string][]string{}
	for line := range strings.SplitSeq(lines, "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			h[name] = append(h[name], value)
		}
	}
	return h
}

// codecCheckReencodes checks that an accepted event can be stored and comes back equal.
func codecCheckReencodes(t *testing.T, e event.Event) {
	t.Helper()
	h, body, err := Encode(e)
	if err != nil {
		t.Fatalf("accepted but not encodable: %v", err)
	}
	again, err := Decode(h, body)
	if err != nil {
		t.Fatalf("encoded but not decodable: %v", err)
	}
	if diff := cmp.Diff(codecView(t, e), codecView(t, again)); diff != "" {
		t.Fatalf("(-first +again):\n%s", diff)
	}
}

func BenchmarkEncode(b *testing.B) {
	e, ec := codecEvent()
	subject, contentType := "order/17", event.ApplicationJSON
	ec.Subject, ec.DataContentType = &subject, &contentType
	ec.Source = *types.ParseURIRef("https://example.com/shop")
	ec.Time = &types.Timestamp{Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	ec.Extensions = map[string]any{"partitionkey": "customer-42", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	e.DataEncoded = bytes.Repeat([]byte("x"), 100)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Encode(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	h := codecBenchHeader()
	body := bytes.Repeat([]byte("x"), 100)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(h, body); err != nil {
			b.Fatal(err)
		}
	}
}

func codecBenchHeader() nats.Header {
	return nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {"A234-1234-1234"}, "ce-source": {"https://example.com/shop"}, "ce-type": {"com.example.order.created"},
		"ce-subject": {"order/17"}, "ce-time": {"2026-01-02T03:04:05.000000006Z"}, "ce-datacontenttype": {"application/json"},
		"ce-partitionkey": {"customer-42"}, "ce-traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Nats-Msg-Id": {"x"},
	}
}
