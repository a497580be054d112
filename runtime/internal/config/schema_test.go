package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

func compileSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("siding.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("siding.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON is a document as the schema sees it.
func asJSON(content []byte) (any, error) {
	var v any
	if err := yaml.Unmarshal(content, &v); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(raw))
}

// someValue draws what may stand behind a key: often something right, often
// something that nearly is.
func someValue(t *rapid.T, depth int) any {
	word := rapid.SampledFrom([]any{
		"30s", "1m30s", "1.5h", "0s", "0h0m", "99999h", "100000h", "1500ms", "-1s", "1d", "", "off", "always", "interval", "debug", "text", "json",
		"127.0.0.1:4280", ":0", "[::1]:80", "localhost:65535", "localhost:65536", "localhost", "a b:1", "http://h", "https://h/p?q", "ftp://h", "http://",
		"partitionkey", "subject", "extension:x", "extension:", "hold", "continue", "now", "beginning", "a.b", "a\tb", "two words", "0 2 * * *", "CRON_TZ=UTC 0 2 * * *", "0 2 * *", 0.0001, 0.00001, 100000, 100001,
		true, false, nil, 0, 1, 12, 1000, 1024, 1025, -1, 0.5, 1.0, 1.5, 1e9, 2e9,
	})
	if depth == 0 || rapid.IntRange(0, 2).Draw(t, "scalar") > 0 {
		return word.Draw(t, "word")
	}
	if rapid.Bool().Draw(t, "list") {
		items := make([]any, rapid.IntRange(0, 2).Draw(t, "items"))
		for i := range items {
			items[i] = word.Draw(t, "item")
		}
		return items
	}
	return someMapping(t, depth-1)
}

func someMapping(t *rapid.T, depth int) map[string]any {
	m := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "keys") {
		m[rapid.SampledFrom([]string{"attempts", "backoff", "first", "longest", "delays", "jitter", "age", "depth", "url", "types", "text", "class", "inflow", "off", "probe", "name", "every", "cron", "length", "x"}).Draw(t, "key")] = someValue(t, depth)
	}
	return m
}

// soundValue draws, for a rule, what it accepts.
func soundValue(t *rapid.T, r rule) any {
	pick := func(of ...any) any { return rapid.SampledFrom(of).Draw(t, "sound") }
	switch r := r.(type) {
	case words:
		return pick(r.any()...)
	case duration:
		return pick("1s", "30s", "1m30s", "99999h")
	case integer:
		return pick(r.least, r.most, 1)
	case rate:
		return pick(0, r.least, r.most, 12.5)
	case share:
		if r.positive {
			return pick(0.01, 0.5, 1)
		}
		return pick(0, 0.5, 1)
	case yesNo:
		return pick(true, false)
	case list:
		return []any{soundValue(t, r.of)}
	case section:
		m := map[string]any{}
		group, grouped := map[string]bool{}, map[string]bool{}
		if len(r.require) > 0 {
			for _, key := range rapid.SampledFrom(r.require).Draw(t, "group") {
				group[key] = true
			}
		}
		for _, key := range slices.Concat(r.require...) {
			grouped[key] = true
		}
		for _, f := range r.fields {
			if group[f.name] || !grouped[f.name] && rapid.Bool().Draw(t, f.name) {
				m[f.name] = soundValue(t, f.rule)
			}
		}
		return m
	case functionMap:
		f := soundValue(t, r.section).(map[string]any)
		if _, declared := f["url"]; declared {
			f["types"] = []any{"a"}
		}
		return map[string]any{rapid.SampledFrom([]string{"f", "audit", "x-1"}).Draw(t, "name"): f}
	case text:
		for _, s := range []string{"http://h", "subject", "127.0.0.1:4280", "0 2 * * *", "a.b"} {
			if r.pattern.MatchString(s) {
				return s
			}
		}
	}
	panic(fmt.Sprintf("no sound value for %T", r))
}

// spoil puts something at a random place of a document.
func spoil(t *rapid.T, doc map[string]any) {
	for {
		keys := []string{"http", "htpp", "functions", "x"}
		for k := range doc {
			keys = append(keys, k)
		}
		key := rapid.SampledFrom(slices.Sorted(slices.Values(keys))).Draw(t, "place")
		below, deeper := doc[key].(map[string]any)
		if !deeper || rapid.IntRange(0, 3).Draw(t, "here") == 0 {
			doc[key] = someValue(t, 2)
			return
		}
		doc = below
	}
}

// What the schema accepts the parser accepts, and the other way round.
func TestSchemaAndParserAgree(t *testing.T) {
	schema := compileSchema(t)
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		doc := soundValue(t, file()).(map[string]any)
		if rapid.Bool().Draw(t, "spoilt") {
			spoil(t, doc)
		}
		content, err := yaml.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		v, err := asJSON(content)
		if err != nil {
			t.Fatal(err)
		}
		bySchema := schema.Validate(v)
		_, problems := parse("c.yaml", content)
		if (bySchema == nil) != (len(problems) == 0) {
			t.Fatalf("got %v by the schema and %v by the parser, want the same, for\n%s", bySchema, problems.err(), content)
		}
		if bySchema == nil {
			accepted++
		} else {
			refused++
		}
	})
	if accepted == 0 || refused == 0 {
		t.Errorf("got %d documents accepted and %d refused, want some of each", accepted, refused)
	}
}

func TestEveryKeyIsDescribed(t *testing.T) {
	var walk func(path string, node map[string]any)
	walk = func(path string, node map[string]any) {
		properties, _ := node["properties"].(map[string]any)
		for name, p := range properties {
			property := p.(map[string]any)
			if d, _ := property["description"].(string); d == "" {
				t.Errorf("%s.%s: got no description", path, name)
			}
			walk(path+"."+name, property)
		}
		if more, ok := node["additionalProperties"].(map[string]any); ok {
			walk(path+".*", more)
		}
	}
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	walk("", root)
}

// Whatever the bytes are, they are read or refused with a place in the file.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "grace: 1s\n", "functions: {u: {url: http://h, types: [a, 'b.>'], retry: {backoff: {delays: [1s]}}}}", "a: &x [1]\nb: *x\n", "? a\n: b\n",
		"%YAML 1.2\n---\na: 1\n---\n", "a: |\n  b\n", "\"\\u0000\": !!str 1\n", "functions:\n  audit:\n    retry:\n", "[[[[", "{{{{", "- - - -", "<<: {a: 1}",
	} {
		f.Add([]byte(seed))
	}
	schema := compileSchema(f)
	f.Fuzz(func(t *testing.T, content []byte) {
		_, problems := parse("c.yaml", content)
		lines := 1 + bytes.Count(content, []byte("\n")) + bytes.Count(content, []byte("\r"))
		for _, p := range problems {
			if p.Text == "" || strings.Contains(p.Text, "\n") || p.Line > lines {
				t.Errorf("got %+v of %d lines, want a text on one line and a line of the file", p, lines)
			}
		}
		if len(problems) > 0 {
			return
		}
		v, err := asJSON(content)
		if err != nil {
			t.Fatalf("got it parsed, but the decoder says %v", err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("got it parsed, but the schema says %v", err)
		}
	})
}
