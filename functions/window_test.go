package functions_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/siding-dev/siding/functions"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestWindowOpensWhenItsExpressionSays(t *testing.T) {
	for _, tc := range []struct{ cron, after, want string }{
		{"0 2 * * *", "2026-12-01T01:59:59Z", "2026-12-01T02:00:00Z"},
		{"0 2 * * *", "2026-12-01T02:00:00Z", "2026-12-02T02:00:00Z"},
		{"0 2 * * *", "2026-12-01T01:59:59.999999999Z", "2026-12-01T02:00:00Z"},
		{"0 2 * * *", "2026-12-01T02:00:00.000000001Z", "2026-12-02T02:00:00Z"},
		{"30 22 * * 1-5", "2026-12-04T23:00:00Z", "2026-12-07T22:30:00Z"},
		{"*/15 * * * *", "2026-12-31T23:50:00Z", "2027-01-01T00:00:00Z"},
		{"0 0 29 2 *", "2026-12-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 1 * MON", "2026-12-02T00:00:00Z", "2026-12-07T00:00:00Z"},
		{"CRON_TZ=Europe/Berlin 0 2 * * *", "2026-12-01T00:30:00Z", "2026-12-01T01:00:00Z"},
		{"CRON_TZ=Europe/Berlin 0 2 * * *", "2026-07-01T00:00:00Z", "2026-07-02T00:00:00Z"},
		{"  CRON_TZ=America/New_York   0\t2 * * *", "2026-12-01T00:00:00Z", "2026-12-01T07:00:00Z"},
		// 29 March 2026 has no half past two in Berlin; 25 October has two, of which the second one counts.
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T01:30:00Z"},
	} {
		if got := functions.Window(tc.cron, time.Hour).Next(at(t, tc.after)); !got.Equal(at(t, tc.want)) {
			t.Errorf("%s after %s: got %s, want %s", tc.cron, tc.after, got, tc.want)
		}
	}
	if got := functions.Window("never", time.Hour).Next(at(t, "2026-12-01T00:00:00Z")); !got.IsZero() {
		t.Errorf("got %s from what is no expression, want no time", got)
	}
}

func TestWindowIsOpenFromItsStartUntilItsLengthIsOver(t *testing.T) {
	for _, tc := range []struct {
		cron   string
		length time.Duration
		now    string
		opened string
	}{
		{"0 2 * * *", time.Hour, "2026-12-01T01:59:59.999Z", ""},
		{"0 2 * * *", time.Hour, "2026-12-01T02:00:00Z", "2026-12-01T02:00:00Z"},
		{"0 2 * * *", time.Hour, "2026-12-01T02:59:59.999Z", "2026-12-01T02:00:00Z"},
		{"0 2 * * *", time.Hour, "2026-12-01T03:00:00Z", ""},
		{"0 * * * *", 90 * time.Minute, "2026-12-01T03:10:00Z", "2026-12-01T03:00:00Z"},
		{"0 * * * *", time.Hour, "2026-12-01T03:00:00Z", "2026-12-01T03:00:00Z"},
		{"* * * * *", 7 * 24 * time.Hour, "2026-12-01T03:00:01Z", "2026-12-01T03:00:00Z"},
	} {
		opened, ok := functions.Window(tc.cron, tc.length).At(at(t, tc.now))
		if got := opened.Format(time.RFC3339); ok != (tc.opened != "") || ok && got != tc.opened {
			t.Errorf("%s for %s at %s: got %v %s, want %q", tc.cron, tc.length, tc.now, ok, got, tc.opened)
		}
	}
}

func TestOnlyTheZeroScheduleIsAlways(t *testing.T) {
	var zero functions.Schedule
	if !zero.Always() || zero.String() != "always" {
		t.Errorf("got %s, want the zero value to be always", zero)
	}
	if s := functions.Window("", 0); s.Always() {
		t.Error("got always of an expression that was left empty")
	}
	s := functions.Window(" 0  2 * * * ", time.Hour)
	if s.Always() || s.String() != "0 2 * * * for 1h0m0s" || s.Cron() != "0 2 * * *" || s.Length() != time.Hour {
		t.Errorf("got %s", s)
	}
}

// TestWindowNextIsTheFirstMinuteThatMatches holds the arithmetic of the library against looking at each minute.
func TestWindowNextIsTheFirstMinuteThatMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minute, hour := rapid.IntRange(0, 59).Draw(t, "minute"), rapid.IntRange(0, 23).Draw(t, "hour")
		step, weekday := rapid.IntRange(1, 12).Draw(t, "step"), rapid.IntRange(0, 6).Draw(t, "weekday")
		from := time.Unix(rapid.Int64Range(1.7e9, 2.2e9).Draw(t, "from"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC()
		var cron string
		var matches func(time.Time) bool
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			cron = fmt.Sprintf("%d %d * * *", minute, hour)
			matches = func(at time.Time) bool { return at.Minute() == minute && at.Hour() == hour }
		case 1:
			cron = fmt.Sprintf("%d */%d * * *", minute, step)
			matches = func(at time.Time) bool { return at.Minute() == minute && at.Hour()%step == 0 }
		default:
			cron = fmt.Sprintf("%d %d * * %d", minute, hour, weekday)
			matches = func(at time.Time) bool {
				return at.Minute() == minute && at.Hour() == hour && int(at.Weekday()) == weekday
			}
		}
		want := from.Truncate(time.Minute).Add(time.Minute)
		for !matches(want) {
			want = want.Add(time.Minute)
		}
		s := functions.Window(cron, time.Hour)
		if got := s.Next(from); !got.Equal(want) {
			t.Fatalf("%s after %s: got %s, want %s", cron, from, got, want)
		}
		if opened, ok := s.At(want.Add(59 * time.Minute)); !ok || opened.Before(want) {
			t.Fatalf("%s: got %v %s open 59 minutes after %s", cron, ok, opened, want)
		}
	})
}

// TestWindowGoesOnWhereClocksChange: whatever the change is, the next window lies ahead, and no day more than the one that lost its hour is left out.
func TestWindowGoesOnWhereClocksChange(t *testing.T) {
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Europe/Dublin", "Pacific/Chatham"}
	expressions := []string{"0 * * * *", "30 2 * * *", "0 0 * * *", "*/20 1-3 * * *", "15 0 * * *"}
	rapid.Check(t, func(t *rapid.T) {
		s := functions.Window("CRON_TZ="+rapid.SampledFrom(zones).Draw(t, "zone")+" "+rapid.SampledFrom(expressions).Draw(t, "expression"), time.Hour)
		now := time.Unix(rapid.Int64Range(1.767e9, 1.8e9).Draw(t, "now"), 0)
		for range 100 {
			next := s.Next(now)
			if !next.After(now) || next.Sub(now) > 50*time.Hour {
				t.Fatalf("%s after %s: got %s", s, now.UTC(), next)
			}
			now = next
		}
	})
}

// FuzzWindow: whatever an expression is, it is refused, or it has a next window that lies ahead.
func FuzzWindow(f *testing.F) {
	for _, seed := range []string{"0 2 * * *", "CRON_TZ=Europe/Berlin */5 1-3 L * MON#2", "* * 15W * *", "CRON_TZ=", "1-2-3 * * * 5L", "60 * * * *"} {
		f.Add(seed, int64(1_796_000_000))
	}
	f.Fuzz(func(t *testing.T, cron string, from int64) {
		fn := valid()
		fn.Window = functions.Window(cron, time.Hour)
		now := time.Unix(from%(1<<33), 0)
		if fn.Validate() != nil || now.Unix() < 0 {
			return
		}
		if next := fn.Window.Next(now); !next.IsZero() && !next.After(now) {
			t.Errorf("%q after %s: got %s", cron, now, next)
		}
	})
}
