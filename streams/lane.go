package streams

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Bounds of what is written into a subject token. A subject that exceeds the server's control line (4096 bytes) does not fail
// a publish: it closes the connection of everybody who shares it.
const (
	maxLaneToken = 100
	maxLaneKey   = 200
	// MaxTypeSubject is the longest encoded event type in bytes.
	MaxTypeSubject = 1024

	// NoLane is the lane token of events without an ordering key. They are in no lane: none of them waits for another.
	NoLane     = "_"
	emptyToken = "%"
)

// Lane makes an ordering key safe for a subject. It is injective: two keys share a lane only if SHA-256 collides. No key ("") is
// `_`; a key of more than 200 bytes, or whose encoding exceeds 100 characters, is `#` and a hash; everything else is the key
// with each byte outside [A-Za-z0-9-_=:@+,;/!$&'()~] percent-encoded. The key itself travels in a header.
func Lane(key string) string {
	if key == "" {
		return NoLane
	}
	if len(key) <= maxLaneKey {
		token := encodeToken(key)
		if token == NoLane {
			return "%5F"
		}
		if len(token) <= maxLaneToken {
			return token
		}
	}
	sum := sha256.Sum256([]byte(key))
	return "#" + hex.EncodeToString(sum[:])
}

// LaneKey is the inverse of Lane; ok is false for a lane of which only a hash of the key is known.
func LaneKey(token string) (key string, ok bool) {
	switch {
	case token == NoLane:
		return "", true
	case strings.HasPrefix(token, "#"):
		return "", false
	}
	return percentDecode(token), true
}

// EventSubject returns the subject on which an event of this type is stored: `events.` and the type, encoded token by token.
func EventSubject(eventType string) (string, error) {
	tokens := strings.Split(eventType, ".")
	for i, t := range tokens {
		tokens[i] = encodeToken(t)
	}
	s := strings.Join(tokens, ".")
	if len(s) > MaxTypeSubject {
		return "", fmt.Errorf("type of %d bytes is too long for a subject: at most %d bytes encoded", len(eventType), MaxTypeSubject)
	}
	return eventsPrefix + s, nil
}

// TypeFilter returns the subject filter of a function's type pattern, in which `*` and a last `>` are NATS wildcards.
func TypeFilter(pattern string) (string, error) {
	tokens := strings.Split(pattern, ".")
	for i, t := range tokens {
		if t == "*" || (t == ">" && i == len(tokens)-1) {
			continue
		}
		tokens[i] = encodeToken(t)
	}
	s := strings.Join(tokens, ".")
	if len(s) > MaxTypeSubject {
		return "", fmt.Errorf("type pattern of %d bytes is too long for a subject: at most %d bytes encoded", len(pattern), MaxTypeSubject)
	}
	return eventsPrefix + s, nil
}

// TypeFilters returns the filters of several patterns without those that another one already covers: JetStream refuses a
// consumer whose filters overlap.
func TypeFilters(patterns []string) ([]string, error) {
	var all []string
	for _, p := range patterns {
		f, err := TypeFilter(p)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return widest(all), nil
}

// SubjectFilters returns the filters of a function's patterns on the stream that it reads. On EVENTS the subject of an event is
// its type. On any other stream it is what the publisher chose, so there the patterns are those of subjects, as they are.
func SubjectFilters(stream string, patterns []string) ([]string, error) {
	if stream == EventsStream {
		return TypeFilters(patterns)
	}
	for _, p := range patterns {
		if len(p) > MaxTypeSubject {
			return nil, fmt.Errorf("subject pattern of %d bytes is too long: at most %d", len(p), MaxTypeSubject)
		}
	}
	return widest(patterns), nil
}

// widest drops the filters that another one already covers.
func widest(all []string) []string {
	var kept []string
	for i, f := range all {
		covered := false
		for j, g := range all {
			if i != j && covers(g, f) && (!covers(f, g) || j < i) {
				covered = true
				break
			}
		}
		if !covered {
			kept = append(kept, f)
		}
	}
	return kept
}

// covers reports whether every subject that matches filter narrow also matches filter wide.
func covers(wide, narrow string) bool {
	w, n := strings.Split(wide, "."), strings.Split(narrow, ".")
	for i, t := range w {
		switch {
		case t == ">":
			return len(n) > i
		case i >= len(n) || n[i] == ">":
			return false
		case t != "*" && t != n[i]:
			return false
		}
	}
	return len(w) == len(n)
}

// MatchesType reports whether an event stored on subject is one of those that filter selects.
func MatchesType(filter, subject string) bool { return covers(filter, subject) }

// encodeToken percent-encodes every byte that has a meaning in a subject, in our own encoding, or that is not printable ASCII.
// An empty token is a lone `%`, which no encoding produces.
func encodeToken(t string) string {
	if t == "" {
		return emptyToken
	}
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(t) {
		c := t[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_=:@+,;/!$&'()~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&15])
	}
	return b.String()
}
