// Package where reads and applies the conditions by which a person picks events. It is pure.
//
// Conditions stand side by side, parted by commas, and all of them must hold:
//
//	source=/partners/acme/*,type!=com.insurer.claim.closed,size>65536
//
// A name is that of a CloudEvents attribute or extension, or size: the bytes of the event's data as they are stored. In a value * stands for
// anything. A value in double quotes, with \" and \\ for what they are, means just what it says, commas and stars included.
package where

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/siding-dev/siding/runtime/internal/spelling"
)

// MaxText bounds the text of conditions, in bytes.
const MaxText = 1 << 10

// Where picks events. The zero value picks none.
type Where struct{ all []condition }

type condition struct {
	name, op, value string
	literal         bool // of a value: a star in it is a star
	size            int
}

// sizeName is what is compared as a number.
const sizeName = "size"

// Parse reads conditions. An error says which one is wrong and what to write.
func Parse(text string) (Where, error) {
	if len(text) > MaxText {
		return Where{}, fmt.Errorf("conditions of %d bytes: longer than %d", len(text), MaxText)
	}
	var w Where
	for rest := text; ; {
		c, after, err := parse(rest)
		if err != nil {
			return Where{}, fmt.Errorf("condition %d: %w", len(w.all)+1, err)
		}
		w.all = append(w.all, c)
		if after == "" {
			return w, nil
		}
		if after[0] != ',' {
			return Where{}, fmt.Errorf("condition %d: %s follows its value: put a comma between conditions", len(w.all), strconv.Quote(after))
		}
		rest = after[1:]
	}
}

func parse(text string) (c condition, rest string, err error) {
	text = strings.TrimLeft(text, " ")
	n := 0
	for n < len(text) && (text[n] >= 'a' && text[n] <= 'z' || text[n] >= '0' && text[n] <= '9') {
		n++
	}
	c.name, rest = text[:n], strings.TrimLeft(text[n:], " ")
	if c.name == "" {
		return c, "", errors.New("no attribute: write as in source=/partners/acme/*,size>65536; names are lower case letters and digits")
	}
	for _, op := range []string{"!=", "=", ">", "<"} {
		if strings.HasPrefix(rest, op) {
			c.op = op
			break
		}
	}
	switch {
	case c.op == "":
		return c, "", fmt.Errorf("%s: no comparison: write %s=VALUE, %s!=VALUE or size>BYTES", c.name, c.name, c.name)
	case c.name == sizeName && c.op != ">" && c.op != "<":
		return c, "", errors.New("size: is compared with > or <, in bytes of data")
	case c.name != sizeName && (c.op == ">" || c.op == "<"):
		err := fmt.Errorf("%s%s: only size is compared as a number", c.name, c.op)
		if spelling.Nearest(c.name, []string{sizeName}) != "" {
			err = fmt.Errorf("%w: did you mean %s?", err, sizeName)
		}
		return c, "", err
	}
	rest = strings.TrimLeft(rest[len(c.op):], " ")
	if c.value, c.literal, rest, err = value(rest); err != nil {
		return c, "", fmt.Errorf("%s: %w", c.name, err)
	}
	if c.name == sizeName {
		if c.size, err = strconv.Atoi(c.value); err != nil || c.size < 0 {
			return c, "", fmt.Errorf("size: %s is no number of bytes: write as in size>65536", strconv.Quote(c.value))
		}
	}
	return c, rest, nil
}

func value(text string) (value string, literal bool, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		n := strings.IndexByte(text, ',')
		if n < 0 {
			n = len(text)
		}
		value = strings.TrimRight(text[:n], " ")
		if value == "" {
			return "", false, "", errors.New(`no value: write "" for an attribute that is not there`)
		}
		return value, false, text[n:], nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return b.String(), true, strings.TrimLeft(text[i+1:], " "), nil
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
		}
		b.WriteByte(text[i])
	}
	return "", false, "", errors.New("its quotation has no end")
}

// String writes the conditions in the one way in which they are kept and compared. Parse reads it back.
func (w Where) String() string {
	parts := make([]string, len(w.all))
	for i, c := range w.all {
		v := c.value
		switch {
		case c.name == sizeName:
			v = strconv.Itoa(c.size)
		case c.literal && (v == "" || strings.ContainsAny(v, `*,"`) || v != strings.Trim(v, " ")):
			v = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`
		}
		parts[i] = c.name + c.op + v
	}
	return strings.Join(parts, ",")
}

// Match reports whether all conditions hold for an event. attribute gives an attribute as text, "" for one that is not there; size is the
// number of bytes of its data.
func (w Where) Match(attribute func(name string) string, size int) bool {
	for _, c := range w.all {
		if !c.holds(attribute, size) {
			return false
		}
	}
	return len(w.all) > 0
}

func (c condition) holds(attribute func(string) string, size int) bool {
	switch c.op {
	case ">":
		return size > c.size
	case "<":
		return size < c.size
	}
	got := attribute(c.name)
	same := got == c.value || !c.literal && like(got, c.value)
	return same == (c.op == "=")
}

// like compares a text with a pattern in which * stands for anything.
func like(text, pattern string) bool {
	head, pattern, more := strings.Cut(pattern, "*")
	if !more {
		return text == head
	}
	if !strings.HasPrefix(text, head) {
		return false
	}
	text = text[len(head):]
	for {
		part, after, more := strings.Cut(pattern, "*")
		if !more {
			return strings.HasSuffix(text, part)
		}
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text, pattern = text[at+len(part):], after
	}
}
