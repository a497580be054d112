package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Notice is one thing that somebody is to be told, stored as a CloudEvent of type `siding.<kind>` on `siding.ops.<function>`.
type Notice struct {
	ID       string // the same whenever the same is told
	Kind     string // suspended, resumed, gave-up, stuck, digest
	Function string // "" is the whole node
	At       time.Time
	// Audit is the sequence of the newest audit entry that it tells of.
	Audit uint64
	Data  json.RawMessage
}

// auditAttribute is the extension that holds Notice.Audit.
const auditAttribute = "sidingaudit"

// Source of all notices, as CloudEvents have one.
const noticeSource = "siding"

// Type is the CloudEvents type of the notice.
func (n Notice) Type() string { return auditTypePrefix + n.Kind }

// Structured is the notice as a CloudEvent in structured mode: one JSON object.
func (n Notice) Structured() ([]byte, error) {
	return json.Marshal(struct {
		SpecVersion string          `json:"specversion"`
		ID          string          `json:"id"`
		Source      string          `json:"source"`
		Type        string          `json:"type"`
		Subject     string          `json:"subject,omitempty"`
		Time        time.Time       `json:"time"`
		ContentType string          `json:"datacontenttype"`
		Audit       string          `json:"sidingaudit"`
		Data        json.RawMessage `json:"data"`
	}{"1.0", n.ID, noticeSource, n.Type(), n.Function, n.At.UTC(), "application/json", strconv.FormatUint(n.Audit, 10), n.Data})
}

// Tell stores a notice. The same one stored again within the dedupe window changes nothing; after an error it may or may not stand.
func (s *Store) Tell(ctx context.Context, n Notice) error {
	m := &nats.Msg{Subject: OpsSubject(n.Function), Data: n.Data, Header: nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {n.ID}, "ce-source": {noticeSource}, "ce-type": {n.Type()},
		"ce-time": {n.At.UTC().Format(time.RFC3339Nano)}, "ce-datacontenttype": {"application/json"},
		"ce-" + auditAttribute: {strconv.FormatUint(n.Audit, 10)},
	}}
	if n.Function != "" {
		m.Header.Set("ce-subject", n.Function)
	}
	return s.do(ctx, "tell "+n.Kind, func(ctx context.Context) error {
		_, err := s.node.JetStream().PublishMsg(ctx, m, jetstream.WithMsgID(n.ID), jetstream.WithExpectStream(OpsStream), jetstream.WithRetryAttempts(0))
		if err != nil {
			return fmt.Errorf("notice %s: %w", n.ID, publishError(err))
		}
		return nil
	})
}

// ReadNotice reads a stored notice back; ok is false for what somebody else wrote there.
func ReadNotice(subject string, header nats.Header, data []byte) (n Notice, ok bool) {
	n = Notice{ID: header.Get("ce-id"), Data: data}
	n.Kind, ok = strings.CutPrefix(header.Get("ce-type"), auditTypePrefix)
	if subject != opsNodeSubject {
		n.Function = strings.TrimPrefix(subject, opsPrefix)
	}
	var unread, unnumbered error
	n.At, unread = time.Parse(time.RFC3339Nano, header.Get("ce-time"))
	n.Audit, unnumbered = strconv.ParseUint(header.Get("ce-"+auditAttribute), 10, 64)
	return n, ok && n.ID != "" && unread == nil && unnumbered == nil && json.Valid(data)
}

// LastTold returns the newest notice about a function, whichever it is, and the newest one about the whole node. What has never been told, and what
// cannot be read, is the zero Notice.
func (s *Store) LastTold(ctx context.Context) (function, node Notice, err error) {
	for filter, to := range map[string]*Notice{opsOfFunctions: &function, opsNodeSubject: &node} {
		m, err := s.Last(ctx, OpsStream, filter)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return Notice{}, Notice{}, err
		}
		if n, ok := ReadNotice(m.Subject, m.Header, m.Data); ok {
			*to = n
		}
	}
	return function, node, nil
}

// toldKey is where the bucket of functions remembers up to where the audit has been told. No function can have such a name.
const toldKey = "_told"

// Told returns the sequence up to which everything in the audit has been told, or was nothing to tell; ok is false where nobody has begun.
func (s *Store) Told(ctx context.Context) (sequence uint64, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	kv, err := s.node.JetStream().KeyValue(ctx, FunctionsBucket)
	if err != nil {
		return 0, false, fmt.Errorf("bucket %s: %w", FunctionsBucket, err)
	}
	entry, err := kv.Get(ctx, toldKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("bucket %s: %s: %w", FunctionsBucket, toldKey, err)
	}
	sequence, unread := strconv.ParseUint(string(entry.Value()), 10, 64)
	return sequence, unread == nil, nil // what is no number was written by somebody else
}

// SetTold remembers it.
func (s *Store) SetTold(ctx context.Context, sequence uint64) error {
	return s.do(ctx, "told", func(ctx context.Context) error {
		kv, err := s.node.JetStream().KeyValue(ctx, FunctionsBucket)
		if err == nil {
			_, err = kv.PutString(ctx, toldKey, strconv.FormatUint(sequence, 10))
		}
		if err != nil {
			return fmt.Errorf("bucket %s: %s: %w", FunctionsBucket, toldKey, err)
		}
		return nil
	})
}
