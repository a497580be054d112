package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/internal/scaffold"
)

func (a *app) initModule() *cobra.Command {
	var module, checkout string
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a program of your own: a handler, its test and a compose file",
		Long: "Writes a Go module into DIR, or into the working directory: main.go, a handler that shows every outcome, its test and a\n" +
			"compose file with a Jaeger. It overwrites nothing. A binary that was not built from a release needs a checkout of\n" +
			"Siding to build against: --siding, or the one that holds the working directory.",
		Args: arguments(0, 1, "[DIR]"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return a.runInit(dir, module, checkout)
		},
	}
	c.Flags().StringVar(&module, "module", "", "path of the module (the name of DIR)")
	c.Flags().StringVar(&checkout, "siding", "", "checkout of Siding to build against")
	return c
}

func (a *app) runInit(dir, module, checkout string) error {
	if module == "" {
		full, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		module = moduleOf(filepath.Base(full))
	}
	if !scaffold.ValidModule(module) {
		return usage("use letters, digits, hyphens and dots, with slashes between, as in example.com/claims", "--module %q: not the path of a module", module)
	}
	from, err := a.sourceOf(checkout)
	if err != nil {
		return err
	}
	files, err := scaffold.Files(module, from)
	if err != nil {
		return err
	}
	if err := writeNew(dir, files); err != nil {
		return err
	}
	for _, f := range files {
		fmt.Fprintln(a.env.Stdout, clean(filepath.Join(dir, filepath.FromSlash(f.Name))))
	}
	a.say("next:")
	if dir != "." {
		if strings.Contains(dir, " ") {
			dir = strconv.Quote(dir)
		}
		a.say("  cd %s", clean(dir))
	}
	if from.Checkout == "" {
		a.say("  go mod tidy")
	}
	a.say("  go test ./...")
	a.say("  go run . dev")
	a.say("and in another terminal, a claim that will be a dead letter:")
	a.say("  go run . event send --type com.example.claim.reported --key P-1 --data '{\"policy\":\"P-1\"}'")
	a.say("  go run . dlq ls")
	return nil
}

// moduleOf makes a module's path of a folder's name.
func moduleOf(folder string) string {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9._-]+`).ReplaceAllString(strings.ToLower(folder), "-"), "-._")
	if name == "" {
		return "claims"
	}
	return name
}

// sourceOf finds the Siding that the new module builds against.
func (a *app) sourceOf(checkout string) (scaffold.Source, error) {
	if checkout != "" {
		source, ok, err := checkoutAt(checkout)
		if err == nil && !ok {
			err = usage("name the folder that holds the go.mod of "+scaffold.Siding, "--siding %s: no checkout of Siding", checkout)
		}
		return source, err
	}
	working, err := os.Getwd()
	if err != nil {
		return scaffold.Source{}, err
	}
	for dir := working; ; dir = filepath.Dir(dir) {
		if source, ok, err := checkoutAt(dir); err != nil || ok {
			return source, err
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if a.env.Release == "" {
		return scaffold.Source{}, usage("name one with --siding DIR, or run it in one", "this binary is no release, and %s is in no checkout of Siding", working)
	}
	return scaffold.Source{Version: a.env.Release}, nil
}

// checkoutAt says whether a checkout of Siding begins at dir.
func checkoutAt(dir string) (scaffold.Source, bool, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return scaffold.Source{}, false, err
	}
	goMod, err := os.ReadFile(filepath.Join(full, "go.mod"))
	if err == nil && scaffold.ModuleOf(goMod) == scaffold.Siding {
		goSum, err := os.ReadFile(filepath.Join(full, "go.sum"))
		return scaffold.Source{Checkout: full, GoMod: goMod, GoSum: goSum}, true, err
	}
	return scaffold.Source{}, false, nil
}

// writeNew writes the files, or nothing if one of them is there.
func writeNew(dir string, files []scaffold.File) error {
	var there []string
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(f.Name))); !errors.Is(err, fs.ErrNotExist) {
			there = append(there, f.Name)
		}
	}
	if len(there) > 0 {
		return refused("choose another directory, or move them away", "%s: %s would be overwritten", dir, strings.Join(there, ", "))
	}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := writeOnce(path, f.Content); err != nil {
			return err
		}
	}
	return nil
}

// writeOnce writes a file that nobody else may have made meanwhile.
func writeOnce(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
