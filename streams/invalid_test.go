package streams

import (
	"errors"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"pgregory.net/rapid"
)

// codecEvent returns a small valid event for codec tests to change.
func codecEvent() (event.Event, *event.EventContextV1) {
	ec := &event.EventContextV1{ID: "1", Source: types.URIRef{URL: url.URL{Path: "/s"}}, Type: "t"}
	return event.Event{Context: ec}, ec
}

// codecView flattens an event so that two can be compared: attributes as canonical strings, time as an instant, data as text.
func codecView(t interface {
	Helper()
	Fatalf(string, ...any)
}, e event.Event) map[string]string {
	t.Helper()
	ec, ok := e.Context.(*event.EventContextV1)
	if !ok {
		t.Fatalf("context: got %T, want *event.EventContextV1", e.Context)
	}
	view := map[string]string{"id": ec.ID, "source": ec.Source.String(), "type": ec.Type, "data": string(e.DataEncoded)}
	if ec.Subject != nil {
		view["subject"] = *ec.Subject
	}
	if ec.DataContentType != nil {
		view["datacontenttype"] = *ec.DataContentType
	}
	if ec.DataSchema != nil {
		view["dataschema"] = ec.DataSchema.String()
	}
	if ec.Time != nil {
		view["time"] = ec.Time.UTC().Format(time.RFC3339Nano)
	}
	for name, v := range ec.Extensions {
		text, present, reason := canonical(v)
		if reason != "" {
			t.Fatalf("extension %s: %s", name, reason)
		}
		if present {
			view["ext "+name] = text
		}
	}
	return view
}

func TestInvalidErrorNamesWhereAndWhy(t *testing.T) {
	for _, c := range []struct {
		err  InvalidError
		want string
	}{
		{InvalidError{Index: -1, Attribute: "id", Reason: "is missing"}, `not a CloudEvent: attribute "id": is missing`},
		{InvalidError{Index: -1, Path: "$", Reason: "is not valid JSON"}, `not a CloudEvent: is not valid JSON`},
		{InvalidError{Index: -1, Path: "$.data_base64", Reason: "is not valid base64"}, `not a CloudEvent: $.data_base64: is not valid base64`},
		{InvalidError{Index: 3, Attribute: "id", Path: "$[3].id", Reason: "is missing"}, `not a CloudEvent: event 3: attribute "id": is missing`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if !errors.Is(&c.err, ErrNotEvent) || errors.Is(&c.err, ErrUnsupportedMedia) {
			t.Errorf("%v: want ErrNotEvent and nothing else", &c.err)
		}
	}
}

func TestErrorsRepeatOnlyTheBeginningOfForeignText(t *testing.T) {
	h := map[string][]string{"ce-specversion": {strings.Repeat("é", 10_000)}}
	_, err := Decode(h, nil)
	if err == nil || len(err.Error()) > 300 {
		t.Fatalf("got an error of %d bytes, want a short one: %.100v", len(err.Error()), err)
	}
}

func TestAttributeNamesAreLowerCaseLettersAndDigits(t *testing.T) {
	for name, valid := range map[string]bool{
		"a": true, "partitionkey": true, "x9": true, "123": true,
		"": false, "Upper": false, "bad_name": false, "a-b": false, "ä": false, "a b": false, "data": false, "data_base64": false,
	} {
		if got := checkName(name) == ""; got != valid {
			t.Errorf("checkName(%q): got %q, want valid %v", name, checkName(name), valid)
		}
	}
}

func TestURIReferencesKeepTheirBytes(t *testing.T) {
	for _, s := range []string{
		"/mycontext", "https://example.com/a?b=c#d", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", "mailto:a@b.c", "1-555-123-4567",
		"HTTPS://Example.com/a", "https://example.com/ä b", "https://example.com/#", "https://example.com/?", "HTTP:", "x:", "//host/p",
		"https://u:p@example.com/%7Ea", "a/b:c", "#frag", "?", "https://[::1]:80/",
	} {
		u, ok := parseURI(s)
		if !ok || u.String() != s {
			t.Errorf("parseURI(%q): got %q, %v", s, u.String(), ok)
		}
	}
	for _, s := range []string{"://x", "1:2", "https://example.com/%zz", "http://[::1"} {
		if u, ok := parseURI(s); ok {
			t.Errorf("parseURI(%q): got %q, want a refusal", s, u.String())
		}
	}
}

// sdk-go#987: nanoseconds, offsets and years beyond four digits.
func TestTimeIsRFC3339WithNanoseconds(t *testing.T) {
	east := time.FixedZone("", 5*3600+1800)
	for _, c := range []struct {
		in   time.Time
		want string
	}{
		{time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC), "2026-03-04T05:06:07.123456789Z"},
		{time.Date(2026, 3, 4, 5, 6, 7, 0, east), "2026-03-04T05:06:07+05:30"},
		{time.Date(1880, 1, 1, 0, 0, 0, 0, time.FixedZone("LMT", 53*60+28)), "1879-12-31T23:06:32Z"},
		{time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), "9999-12-31T23:59:59.999999999Z"},
	} {
		got, ok := formatTime(c.in)
		if !ok || got != c.want {
			t.Errorf("formatTime(%v): got %q, %v, want %q", c.in, got, ok, c.want)
		}
		back, ok := parseTime(got)
		if !ok || !back.Equal(c.in) {
			t.Errorf("parseTime(%q): got %v, want %v", got, back, c.in)
		}
	}
	e, ec := codecEvent()
	ec.Time = &types.Timestamp{Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
	codecWantRefusal(t, e, "time")
	for _, s := range []string{"2026-03-04", "2026-03-04T5:06:07Z", "2026-03-04T05:06:07,5Z", "2026-03-04T05:06:07", "2026-03-04T05:06:07+24:00", "2026-03-04T05:06:07.Z", "2026-02-30T05:06:07Z", "2026-03-04T05:06:07Zx", "yesterday", ""} {
		if got, ok := parseTime(s); ok {
			t.Errorf("parseTime(%q): got %v, want a refusal", s, got)
		}
	}
	if _, ok := parseTime("2026-03-04t05:06:07z"); !ok {
		t.Error("parseTime with lower-case t and z: got a refusal, want acceptance")
	}
}

func TestZeroTimeIsAnAbsentTime(t *testing.T) {
	e, ec := codecEvent()
	ec.Time = &types.Timestamp{}
	h, _, err := Encode(e)
	if err != nil || h["ce-time"] != nil {
		t.Errorf("Encode: got time %q, %v, want none", h["ce-time"], err)
	}
	h["ce-time"] = []string{"0001-01-01T00:00:00Z"}
	got, err := Decode(h, nil)
	if err != nil || got.Context.(*event.EventContextV1).Time != nil {
		t.Errorf("Decode: got %v, %v, want no time", got, err)
	}
}

// The SDK's JetStream binding writes a []byte as "[1 2 3]".
func TestTypedExtensionsBecomeCanonicalStrings(t *testing.T) {
	u := url.URL{Scheme: "https", Host: "example.com", Path: "/a"}
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	for _, c := range []struct {
		in   any
		want string
	}{
		{true, "true"}, {false, "false"}, {int32(-7), "-7"}, {7, "7"}, {uint8(9), "9"}, {int64(math.MaxInt32), "2147483647"}, {3.0, "3"},
		{[]byte{1, 2, 3}, "AQID"}, {"text", "text"}, {"", ""},
		{types.URI{URL: u}, "https://example.com/a"}, {&types.URIRef{URL: u}, "https://example.com/a"}, {u, "https://example.com/a"}, {&u, "https://example.com/a"},
		{types.Timestamp{Time: at}, "2026-03-04T05:06:07.000000008Z"}, {&types.Timestamp{Time: at}, "2026-03-04T05:06:07.000000008Z"}, {at, "2026-03-04T05:06:07.000000008Z"},
	} {
		e, ec := codecEvent()
		ec.Extensions = map[string]any{"x": c.in}
		h, body, err := Encode(e)
		if err != nil {
			t.Errorf("Encode with %T %v: %v", c.in, c.in, err)
			continue
		}
		if got, want := percentDecode(h.Get("ce-x")), c.want; got != want {
			t.Errorf("header of %T %v: got %q, want %q", c.in, c.in, got, want)
		}
		if back, err := Decode(h, body); err != nil || back.Extensions()["x"] != c.want {
			t.Errorf("Decode of %T %v: got %v, %v, want %q", c.in, c.in, back.Extensions()["x"], err, c.want)
		}
	}
}

func TestExtensionsOutsideTheTypeSystemAreRefusedByName(t *testing.T) {
	for _, v := range []any{
		1.5, float32(0.25), math.NaN(), math.Inf(1), int64(math.MaxInt32) + 1, uint64(math.MaxUint64), 99999999999,
		struct{}{}, []string{"a"}, map[string]any{}, types.Timestamp{Time: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		e, ec := codecEvent()
		ec.Extensions = map[string]any{"retries": v}
		codecWantRefusal(t, e, "retries")
	}
	e, ec := codecEvent()
	ec.Extensions = map[string]any{"gone": nil, "alsogone": (*types.URI)(nil)}
	if h, _, err := Encode(e); err != nil || len(h) != 4 {
		t.Errorf("nil extensions: got %v, %v, want four headers", h, err)
	}
}

// codecWantRefusal checks that Encode refuses e because of attribute.
func codecWantRefusal(t *testing.T, e event.Event, attribute string) {
	t.Helper()
	_, _, err := Encode(e)
	codecWantInvalid(t, err, attribute, "")
}

func codecWantInvalid(t *testing.T, err error, attribute, path string) *InvalidError {
	t.Helper()
	var bad *InvalidError
	if !errors.As(err, &bad) || !errors.Is(err, ErrNotEvent) {
		t.Errorf("got error %v, want an InvalidError", err)
		return &InvalidError{}
	}
	if bad.Attribute != attribute || path != "" && bad.Path != path {
		t.Errorf("got %v (attribute %q, path %q), want attribute %q, path %q", err, bad.Attribute, bad.Path, attribute, path)
	}
	return bad
}

func TestAcceptedURIReferencesKeepTheirBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.SampledFrom([]rune("aZ1:/?#%@[]. ä+20"))).Draw(t, "reference")
		if u, ok := parseURI(s); ok && u.String() != s {
			t.Fatalf("got %q, want %q", u.String(), s)
		}
	})
}

func TestAcceptedTimesCanBeWrittenAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[019]{4}-[01][0-9]-[0-3][0-9][Tt][0-2][0-9]:[0-5][0-9]:[0-6][0-9](\.[0-9]{1,9})?([Zz]|[+-][0-2][0-9]:[0-6][0-9])`).Draw(t, "time")
		at, ok := parseTime(s)
		if !ok {
			return
		}
		text, ok := formatTime(at)
		again, ok2 := parseTime(text)
		if !ok || !ok2 || !again.Equal(at) {
			t.Fatalf("%s: got %q, %v, want the same instant", s, text, again)
		}
	})
}
