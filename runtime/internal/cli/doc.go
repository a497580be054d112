// Package cli is the command line of every binary that hosts functions.
//
// # Contract
//
// Commands are noun and verb (siding dlq ls). Standard output is data and
// standard error is talk: what a command prints to a pipe is what was asked
// for and nothing else. Every read takes --json, whose shapes are those of
// package client. A failure is one line "siding: what and which" and, where
// there is something to do about it, one line "hint: …".
//
// The exit code is 0 for done, 1 for failed, 2 for a wrong use of the command
// line, 3 for not found, 4 for refused or in conflict, 5 for a node that is
// unreachable or not ready. Code 4 will be the same when repeated, code 5 may
// not.
//
// A destructive command shows what it is about to do and asks. Without a
// terminal to ask on it refuses, unless --yes says that somebody has decided.
//
// The package talks to a node only through package client; serve and demo are
// handed in by the binary. What a node is told is read by package config, in
// one way for serve, dev and config show; a configuration that is wrong is a
// wrong use, so that config check exits as a start with the same file would.
package cli
