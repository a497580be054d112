package gate

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/siding-dev/siding/functions"
)

// TestRateIsNeverExceededAndNeverWasted: whoever starts an attempt as soon as he may, at times that he does not choose, starts no more within any time than
// the rate allows and its burst, and is never kept waiting longer than an interval.
func TestRateIsNeverExceededAndNeverWasted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perSecond := math.Exp(rapid.Float64Range(math.Log(0.0001), math.Log(100_000)).Draw(t, "logarithm"))
		interval := time.Duration(math.Ceil(float64(time.Second) / perSecond))
		g, now := New(Rules{Rate: perSecond}, day), day
		var starts []time.Time
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			may, next := g.May(now)
			switch {
			case may:
				g.Started(now)
				starts = append(starts, now)
			case !next.After(now) || next.Sub(now) > interval:
				t.Fatalf("%g/s: asked at %s to ask again at %s", perSecond, now, next)
			default:
				if may, _ := g.May(next.Add(-1)); may {
					t.Fatalf("%g/s: may begin before %s", perSecond, next)
				}
				if may, _ := g.May(next); !may {
					t.Fatalf("%g/s: may not begin at %s", perSecond, next)
				}
			}
			if !may || rapid.Bool().Draw(t, "move") {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(3*interval)).Draw(t, "later")))
			}
		}
		for i, first := range starts {
			for j, last := range starts[i:] {
				if allowed := 1 + int((last.Sub(first)+max(0, smooth-interval))/interval); j+1 > allowed {
					t.Fatalf("%g/s: %d starts within %s, allowed are %d", perSecond, j+1, last.Sub(first), allowed)
				}
			}
		}
	})
}

// TestNothingBeginsAgainstARule drives a gate with all rules against an obvious model.
func TestNothingBeginsAgainstARule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := time.Duration(rapid.IntRange(1, 200).Draw(t, "minutes")) * time.Minute
		schedule := functions.Window("30 * * * *", length)
		now := day.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "seconds")) * time.Second)
		g := New(Rules{Dependencies: []string{"a", "b"}, Window: schedule, Rate: 1}, now)
		opens := func(at time.Time) time.Time { // the newest opening at or before it
			return at.Add(-30 * time.Minute).Truncate(time.Hour).Add(30 * time.Minute)
		}
		answers, stood, mark := map[int]bool{}, uint64(1), uint64(0)
		var last, ended time.Time // ended is when the window opened whose run was ended last
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "input") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 5400).Draw(t, "later")) * time.Second)
			case 1:
				i, down := rapid.IntRange(0, 1).Draw(t, "dependency"), rapid.IntRange(0, 3).Draw(t, "answer") == 0
				why := map[bool]string{true: "away"}[down]
				g.Answered(i, now, why)
				answers[i] = !down
			case 2:
				stood += uint64(rapid.IntRange(0, 3).Draw(t, "arrivals"))
			case 3:
				if _, running := g.Run(); running {
					g.EndRun()
					ended = opens(now)
				}
			default:
				if may, _ := g.May(now); may {
					g.Started(now)
					last = now
				}
			}
			if opens, _ := g.Tick(now); opens {
				g.Open(stood)
				mark = stood
			}
			free := answers[0] && answers[1] && (last.IsZero() || now.Sub(last) >= time.Second)
			inside := now.Before(opens(now).Add(length)) && !opens(now).Equal(ended)
			if may, _ := g.May(now); may != (free && inside) {
				t.Fatalf("%s: got may %v with answers %v, last start %s, window from %s for %s, ended the one of %s", now, may, answers, last, opens(now), length, ended)
			}
			if (g.Waits(now, true) == "") != (free && inside) {
				t.Fatalf("%s: waits for %q", now, g.Waits(now, true))
			}
			if g.Admits(1) != inside {
				t.Fatalf("%s: admits the first event %v, and the window is open %v", now, g.Admits(1), inside)
			}
			if got := g.Admits(mark + 1); got {
				t.Fatalf("%s: admits an event that came after the run began", now)
			}
			if wakes := g.Wakes(); !wakes.After(now) {
				t.Fatalf("%s: wakes at %s, which is over", now, wakes)
			}
		}
	})
}
