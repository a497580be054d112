package streams

import "strings"

// percentEncode returns the header form of an attribute's value, for NATS and HTTP alike: space, `"`, `%` and every byte
// outside U+0021 to U+007E become %XX. Without it nats.go trims values and turns line breaks into spaces, silently.
func percentEncode(value string) string {
	n := 0
	for i := range len(value) {
		if mustEscape(value[i]) {
			n++
		}
	}
	if n == 0 {
		return value
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(value) + 2*n)
	for i := range len(value) {
		c := value[i]
		if !mustEscape(c) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

func mustEscape(c byte) bool { return c <= ' ' || c == '"' || c == '%' || c > '~' }

// percentDecode is the inverse: it removes optional whitespace around a header's value, undoes one level of double-quoting
// and does one round of percent-decoding. The caller checks the text that comes out (checkText): %C0%A0 ends there.
//
// What was never encoded stays as it is, because most senders do not encode (cloudevents/sdk-go#1331): raw UTF-8, a quote that
// does not enclose the whole value, and a `%` without two hexadecimal digits behind it.
func percentDecode(header string) string {
	s := strings.Trim(header, " \t")
	if len(s) > 0 && s[0] == '"' {
		s = unquoteHeader(s)
	}
	first := strings.IndexByte(s, '%')
	if first < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	b.WriteString(s[:first])
	for i := first; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, low := hexDigit(s[i+1]), hexDigit(s[i+2])
			if high < 16 && low < 16 {
				b.WriteByte(high<<4 | low)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unquoteHeader undoes an RFC 7230 quoted-string. If s is not exactly one it returns s.
func unquoteHeader(s string) string {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			if i != len(s)-1 {
				return s
			}
			return b.String()
		case '\\':
			i++
			if i == len(s) {
				return s
			}
		}
		b.WriteByte(s[i])
	}
	return s
}

// hexDigit returns the value of a hexadecimal digit, 16 if c is none.
func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}
