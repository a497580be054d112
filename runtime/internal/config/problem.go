package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// position is a place in a file; both count from 1.
type position struct{ line, column int }

// Problem is one thing that is wrong, and where it was said.
type Problem struct {
	// File, Line and Column say where it stands. Outside the file they are
	// empty, and Where names the variable or the flag.
	File         string
	Line, Column int
	Where        string
	// Path is the key in the file, as in functions.file-claim.retry.attempts.
	Path string
	// Text says what is wrong, Hint what to do instead. Hint may be empty.
	Text, Hint string
}

// Place returns file:line:column, or the name of the variable or flag.
func (p Problem) Place() string {
	switch {
	case p.File == "":
		return p.Where
	case p.Line == 0:
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// What returns place, path and text without the hint.
func (p Problem) What() string {
	var parts []string
	for _, part := range []string{p.Place(), p.Path, p.Text} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

func (p Problem) Error() string {
	if p.Hint == "" {
		return p.What()
	}
	return p.What() + ": hint: " + p.Hint
}

// Problems is everything that is wrong, in the order of the file.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// err returns ps sorted, as an error, or nil if nothing is wrong.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return ps
}

// AllProblems returns the problems that err consists of. An error of another
// kind has none.
func AllProblems(err error) Problems {
	ps, _ := errors.AsType[Problems](err)
	return ps
}
