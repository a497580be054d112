package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// rule says what may stand at a place of the file.
type rule interface {
	// read returns what a node says, or reports what is wrong with it.
	read(r *reader, path string, n ast.Node) (value, bool)
	// schema describes the same as JSON Schema.
	schema() map[string]any
}

// value is something sound that the file says, and where: a string, int,
// float64, bool or time.Duration, a []value or a mapping.
type value struct {
	data any
	text string // as it was written; "" for lists and mappings
	at   position
}

// mapping is what a section says.
type mapping struct {
	of map[string]value
	// order has the keys as they were written, and keys says where.
	order []string
	keys  map[string]position
}

// maxSize bounds a file; a larger one is a mistake, and costs time and memory
// to tell.
const maxSize = 1 << 20

// parse reads the whole document. The mapping is what is sound of it.
func parse(name string, content []byte) (mapping, Problems) {
	r := &reader{file: name}
	root := r.document(content)
	if root == nil {
		return mapping{}, r.problems
	}
	v, _ := file().read(r, "", root)
	m, _ := v.data.(mapping)
	return m, r.problems
}

// reader collects what is wrong.
type reader struct {
	file     string
	problems Problems
}

func (r *reader) report(at position, path string, f fault) {
	r.problems = append(r.problems, Problem{File: r.file, Line: at.line, Column: at.column, Path: path, Text: f.text, Hint: f.hint})
}

// document returns the one node that everything stands below, or nil if there
// is nothing or if it is no YAML.
func (r *reader) document(content []byte) ast.Node {
	switch {
	case len(content) > maxSize:
		r.report(position{}, "", faultf("", "larger than %d bytes", maxSize))
		return nil
	case !utf8.Valid(content):
		r.report(position{}, "", faultf("save it as UTF-8", "not UTF-8"))
		return nil
	}
	tree, err := parser.ParseBytes(content, 0, parser.AllowDuplicateMapKey())
	var syntax *yaml.SyntaxError
	switch {
	case errors.As(err, &syntax):
		at := position{1, 1}
		if t := syntax.Token; t != nil && t.Position != nil {
			at = position{t.Position.Line, t.Position.Column}
		}
		r.report(at, "", faultf("", "no YAML: %s", syntax.Message))
		return nil
	case err != nil:
		first, _, _ := strings.Cut(err.Error(), "\n")
		r.report(position{}, "", faultf("", "no YAML: %s", first))
		return nil
	}
	var root ast.Node
	for _, d := range tree.Docs {
		switch {
		case d.Body == nil:
		case root != nil:
			r.report(where(d.Body), "", faultf("leave one document", "a second document begins"))
		default:
			root = d.Body
		}
	}
	return root
}

// where is the place at which n begins. The token of a mapping in lines is its
// first colon.
func where(n ast.Node) position {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return position{t.Position.Line, t.Position.Column}
	}
	return position{}
}

// kindOf names what stands at n in the words of JSON, or what it is that has no
// place in this file.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return "string"
	case *ast.IntegerNode:
		return "integer"
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "number"
	case *ast.BoolNode:
		return "boolean"
	case *ast.NullNode:
		return "null"
	case *ast.SequenceNode:
		return "list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "mapping"
	case *ast.AnchorNode:
		return "anchor"
	case *ast.AliasNode:
		return "alias"
	case *ast.TagNode:
		return "tag"
	}
	return "directive"
}

// readScalar reads n by the rule s: the type first, then the value.
func readScalar(s scalar, r *reader, path string, n ast.Node) (value, bool) {
	written, is := textOf(n)
	number := is == "integer" || is == "number"
	switch {
	case s.kind() == is, number && s.kind() == "number":
	case is == "number" && s.kind() == "integer" && isWhole(n):
	case s.kind() == "string" && (number || is == "boolean"):
		hint := "write " + strconv.Quote(written) + " in quotes if that is meant"
		if _, ok := s.(duration); ok {
			hint = "write a unit, as in " + written + "s"
		}
		r.report(where(n), path, faultf(hint, "got the %s %s, want a string", is, written))
		return value{}, false
	default:
		if written != "" {
			written = " " + strconv.Quote(written)
		}
		r.report(where(n), path, faultf(refusal(is), "got %s%s, want %s", is, written, wanted(s.kind())))
		return value{}, false
	}
	parsed, f := s.parse(written)
	if f != (fault{}) {
		r.report(where(n), path, f)
		return value{}, false
	}
	return value{parsed, written, where(n)}, true
}

// wanted names a JSON type for a person.
func wanted(kind string) string {
	switch kind {
	case "boolean":
		return "true or false"
	case "integer":
		return "a whole number"
	}
	return "a " + kind
}

// refusal is the hint for a node that nothing in this file may be.
func refusal(kind string) string {
	switch kind {
	case "anchor", "alias", "tag", "directive":
		return "write the value itself: this file has no anchors, aliases, tags or directives"
	}
	return ""
}

func isWhole(n ast.Node) bool {
	f, ok := n.(*ast.FloatNode)
	return ok && f.Value == math.Trunc(f.Value)
}

// textOf returns a scalar as it counts, and its kind; "" if it is none.
func textOf(n ast.Node) (string, string) {
	is := kindOf(n)
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, is
	case *ast.LiteralNode:
		return s.Value.Value, is
	case *ast.IntegerNode:
		return fmt.Sprint(s.Value), is
	case *ast.FloatNode:
		return strconv.FormatFloat(s.Value, 'g', -1, 64), is
	case *ast.BoolNode:
		return strconv.FormatBool(s.Value), is
	case *ast.InfinityNode, *ast.NanNode:
		return n.String(), is
	}
	return "", is
}

func (w words) read(r *reader, path string, n ast.Node) (value, bool) {
	return readScalar(w, r, path, n)
}
func (t text) read(r *reader, path string, n ast.Node) (value, bool) {
	return readScalar(t, r, path, n)
}
func (d duration) read(r *reader, path string, n ast.Node) (value, bool) {
	return readScalar(d, r, path, n)
}
func (i integer) read(r *reader, path string, n ast.Node) (value, bool) {
	return readScalar(i, r, path, n)
}
func (s share) read(r *reader, path string, n ast.Node) (value, bool) {
	return readScalar(s, r, path, n)
}

func (s rate) read(r *reader, path string, n ast.Node) (value, bool) {
	return readScalar(s, r, path, n)
}
func (y yesNo) read(r *reader, path string, n ast.Node) (value, bool) {
	return readScalar(y, r, path, n)
}

func (l list) read(r *reader, path string, n ast.Node) (value, bool) {
	sequence, ok := n.(*ast.SequenceNode)
	if !ok {
		r.report(where(n), path, faultf("write a list, as in [a, b]", "got %s, want a list", kindOf(n)))
		return value{}, false
	}
	if len(sequence.Values) < l.least {
		r.report(where(n), path, faultf("name at least one", "the list is empty"))
		return value{}, false
	}
	var all []value
	sound := true
	for i, item := range sequence.Values {
		v, ok := l.of.read(r, fmt.Sprintf("%s[%d]", path, i), item)
		all, sound = append(all, v), sound && ok
	}
	return value{data: all, at: where(n)}, sound
}
