package digest

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds in bytes: of what is read of a text, and of what is made of it.
const (
	maxInput = 4 << 10
	maxWhy   = 240
)

// What stands for a number, an id, a time or an address, and for what was quoted. Each is one rune, so that a text never gets longer: that is why
// Normalise ends.
const (
	placeholder = "#"
	ellipsis    = "…"
)

var (
	uuids     = regexp.MustCompile(`[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}`)
	times     = regexp.MustCompile(`\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?: ?(?:Z\b|UTC\b|[+-]\d\d:?\d\d\b))*`)
	pointers  = regexp.MustCompile(`\b0[xX][0-9A-Fa-f]+`)
	durations = regexp.MustCompile(`\b(?:\d+(?:\.\d+)?(?:ns|us|µs|μs|ms|s|m|h|d))+\b`)
	addresses = regexp.MustCompile(`[0-9A-Za-z:.]*:[0-9A-Za-z.]*:[0-9A-Za-z:.]*`) // candidates for IPv6
	exponents = regexp.MustCompile(`\b\d+[eE][+-]?\d+\b`)
	tokens    = regexp.MustCompile(`[\pL\p{Nd}_-]+`)
	digits    = regexp.MustCompile(`\p{Nd}+`)
	hexes     = regexp.MustCompile(`^[0-9A-Fa-f]{8,}$`)
	brackets  = regexp.MustCompile(`\[#\]`)
	joined    = regexp.MustCompile(`#(?:[-.,:/+]#)+`)
	signed    = regexp.MustCompile(`(^|[ =(\[{:])[-+]#`)
)

// Fingerprint is the id of a group of failures: of all of a class whose texts are alike but for what differs from event to event.
func Fingerprint(class, text string) string { return FingerprintOf(class, Normalise(text)) }

// FingerprintOf is the fingerprint of a text that has been normalised already: doing that again takes longer than to write it down.
func FingerprintOf(class, common string) string {
	sum := sha256.Sum256([]byte(class + "\x00" + common))
	return hex.EncodeToString(sum[:])[:10]
}

// Normalise leaves of a text what is common to all failures of its kind: numbers, times, durations, ids and addresses become #, and what is quoted
// becomes …. The result is one short line of valid UTF-8, whatever the text is, and normalising it again changes nothing.
func Normalise(text string) string {
	if len(text) > maxInput {
		text = text[:maxInput]
	}
	// One replacement can make room for another. Each makes the text shorter, or leaves fewer runes that are no placeholder.
	for {
		next := cut(once(text), maxWhy)
		if next == text {
			return next
		}
		text = next
	}
}

func once(text string) string {
	text = unquote(line(text))
	text = uuids.ReplaceAllString(text, placeholder)
	text = times.ReplaceAllString(text, placeholder)
	text = pointers.ReplaceAllString(text, placeholder)
	text = addresses.ReplaceAllStringFunc(text, address)
	text = durations.ReplaceAllString(text, placeholder)
	text = exponents.ReplaceAllString(text, placeholder)
	text = tokens.ReplaceAllStringFunc(text, token)
	text = brackets.ReplaceAllString(text, placeholder)
	text = joined.ReplaceAllString(text, placeholder)
	return signed.ReplaceAllString(text, "${1}"+placeholder)
}

// address is the placeholder for an IPv6 address, and any other text as it is.
func address(text string) string {
	bare := strings.TrimRight(text, ".")
	for ; bare != ""; bare = bare[:len(bare)-1] {
		if _, err := netip.ParseAddr(bare); err == nil {
			return placeholder + text[len(bare):]
		}
		if bare[len(bare)-1] != ':' { // the colon of a sentence
			break
		}
	}
	return text
}

// token is what stays of a word. How it looks must not hang on how long its numbers are.
func token(word string) string {
	if hexes.MatchString(word) {
		return placeholder
	}
	runs := len(digits.FindAllStringIndex(word, 3))
	if runs == 0 {
		return word
	}
	shape := digits.ReplaceAllString(word, placeholder)
	if runs == 3 || utf8.RuneCountInString(shape) >= 10 {
		return placeholder
	}
	return shape
}

// closing are the quotes that end what an opening one begins.
func closing(opening rune) rune {
	switch opening {
	case '"', '`', '\'':
		return opening
	case '“', '„':
		return '”'
	case '‘':
		return '’'
	case '«':
		return '»'
	}
	return 0
}

// unquote leaves the quotes of what is quoted and takes away what is in them. A quotation without an end, as in a text that was cut, ends with the
// text. An apostrophe within a word is no quote.
func unquote(text string) string {
	var out strings.Builder
	runes := []rune(text)
	word := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]))
	}
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		end := closing(r)
		out.WriteRune(r)
		if end == 0 || r == '\'' && word(i-1) {
			continue
		}
		at := i + 1
		for at < len(runes) && (runes[at] != end || r == '\'' && word(at+1)) {
			if runes[at] == '\\' && (r == '"' || r == '\'') {
				at++ // what is escaped ends nothing
			}
			at++
		}
		if at >= len(runes) && r == '\'' {
			continue
		}
		if at > i+1 {
			out.WriteString(ellipsis)
		}
		if at < len(runes) {
			out.WriteRune(end)
		}
		i = at
	}
	return out.String()
}

// Clean is a text as one line of valid UTF-8 of at most so many bytes, for people to read.
func Clean(text string, most int) string {
	if len(text) > 4*most { // whatever becomes of it, no more of it is needed
		text = text[:4*most]
	}
	return cut(line(text), most)
}

// line makes one line of valid UTF-8 of a text: what controls a terminal or cannot be seen becomes a space, and spaces become one.
func line(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '?'
		case unicode.IsSpace(r), unicode.IsControl(r), !unicode.IsPrint(r):
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// cut shortens valid UTF-8 to so many bytes without splitting a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return strings.TrimRight(text[:most], " ")
}
