// Package client is the HTTP API of a Siding node, as its command line uses it
// and as any other tool may.
//
// # Contract
//
// The types of this package are the JSON of /api/v1 and of every --json output:
// snake_case names, times in RFC 3339 with nanoseconds in UTC, durations as Go
// writes them ("30s"). A field is only ever added, never renamed or given
// another meaning. The package imports nothing of Siding.
//
// # Errors
//
// A call fails in three ways. The node answered and refused: the error is a
// *[Problem] with a [Code] that a program may switch on. Nobody answered:
// errors.Is(err, [ErrUnreachable]). The caller's context ended: its error.
//
// # Concurrency
//
// A [Client] may be used by any number of goroutines. [Client.Tail] calls its
// function on the caller's goroutine, one dead letter after the other.
package client
