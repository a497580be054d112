package chaos

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/siding-dev/siding/functions"
)

func newEvent(id string, extensions ...string) functions.Event {
	e := event.New()
	e.SetID(id)
	e.SetSource("//broker-1/claims")
	e.SetType("claim.reported")
	for i := 0; i < len(extensions); i += 2 {
		e.SetExtension(extensions[i], extensions[i+1])
	}
	return e
}

func TestWhatIsDecidedAboutAnAttempt(t *testing.T) {
	first := functions.Attempt{Number: 1}
	for _, tc := range []struct {
		name    string
		rules   []Rule
		attempt functions.Attempt
		elapsed time.Duration
		want    Decision
	}{
		{"no rules", nil, first, 0, Decision{}},
		{"for good", []Rule{{Do: Fail}}, functions.Attempt{Number: 1000}, 0, Decision{Do: Fail, Rule: 1, Error: "chaos: rule 1: fail"}},
		{"the last of n times", []Rule{{Do: Fail, Times: 3, Error: "no"}}, functions.Attempt{Number: 3}, 0, Decision{Do: Fail, Rule: 1, Error: "no"}},
		{"after n times", []Rule{{Do: Fail, Times: 3}}, functions.Attempt{Number: 4}, 0, Decision{}},
		{"outside of an attempt", []Rule{{Do: Fail, Times: 1, Error: "no"}}, functions.Attempt{}, 0, Decision{Do: Fail, Rule: 1, Error: "no"}},
		{"a later cycle begins anew", []Rule{{Do: Park, Times: 1, Error: "no"}}, functions.Attempt{Number: 1, Cycle: 2}, 0, Decision{Do: Park, Rule: 1, Error: "no"}},
		{"this function", []Rule{{Function: "f", Do: Hang}}, first, 0, Decision{Do: Hang, Rule: 1, Error: "chaos: rule 1: hang"}},
		{"another function", []Rule{{Function: "g", Do: Hang}}, first, 0, Decision{}},
		{"the first that applies", []Rule{{Function: "g", Do: Park}, {Do: Panic, Error: "a"}, {Do: Fail, Error: "b"}}, first, 0, Decision{Do: Panic, Rule: 2, Error: "a"}},
		{"slow alone calls the handler", []Rule{{Do: Slow, Delay: time.Second}}, first, 0, Decision{Delay: time.Second}},
		{"slow rules add up before another", []Rule{{Do: Slow, Delay: time.Second}, {Do: Slow, Delay: time.Minute}, {Do: Fail, Error: "no"}, {Do: Slow, Delay: time.Hour}},
			first, 0, Decision{Delay: 61 * time.Second, Do: Fail, Rule: 3, Error: "no"}},
		{"a kill counts crashes", []Rule{{Do: Kill, Times: 2, Error: "k"}}, functions.Attempt{Number: 7, Crashes: 1}, 0, Decision{Do: Kill, Rule: 1, Error: "k"}},
		{"a kill that was made", []Rule{{Do: Kill, Times: 2}}, functions.Attempt{Number: 1, Crashes: 2}, 0, Decision{}},
		{"a kill for good", []Rule{{Do: Kill, Error: "k"}}, functions.Attempt{Number: 1, Crashes: 99}, 0, Decision{Do: Kill, Rule: 1, Error: "k"}},
		{"before the window", []Rule{{Do: Unavailable, Window: Window{30 * time.Second, 10 * time.Minute}}}, first, 30*time.Second - 1, Decision{}},
		{"the window opens", []Rule{{Do: Unavailable, Error: "away", Window: Window{30 * time.Second, 10 * time.Minute}}}, first, 30 * time.Second, Decision{Do: Unavailable, Rule: 1, Error: "away"}},
		{"the window's last moment", []Rule{{Do: Unavailable, Error: "away", Window: Window{30 * time.Second, 10 * time.Minute}}}, first, 630*time.Second - 1, Decision{Do: Unavailable, Rule: 1, Error: "away"}},
		{"the window is over", []Rule{{Do: Unavailable, Window: Window{30 * time.Second, 10 * time.Minute}}}, first, 630 * time.Second, Decision{}},
		{"a window without end", []Rule{{Do: Fail, Error: "no", Window: Window{After: time.Hour}}}, first, math.MaxInt64, Decision{Do: Fail, Rule: 1, Error: "no"}},
		{"other events", []Rule{{Where: "type=claim.closed", Do: Fail}}, first, 0, Decision{}},
		{"these events", []Rule{{Where: "type=claim.*,source=//broker*", Do: Fail, Error: "no"}}, first, 0, Decision{Do: Fail, Rule: 1, Error: "no"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Plan{Rules: tc.rules}.Decide("f", newEvent("1"), tc.attempt, tc.elapsed)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAShareIsOfTheEventsAndTheSameInEveryAttempt(t *testing.T) {
	plan := Plan{Seed: 7, Rules: []Rule{{Share: 0.1, Do: Fail}, {Share: 0.1, Do: Park}}}
	hits := map[Action]int{}
	const events = 20_000
	for i := range events {
		e := newEvent(fmt.Sprint(i))
		d := plan.Decide("f", e, functions.Attempt{Number: 1}, 0)
		hits[d.Do]++
		if again := plan.Decide("other", e, functions.Attempt{Number: 9, Cycle: 3}, time.Hour); again != d {
			t.Fatalf("event %d: got %+v in a later attempt, want %+v", i, again, d)
		}
	}
	// Rules pick independently: the second has its share of what the first one left.
	for do, share := range map[Action]float64{Fail: 0.1, Park: 0.09, "": 0.81} {
		if got := float64(hits[do]) / events; math.Abs(got-share) > 0.01 {
			t.Errorf("%q: got a share of %.3f, want %.2f", do, got, share)
		}
	}
}

// What a seed picks is a promise: a rehearsal is repeated after an upgrade too.
func TestWhatASeedPicksDoesNotChange(t *testing.T) {
	picked := func(seed uint64) string {
		var ids []string
		for i := range 40 {
			if id := fmt.Sprint(i); (Plan{Seed: seed, Rules: []Rule{{Share: 0.1}}}).picks(0, newEvent(id)) {
				ids = append(ids, id)
			}
		}
		return strings.Join(ids, " ")
	}
	for seed, want := range map[uint64]string{7: "5 27", 8: "10 12 21 31"} {
		if got := picked(seed); got != want {
			t.Errorf("seed %d: got events %q, want %q", seed, got, want)
		}
	}
}

func TestALargerShareKeepsWhatASmallerOnePicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, e := rapid.Uint64().Draw(t, "seed"), newEvent(rapid.StringN(1, -1, -1).Draw(t, "id"))
		small := rapid.Float64Range(1e-9, 1).Draw(t, "small")
		large := rapid.Float64Range(small, 1).Draw(t, "large")
		picks := func(share float64) bool { return Plan{Seed: seed, Rules: []Rule{{Share: share}}}.picks(0, e) }
		if picks(small) && !picks(large) {
			t.Errorf("a share of %v picks it, one of %v does not", small, large)
		}
		if !picks(1) || !picks(0) {
			t.Errorf("got it left out of all events")
		}
	})
}

func drawRule(t *rapid.T) Rule {
	r := Rule{
		Function: rapid.SampledFrom([]string{"", "f", "g"}).Draw(t, "function"),
		Where:    rapid.SampledFrom([]string{"", "type=claim.*", "type=other", "id=1*", "partitionkey=?"}).Draw(t, "where"),
		Share:    rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "share"),
		Do:       rapid.SampledFrom(Actions()).Draw(t, "do"),
		Times:    rapid.IntRange(0, 3).Draw(t, "times"),
		Window:   Window{time.Duration(rapid.IntRange(0, 5).Draw(t, "after")), time.Duration(rapid.IntRange(0, 5).Draw(t, "for"))},
	}
	if r.Do == Slow {
		r.Delay = time.Duration(rapid.IntRange(1, 100).Draw(t, "delay"))
	}
	return r
}

// A plan comes to what its rules come to alone: the delays of the slow ones before the first other one that applies.
func TestAPlanIsTheSumOfItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Plan{Seed: rapid.Uint64Range(0, 3).Draw(t, "seed"), Rules: rapid.SliceOfN(rapid.Custom(drawRule), 0, 6).Draw(t, "rules")}
		e := newEvent(rapid.SampledFrom([]string{"1", "12", "7"}).Draw(t, "id"), "partitionkey", rapid.SampledFrom([]string{"a", "ab"}).Draw(t, "key"))
		a := functions.Attempt{Number: rapid.IntRange(1, 4).Draw(t, "number"), Crashes: rapid.IntRange(0, 3).Draw(t, "crashes")}
		elapsed := time.Duration(rapid.IntRange(0, 12).Draw(t, "elapsed"))

		var want Decision
		for i := range p.Rules {
			// The others stay in their places, since a place is a part of what is picked, but are about nobody here.
			alone := Plan{Seed: p.Seed, Rules: make([]Rule, len(p.Rules))}
			for j := range alone.Rules {
				alone.Rules[j] = Rule{Function: "nobody", Do: Fail}
			}
			alone.Rules[i] = p.Rules[i]
			d := alone.Decide("f", e, a, elapsed)
			want.Delay += d.Delay
			if d.Do != "" {
				want.Do, want.Rule, want.Error = d.Do, d.Rule, d.Error
				break
			}
		}
		got := p.Decide("f", e, a, elapsed)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("decision (-want +got):\n%s", diff)
		}
		if got != (Decision{}) && !p.Touches("f") {
			t.Errorf("got %+v from a plan that is not about the function", got)
		}
	})
}

func TestAPatternIsTheWholeOfAnAttribute(t *testing.T) {
	letter := rapid.SampledFrom([]rune{'a', 'b', '/', 'é'})
	letters := rapid.Map(rapid.SliceOfN(letter, 0, 3), func(r []rune) string { return string(r) })
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		// The text is made from the pattern, and then perhaps spoilt, because one that is drawn by itself hardly ever matches.
		var pattern, s string
		for range rapid.IntRange(0, 6).Draw(t, "parts") {
			switch part := string(letter.Draw(t, "letter")); rapid.IntRange(0, 2).Draw(t, "part") {
			case 0:
				pattern, s = pattern+"*", s+letters.Draw(t, "any")
			case 1:
				pattern, s = pattern+"?", s+part
			default:
				pattern, s = pattern+part, s+part
			}
		}
		if rapid.Bool().Draw(t, "spoilt") {
			s += letters.Draw(t, "rest")
		}
		same := regexp.MustCompile(`(?s)^` + strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern)) + `$`)
		if got, want := matches(pattern, s), same.MatchString(s); got != want {
			t.Errorf("%q matches %q: got %t, want %t", pattern, s, got, want)
		} else if got {
			matched++
		}
	})
	if matched == 0 {
		t.Error("got no match at all, want some")
	}
}

func TestWhereAsksForAttributesAndExtensions(t *testing.T) {
	e := newEvent("42", "partitionkey", "policy/7", "tenant", "t1")
	e.SetSubject("claim/42")
	e.SetTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	e.SetDataSchema("http://schemas/claim")
	_ = e.SetData("application/json", map[string]int{"n": 1})
	for where, want := range map[string]bool{
		"":                              true,
		"id=42":                         true,
		"id=4":                          false,
		"source=//broker*":              true,
		"source=broker*":                false,
		"type=claim.*,id=42":            true,
		"type=claim.*,id=43":            false,
		"subject=claim/??":              true,
		"partitionkey=policy/*":         true,
		"tenant=t?":                     true,
		"specversion=1.0":               true,
		"time=2026-03-01T12*":           true,
		"datacontenttype=*json":         true,
		"dataschema=http*claim":         true,
		"region=":                       true,
		"region=*":                      true,
		"region=?*":                     false,
		" type = claim.reported , id=*": true,
		"type":                          false, // unsound: of no event
	} {
		if got := holds(where, e); got != want {
			t.Errorf("%q: got %t, want %t", where, got, want)
		}
	}
	if holds("id=?*", functions.Event{}) || !holds("id=", functions.Event{}) {
		t.Error("an empty event: got an id, want none")
	}
}

func TestARuleSaysWhatItDoes(t *testing.T) {
	for want, r := range map[string]Rule{
		"fail every attempt of all functions":                                   {Do: Fail},
		"park attempt 1 of f, for the events where id=4*":                       {Function: "f", Where: "id=4*", Do: Park, Times: 1},
		"slow every attempt by 2s of all functions, for 12.5% of the events":    {Do: Slow, Delay: 2 * time.Second, Share: 0.125},
		"kill the process at every attempt of all functions":                    {Do: Kill},
		"kill the process once with each event of f":                            {Function: "f", Do: Kill, Times: 1},
		"kill the process 2 times with each event of all functions":             {Do: Kill, Times: 2},
		"unavailable every attempt of all functions, from 30s on for 10m0s":     {Do: Unavailable, Window: Window{30 * time.Second, 10 * time.Minute}},
		"hang every attempt of all functions, from 1h0m0s on":                   {Do: Hang, Window: Window{After: time.Hour}},
		`fail attempts 1 to 3 of f, for 10% of the events where a=b, with "no"`: {Function: "f", Where: "a=b", Share: 0.1, Do: Fail, Times: 3, Error: "no"},
	} {
		if got := r.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
