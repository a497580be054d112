package functions

import (
	"fmt"
	"strings"
)

// Key is a rule that finds the ordering key of an event: events with the same
// key are handled one after the other, in the order in which they were
// accepted. An event without a key (the empty string) waits for nobody.
//
// The zero value is [PartitionKey]. Keys are comparable. A key other than the
// constants is made by [ByExtension] or [ParseKey].
type Key string

const (
	// PartitionKey orders by the CloudEvents extension "partitionkey". It is
	// the default: an event without the extension is unordered, so that order
	// is something a publisher asks for and never a surprise.
	PartitionKey Key = ""
	// BySubject orders by the attribute "subject"; without one, unordered.
	BySubject Key = "subject"
	// BySource orders by the attribute "source", which every event has.
	BySource Key = "source"
	// Unordered gives no event a key, whatever its attributes say.
	Unordered Key = "unordered"
)

const (
	partitionKeyName = "partitionkey"
	extensionPrefix  = "extension:"
)

// ByExtension orders by the CloudEvents extension of this name, which consists
// of the letters a to z and digits. Another name gives a key that
// [Function.Validate] refuses and that leaves every event unordered.
func ByExtension(name string) Key {
	if name == partitionKeyName {
		return PartitionKey
	}
	return Key(extensionPrefix + name)
}

// Of returns the ordering key of an event, and "" for none. It asks attribute,
// which returns the attribute or extension of a lower-case CloudEvents name in
// its canonical string form and "" if the event has none. Of asks at most once.
func (k Key) Of(attribute func(name string) string) string {
	switch k {
	case PartitionKey:
		return attribute(partitionKeyName)
	case BySubject, BySource:
		return attribute(string(k))
	}
	if k.problem() != "" || k == Unordered {
		return ""
	}
	return attribute(strings.TrimPrefix(string(k), extensionPrefix))
}

// String returns the rule's name: "partitionkey", "subject", "source",
// "unordered" or "extension:" and the name of the extension.
func (k Key) String() string {
	if k == PartitionKey {
		return partitionKeyName
	}
	return string(k)
}

// ParseKey is the inverse of [Key.String].
func ParseKey(s string) (Key, error) {
	if s == partitionKeyName || s == extensionPrefix+partitionKeyName {
		return PartitionKey, nil
	}
	if s == "" {
		return "", fmt.Errorf("ordering key is empty; %s", keyHint)
	}
	k := Key(s)
	if p := k.problem(); p != "" {
		return "", fmt.Errorf("ordering key %q %s", s, p)
	}
	return k, nil
}

const keyHint = "write partitionkey, subject, source, unordered or extension:<name>"

// problem says what is wrong with k and what to write instead, and returns ""
// for a sound key.
func (k Key) problem() string {
	switch k {
	case PartitionKey, BySubject, BySource, Unordered:
		return ""
	}
	name, ok := strings.CutPrefix(string(k), extensionPrefix)
	if !ok {
		return "is unknown; " + keyHint
	}
	if name == "" {
		return "names no extension; write extension:<name>"
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return "is no name of an extension; CloudEvents allows the letters a to z and digits"
		}
	}
	switch name {
	case "subject", "source":
		return fmt.Sprintf("is an attribute, not an extension; write %s", name)
	case partitionKeyName:
		// Two spellings of one rule would be two values that compare unequal.
		return "has a name of its own; write " + partitionKeyName
	case "id", "type", "specversion", "time", "data", "datacontenttype", "dataschema":
		return "is an attribute, not an extension; order by an extension that the publisher sets"
	}
	return ""
}
