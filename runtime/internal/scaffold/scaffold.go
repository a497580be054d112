// Package scaffold writes the files of a new program that hosts a function: a
// module that builds, a handler that shows every outcome, its test, and what it
// takes to run it beside a Jaeger.
//
// [Files] is pure. The module builds without a network where it is made against
// a checkout: its go.mod then requires what the checkout requires, and its
// go.sum is the checkout's, so that nothing has to be resolved. go mod tidy
// removes what it does not need. Against a released version there is no go.sum,
// and go mod tidy makes it.
package scaffold

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/template"
)

// Siding is the module that the new one requires.
const Siding = "github.com/siding-dev/siding"

// goVersion is the language that Siding is written in.
const goVersion = "1.26.0"

// File is one file of the new module.
type File struct {
	// Name is its path below the module's folder, with slashes.
	Name    string
	Content []byte
}

// Source says where the new module finds Siding: a released version, or a
// checkout with the content of its go.mod and go.sum.
type Source struct {
	Version string

	Checkout     string // absolute
	GoMod, GoSum []byte
}

//go:embed template
var templates embed.FS

// names of the templates, in the order in which a reader wants them. A name
// ends in .tmpl so that the go command does not take it for a file of ours.
func names() []string {
	return []string{"main.go", "claim.go", "claim_test.go", "compose.yaml", ".gitignore"}
}

var moduleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]*(/[A-Za-z0-9_~][A-Za-z0-9._~-]*)*$`)

// ValidModule says whether name can be the path of a module.
func ValidModule(name string) bool {
	return moduleName.MatchString(name) && !strings.HasSuffix(name, ".")
}

// Files returns the files of a module of this name.
func Files(module string, from Source) ([]File, error) {
	all := []File{{"go.mod", goMod(module, from)}}
	if from.Checkout != "" {
		all = append(all, File{"go.sum", from.GoSum})
	}
	parsed, err := template.ParseFS(templates, "template/*.tmpl")
	if err != nil {
		return nil, err
	}
	values := struct{ Program, Checkout, GoImage string }{
		path.Base(module), filepath.ToSlash(from.Checkout), strings.TrimSuffix(goVersion, ".0"),
	}
	for _, name := range names() {
		var out bytes.Buffer
		if err := parsed.ExecuteTemplate(&out, strings.TrimPrefix(name, ".")+".tmpl", values); err != nil {
			return nil, err
		}
		all = append(all, File{name, out.Bytes()})
	}
	return all, nil
}

func goMod(module string, from Source) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "module %s\n\ngo %s\n\n", module, goVersion)
	if from.Checkout == "" {
		fmt.Fprintf(&b, "require %s %s\n", Siding, from.Version)
		return b.Bytes()
	}
	fmt.Fprintf(&b, "require %s v0.0.0\n\nrequire (\n", Siding)
	for _, r := range requirements(from.GoMod) {
		fmt.Fprintf(&b, "\t%s // indirect\n", r)
	}
	b.WriteString(")\n\n// Siding as it is in a checkout; remove this line to use a released version.\n")
	fmt.Fprintf(&b, "replace %s => %s\n", Siding, quoted(filepath.ToSlash(from.Checkout)))
	return b.Bytes()
}

// requirements returns what a go.mod in the go command's own spelling requires,
// as module and version.
func requirements(goMod []byte) []string {
	var all []string
	block := false
	for line := range strings.Lines(string(goMod)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "//")
		line = strings.TrimSpace(line)
		switch {
		case line == "require (":
			block = true
		case line == ")":
			block = false
		case block && line != "":
			all = append(all, line)
		case strings.HasPrefix(line, "require "):
			all = append(all, strings.TrimPrefix(line, "require "))
		}
	}
	return all
}

// ModuleOf returns the name of the module that a go.mod declares.
func ModuleOf(goMod []byte) string {
	for line := range strings.Lines(string(goMod)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// quoted is a path as go.mod wants it: with quotes where it is not one word.
func quoted(path string) string {
	if strings.ContainsAny(path, " \t\"'`()[],;") {
		return strconv.Quote(path)
	}
	return path
}
