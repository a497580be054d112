package config

import (
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/siding-dev/siding/runtime/internal/spelling"
)

// join makes the path of a key.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// entries returns the keys and values of a mapping, each key once. A null is an
// empty mapping: that is what a section is whose lines are all commented out.
func (r *reader) entries(path string, n ast.Node) (pairs []entry, ok bool) {
	switch m := n.(type) {
	case *ast.NullNode:
		return nil, true
	case *ast.MappingNode:
		seen := map[string]position{}
		for _, v := range m.Values {
			at := where(v.Key)
			key, isString := v.Key.(*ast.StringNode)
			if !isString {
				r.report(at, path, faultf(refusal(kindOf(v.Key)), "a key is not a plain word"))
				continue
			}
			if first, twice := seen[key.Value]; twice {
				r.report(at, join(path, key.Value), faultf("leave one of them", "is there twice, first in line %d", first.line))
				continue
			}
			seen[key.Value] = at
			pairs = append(pairs, entry{key.Value, at, v.Value})
		}
		return pairs, true
	}
	r.report(where(n), path, faultf(first(refusal(kindOf(n)), "write key: value lines"), "got %s, want a mapping", kindOf(n)))
	return nil, false
}

// entry is one line key: value.
type entry struct {
	key   string
	at    position
	value ast.Node
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (s section) read(r *reader, path string, n ast.Node) (value, bool) {
	before := len(r.problems)
	pairs, ok := r.entries(path, n)
	if !ok {
		return value{}, false
	}
	m := mapping{of: map[string]value{}, keys: map[string]position{}}
	for _, e := range pairs {
		f, known := s.field(e.key)
		if !known {
			r.unknown(e, path, s.names())
			continue
		}
		m.order = append(m.order, e.key)
		m.keys[e.key] = e.at
		if v, ok := f.rule.read(r, join(path, e.key), e.value); ok {
			m.of[e.key] = v
		}
	}
	if !s.complete(m) {
		r.report(where(n), path, faultf(s.hint, "%s", s.incomplete(m)))
	}
	return value{data: m, at: where(n)}, len(r.problems) == before
}

func (s section) field(name string) (field, bool) {
	for _, f := range s.fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

func (s section) names() []string {
	all := make([]string, len(s.fields))
	for i, f := range s.fields {
		all[i] = f.name
	}
	return all
}

// unknown reports a key that nobody knows, with the nearest one that somebody
// does.
func (r *reader) unknown(e entry, path string, known []string) {
	hint := "use one of " + strings.Join(known, ", ")
	if near := spelling.Nearest(strings.ReplaceAll(e.key, "-", "_"), known); near != "" {
		hint = "did you mean " + near + "?"
	}
	r.report(e.at, join(path, e.key), faultf(hint, "unknown key"))
}

// complete says whether m has the keys of one group and none of the others.
func (s section) complete(m mapping) bool {
	if len(s.require) == 0 {
		return true
	}
	full, touched := 0, 0
	for _, group := range s.require {
		has := 0
		for _, key := range group {
			if _, there := m.keys[key]; there {
				has++
			}
		}
		if has > 0 {
			touched++
		}
		if has == len(group) {
			full++
		}
	}
	return full == 1 && touched == 1
}

func (s section) incomplete(m mapping) string {
	switch len(m.order) {
	case 0:
		return "is empty"
	case 1:
		return "has " + m.order[0] + " alone"
	}
	return "has " + strings.Join(m.order, " and ")
}

func (f functionMap) read(r *reader, path string, n ast.Node) (value, bool) {
	pairs, ok := r.entries(path, n)
	if !ok {
		return value{}, false
	}
	m := mapping{of: map[string]value{}, keys: map[string]position{}}
	for _, e := range pairs {
		below, before := join(path, e.key), len(r.problems)
		if !functionName.MatchString(e.key) {
			r.report(e.at, below, faultf("write a letter a to z, then letters, digits and hyphens, at most 63 characters", "is no name of a function"))
			continue
		}
		v, _ := f.section.read(r, below, e.value)
		if said, is := v.data.(mapping); is {
			f.whole(r, below, e.at, said)
		}
		m.order = append(m.order, e.key)
		m.keys[e.key] = e.at
		if len(r.problems) == before {
			m.of[e.key] = v
		}
	}
	// What is sound of it can be checked further, whatever is wrong beside it.
	return value{data: m, at: where(n)}, true
}

// whole checks that a function has either a URL and types or nothing of what
// code decides.
func (f functionMap) whole(r *reader, path string, at position, said mapping) {
	if _, declared := said.keys["url"]; declared {
		if _, there := said.keys["types"]; !there {
			r.report(at, path, faultf("name the event types that it wants", "has a url, but no types"))
		}
		return
	}
	for _, key := range said.order {
		if known, _ := f.field(key); known.meaning {
			r.report(said.keys[key], join(path, key), faultf("remove it, or add the url of a handler that lives elsewhere",
				"is set in Go for a function without a url; this file tunes its numbers"))
		}
	}
}
