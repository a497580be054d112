package scaffold

import (
	"go/format"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func file(t *testing.T, from Source, name string) string {
	t.Helper()
	files, err := Files("example.com/claims", from)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(files, func(f File) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("got no %s", name)
	}
	return string(files[i].Content)
}

func checkout() Source { return Source{Checkout: "/src/my siding"} }

func TestTheProgramIsWrittenAsGofmtWritesIt(t *testing.T) {
	for _, name := range []string{"main.go", "claim.go", "claim_test.go"} {
		source := file(t, checkout(), name)
		if formatted, err := format.Source([]byte(source)); err != nil || string(formatted) != source {
			t.Errorf("%s: got other spacing than gofmt's (%v), want\n%s", name, err, formatted)
		}
	}
}

func TestTheLanguageIsThatOfSiding(t *testing.T) {
	ours, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "\ngo " + goVersion + "\n"; !strings.Contains(string(ours), want) || !strings.Contains(file(t, checkout(), "go.mod"), want) {
		t.Errorf("got no line %q in both go.mod files", strings.TrimSpace(want))
	}
	if ModuleOf(ours) != Siding || len(requirements(ours)) < 20 {
		t.Errorf("got %s and %q from our go.mod, want all it requires", ModuleOf(ours), requirements(ours))
	}
}

func TestAPathThatIsNotOneWordIsQuoted(t *testing.T) {
	if got, want := file(t, checkout(), "go.mod"), "replace github.com/siding-dev/siding => \"/src/my siding\"\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %s, want it to end in %s", got, want)
	}
}

func TestModuleNames(t *testing.T) {
	for name, want := range map[string]bool{
		"claims": true, "example.com/claims": true, "a-b.c/d_e~f": true, "": false, "a b": false, "/a": false, "a/": false, "a//b": false, "../a": false, "a.": false, "a\nb": false,
	} {
		if got := ValidModule(name); got != want {
			t.Errorf("%q: got %t, want %t", name, got, want)
		}
	}
}

// There is no Docker where the tests run: what can be said of the file without
// it is that it is YAML, that its parts name each other, and that nothing is
// open to other machines.
func TestTheComposeFileHoldsTogether(t *testing.T) {
	for _, from := range []Source{checkout(), {Version: "v1.2.3"}} {
		var compose struct {
			Services map[string]struct {
				Image       string
				Command     []string
				Environment map[string]string
				Ports       []string
				Volumes     []string
				DependsOn   []string `yaml:"depends_on"`
				Grace       string   `yaml:"stop_grace_period"`
				WorkingDir  string   `yaml:"working_dir"`
			}
			Volumes map[string]any
		}
		content := file(t, from, "compose.yaml")
		if err := yaml.UnmarshalWithOptions([]byte(content), &compose, yaml.Strict()); err != nil {
			t.Fatalf("%v\n%s", err, content)
		}
		app, jaeger := compose.Services["app"], compose.Services["jaeger"]
		if app.Environment["OTEL_EXPORTER_OTLP_ENDPOINT"] != "http://jaeger:4318" || jaeger.Environment["JAEGER_LISTEN_HOST"] != "0.0.0.0" || !slices.Contains(app.DependsOn, "jaeger") {
			t.Errorf("got %+v, want the spans to reach Jaeger", app)
		}
		if app.Environment["OTEL_SERVICE_NAME"] != "claims" || app.Image != "golang:1.26" || app.Grace != "30s" {
			t.Errorf("got %+v, want it named, with the language of Siding and time to stop", app)
		}
		for _, s := range compose.Services {
			for _, port := range s.Ports {
				if !strings.HasPrefix(port, "127.0.0.1:") {
					t.Errorf("got port %s, want it on this machine alone", port)
				}
			}
			for _, v := range s.Volumes {
				name, _, _ := strings.Cut(v, ":")
				if _, declared := compose.Volumes[name]; !declared && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "/") {
					t.Errorf("got volume %s, want it declared", name)
				}
			}
		}
		if got, want := slices.Contains(app.Volumes, "/src/my siding:/src/my siding:ro"), from.Checkout != ""; got != want {
			t.Errorf("got the checkout mounted: %t, want %t", got, want)
		}
	}
}
