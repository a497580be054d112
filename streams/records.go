package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// RecordKind says what an attempt record remembers.
type RecordKind string

// The kinds. An attempt or a crash is one invocation of the handler; the others say how an event's way went on, or that it ended.
const (
	RecordAttempt   RecordKind = "attempt"    // an attempt that did not simply succeed
	RecordCrash     RecordKind = "crash"      // the process died while the attempt ran; never charged
	RecordGivenBack RecordKind = "given_back" // deliveries that were used up without an attempt were given back
	RecordUncharged RecordKind = "uncharged"  // attempts that an outage spoiled, from Attempt on, are given back
	RecordHeld      RecordKind = "held"       // it waits behind an earlier event of its key
	RecordRedriven  RecordKind = "redriven"   // a decision opened the next cycle
	RecordEdited    RecordKind = "edited"     // the same, with new data
	RecordReleased  RecordKind = "released"   // a decision let its lane go on without it, out of order
	RecordDelivered RecordKind = "delivered"  // final: the handler succeeded off the hot path
	RecordParked    RecordKind = "parked"     // final for this cycle: the event is a dead letter
	RecordDiscarded RecordKind = "discarded"  // final: decided, with a reason, never to be handled
	RecordGone      RecordKind = "gone"       // final: removed by someone else before it was finished
)

// OutcomeReturned is the outcome of an attempt whose handler had returned when the process died, before that was stored. It may have done its work.
const OutcomeReturned = "returned"

// Record is one attempt record: what happened to one event of one function at one instant. Times are UTC.
type Record struct {
	Function string     `json:"function"`
	Sequence uint64     `json:"sequence"`
	Kind     RecordKind `json:"kind"`
	Cycle    int        `json:"cycle"`
	Attempt  int        `json:"attempt"`           // number within the cycle, from 1; 0 when no handler was invoked
	Charged  bool       `json:"charged"`           // whether the attempt counts against the policy
	Outcome  string     `json:"outcome,omitempty"` // of an attempt: retry or park; of a crash: OutcomeReturned or nothing
	Class    string     `json:"class,omitempty"`
	Code     string     `json:"code,omitempty"`
	Error    string     `json:"error,omitempty"`
	Stack    string     `json:"stack,omitempty"`
	Cause    string     `json:"cause,omitempty"` // of a dead letter, also on the attempt that decided to park
	By       string     `json:"by,omitempty"`    // who parked, redrove or discarded
	Reason   string     `json:"reason,omitempty"`
	Started  time.Time  `json:"started_at"`
	Ended    time.Time  `json:"ended_at"`
	Due      time.Time  `json:"due_at,omitzero"` // when the next attempt may start
	TraceID  string     `json:"trace_id,omitempty"`
	SpanID   string     `json:"span_id,omitempty"`
	Version  string     `json:"version,omitempty"` // of the function
	Boot     uint32     `json:"boot,omitempty"`    // of the process life in which the attempt ran
	Outbox   string     `json:"outbox,omitempty"`  // of a delivered event: ID of the outbox that its attempt emitted
}

// Final reports whether the record ends the event's way for good.
func (r Record) Final() bool {
	return r.Kind == RecordDelivered || r.Kind == RecordDiscarded || r.Kind == RecordGone
}

// Bounds of a record's texts in bytes. They leave something for a dead letter to cut and to mark as cut.
const (
	maxRecordText  = 8 << 10
	maxRecordStack = 16 << 10
	maxRecordBrief = 1 << 10
)

// Bounded is the record with its texts cut. They come from handlers and have any length, and a record that did not fit into a
// message could never be written: its event would stand still for ever.
func (r Record) Bounded() Record {
	r.Error, r.Reason, r.By = cutText(r.Error, maxRecordText), cutText(r.Reason, maxRecordText), cutText(r.By, maxRecordBrief)
	r.Stack, r.Code = cutText(r.Stack, maxRecordStack), cutText(r.Code, maxRecordBrief)
	return r
}

// cutText shortens a text to n bytes without splitting a character. Bytes that are no text at all are cut anywhere.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for at := n; at > n-utf8.UTFMax; at-- {
		if utf8.RuneStart(s[at]) {
			return strings.Clone(s[:at])
		}
	}
	return strings.Clone(s[:n])
}

// Append writes an attempt record. The same one (same event, cycle, attempt, kind and end) may be written again, as after a lost answer: who reads
// the records gets it once. The server's own check for duplicates is not used, because it would keep an id in memory for each record.
func (s *Store) Append(ctx context.Context, r Record) error {
	r = r.Bounded()
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: AttemptSubject(r.Function, r.Sequence), Data: data}
	return s.do(ctx, "record "+string(r.Kind), func(ctx context.Context) error {
		_, err := s.node.JetStream().PublishMsg(ctx, m, jetstream.WithExpectStream(AttemptsStream), jetstream.WithRetryAttempts(0))
		if err != nil {
			return fmt.Errorf("record of %s/%d: %w", r.Function, r.Sequence, publishError(err))
		}
		return nil
	})
}

// again reports whether r was written before: only a repeat says the same about the same moment.
func again(records []Record, r Record) bool {
	return slices.ContainsFunc(records, func(b Record) bool {
		return b.Kind == r.Kind && b.Cycle == r.Cycle && b.Attempt == r.Attempt && b.Boot == r.Boot && b.Ended.Equal(r.Ended)
	})
}

// repeats is how far behind the first one a repeat of a record is looked for. Few can come between them: an event's works are applied in turn.
const repeats = 16

// MaxRecords bounds how many records of one event are read back: the newest ones are what decides.
const MaxRecords = 2048

// Records reads the attempt records of one event in the order in which they were written, the newest MaxRecords of them.
func (s *Store) Records(ctx context.Context, function string, sequence uint64) ([]Record, error) {
	if !FunctionName(function) {
		return nil, nil
	}
	subject := AttemptSubject(function, sequence)
	var records []Record
	for next := uint64(1); ; {
		m, err := s.Next(ctx, AttemptsStream, next, subject)
		if errors.Is(err, ErrNotFound) {
			return records[max(0, len(records)-MaxRecords):], nil
		}
		if err != nil {
			return nil, err
		}
		if r, ok := readRecord(m.Data, function, sequence); ok && !again(records[max(0, len(records)-repeats):], r) {
			records = append(records, r)
		}
		if len(records) == 2*MaxRecords {
			records = append(records[:0], records[MaxRecords:]...)
		}
		next = m.Sequence + 1
	}
}

// readRecord reads a record of an event; ok is false for what is none. A guest can make the server publish its answers at any subject.
func readRecord(data []byte, function string, sequence uint64) (r Record, ok bool) {
	err := json.Unmarshal(data, &r)
	return r, err == nil && r.Kind != "" && r.Function == function && r.Sequence == sequence
}

// LastRecord reads the newest record of one event; ok is false when it has none.
func (s *Store) LastRecord(ctx context.Context, function string, sequence uint64) (r Record, ok bool, err error) {
	if !FunctionName(function) {
		return Record{}, false, nil
	}
	m, err := s.Last(ctx, AttemptsStream, AttemptSubject(function, sequence))
	if errors.Is(err, ErrNotFound) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, err
	}
	if r, ok := readRecord(m.Data, function, sequence); ok {
		return r, true, nil
	}
	records, err := s.Records(ctx, function, sequence)
	if err != nil || len(records) == 0 {
		return Record{}, false, err
	}
	return records[len(records)-1], true, nil
}

// Recorded lists the sequences of a function that have attempt records, which are exactly those that ever left the hot path, with how many
// messages each has: repeats of a record count too.
func (s *Store) Recorded(ctx context.Context, function string) (map[uint64]uint64, error) {
	subjects, err := s.Subjects(ctx, AttemptsStream, AttemptFilter(function))
	if err != nil {
		return nil, err
	}
	counts := make(map[uint64]uint64, len(subjects))
	for subject, n := range subjects {
		if _, seq, ok := ParseAttemptSubject(subject); ok {
			counts[seq] = n
		}
	}
	return counts, nil
}

// ForgetRecords removes all attempt records of a function, whose source stream is not the one that their sequences count in.
func (s *Store) ForgetRecords(ctx context.Context, function string) error {
	return s.do(ctx, "forget records", func(ctx context.Context) error {
		err := s.read(ctx, AttemptsStream, func(st jetstream.Stream) error {
			return st.Purge(ctx, jetstream.WithPurgeSubject(AttemptFilter(function)))
		})
		if err != nil {
			return fmt.Errorf("records of %s: forget: %w", function, err)
		}
		return nil
	})
}

// AuditEntry is one entry of the audit stream, stored as a CloudEvent of type `siding.<action>`.
type AuditEntry struct {
	Action   string // parked, redriven, discarded, refused, suspended …
	Function string
	Sequence uint64
	Cycle    int
	By       string
	Reason   string
	Detail   map[string]string
	At       time.Time
}

// id is the same for each try to write an entry.
func (a AuditEntry) id() string {
	return fmt.Sprintf("%s/%d/%d/%s/%d", a.Function, a.Sequence, a.Cycle, a.Action, a.At.UnixNano())
}

// Audit writes an entry; the same one written again within the dedupe window changes nothing.
func (s *Store) Audit(ctx context.Context, a AuditEntry) error {
	data, err := json.Marshal(map[string]any{
		"function": a.Function, "sequence": a.Sequence, "cycle": a.Cycle,
		"by": cutText(a.By, maxRecordBrief), "reason": cutText(a.Reason, maxRecordText), "detail": a.Detail,
	})
	if err != nil {
		return err
	}
	id := a.id()
	m := &nats.Msg{Subject: AuditSubject(a.Function), Data: data, Header: nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-source": {"siding"}, "ce-type": {"siding." + a.Action},
		"ce-subject": {a.Function + "/" + strconv.FormatUint(a.Sequence, 10)},
		"ce-time":    {a.At.UTC().Format(time.RFC3339Nano)}, "ce-datacontenttype": {"application/json"},
	}}
	return s.do(ctx, "audit "+a.Action, func(ctx context.Context) error {
		_, err := s.node.JetStream().PublishMsg(ctx, m, jetstream.WithMsgID(id), jetstream.WithExpectStream(AuditStream), jetstream.WithRetryAttempts(0))
		if err != nil {
			return fmt.Errorf("audit of %s/%d: %w", a.Function, a.Sequence, publishError(err))
		}
		return nil
	})
}
