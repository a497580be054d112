package config

import (
	"encoding/json"
	"slices"
)

// Schema returns the JSON Schema of the file, for editors and for checks in
// other places. It accepts what the parser accepts. What only the functions
// themselves know (a pattern of types, an order of two numbers) is checked at
// the start of a node and by config check.
func Schema() []byte {
	s := file().schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Configuration of a Siding node"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // maps of strings and numbers always have a JSON form
	}
	return append(out, '\n')
}

func (l list) schema() map[string]any {
	return map[string]any{"type": "array", "items": l.of.schema(), "minItems": l.least}
}

func (s section) schema() map[string]any {
	out := map[string]any{"type": []any{"object", "null"}, "additionalProperties": false, "properties": s.properties()}
	if len(s.require) == 0 {
		return out
	}
	// A null has none of the keys that one group must have.
	out["type"] = "object"
	var forms []any
	for i, group := range s.require {
		var others []any
		for j, other := range s.require {
			if j == i {
				continue
			}
			for _, key := range other {
				others = append(others, required(key))
			}
		}
		form := map[string]any{"required": group}
		if len(others) > 0 {
			form["not"] = map[string]any{"anyOf": others}
		}
		forms = append(forms, form)
	}
	out["oneOf"] = forms
	return out
}

func (s section) properties() map[string]any {
	all := map[string]any{}
	for _, f := range s.fields {
		property := f.rule.schema()
		property["description"] = f.doc
		all[f.name] = property
	}
	return all
}

func required(keys ...string) map[string]any { return map[string]any{"required": keys} }

func (f functionMap) schema() map[string]any {
	one := f.section.schema()
	var meaning []any
	for _, field := range f.fields {
		if field.meaning {
			meaning = append(meaning, required(field.name))
		}
	}
	one["if"] = required("url")
	one["then"] = required("types")
	one["else"] = map[string]any{"not": map[string]any{"anyOf": slices.Clone(meaning)}}
	return map[string]any{
		"type": []any{"object", "null"}, "propertyNames": map[string]any{"pattern": functionName.String()}, "additionalProperties": one,
	}
}
