package gate

import (
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
)

var day = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func TestAGateWithoutRulesIsFree(t *testing.T) {
	g := New(Rules{}, day)
	if may, _ := g.May(day); !may || !g.Free() || !g.Admits(1<<60) || !g.Wakes().IsZero() || g.Waits(day, true) != "" {
		t.Errorf("got may %v, free %v, wakes %s, waits %q", may, g.Free(), g.Wakes(), g.Waits(day, true))
	}
	if opens, closed := g.Tick(day); opens || closed {
		t.Errorf("got a window that opens %v or closes %v", opens, closed)
	}
	for _, rules := range []Rules{{Rate: 1}, {Dependencies: []string{"a"}}, {Window: functions.Window("0 2 * * *", time.Hour)}} {
		if New(rules, day).Free() {
			t.Errorf("got %+v free", rules)
		}
	}
}

func TestDependencyKeepsTheGateShutUntilAllAreThere(t *testing.T) {
	g := New(Rules{Dependencies: []string{"contracts", "ledger"}}, day)
	for i, step := range []struct {
		dependency int
		why        string
		change     Change
		away       time.Duration
		may        bool
		waits      string
	}{
		{0, "", Unchanged, 0, false, "dependency ledger: not checked yet"},
		{1, "refused", WentDown, 0, false, "dependency ledger: refused, since 2026-12-01T00:01:00Z"},
		{1, "no route", Unchanged, 0, false, "dependency ledger: no route, since 2026-12-01T00:01:00Z"},
		{0, "timeout", WentDown, 0, false, "dependency contracts: timeout, since 2026-12-01T00:03:00Z; dependency ledger: no route, since 2026-12-01T00:01:00Z"},
		{1, "", CameBack, 3 * time.Minute, false, "dependency contracts: timeout, since 2026-12-01T00:03:00Z"},
		{0, "", CameBack, 2 * time.Minute, true, ""},
		{0, "", Unchanged, 0, true, ""},
		{0, "again", WentDown, 0, false, "dependency contracts: again, since 2026-12-01T00:07:00Z"},
	} {
		now := day.Add(time.Duration(i) * time.Minute)
		change, away := g.Answered(step.dependency, now, step.why)
		may, next := g.May(now)
		if change != step.change || away != step.away || may != step.may || !next.IsZero() {
			t.Errorf("step %d: got change %v away %s may %v next %s, want %+v", i, change, away, may, next, step)
		}
		if got := g.Waits(now, true); got != step.waits {
			t.Errorf("step %d: got %q, want %q", i, got, step.waits)
		}
	}
}

func TestRateSpreadsStartsEvenly(t *testing.T) {
	for _, tc := range []struct {
		rate         float64
		starts       int
		last         time.Duration // when the last of so many starts, begun at once
		burst        int           // how many of them at the first instant
		waits        string
		afterAnHour  int // how many start at one instant after an hour in which nothing did
		betweenFirst time.Duration
	}{
		{rate: 10, starts: 100, last: 9900 * time.Millisecond, burst: 1, waits: "rate 10/s", afterAnHour: 1},
		{rate: 0.5, starts: 3, last: 4 * time.Second, burst: 1, waits: "rate 0.5/s", afterAnHour: 1},
		{rate: 100, starts: 101, last: time.Second, burst: 1, waits: "rate 100/s", afterAnHour: 1},
		{rate: 1000, starts: 1010, last: time.Second, burst: 10, waits: "rate 1000/s", afterAnHour: 10},
	} {
		g, now, burst := New(Rules{Rate: tc.rate}, day), day, 0
		for n := 1; ; n++ {
			may, next := g.May(now)
			for !may {
				if got := g.Waits(now, true); got != tc.waits || g.Waits(now, false) != "" {
					t.Fatalf("%g/s: got %q waited for, want %q, and nothing while nothing is queued", tc.rate, got, tc.waits)
				}
				now = next
				may, next = g.May(now)
			}
			if g.Started(now); now.Equal(day) {
				burst++
			}
			if n == tc.starts {
				break
			}
		}
		if got := now.Sub(day); got != tc.last || burst != tc.burst {
			t.Errorf("%g/s: got start %d after %s and %d at once, want %s and %d", tc.rate, tc.starts, got, burst, tc.last, tc.burst)
		}
		now, burst = now.Add(time.Hour), 0
		for may, _ := g.May(now); may; may, _ = g.May(now) {
			g.Started(now)
			burst++
		}
		if burst != tc.afterAnHour {
			t.Errorf("%g/s: got %d at once after an hour of rest, want %d", tc.rate, burst, tc.afterAnHour)
		}
	}
}

func TestWindowRunsAdmitWhatWasThere(t *testing.T) {
	at := func(hour, minute int) time.Time {
		return day.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
	}
	g := New(Rules{Window: functions.Window("0 2 * * *", time.Hour)}, at(0, 30))
	shut := func(now time.Time, waits string) {
		t.Helper()
		if may, _ := g.May(now); may || g.Admits(1) || g.Keeps(1, time.Time{}) || g.Waits(now, false) != waits {
			t.Errorf("%s: got may %v, admits %v, waits for %q, want it shut and %q", now, may, g.Admits(1), g.Waits(now, false), waits)
		}
	}
	tick := func(now time.Time, wantOpens, wantClosed bool, wakes time.Time) {
		t.Helper()
		if opens, closed := g.Tick(now); opens != wantOpens || closed != wantClosed || !g.Wakes().Equal(wakes) {
			t.Errorf("%s: got opens %v, closed %v, wakes %s, want %v, %v, %s", now, opens, closed, g.Wakes(), wantOpens, wantClosed, wakes)
		}
	}
	tick(at(0, 30), false, false, at(2, 0))
	shut(at(1, 59), "window opens 2026-12-01T02:00:00Z")
	tick(at(2, 0), true, false, at(2, 0))
	shut(at(2, 0), "window opens 2026-12-01T02:00:00Z")
	tick(at(2, 1), true, false, at(2, 0)) // asked again because the mark could not be read
	g.Open(7)
	if may, _ := g.May(at(2, 1)); !may || !g.Admits(7) || g.Admits(8) || g.Waits(at(2, 1), true) != "" {
		t.Errorf("in the run: got may %v, admits 7 %v and 8 %v", may, g.Admits(7), g.Admits(8))
	}
	for due, want := range map[time.Time]bool{{}: true, at(2, 59): true, at(3, 0): false, at(26, 30): false} {
		if got := g.Keeps(7, due); got != want || g.Keeps(8, due) {
			t.Errorf("due %s: got %v, want %v, and nothing that came later", due, got, want)
		}
	}
	tick(at(2, 59), false, false, at(3, 0))
	shutNow := at(3, 0)
	if may, _ := g.May(shutNow); may {
		t.Error("got an attempt at the instant at which the window closes")
	}
	tick(at(3, 0), false, true, at(26, 0))
	shut(at(3, 0), "window opens 2026-12-02T02:00:00Z")
	tick(at(26, 0), true, false, at(26, 0))
	g.Open(9)
	g.EndRun()
	shut(at(26, 1), "window opens 2026-12-03T02:00:00Z")
	tick(at(27, 30), false, false, at(50, 0))
	tick(at(51, 30), false, false, at(74, 0)) // the process stood still: the window was missed
	shut(at(51, 30), "window opens 2026-12-04T02:00:00Z")
}

func TestWindowOpensAtOnceForAStartWithinIt(t *testing.T) {
	now := day.Add(150 * time.Minute)
	g := New(Rules{Window: functions.Window("0 2 * * *", time.Hour)}, now)
	if opens, _ := g.Tick(now); !opens {
		t.Fatal("got a window that is shut")
	}
	g.Open(3)
	if want := day.Add(3 * time.Hour); !g.Wakes().Equal(want) {
		t.Errorf("got it closed at %s, want %s", g.Wakes(), want)
	}
}

func TestWindowThatOverlapsTheLastTakesItsPlace(t *testing.T) {
	g := New(Rules{Window: functions.Window("0 * * * *", 90*time.Minute)}, day)
	for hour := range 3 {
		now := day.Add(time.Duration(hour) * time.Hour)
		if opens, closed := g.Tick(now); !opens || closed {
			t.Fatalf("%s: got opens %v, closed %v", now, opens, closed)
		}
		g.Open(uint64(hour))
		if mark, running := g.Run(); !running || mark != uint64(hour) || g.Admits(uint64(hour)+1) {
			t.Errorf("%s: got mark %d", now, mark)
		}
		if may, _ := g.May(now.Add(59 * time.Minute)); !may {
			t.Errorf("%s: got it shut", now)
		}
	}
}
