package streams_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

// record is the n-th attempt record of f/1.
func record(n int) streams.Record {
	at := time.Date(2026, 3, 1, 12, 0, 0, n, time.UTC)
	return streams.Record{
		Function: "f", Sequence: 1, Kind: streams.RecordAttempt, Cycle: n / 100, Attempt: n % 100, Charged: true, Outcome: "retry", Class: "transient",
		Code: "E7", Error: "no\nluck é", Stack: "main.go:1", Started: at, Ended: at, Due: at.Add(time.Minute), TraceID: "t", SpanID: "s", Version: "1", Boot: 3,
	}
}

func appendRecords(t *testing.T, s *streams.Store, records ...streams.Record) {
	t.Helper()
	for _, r := range records {
		if err := s.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordsComeBackInOrderAndOfOneEventOnly(t *testing.T) {
	s := openStore(t)
	if got, err := s.Records(t.Context(), "f", 1); err != nil || len(got) != 0 {
		t.Errorf("got %+v, %v, want none", got, err)
	}
	if got, ok, err := s.LastRecord(t.Context(), "f", 1); err != nil || ok {
		t.Errorf("got %+v, %v, %v, want none", got, ok, err)
	}
	other := record(9)
	other.Sequence = 11
	namesake := record(9)
	namesake.Function = "f-1"
	want := []streams.Record{record(3), record(1), record(102)}
	appendRecords(t, s, want[0], other, want[1], namesake, want[2], other)
	s = reopen(t, s)
	got, err := s.Records(t.Context(), "f", 1)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, records (-want +got):\n%s", err, diff)
	}
	last, ok, err := s.LastRecord(t.Context(), "f", 1)
	if diff := cmp.Diff(want[2], last); diff != "" || err != nil || !ok {
		t.Errorf("%v, error %v, last record (-want +got):\n%s", ok, err, diff)
	}
	counts, err := s.Recorded(t.Context(), "f")
	if diff := cmp.Diff(map[uint64]uint64{1: 3, 11: 2}, counts); diff != "" || err != nil {
		t.Errorf("error %v, recorded (-want +got):\n%s", err, diff)
	}
}

func TestTheSameRecordWrittenAgainIsReadOnce(t *testing.T) {
	s := openStore(t)
	r := record(1)
	appendRecords(t, s, r, r)
	s = reopen(t, s) // a process that died before it heard the answer
	appendRecords(t, s, r)
	if got, err := s.Records(t.Context(), "f", 1); err != nil || len(got) != 1 {
		t.Errorf("got %d records, %v, want 1", len(got), err)
	}
	// Whatever tells two happenings apart makes two records.
	for i, change := range []func(*streams.Record){
		func(r *streams.Record) { r.Cycle++ },
		func(r *streams.Record) { r.Attempt++ },
		func(r *streams.Record) { r.Kind = streams.RecordCrash },
		func(r *streams.Record) { r.Boot++ },
		func(r *streams.Record) { r.Ended = r.Ended.Add(1) },
	} {
		again := r
		change(&again)
		appendRecords(t, s, again)
		if got, err := s.Records(t.Context(), "f", 1); err != nil || len(got) != i+2 {
			t.Errorf("change %d: got %d records, %v, want %d", i, len(got), err, i+2)
		}
	}
}

// An event that is redriven for ever goes on being judged by what happened last.
func TestOfVeryManyRecordsTheNewestAreRead(t *testing.T) {
	s := openStore(t)
	const n = 2*streams.MaxRecords + 10
	for i := range n {
		data, err := json.Marshal(record(i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.JetStream().PublishAsync(streams.AttemptSubject("f", 1), data); err != nil {
			t.Fatal(err)
		}
	}
	<-s.JetStream().PublishAsyncComplete()
	got, err := s.Records(t.Context(), "f", 1)
	if err != nil || len(got) != streams.MaxRecords {
		t.Fatalf("got %d records, %v, want %d", len(got), err, streams.MaxRecords)
	}
	for i, r := range got {
		if want := record(n - streams.MaxRecords + i); r.Ended != want.Ended {
			t.Fatalf("record %d: got that of %s, want that of %s", i, r.Ended, want.Ended)
		}
	}
}

func TestWhatIsNoRecordDoesNotHideTheOthers(t *testing.T) {
	s := openStore(t)
	appendRecords(t, s, record(1))
	for _, data := range []string{"{", "null", `{"function":"g","sequence":1,"kind":"delivered"}`, `{"function":"f","sequence":2,"kind":"delivered"}`} {
		if _, err := s.JetStream().Publish(t.Context(), streams.AttemptSubject("f", 1), []byte(data)); err != nil {
			t.Fatal(err)
		}
		last, ok, err := s.LastRecord(t.Context(), "f", 1)
		if diff := cmp.Diff(record(1), last); diff != "" || err != nil || !ok {
			t.Errorf("%s: %v, error %v, last record (-want +got):\n%s", data, ok, err, diff)
		}
	}
	appendRecords(t, s, record(2))
	if got, err := s.Records(t.Context(), "f", 1); err != nil || len(got) != 2 {
		t.Errorf("got %d records, %v, want 2", len(got), err)
	}
	if _, err := s.JetStream().Publish(t.Context(), streams.AttemptSubject("f", 9), []byte("{")); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := s.LastRecord(t.Context(), "f", 9); err != nil || ok {
		t.Errorf("got %+v, %v, %v where nothing can be read, want none", got, ok, err)
	}
}

func TestOnlyAnEndForGoodIsFinal(t *testing.T) {
	for kind, want := range map[streams.RecordKind]bool{
		streams.RecordAttempt: false, streams.RecordCrash: false, streams.RecordGivenBack: false, streams.RecordRedriven: false, streams.RecordParked: false,
		streams.RecordDelivered: true, streams.RecordDiscarded: true, streams.RecordGone: true,
	} {
		if got := (streams.Record{Kind: kind}).Final(); got != want {
			t.Errorf("%s: got %v, want %v", kind, got, want)
		}
	}
}

func auditEntries(t *testing.T, s *streams.Store, function string) []streams.Message {
	t.Helper()
	var all []streams.Message
	for seq := uint64(1); ; seq++ {
		m, err := s.Next(t.Context(), streams.AuditStream, seq, streams.AuditSubject(function))
		if err != nil {
			return all
		}
		all = append(all, m)
		seq = m.Sequence
	}
}

func TestAuditEntriesAreCloudEventsAndWrittenOnce(t *testing.T) {
	s := openStore(t)
	at := time.Date(2026, 3, 1, 13, 0, 0, 5, time.FixedZone("CET", 3600))
	entry := streams.AuditEntry{
		Action: "discarded", Function: "file-claim", Sequence: 42, Cycle: 1, By: "Ö. Person\r\n", Reason: "not a claim: \"x\"", Detail: map[string]string{"trace_id": "t"}, At: at,
	}
	for range 2 {
		if err := s.Audit(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
	}
	entries := auditEntries(t, s, "file-claim")
	if len(entries) != 1 {
		t.Fatalf("got %d entries, want 1", len(entries))
	}
	e, err := streams.Decode(entries[0].Header, entries[0].Data)
	if err != nil {
		t.Fatalf("got %v, want a CloudEvent", err)
	}
	if err := e.Validate(); err != nil {
		t.Errorf("got %v from the SDK", err)
	}
	if e.Type() != "siding.discarded" || e.Source() != "siding" || e.Subject() != "file-claim/42" || !e.Time().Equal(at) || e.DataContentType() != "application/json" {
		t.Errorf("got %s", e)
	}
	var got map[string]any
	if err := e.DataAs(&got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"function": "file-claim", "sequence": 42.0, "cycle": 1.0, "by": entry.By, "reason": entry.Reason, "detail": map[string]any{"trace_id": "t"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	entry.At = at.Add(1)
	if err := s.Audit(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	if got := len(auditEntries(t, s, "file-claim")); got != 2 {
		t.Errorf("got %d entries after another happening, want 2", got)
	}
}

func TestTheAuditIsKeptForAYear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		if err := s.Audit(t.Context(), streams.AuditEntry{Action: "parked", Function: "f", Sequence: 1, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		appendRecords(t, s, record(1))
		place(t, s, streams.InDeadLetters, ref("f", "", 1), streams.Copy{})
		for _, step := range []struct {
			sleep time.Duration
			want  int
		}{{364 * 24 * time.Hour, 1}, {2 * 24 * time.Hour, 0}} {
			if err := s.Node().Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(step.sleep) // while no server runs, which would take real time
			s = storeOn(t, streamstest.New(t, streamstest.Dir(s.Node().Dir())))
			if got := len(auditEntries(t, s, "f")); got != step.want {
				t.Errorf("got %d entries after %s more, want %d", got, step.sleep, step.want)
			}
		}
		if _, ok, err := s.LastRecord(t.Context(), "f", 1); err != nil || !ok {
			t.Errorf("got %v, %v for a record older than a year, want it kept", ok, err)
		}
		if _, err := s.Find(t.Context(), streams.InDeadLetters, "f", 1); err != nil {
			t.Errorf("got %v for a dead letter older than a year, want it kept", err)
		}
	})
}

func TestARefusedRecordIsAnError(t *testing.T) {
	s := openStore(t)
	if err := s.JetStream().DeleteStream(t.Context(), streams.AttemptsStream); err != nil {
		t.Fatal(err)
	}
	if err := s.JetStream().DeleteStream(t.Context(), streams.AuditStream); err != nil {
		t.Fatal(err)
	}
	// Somebody else's stream takes the subjects: an ack of it is none.
	if _, err := s.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "THIEF", Subjects: []string{"siding.attempt.>", "siding.audit.>"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), record(1)); err == nil {
		t.Error("got no error for a record that another stream would have taken")
	}
	if err := s.Audit(t.Context(), streams.AuditEntry{Function: "f", Action: "parked"}); err == nil {
		t.Error("got no error for an audit entry that another stream would have taken")
	}
}

func TestTextsOfARecordAreCutAtACharacterAndStandInOneMessage(t *testing.T) {
	s := openStore(t)
	for name, tc := range map[string]struct{ text, want string }{
		"text":   {strings.Repeat("é", 1<<20), strings.Repeat("é", 4<<10)},
		"odd":    {"x" + strings.Repeat("é", 1<<20), "x" + strings.Repeat("é", 4<<10-1)},
		"binary": {strings.Repeat("\x80", 1<<20), strings.Repeat("\ufffd", 8<<10)}, // as JSON writes it
		"short":  {"no é", "no é"},
	} {
		r := record(1)
		r.Class, r.Error, r.Reason, r.Stack, r.Code, r.By = name, tc.text, tc.text, tc.text, tc.text, tc.text
		r.Ended = r.Ended.Add(time.Duration(len(name)))
		appendRecords(t, s, r)
		got, _, err := s.LastRecord(t.Context(), "f", 1)
		if err != nil || got.Class != name || got.Error != tc.want || got.Reason != tc.want || !utf8.ValidString(got.Stack) || !utf8.ValidString(got.Code) || !utf8.ValidString(got.By) {
			t.Errorf("%s: got %v, %s with %d bytes of error, want %d", name, err, got.Class, len(got.Error), len(tc.want))
		}
	}
	if err := s.Audit(t.Context(), streams.AuditEntry{Action: "parked", Function: "f", By: strings.Repeat("é", 1<<20), Reason: strings.Repeat("\x80", 1<<20)}); err != nil {
		t.Errorf("got %v for an audit entry", err)
	}
}
