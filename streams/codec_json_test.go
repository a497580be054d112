package streams

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"
)

// codecStructured decodes a structured event with four required attributes and the given further members.
func codecStructured(members string) (event.Event, error) {
	body := `{"specversion":"1.0","id":"1","source":"/s","type":"t"` + members + `}`
	return Decode(nats.Header{"Content-Type": {"application/cloudevents+json"}}, []byte(body))
}

// sdk-go#1161, #1273, #797: JSON data of any JSON type is a JSON value, in whatever spelling the type comes.
func TestStructuredDataKeepsItsBytes(t *testing.T) {
	object := `{ "b" : 1.0, "a":[ "}", "\"", "\u00e9" ],"a":1e2 }`
	for _, c := range []struct{ contentType, data, want string }{
		{"application/json", object, object},
		{"APPLICATION/JSON", object, object},
		{"application/json; charset=utf-8", object, object},
		{"text/json", object, object},
		{"application/vnd.x+json", object, object},
		{"Application/Vnd.X+JSON ; version=1", object, object},
		{"image/svg+json", object, object},
		{"", object, object}, // no type means JSON
		{"application/json", `"a \"string\""`, `"a \"string\""`},
		{"application/vnd.x+json", `"a string"`, `"a string"`},
		{"", `"I'm just a string"`, `"I'm just a string"`},
		{"application/json", `null`, `null`}, // an explicit null payload
		{"application/json", `-1.50`, `-1.50`},
		{"application/json", `[]`, `[]`},
		{"text/plain", `"a \"string\" \u20AC\n"`, "a \"string\" €\n"},
		{"application/xml", `"<much wow=\"xml\"/>"`, `<much wow="xml"/>`},
		{"text/plain", `""`, ``},
		{"text/plain", `null`, ``},
		{"application/xml", object, object}, // no string under a type that is not JSON: its JSON
		{"application/jsonx", `7`, `7`},
	} {
		var typed string
		if c.contentType != "" {
			typed = `,"datacontenttype":"` + c.contentType + `"`
		}
		// The order of members must not matter, and the spaces around the value are not part of it.
		for _, members := range []string{typed + ` , "data" : ` + c.data + " \n", `,"data":` + c.data + typed} {
			e, err := codecStructured(members)
			if err != nil {
				t.Errorf("%s: %v", members, err)
				continue
			}
			if got := string(e.Data()); got != c.want {
				t.Errorf("%s: got data %q, want %q", members, got, c.want)
			}
			want := c.contentType
			if want == "" {
				want = "application/json" // explicit, because other modes do not imply it
			}
			if e.DataContentType() != want {
				t.Errorf("%s: got datacontenttype %q, want %q", members, e.DataContentType(), want)
			}
		}
	}
}

// sdk-go#1128: base64 may be written with JSON escapes.
func TestStructuredBase64Data(t *testing.T) {
	for members, want := range map[string]string{
		`,"data_base64":"+/8="`:                                      "\xfb\xff",
		`,"data_base64":"\u002B\/8="`:                                "\xfb\xff",
		`,"data_base64":""`:                                          "",
		`,"data_base64":null`:                                        "",
		`,"data_base64":null,"data":7`:                               "7",
		`,"datacontenttype":"application/json","data_base64":"e30="`: "{}",
	} {
		e, err := codecStructured(members)
		if err != nil || string(e.Data()) != want {
			t.Errorf("%s: got %q, %v, want %q", members, e.Data(), err, want)
		}
		if strings.Contains(want, "\xfb") && e.DataContentType() != "" {
			t.Errorf("%s: got datacontenttype %q, want none", members, e.DataContentType())
		}
	}
}

// The SDK cuts 1.5 to 1; what is no CloudEvents type must be refused with its name.
func TestStructuredExtensionsHaveCloudEventsTypes(t *testing.T) {
	e, err := codecStructured(`,"s":"x","e":"","t":true,"f":false,"n":-2147483648,"m":2147483647,"z":-0,"gone":null,"subject":null,"time":null`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"id": "1", "source": "/s", "type": "t", "data": "", "ext s": "x", "ext e": "", "ext t": "true", "ext f": "false", "ext n": "-2147483648", "ext m": "2147483647", "ext z": "0"}
	if diff := cmp.Diff(want, codecView(t, e)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, value := range []string{"1.5", "1.0", "1e2", "99999999999", "2147483648", "-2147483649", "1e400", "{}", "[]", `{"a":1}`, `"\n"`, `"\ud800"`, `"\udc00\ud800"`, `"\ud800\u0041"`} {
		_, err := codecStructured(`,"retries":` + value)
		codecWantInvalid(t, err, "retries", "$.retries")
	}
}

func TestStructuredRefusesByPath(t *testing.T) {
	for _, c := range []struct{ members, attribute, path string }{
		{`,"id":"2"`, "id", "$.id"},
		{`,"x":"1","x":"1"`, "x", "$.x"},
		{`,"x":null,"x":"1"`, "x", "$.x"},
		{`,"x":"1","\u0078":"2"`, "x", "$.x"},
		{`,"data":1,"data":1`, "", "$.data"},
		{`,"data":1,"data_base64":"e30="`, "", "$.data_base64"},
		{`,"data":null,"data_base64":"e30="`, "", "$.data_base64"},
		{`,"data_base64":"e3"`, "", "$.data_base64"},
		{`,"data_base64":"%%%%"`, "", "$.data_base64"},
		{`,"data_base64":7`, "", "$.data_base64"},
		{`,"datacontenttype":"text/plain","data":"\ud800"`, "", "$.data"},
		{`,"Upper":"x"`, "Upper", "$.Upper"},
		{`,"ID":"x"`, "ID", "$.ID"},
		{`,"bad_name":"x"`, "bad_name", "$.bad_name"},
		{`,"bad name":"x"`, "bad name", `$["bad name"]`},
		{`,"":"x"`, "", "$."},
		{`,"bad_null":null`, "bad_null", "$.bad_null"},
		{`,"subject":7`, "subject", "$.subject"},
		{`,"subject":""`, "subject", "$.subject"},
		{`,"time":"noon"`, "time", "$.time"},
		{`,"dataschema":"/relative"`, "dataschema", "$.dataschema"},
		{`,"datacontenttype":true`, "datacontenttype", "$.datacontenttype"},
		{`} {"a":"b"`, "", "$"},
		{`,"x":"` + "\xff" + `"`, "", "$"},
		{`,`, "", "$"},
	} {
		_, err := codecStructured(c.members)
		if bad := codecWantInvalid(t, err, c.attribute, c.path); bad.Index != -1 {
			t.Errorf("%s: got index %d, want -1", c.members, bad.Index)
		}
	}
	for _, body := range []string{`[]`, `"x"`, `7`, `null`, ``, ` `, "\ufeff{}", strings.Repeat("[", 20_000)} {
		_, err := Decode(nats.Header{"Content-Type": {"application/cloudevents+json"}}, []byte(body))
		codecWantInvalid(t, err, "", "$")
	}
}

func TestEnvelopesAreCutAsEncodingJSONCutsThem(t *testing.T) {
	space := rapid.StringOf(rapid.SampledFrom([]rune(" \t\r\n")))
	scalar := rapid.OneOf(
		rapid.SampledFrom([]string{"null", "true", "false", "-0", "1.5e-3", "{}", "[]", `"\\"`, `"\"}]"`, `"\u00e9\\\""`, `[[{"a":"]"}],{}]`}),
		rapid.Map(rapid.String(), func(s string) string { b, _ := json.Marshal(s); return string(b) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteByte('{')
		for i := range rapid.IntRange(0, 5).Draw(t, "members") {
			if i > 0 {
				b.WriteByte(',')
			}
			key, _ := json.Marshal(rapid.String().Draw(t, "key") + strconv.Itoa(i))
			pad := func() string { return space.Draw(t, "space") }
			b.WriteString(pad() + string(key) + pad() + ":" + pad() + scalar.Draw(t, "value") + pad())
		}
		b.WriteByte('}')
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(b.String()), &want); err != nil {
			t.Fatal(err)
		}
		got := map[string]json.RawMessage{}
		for key, value := range jsonMembers([]byte(b.String())) {
			name, reason := unquoteJSON(key)
			if reason != "" {
				t.Fatalf("key %s: %s", key, reason)
			}
			got[name] = value
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", b.String(), diff)
		}
	})
}
