package streams

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Names of the streams and of the bucket that Siding keeps. Every subject, stream and consumer name is built and parsed in this file.
const (
	EventsStream     = "EVENTS"
	RetryStream      = "SIDING_RETRY"
	DecisionsStream  = "SIDING_DECISIONS"
	HeldStream       = "SIDING_HELD"
	AdvisoriesStream = "SIDING_ADVISORIES"
	AttemptsStream   = "SIDING_ATTEMPTS"
	AuditStream      = "SIDING_AUDIT"
	OpsStream        = "SIDING_OPS"
	OutboxStream     = "SIDING_OUTBOX"
	FunctionsBucket  = "SIDING_FUNCTIONS"
	OnceBucket       = "SIDING_ONCE"

	eventsPrefix  = "events."
	attemptPrefix = "siding.attempt."
	auditPrefix   = "siding.audit."
	opsPrefix     = "siding.ops."
	outboxPrefix  = "siding.outbox."
	onceStream    = "KV_" + OnceBucket // as a bucket's stream is called
	oncePrefix    = "$KV." + OnceBucket + "."
	onceAll       = oncePrefix + ">"
	dlqPrefix     = "DLQ_"

	// AdvisoriesConsumer is the one durable consumer of AdvisoriesStream.
	AdvisoriesConsumer = "siding"

	// WebhookConsumer is the durable consumer of OpsStream that remembers what the webhook has been told.
	WebhookConsumer = "siding-webhook"
)

// The subjects of the two advisories that Siding captures. They are the literal prefixes: `$JS.EVENT.>` would also store
// API audit noise, and creating the capturing stream's own consumer would be an event in it.
const (
	MaxDeliveriesSubject = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"
	TerminatedSubject    = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>"
)

// maxFunctionName is the longest name of a function.
const maxFunctionName = 63

// FunctionName reports whether a name can be a function's: a lower-case letter, then lower-case letters, digits and hyphens. Whatever comes
// from outside is looked at before it becomes a part of a subject: one beyond the server's control line closes the connection, for everybody
// who shares it and for good.
func FunctionName(name string) bool {
	if name == "" || len(name) > maxFunctionName || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Ref names one event for one function: the identity under which it stands in RETRY, HELD, a dead-letter stream or DECISIONS.
// Lane is already in its subject form (see Lane). Sequence is the event's sequence in the function's source stream.
type Ref struct {
	Function string
	Lane     string
	Sequence uint64
}

// ID is how people name a dead letter: `<function>/<sequence>`.
func (r Ref) ID() string { return r.Function + "/" + strconv.FormatUint(r.Sequence, 10) }

// Place is one of the registers in which an event can stand outside its source stream, or a decision about it.
type Place int

// The places. InRetry and InDecisions are work queues; InHeld and InDeadLetters keep until something is deleted.
const (
	InRetry Place = iota + 1
	InHeld
	InDeadLetters
	InDecisions
)

var placeTokens = [...]string{InRetry: "retry", InHeld: "held", InDeadLetters: "dlq", InDecisions: "decision"}

// String returns the place's word as it appears in subjects.
func (p Place) String() string { return placeTokens[p] }

// Stream returns the stream that holds p for a function.
func (p Place) Stream(function string) string {
	switch p {
	case InRetry:
		return RetryStream
	case InHeld:
		return HeldStream
	case InDecisions:
		return DecisionsStream
	default:
		return dlqPrefix + function
	}
}

// Subject returns the register of ref at p: `siding.<place>.<function>.<lane>.<sequence>`.
func (p Place) Subject(ref Ref) string {
	return "siding." + placeTokens[p] + "." + ref.Function + "." + ref.Lane + "." + strconv.FormatUint(ref.Sequence, 10)
}

// Filter returns the subject filter of everything of one function at p.
func (p Place) Filter(function string) string {
	return "siding." + placeTokens[p] + "." + function + ".>"
}

// LaneFilter returns the filter of everything of one lane at p; lane is in its subject form.
func (p Place) LaneFilter(function, lane string) string {
	return "siding." + placeTokens[p] + "." + function + "." + lane + ".>"
}

// SequenceFilter returns the filter of one event at p, whatever its lane.
func (p Place) SequenceFilter(function string, sequence uint64) string {
	return "siding." + placeTokens[p] + "." + function + ".*." + strconv.FormatUint(sequence, 10)
}

// ParseSubject is the inverse of Place.Subject.
func ParseSubject(subject string) (Place, Ref, error) {
	t := strings.Split(subject, ".")
	if len(t) == 5 && t[0] == "siding" && t[2] != "" && t[3] != "" {
		for p := InRetry; p <= InDecisions; p++ {
			if placeTokens[p] != t[1] {
				continue
			}
			seq, err := strconv.ParseUint(t[4], 10, 64)
			if err == nil && seq > 0 && strconv.FormatUint(seq, 10) == t[4] {
				return p, Ref{Function: t[2], Lane: t[3], Sequence: seq}, nil
			}
		}
	}
	return 0, Ref{}, fmt.Errorf("subject %q is not of the form siding.<place>.<function>.<lane>.<sequence>", subject)
}

// DeadLetterStream returns the name of a function's dead-letter stream.
func DeadLetterStream(function string) string { return dlqPrefix + function }

// AttemptSubject returns the subject of one event's attempt records.
func AttemptSubject(function string, sequence uint64) string {
	return attemptPrefix + function + "." + strconv.FormatUint(sequence, 10)
}

// AttemptFilter returns the filter of all attempt records of a function.
func AttemptFilter(function string) string { return attemptPrefix + function + ".*" }

// ParseAttemptSubject is the inverse of AttemptSubject.
func ParseAttemptSubject(subject string) (function string, sequence uint64, ok bool) {
	return parseNumbered(attemptPrefix, subject)
}

// parseNumbered reads `<prefix><function>.<sequence>`.
func parseNumbered(prefix, subject string) (function string, sequence uint64, ok bool) {
	rest, found := strings.CutPrefix(subject, prefix)
	function, number, two := strings.Cut(rest, ".")
	sequence, err := strconv.ParseUint(number, 10, 64)
	if !found || !two || err != nil || function == "" || sequence == 0 || strconv.FormatUint(sequence, 10) != number {
		return "", 0, false
	}
	return function, sequence, true
}

// AuditSubject returns the subject of a function's audit events.
func AuditSubject(function string) string { return auditPrefix + function }

// The subjects of notices: one for each function, and one for what is told about all functions of the node at once.
const (
	opsNodeSubject = opsPrefix + "_node.digest"
	opsOfFunctions = opsPrefix + "*"
)

// OpsSubject returns the subject of what is told about a function; "" is the whole node.
func OpsSubject(function string) string {
	if function == "" {
		return opsNodeSubject
	}
	return opsPrefix + function
}

// OutboxSubject returns where what was emitted for one event waits to be accepted.
func OutboxSubject(function string, sequence uint64) string {
	return outboxPrefix + function + "." + strconv.FormatUint(sequence, 10)
}

// ParseOutboxSubject is the inverse of OutboxSubject.
func ParseOutboxSubject(subject string) (function string, sequence uint64, ok bool) {
	return parseNumbered(outboxPrefix, subject)
}

// OutboxFilter returns the filter of everything that waits in the outbox of a function.
func OutboxFilter(function string) string { return outboxPrefix + function + ".*" }

// onceSubject returns where the result of a step is kept: `$KV.SIDING_ONCE.<function>.<event>.<step>`. Source and id are hashed and the step is
// encoded, because the keys of a bucket have few characters.
func onceSubject(function, source, id, step string) string {
	return onceEvent(function, source, id) + base64.RawURLEncoding.EncodeToString([]byte(step))
}

func onceEvent(function, source, id string) string {
	return oncePrefix + function + "." + MessageID(source, id) + "."
}

// onceEventFilter returns the filter of all steps of one event.
func onceEventFilter(function, source, id string) string {
	return onceEvent(function, source, id) + "*"
}

// onceFilter returns the filter of all steps of a function.
func onceFilter(function string) string { return oncePrefix + function + ".>" }
