// Command skips reads the output of `go test -json` from stdin and prints what `go test` would have printed, with one
// difference in the verdict: a skipped test fails the run, because a test that did not run proves nothing.
//
// Of a passing package it prints the closing line and the attributes that tests have set by [testing.T.Attr], which is
// how a test shows what it measured. Of a failing one it prints all that was said, except by the tests that passed.
//
//	set -o pipefail; go test -json ./... | go run ./e2e/skips
//
// The pipe needs pipefail: a run that dies before its first event is known only by the exit code of go test.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if err := report(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
		os.Exit(1)
	}
}

// event is one line of `go test -json`; its fields are described in `go doc test2json`.
type event struct {
	Action, Package, Test, Output, Key, Value string
}

// place is what output belongs to: a test, or a package itself where test is empty.
type place struct{ pkg, test string }

// report copies the readable part of events to w. Its error counts the packages that failed and names each skipped test.
func report(events io.Reader, w io.Writer) error {
	said := map[place][]string{}
	var skipped []string
	tests, broken := 0, 0

	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				// The go command itself speaks plainly, for example of a package that it cannot find.
				fmt.Fprint(w, line)
				continue
			}
			at := place{e.Package, e.Test}
			switch e.Action {
			case "build-output":
				fmt.Fprint(w, e.Output)
			case "output":
				if !strings.HasPrefix(e.Output, "=== ") { // of interest only while a test runs
					said[at] = append(said[at], e.Output)
				}
			case "attr":
				fmt.Fprintf(w, "    %s: %s %s\n", e.Test, e.Key, e.Value)
			case "pass", "skip", "fail":
				if e.Test == "" {
					closePackage(w, said, e)
					if e.Action == "fail" {
						broken++
					}
					continue
				}
				tests++
				if e.Action == "skip" {
					skipped = append(skipped, e.Package+"."+e.Test)
				}
				if e.Action != "pass" {
					fmt.Fprint(w, strings.Join(said[at], ""))
				}
				delete(said, at)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the events of go test: %w", err)
		}
	}

	var errs []error
	if broken > 0 {
		errs = append(errs, fmt.Errorf("%d packages failed", broken))
	}
	for _, test := range skipped {
		errs = append(errs, fmt.Errorf("%s: skipped, which counts as failed: hint: make it run here or remove it", test))
	}
	if tests == 0 {
		errs = append(errs, errors.New("no test ran"))
	}
	return errors.Join(errs...)
}

// closePackage prints what remains to be said when a package has ended. Where it failed that is its own output and that
// of tests which never ended, cut off by a timeout or a crash; where it passed, its closing line. A package without
// tests ends as skipped, which is no offence.
func closePackage(w io.Writer, said map[place][]string, e event) {
	own := place{pkg: e.Package}
	for at, output := range said {
		if at.pkg != e.Package || at == own {
			continue
		}
		if e.Action == "fail" {
			fmt.Fprint(w, strings.Join(output, ""))
		}
		delete(said, at)
	}
	for _, line := range said[own] {
		if e.Action == "fail" || strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") {
			fmt.Fprint(w, line)
		}
	}
	delete(said, own)
}
