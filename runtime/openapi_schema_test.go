package runtime

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/siding-dev/siding/runtime/client"
)

type object = map[string]any

// describe makes the description of the whole HTTP surface: paths from the routes, schemas from the types of package client, and what is said
// about a field from its comment.
func describe(t *testing.T) []byte {
	t.Helper()
	s := schemas{comments: fieldComments(t, "client"), done: object{}}
	paths := object{}
	for name, guarded := range servedRoutes() {
		method, path, _ := strings.Cut(name, " ")
		item, _ := paths[path].(object)
		if item == nil {
			item = object{}
			paths[path] = item
		}
		item[strings.ToLower(method)] = s.operation(operations[name], path, guarded)
	}
	s.ref(reflect.TypeFor[client.Problem]())
	s.ref(reflect.TypeFor[client.ExportEnd]())
	s.done["CloudEvent"] = object{
		"type": "object", "description": "A CloudEvent 1.0 in the JSON format. Extension attributes stand beside these.",
		"required": []string{"specversion", "id", "source", "type"},
		"properties": object{
			"specversion": object{"type": "string", "const": "1.0"}, "id": object{"type": "string"}, "source": object{"type": "string", "format": "uri-reference"},
			"type": object{"type": "string"}, "subject": object{"type": "string"}, "time": object{"type": "string", "format": "date-time"},
			"datacontenttype": object{"type": "string"}, "dataschema": object{"type": "string", "format": "uri"}, "data": object{},
			"data_base64":  object{"type": "string", "contentEncoding": "base64"},
			"partitionkey": object{"type": "string", "description": "What events must stay in order about, unless the function says otherwise."},
		},
	}
	doc := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Siding", "version": "1",
			"description": "Fields are only ever added, never renamed or given another meaning. Times are RFC 3339 in UTC, durations as Go writes them. Every GET answers HEAD too.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers": []any{object{"url": "http://127.0.0.1:4280"}},
		"paths":   paths,
		"components": object{
			"schemas":         s.done,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "A token whose hash is in the node's token file. A node without such a file asks for none."}},
		},
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// schemas turns types into schemas, each once.
type schemas struct {
	comments map[string]string
	done     object
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

func (s *schemas) operation(o operation, path string, guarded bool) object {
	op := object{"summary": o.summary}
	parameters := []any{}
	for _, m := range pathParameter.FindAllStringSubmatch(path, -1) {
		schema := object{"type": "string"}
		if m[1] == "sequence" {
			schema = object{"type": "integer", "minimum": 1}
		}
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": schema})
	}
	for _, p := range o.query {
		schema := object{"type": "string"}
		switch p.kind {
		case "integer":
			schema = object{"type": "integer", "minimum": 1}
		case "time":
			schema = object{"type": "string", "format": "date-time"}
		}
		parameters = append(parameters, object{"name": p.name, "in": "query", "description": p.about, "schema": schema})
	}
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	cloudEvent := object{"$ref": "#/components/schemas/CloudEvent"}
	switch in := o.in.(type) {
	case nil:
	case events:
		op["requestBody"] = object{"required": true, "content": object{
			"application/cloudevents+json":       object{"schema": cloudEvent},
			"application/cloudevents-batch+json": object{"schema": object{"type": "array", "items": cloudEvent}},
			"*/*":                                object{"schema": object{"description": "The data of an event whose attributes are in ce- headers."}},
		}}
	default:
		op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": s.of(reflect.TypeOf(in))}}}
	}
	responses := object{}
	for _, status := range []int{max(o.status, 200), o.also} {
		if status == 0 {
			continue
		}
		r := object{"description": http.StatusText(status)}
		switch o.out.(type) {
		case events:
			accepted := s.ref(reflect.TypeFor[client.Accepted]())
			r["content"] = object{"application/json": object{"schema": object{"oneOf": []any{accepted, object{"type": "array", "items": accepted}}}}}
		case nil:
			if o.media != "none" {
				r["content"] = object{o.media: object{"schema": object{"type": "string"}}}
			}
		default:
			media := o.media
			if media == "" {
				media = "application/json"
			}
			r["content"] = object{media: object{"schema": s.of(reflect.TypeOf(o.out))}}
		}
		responses[strconv.Itoa(status)] = r
	}
	codes := slices.Clone(o.codes)
	if guarded {
		codes = append(codes, client.Unauthorized)
	}
	if o.out != nil {
		codes = append(codes, client.Unavailable, client.Internal)
	}
	byStatus := map[int][]string{}
	for _, c := range codes {
		if !slices.Contains(byStatus[c.Status()], string(c)) {
			byStatus[c.Status()] = append(byStatus[c.Status()], string(c))
		}
	}
	for status, names := range byStatus {
		slices.Sort(names)
		responses[strconv.Itoa(status)] = object{
			"description": "code " + strings.Join(names, " or "),
			"content":     object{"application/problem+json": object{"schema": s.ref(reflect.TypeFor[client.Problem]())}},
		}
	}
	op["responses"] = responses
	op["security"] = []any{}
	if guarded {
		op["security"] = []any{object{"token": []any{}}}
	}
	return op
}

// of returns the schema of a type as encoding/json writes it.
func (s *schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	case reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	case reflect.TypeFor[client.Code]():
		var all []string
		for _, c := range client.Codes() {
			all = append(all, string(c))
		}
		slices.Sort(all)
		return object{"type": "string", "enum": all}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.ref(t)
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return object{"type": "integer"}
	}
	panic("no schema for " + t.String())
}

func (s *schemas) ref(t reflect.Type) object {
	name := t.Name()
	if _, ok := s.done[name]; !ok {
		schema := object{"type": "object", "description": s.comments[name]}
		s.done[name] = schema
		properties, required := object{}, []string{}
		s.fields(t, properties, &required)
		schema["properties"] = properties
		if must, isRequest := requests[name]; isRequest {
			required = must
		}
		if len(required) > 0 {
			slices.Sort(required)
			schema["required"] = required
		}
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// fields adds the fields of a struct, those of what it embeds among them. What an answer may leave out is not required.
func (s *schemas) fields(t reflect.Type, properties object, required *[]string) {
	for f := range t.Fields() {
		if f.Anonymous {
			s.fields(f.Type, properties, required)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		schema := s.of(f.Type)
		if about := s.comments[t.Name()+"."+f.Name]; about != "" {
			schema = maps.Clone(schema)
			schema["description"] = about
		}
		properties[name] = schema
		if !strings.Contains(options, "omit") {
			*required = append(*required, name)
		}
	}
}

// fieldComments reads what the comments of a package say about its types and their fields.
func fieldComments(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: got %d files and %v, want some", dir, len(files), err)
	}
	link := regexp.MustCompile(`\[([\w.]+)\]`)
	tidy := func(groups ...*ast.CommentGroup) string {
		for _, g := range groups {
			if text := strings.Join(strings.Fields(g.Text()), " "); text != "" {
				return link.ReplaceAllString(text, "$1")
			}
		}
		return ""
	}
	comments := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				continue
			}
			spec := decl.Specs[0].(*ast.TypeSpec)
			comments[spec.Name.Name] = tidy(decl.Doc)
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range fields.Fields.List {
				for _, n := range f.Names {
					comments[spec.Name.Name+"."+n.Name] = tidy(f.Doc, f.Comment)
				}
			}
		}
	}
	return comments
}
