package advisories

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/siding-dev/siding/streams"
)

var base = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// drawRecords draws records in any order and of any kind, stragglers of closed cycles among them.
func drawRecords(t *rapid.T) []streams.Record {
	at := 0
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) streams.Record {
		at++
		r := streams.Record{
			Kind: rapid.SampledFrom([]streams.RecordKind{
				streams.RecordAttempt, streams.RecordAttempt, streams.RecordCrash, streams.RecordGivenBack, streams.RecordUncharged, streams.RecordRedriven,
				streams.RecordDelivered, streams.RecordParked, streams.RecordDiscarded, streams.RecordGone,
			}).Draw(t, "kind"),
			Cycle: rapid.IntRange(0, 3).Draw(t, "cycle"), Attempt: rapid.IntRange(0, 4).Draw(t, "attempt"), Charged: rapid.Bool().Draw(t, "charged"),
			Cause: rapid.SampledFrom([]string{"", "", "permanent", "exhausted"}).Draw(t, "cause"), Ended: base.Add(time.Duration(at) * time.Second),
			Outcome: rapid.SampledFrom([]string{"", streams.OutcomeReturned}).Draw(t, "outcome"),
		}
		if rapid.Bool().Draw(t, "due") {
			r.Due = r.Ended.Add(time.Minute)
		}
		return r
	}), 0, 12).Draw(t, "records")
}

// modelHistory says each field by itself, over the whole list.
func modelHistory(records []streams.Record) History {
	h := History{Records: records}
	for _, r := range records {
		h.Cycle = max(h.Cycle, r.Cycle)
	}
	open := 0
	for _, r := range records {
		if open = max(open, r.Cycle); r.Cycle < open {
			continue
		}
		invoked := r.Kind == streams.RecordAttempt || r.Kind == streams.RecordCrash
		if invoked {
			if h.FirstFailed.IsZero() {
				h.FirstFailed = r.Ended
			}
			h.LastFailed, h.Last = r.Ended, r
		}
		if r.Cycle != h.Cycle {
			continue
		}
		if invoked && h.CycleFailed.IsZero() {
			h.CycleFailed = r.Ended
		}
		if invoked && r.Charged {
			h.Attempts = max(h.Attempts, r.Attempt)
		}
		if r.Kind == streams.RecordCrash {
			if r.Outcome != streams.OutcomeReturned {
				h.Crashes++
			}
			if r.Cause != "" {
				h.Cause = r.Cause
			}
			h.LastCrash = Crash{Attempt: r.Attempt, Boot: r.Boot, At: r.Ended}
		}
		if r.Kind == streams.RecordAttempt {
			h.Due, h.Cause = r.Due, r.Cause
			if !r.Charged {
				h.GivenBack++
			}
		}
		if left := max(r.Attempt, 1) - 1; r.Kind == streams.RecordUncharged && left < h.Attempts && !h.Parked && h.Final == "" {
			h.GivenBack, h.Attempts, h.Cause = h.GivenBack+h.Attempts-left, left, ""
		}
		if r.Kind == streams.RecordParked {
			h.Parked = true
		}
		if r.Final() {
			h.Final = r.Kind
		}
	}
	return h
}

func TestAHistoryIsThatOfTheHighestCycleWithoutStragglers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		if diff := cmp.Diff(modelHistory(records), Fold(records)); diff != "" {
			t.Errorf("history of %+v (-want +got):\n%s", records, diff)
		}
	})
}

func TestFoldingAtOnceAndOneByOneIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		cut := rapid.IntRange(0, len(records)).Draw(t, "cut")
		got := Fold(records[:cut])
		for _, r := range records[cut:] {
			got.Add(r)
		}
		want := Fold(records)
		got.Records, want.Records = nil, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("cut at %d (-want +got):\n%s", cut, diff)
		}
	})
}

func TestALaterCycleStartsAnewAndKeepsWhatTheLifeKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Fold(drawRecords(t))
		cycle := rapid.IntRange(0, 5).Draw(t, "at")
		want := h
		if cycle > h.Cycle {
			want = History{Cycle: cycle, FirstFailed: h.FirstFailed, LastFailed: h.LastFailed, Last: h.Last, Records: h.Records}
		}
		if diff := cmp.Diff(want, h.At(cycle)); diff != "" {
			t.Errorf("at %d (-want +got):\n%s", cycle, diff)
		}
	})
}

// A crash is remembered and never charged, and attempts that an outage took back do not count.
func TestOnlyChargedAttemptsCount(t *testing.T) {
	attempt := func(n int, charged bool) streams.Record {
		return streams.Record{Kind: streams.RecordAttempt, Attempt: n, Charged: charged, Ended: base}
	}
	for name, tc := range map[string]struct {
		records []streams.Record
		want    int
	}{
		"none":             {nil, 0},
		"charged":          {[]streams.Record{attempt(1, true), attempt(2, true)}, 2},
		"the last is free": {[]streams.Record{attempt(1, true), attempt(2, false)}, 1},
		"written twice":    {[]streams.Record{attempt(2, true), attempt(1, true), attempt(2, true)}, 2},
		"crash":            {[]streams.Record{attempt(1, true), {Kind: streams.RecordCrash, Attempt: 2, Ended: base}}, 1},
		"of another cycle": {[]streams.Record{attempt(3, true), {Kind: streams.RecordRedriven, Cycle: 1}}, 0},
		"given back":       {[]streams.Record{attempt(1, true), {Kind: streams.RecordGivenBack, Attempt: 5}}, 1},
	} {
		if got := Fold(tc.records).Attempts; got != tc.want {
			t.Errorf("%s: got %d attempts, want %d", name, got, tc.want)
		}
	}
}
