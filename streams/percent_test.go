package streams

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPercentEncodingFollowsTheBinding(t *testing.T) {
	for _, c := range []struct{ value, header string }{
		{"Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"}, // the example of the specification
		{"", ""},
		{"plain-text_~!#$&'()*+,/:;=?@[]", "plain-text_~!#$&'()*+,/:;=?@[]"},
		{` " % `, "%20%22%20%25%20"},
		{"100%", "100%25"},
		{"%20", "%2520"},
		{"a\tb\r\nc\x7f", "a%09b%0D%0Ac%7F"},
		{`"quoted"`, "%22quoted%22"},
	} {
		if got := percentEncode(c.value); got != c.header {
			t.Errorf("percentEncode(%q): got %q, want %q", c.value, got, c.header)
		}
		if got := percentDecode(c.header); got != c.value {
			t.Errorf("percentDecode(%q): got %q, want %q", c.header, got, c.value)
		}
	}
}

func TestPercentDecodingAcceptsWhatOthersSend(t *testing.T) {
	for _, c := range []struct{ header, value string }{
		{"%e2%82%ac", "€"},                // lower-case digits
		{"%41%42", "AB"},                  // needlessly encoded
		{`"a b"`, "a b"},                  // quoted string of older senders
		{`"a \"b\" \\ %20"`, `a "b" \  `}, // unquoting first, one round of percent-decoding then
		{"%2520", "%20"},                  // one round only
		{"  padded \t", "padded"},         // whitespace around a value is not part of it
		{"Euro €", "Euro €"},              // raw UTF-8 of senders that do not encode
		{"100% sure", "100% sure"},        // likewise
		{"50%", "50%"},                    //
		{"%zz %4", "%zz %4"},              //
		{`"open`, `"open`},                // not a quoted string
		{`"a" or "b"`, `"a" or "b"`},      //
		{`"ends in backslash\`, `"ends in backslash\`},
	} {
		if got := percentDecode(c.header); got != c.value {
			t.Errorf("percentDecode(%q): got %q, want %q", c.header, got, c.value)
		}
	}
}

func TestPercentEncodingRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		header := percentEncode(value)
		if strings.ContainsFunc(header, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
			t.Fatalf("percentEncode(%q) = %q is not a plain header value", value, header)
		}
		if got := percentDecode(header); got != value {
			t.Fatalf("got %q, want %q", got, value)
		}
	})
}
