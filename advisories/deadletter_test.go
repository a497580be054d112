package advisories

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/siding-dev/siding/streams"
)

// maxAdded is what all that Siding adds to a copy has to fit into.
const maxAdded = 16 << 10

// drawText draws texts of every sort that a handler may fail with: long, of many bytes a character, of control characters, no text.
func drawText(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.Just(""),
		rapid.StringN(0, 20, -1),
		rapid.Custom(func(t *rapid.T) string {
			piece := rapid.SampledFrom([]string{"x", "é", "😀", "\x00", "\x80", "\xff\xfe", "<&>", "\r\n", "\"\\", "\u2028"}).Draw(t, "piece")
			return rapid.SampledFrom([]string{"", "a", "ab", "abc"}).Draw(t, "offset") + strings.Repeat(piece, rapid.IntRange(1, 9000).Draw(t, "repeated"))
		}),
	).Draw(t, label)
}

func drawReport(t *rapid.T) Report {
	at := func(label string) time.Time {
		return base.Add(time.Duration(rapid.Int64Range(0, 1e18).Draw(t, label)))
	}
	r := Report{
		Function: "file-claim", Stream: drawText(t, "stream"), Subject: drawText(t, "subject"), Sequence: rapid.Uint64Min(1).Draw(t, "sequence"),
		Cause: rapid.SampledFrom([]Cause{Exhausted, Permanent, Undecodable, Crashed, Stuck, Expired, SetAside}).Draw(t, "cause"),
		Class: drawText(t, "class"), Code: drawText(t, "code"), Error: drawText(t, "error"), Stack: drawText(t, "stack"),
		Attempts: rapid.Int().Draw(t, "attempts"), Cycle: rapid.Int().Draw(t, "cycle"), StoredAt: at("stored"), ParkedAt: at("parked"),
		ParkedBy: ByOwner, TraceID: drawText(t, "trace"), SpanID: drawText(t, "span"), Version: drawText(t, "version"),
	}
	for i := range rapid.SampledFrom([]int{0, 1, 2, 3, 12, 500}).Draw(t, "history") {
		h := streams.Record{Kind: streams.RecordAttempt, Attempt: i + 1, Charged: true, Started: at("started"), Ended: at("ended"), Class: "transient"}
		if i < 3 {
			h.Error, h.Stack, h.Reason, h.Code = drawText(t, "error"), drawText(t, "stack"), drawText(t, "reason"), drawText(t, "code")
		}
		r.History = append(r.History, h)
	}
	return r
}

// added is the size of the headers as NATS writes them.
func added(h map[string]string) int {
	size := 0
	for name, value := range h {
		size += len(name) + len(": ") + len(value) + len("\r\n")
	}
	return size
}

// shortened reports whether got is the beginning of want, and less. Bytes that are no text, which JSON cannot hold, are left out.
func shortened(want, got string) (cut, ok bool) {
	text := func(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\ufffd", "") }
	want, got = text(want), text(got)
	return got != want, strings.HasPrefix(want, got)
}

func TestAReportFitsWhateverItSaysAndMarksWhatWasCut(t *testing.T) {
	cuts := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		r := drawReport(t)
		before := Report{}
		data, err := json.Marshal(r)
		if err == nil {
			err = json.Unmarshal(data, &before)
		}
		if err != nil {
			t.Fatal(err)
		}
		h := r.Headers()
		if size := added(h); size > maxAdded {
			t.Errorf("got %d bytes of headers, want at most %d", size, maxAdded)
		}
		for name, value := range h {
			if strings.ContainsAny(name+value, "\r\n\x00") || !utf8.ValidString(value) || strings.TrimSpace(value) != value {
				t.Errorf("%s: got %q, which no header holds", name, value)
			}
		}
		header := nats.Header{}
		for name, value := range h {
			header.Set(name, value)
		}
		subject := streams.InDeadLetters.Subject(streams.Ref{Function: r.Function, Lane: "_", Sequence: r.Sequence})
		got, err := ReadReport(streams.Message{Subject: subject, Header: header})
		if err != nil {
			t.Fatal(err)
		}
		cut := false
		for _, pair := range [][2]string{
			{r.Stream, got.Stream}, {r.Subject, got.Subject}, {r.Class, got.Class}, {r.Code, got.Code}, {r.Error, got.Error}, {r.Stack, got.Stack},
			{r.TraceID, got.TraceID}, {r.SpanID, got.SpanID}, {r.Version, got.Version},
		} {
			c, ok := shortened(pair[0], pair[1])
			if cut = cut || c; !ok {
				t.Errorf("got %.40q…, want the beginning of %.40q…", pair[1], pair[0])
			}
		}
		if len(got.History) > len(r.History) {
			t.Fatalf("got %d entries of history, want at most %d", len(got.History), len(r.History))
		}
		cut = cut || len(got.History) < len(r.History)
		for _, old := range r.History {
			cut = cut || old.Stack != "" && old.Stack != r.Stack
		}
		for i, entry := range got.History { // the newest ones stay
			old := r.History[len(r.History)-len(got.History)+i]
			if entry.Attempt != old.Attempt || !entry.Ended.Equal(old.Ended) || entry.Stack != "" {
				t.Errorf("entry %d: got attempt %d, want %d without its stack", i, entry.Attempt, old.Attempt)
			}
			for _, pair := range [][2]string{{old.Error, entry.Error}, {old.Reason, entry.Reason}, {old.Code, entry.Code}} {
				c, ok := shortened(pair[0], pair[1])
				if cut = cut || c; !ok {
					t.Errorf("entry %d: got %.40q…, want the beginning of %.40q…", i, pair[1], pair[0])
				}
			}
		}
		// Bytes that are no text may have been cut without a trace in what was read.
		if cuts[got.Truncated]++; cut && !got.Truncated {
			t.Error("got a report that was cut and does not say so")
		}
		if got.Truncated && !cut && utf8.ValidString(r.Stream+r.Subject+r.Class+r.Code+r.Error+r.Stack+r.TraceID+r.SpanID+r.Version) && validHistory(r.History) {
			t.Error("got a report that says it was cut and is whole")
		}
		if !got.Truncated {
			before.History = slices.Clone(before.History)
			for i := range before.History {
				before.History[i].Stack = ""
			}
			if diff := cmp.Diff(before, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("report that was not cut (-want +got):\n%s", diff)
			}
		}
	})
	if cuts[true] == 0 || cuts[false] == 0 {
		t.Errorf("got %v reports cut and not, want some of both", cuts)
	}
}

func validHistory(records []streams.Record) bool {
	return !slices.ContainsFunc(records, func(r streams.Record) bool { return !utf8.ValidString(r.Error + r.Reason + r.Stack + r.Code) })
}

func TestCommonReportsAreWhole(t *testing.T) {
	var records []streams.Record
	for i := range 12 {
		records = append(records, streams.Record{
			Function: "f", Sequence: 9, Kind: streams.RecordAttempt, Attempt: i + 1, Charged: true, Outcome: "retry", Class: "transient",
			Error: "claims: dial tcp 10.0.0.7:5432: connect: connection refused", Started: base, Ended: base.Add(time.Second), Due: base.Add(time.Minute),
			TraceID: strings.Repeat("a", 32), SpanID: strings.Repeat("b", 16), Version: "1.4.0", Boot: 1,
		})
	}
	r := NewReport(Fold(records), Exhausted, ByAdvisory, base.Add(time.Hour).In(time.FixedZone("CET", 3600)))
	r.Function, r.Sequence, r.Stream, r.Subject, r.StoredAt = "f", 9, "EVENTS", "events.a", base
	h := r.Headers()
	if h["Siding-Cause"] != "exhausted" {
		t.Errorf("got the cause %q beside the report", h["Siding-Cause"])
	}
	got, err := ReadReport(streams.Message{Subject: "siding.dlq.f._.9", Header: nats.Header{"Siding-Dead-Letter": {h["Siding-Dead-Letter"]}}})
	if err != nil || got.Truncated || len(got.History) != 12 {
		t.Errorf("got %v, cut %v, %d entries, want all 12", err, got.Truncated, len(got.History))
	}
	want := Report{
		Function: "f", Sequence: 9, Stream: "EVENTS", Subject: "events.a", StoredAt: base, Cause: Exhausted, Class: "transient",
		Error: records[0].Error, Attempts: 12, ParkedAt: base.Add(time.Hour), ParkedBy: ByAdvisory, FirstFailed: base.Add(time.Second), LastFailed: base.Add(time.Second),
		TraceID: records[0].TraceID, SpanID: records[0].SpanID, Version: "1.4.0",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Report{}, "History")); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestEachSortOfCutIsMarkedAndNothingElseIs(t *testing.T) {
	entries := func(n int, change func(*streams.Record)) []streams.Record {
		all := make([]streams.Record, n)
		for i := range all {
			all[i] = streams.Record{Kind: streams.RecordAttempt, Attempt: i + 1, Started: base, Ended: base}
			change(&all[i])
		}
		return all
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	none := func(*streams.Record) {}
	control := strings.Repeat("\x01", 500)
	for name, tc := range map[string]struct {
		report Report
		want   bool
	}{
		"error that fits":             {Report{Error: long(4 << 10)}, false},
		"error":                       {Report{Error: long(4<<10 + 1)}, true},
		"stack that fits":             {Report{Stack: long(4 << 10)}, false},
		"stack":                       {Report{Stack: long(4<<10 + 1)}, true},
		"code":                        {Report{Code: long(513)}, true},
		"version":                     {Report{Version: long(20 << 10)}, true},
		"history that fits":           {Report{History: entries(20, none)}, false},
		"history":                     {Report{History: entries(500, none)}, true},
		"error of an attempt":         {Report{History: entries(1, func(r *streams.Record) { r.Error = long(513) })}, true},
		"reason of an attempt":        {Report{History: entries(1, func(r *streams.Record) { r.Reason = long(513) })}, true},
		"stack of an older attempt":   {Report{Stack: "b", History: entries(2, func(r *streams.Record) { r.Stack = "a" })}, true},
		"stack that stands beside":    {Report{Stack: "a", History: entries(2, func(r *streams.Record) { r.Stack = "a" })}, false},
		"error of control characters": {Report{Error: strings.Repeat("\x01", 4<<10)}, true}, // six bytes each in JSON
		"stack of control characters": {Report{Stack: strings.Repeat("\x01", 4<<10)}, true},
		"every text":                  {Report{Stream: control, Subject: control, Class: control, Code: control, Error: control, TraceID: control, SpanID: control, Version: control}, true},
	} {
		h := tc.report.Headers()
		var got Report
		if err := json.Unmarshal([]byte(h["Siding-Dead-Letter"]), &got); err != nil || got.Truncated != tc.want || added(h) > maxAdded {
			t.Errorf("%s: got cut %v, %v, %d bytes, want cut %v within %d bytes", name, got.Truncated, err, added(h), tc.want, maxAdded)
		}
		if len(got.Error) > 4<<10 || len(got.Stack) > 4<<10 || len(got.Code) > 512 {
			t.Errorf("%s: got texts of %d, %d and %d bytes, want them within their bounds", name, len(got.Error), len(got.Stack), len(got.Code))
		}
	}
}

func TestADeadLetterWithoutAReadableReportIsNamed(t *testing.T) {
	for name, m := range map[string]streams.Message{
		"no header":  {Subject: "siding.dlq.f._.9"},
		"no report":  {Subject: "siding.dlq.f._.9", Header: nats.Header{"Siding-Dead-Letter": {"{"}}},
		"other type": {Subject: "siding.dlq.f._.9", Header: nats.Header{"Siding-Dead-Letter": {`{"attempts":"x"}`}}},
	} {
		if r, err := ReadReport(m); err == nil || !strings.HasPrefix(err.Error(), "dead letter f/9: report: ") {
			t.Errorf("%s: got %+v, %v, want an error that names the dead letter", name, r, err)
		}
	}
	if _, err := ReadReport(streams.Message{Subject: "events.x"}); err == nil {
		t.Error("got a report from a message that is no dead letter")
	}
}

func TestATimeThatJSONCannotWriteLeavesTheCause(t *testing.T) {
	h := Report{Cause: Permanent, ParkedAt: base.AddDate(9000, 0, 0)}.Headers()
	r, err := ReadReport(streams.Message{Subject: "siding.dlq.f._.9", Header: nats.Header{"Siding-Dead-Letter": {h["Siding-Dead-Letter"]}}})
	if err != nil || r.Cause != Permanent || !r.Truncated {
		t.Errorf("got %+v, %v, want the cause and the mark", r, err)
	}
}
