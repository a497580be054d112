package functions

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"
)

// Defaults of a [Function].
const (
	DefaultStream      = "EVENTS"
	DefaultTimeout     = 30 * time.Second
	DefaultConcurrency = 16
)

// Handler handles one event. The error that it returns is the outcome of the
// attempt; the package comment lists what each means. It is called from many
// goroutines at once and owns the event it is given. It must return soon after
// ctx is done.
type Handler func(ctx context.Context, e Event) error

// Function describes a function: what it handles and by which rules. A literal
// with Name, Types and Handle is complete.
type Function struct {
	// Name identifies the function for ever: where its events stand is stored
	// under it. A lower-case letter, then lower-case letters, digits and
	// hyphens, at most 63 characters.
	Name string
	// Types are the CloudEvents types it wants, at least one. As in NATS, a
	// token * stands for any one token, a last token > for one or more. With
	// another Stream they are patterns of that stream's subjects.
	Types []string
	// Stream is the JetStream stream it reads; "" is DefaultStream. Any other
	// one must keep its events in files by limits, and they must be CloudEvents
	// all the same: what is none is parked. Where the stream removes events by
	// itself, no more is promised than it keeps.
	Stream string
	// OrderBy finds the ordering key of an event; the zero value is PartitionKey.
	OrderBy Key
	// OnPark says whether a dead letter holds later events of its key; the zero
	// value is Hold.
	OnPark OnPark
	// HoldLimit says when holding is to raise an alarm; the zero value is never.
	HoldLimit HoldLimit
	// Retry is the retry policy; the zero value is 12 attempts, waiting from
	// 1 s to 5 min.
	Retry Retry
	// Rules say which class failures of one kind have, and how often and how
	// soon such an event is attempted again; nil is no exception from Retry.
	Rules []Rule
	// Breaker says when the function is suspended because a resource is away;
	// the zero value is the default of each of its fields.
	Breaker Breaker
	// Dependencies are what it cannot work without: while one of them is away no
	// attempt begins, and so nothing fails. At most 16.
	Dependencies []Dependency
	// Rate is how many attempts may begin within a second, retries included,
	// from 0.0001 (one in about three hours) to 100000; 0 is no such limit. They
	// begin evenly spread, one at a time: there is no burst after a quiet time,
	// except that above 100 a second those of 10 ms may begin at once.
	Rate float64
	// Window says when attempts may begin; the zero value is always. See [Window].
	Window Schedule
	// Timeout is the longest one attempt may take; 0 is DefaultTimeout.
	Timeout time.Duration
	// Concurrency is how many attempts may run at once, from 1 to 1024; 0 is
	// DefaultConcurrency.
	Concurrency int
	// Start says where a function begins that was never hosted before; the zero
	// value is FromNow. Later starts go on where the last one ended.
	Start Start
	// Owner says who is to be asked about its dead letters. Optional.
	Owner string
	// Version of the code, recorded with every failed attempt. Optional.
	Version string
	// Schema is a JSON Schema that the data of its events must satisfy, of draft
	// 2020-12 unless its $schema says otherwise; nil is none. Formats are asserted,
	// and nothing is loaded: all that it refers to stands in it. Over HTTP an event that
	// violates it is refused with 422; one that came in by NATS is parked as
	// undecodable without a call of Handle.
	Schema []byte
	// Handle does the work. See Typed for data that is JSON, and HTTP for work
	// that is done elsewhere.
	Handle Handler

	compiled *schema // of Schema, by WithDefaults
}

// WithDefaults returns f with the default for every field that is zero and has
// one. The result shares nothing with f that can be changed.
func (f Function) WithDefaults() Function {
	f.Types = slices.Clone(f.Types)
	if f.Stream == "" {
		f.Stream = DefaultStream
	}
	f.Retry = f.Retry.WithDefaults()
	f.Rules = slices.Clone(f.Rules)
	f.Breaker = f.Breaker.WithDefaults()
	f.Dependencies = slices.Clone(f.Dependencies)
	for i, d := range f.Dependencies {
		f.Dependencies[i] = d.WithDefaults()
	}
	if f.Timeout == 0 {
		f.Timeout = DefaultTimeout
	}
	if f.Concurrency == 0 {
		f.Concurrency = DefaultConcurrency
	}
	if f.Schema != nil {
		f.compiled = f.compiled.of(f.Schema)
		f.Schema = bytes.Clone(f.Schema)
	}
	return f
}

// Start is where a function begins to read its stream when it is hosted for
// the first time.
type Start int

const (
	// FromNow begins with the events accepted from now on, so that a new
	// function does not repeat years of history unasked.
	FromNow Start = iota
	// FromBeginning begins with the oldest event that the stream still has.
	FromBeginning
)

// String returns "now" or "beginning".
func (s Start) String() string {
	switch s {
	case FromNow:
		return "now"
	case FromBeginning:
		return "beginning"
	}
	return fmt.Sprintf("start(%d)", int(s))
}
