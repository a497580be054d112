// Package config reads what an operator says about a node: one strict YAML
// file, the environment and the flags.
//
// # Contract
//
// Developers set meaning in Go, operators tune numbers. The file has the
// settings of the node and, under functions, numbers for functions that are
// compiled in (retry, rules, breaker, rate, window, timeout, concurrency, hold_limit,
// and who owns it) or
// whole functions that live behind a URL. What a compiled-in function means
// (its types, its order, what parking does) cannot be set from outside: a file
// that changes the order of events behind its developer's back would be a bug
// that no test of his can find.
//
// Strict means that nothing is guessed: an unknown or doubled key, a value of
// another type, a number out of its range and a function that nobody hosts are
// errors, all of which are reported at once, each with line, column and the
// path of the key. Anchors, aliases, tags and a second document are refused.
//
// The file of siding dev --chaos, which makes functions fail on purpose, is another
// one of the same strictness: see [LoadChaos]. No setting names it, so that no node
// but one that somebody develops with can be told to fail.
//
// # Precedence
//
// Default, file, environment, flag: the last one that says something wins. The
// environment has SIDING_ and the key in capitals, a flag has hyphens for
// underscores: data_dir, SIDING_DATA_DIR, --data-dir. [Load] remembers for each
// setting where its value came from. Paths are relative to the working
// directory, wherever they are said.
//
// # Model
//
// One table (settings.go, function.go) of keys and rules drives the parser, the
// JSON Schema of the file, the names in the environment and the flags. A rule
// reads a node of the file and describes itself as JSON Schema; both accept the
// same documents, except for what only [functions.Function.Validate] knows.
//
// Everything is pure but for [Load], which reads the one file that it is
// given. Nothing here changes after it was made.
package config
