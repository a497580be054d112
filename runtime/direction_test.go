package runtime_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const modulePath = "github.com/siding-dev/siding"

// A ban says which imports the packages below one folder may not have, and why.
type ban struct {
	folder string   // of ours, "functions" for functions and all below it; "" for everything outside except
	except []string // folders that the ban leaves out
	target string   // an import path; it and all below it are banned
	allow  []string // import paths below target that are no offence
	direct bool     // only imports that our own code states, not what comes in through others
	reason string
}

func bans() []ban {
	ours := func(folders ...string) []string {
		paths := make([]string, len(folders))
		for i, folder := range folders {
			paths[i] = modulePath + "/" + folder
		}
		return paths
	}
	surface := []string{"runtime", "e2e"} // what people and machines touch is made in runtime; e2e touches it
	return []ban{
		{
			folder: "functions", target: modulePath, allow: ours("functions"),
			reason: "functions is a leaf: whoever writes a handler compiles and tests it without the rest of us",
		},
		{
			folder: "functions", target: "github.com/nats-io",
			reason: "a handler must not know what carries its events",
		},
		{
			folder: "functions", target: "github.com/cloudevents/sdk-go/v2", direct: true,
			allow:  []string{"github.com/cloudevents/sdk-go/v2/event", "github.com/cloudevents/sdk-go/v2/types"},
			reason: "the event and its attribute values are all that we take from the SDK; its clients bring transports of their own",
		},
		{
			folder: "streams", target: modulePath, allow: ours("streams"),
			reason: "streams is a leaf: how we store must not depend on who handles",
		},
		{
			folder: "advisories", target: modulePath, allow: ours("advisories", "streams", "functions"),
			reason: "advisories must be able to park for functions that are no longer compiled in, so it cannot need a host",
		},
		{
			folder: "runtime/internal/demo", target: modulePath, allow: ours("runtime/internal/demo", "functions", "runtime/client"),
			reason: "the demo shows nothing that a user's program could not do, so it may not reach for more than one has",
		},
		{
			except: surface, target: modulePath + "/runtime",
			reason: "runtime sees everything, so nothing may see runtime; e2e stands outside, like a user's main",
		},
		{
			except: surface, target: "github.com/prometheus", direct: true,
			reason: "what is counted is decided in one place, runtime/metrics.go",
		},
		{
			except: surface, target: "go.opentelemetry.io", direct: true,
			reason: "what is traced is decided in one place, runtime/trace.go",
		},
		{
			except: surface, target: "github.com/spf13", direct: true,
			reason: "commands belong to runtime/internal/cli",
		},
	}
}

// imports are one package's imports: those that its code states, and all that these bring along.
type imports struct{ direct, all []string }

// offences names, in order, each import that a ban forbids.
func offences(packages map[string]imports, bans []ban) []string {
	below := func(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }
	belowAny := func(path string, parents []string) bool {
		return slices.ContainsFunc(parents, func(parent string) bool { return below(path, parent) })
	}
	var found []string
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		folder := strings.TrimPrefix(path, modulePath+"/")
		for _, b := range bans {
			if b.folder != "" && !below(folder, b.folder) || belowAny(folder, b.except) {
				continue
			}
			imported := packages[path].all
			if b.direct {
				imported = packages[path].direct
			}
			for _, target := range slices.Sorted(slices.Values(imported)) {
				if below(target, b.target) && !belowAny(target, b.allow) {
					found = append(found, fmt.Sprintf("%s imports %s: %s", path, target, b.reason))
				}
			}
		}
	}
	return found
}

func TestPackagesImportOnlyInTheDirectionOfTheirFolders(t *testing.T) {
	packages := ourPackages(t)
	for _, folder := range []string{"functions", "streams", "advisories", "runtime"} {
		if _, there := packages[modulePath+"/"+folder]; !there {
			t.Errorf("go list knows no package %s: its bans would hold of nothing", folder)
		}
	}
	for _, offence := range offences(packages, bans()) {
		t.Error(offence)
	}
}

func TestEachBanFindsItsOffence(t *testing.T) {
	nats, otel := "github.com/nats-io/nats.go", "go.opentelemetry.io/otel"
	innocent := map[string]imports{
		modulePath + "/functions":           {direct: []string{"github.com/cloudevents/sdk-go/v2/event"}, all: []string{"github.com/cloudevents/sdk-go/v2/types"}},
		modulePath + "/functions/testing":   {all: []string{modulePath + "/functions"}},
		modulePath + "/streams":             {direct: []string{nats}, all: []string{nats, otel}},
		modulePath + "/advisories":          {all: []string{modulePath + "/functions", modulePath + "/streams", nats}},
		modulePath + "/runtime":             {direct: []string{otel}, all: []string{modulePath + "/advisories", modulePath + "/runtime/client", otel}},
		modulePath + "/runtime/cmd/siding":  {all: []string{modulePath + "/runtime"}},
		modulePath + "/runtimes":            {},
		modulePath + "/e2e/claims":          {all: []string{modulePath + "/runtime"}},
		modulePath + "/runtime/testing/all": {direct: []string{"github.com/spf13/cobra", "github.com/prometheus/common"}},
	}
	if diff := cmp.Diff([]string(nil), offences(innocent, bans())); diff != "" {
		t.Errorf("offences of the innocent (-want +got):\n%s", diff)
	}

	stated := func(path string) imports { return imports{direct: []string{path}, all: []string{path}} }
	for _, guilty := range []struct {
		from string
		has  imports
	}{
		{"functions", stated(modulePath + "/streams")},
		{"functions/functionstest", stated(modulePath + "/runtime/client")},
		{"functions", imports{all: []string{nats}}},
		{"functions", stated("github.com/cloudevents/sdk-go/v2/client")},
		{"streams", imports{all: []string{modulePath + "/functions"}}},
		{"advisories", imports{all: []string{modulePath + "/runtime"}}},
		{"runtime/internal/demo", stated(modulePath + "/streams")},
		{"runtimes", stated(modulePath + "/runtime")},
		{"streams", stated("github.com/prometheus/client_golang/prometheus")},
		{"advisories", stated(otel)},
		{"functions", stated("github.com/spf13/cobra")},
	} {
		if got := offences(map[string]imports{modulePath + "/" + guilty.from: guilty.has}, bans()); len(got) == 0 {
			t.Errorf("%s importing %v: got no offence, want one", guilty.from, guilty.has.all)
		}
	}
}

func TestTheTopFolderHoldsOnlyWhatTheReadmeMaps(t *testing.T) {
	allowed := []string{
		"functions", "streams", "advisories", "runtime", "deploy", "e2e",
		"Taskfile.yml", "README.md", "LICENSE", "go.mod", "go.sum",
	}
	for _, name := range topNames(t, moduleRoot(t)) {
		if !strings.HasPrefix(name, ".") && !slices.Contains(allowed, name) {
			t.Errorf("%s: stands at the top of the repository: a folder there is a room with a purpose of its own; hint: put it into one of %v", name, allowed[:6])
		}
	}
}

// moduleRoot is the folder of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	return filepath.Dir(strings.TrimSpace(string(goCommand(t, ".", "env", "GOMOD"))))
}

// ourPackages asks the go command for every package of the module, as it is built and without its tests.
func ourPackages(t *testing.T) map[string]imports {
	t.Helper()
	packages := map[string]imports{}
	list := json.NewDecoder(strings.NewReader(string(goCommand(t, moduleRoot(t), "list", "-json=ImportPath,Imports,Deps", "./..."))))
	for {
		var p struct {
			ImportPath    string
			Imports, Deps []string
		}
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages[p.ImportPath] = imports{direct: p.Imports, all: p.Deps}
	}
}

func goCommand(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// topNames are the names at the top that belong to the repository: what git tracks, so that a stray file of somebody at
// work is no offence, and without git, as in an unpacked archive, all that .gitignore does not name.
func topNames(t *testing.T, dir string) []string {
	t.Helper()
	git := exec.CommandContext(t.Context(), "git", "ls-files")
	git.Dir = dir
	if out, err := git.Output(); err == nil && len(out) > 0 {
		var names []string
		for line := range strings.Lines(string(out)) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "/")
			names = append(names, name)
		}
		slices.Sort(names)
		return slices.Compact(names)
	}

	ignore, err := os.ReadFile(filepath.Join(dir, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		ignored := slices.ContainsFunc(strings.Fields(string(ignore)), func(pattern string) bool {
			match, err := filepath.Match(strings.Trim(pattern, "/"), entry.Name())
			return err == nil && match
		})
		if !ignored {
			names = append(names, entry.Name())
		}
	}
	return names
}
