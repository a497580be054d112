package diagnosis

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

var base = time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)

// fails, works and parks are attempts at a second of the test.
func fails(at int, seq uint64) Attempt {
	return Attempt{
		At: base.Add(time.Duration(at) * time.Second), Sequence: seq, Number: 1, Key: fmt.Sprint("k", seq), Source: "s", Class: functions.ClassTransient,
		Error: "away", Outcome: functions.Retried,
	}
}

func works(at int, seq uint64) Attempt {
	a := fails(at, seq)
	a.Class, a.Error, a.Outcome = "", "", functions.Done
	return a
}

func parks(at int, seq uint64) Attempt {
	a := fails(at, seq)
	a.Class, a.Outcome = functions.ClassPermanent, functions.Parked
	return a
}

func rowOf(n int, change func(i int, a *Attempt)) []Attempt {
	var as []Attempt
	for i := range n {
		a := fails(i, uint64(i+1))
		if change != nil {
			change(i, &a)
		}
		as = append(as, a)
	}
	return as
}

func TestWhatSuspendsAndWhatDoesNot(t *testing.T) {
	oneKey := func(_ int, a *Attempt) { a.Key = "k" }
	for _, c := range []struct {
		name     string
		rules    functions.Breaker
		attempts []Attempt
		want     streams.SuspensionCause // "" = none
	}{
		{name: "nine different events", attempts: rowOf(9, nil)},
		{name: "ten different events", attempts: rowOf(10, nil), want: streams.SuspendedByOutage},
		{name: "ten attempts of one event", attempts: rowOf(10, func(i int, a *Attempt) { a.Sequence, a.Number = 1, i+1 })},
		{name: "ten events of one key and source", attempts: rowOf(30, oneKey)},
		{name: "ten events of one key, two sources", attempts: rowOf(10, func(i int, a *Attempt) { a.Key, a.Source = "k", fmt.Sprint(i%2) }), want: streams.SuspendedByOutage},
		{name: "ten events without a key of one source", attempts: rowOf(10, func(_ int, a *Attempt) { a.Key = "" }), want: streams.SuspendedByOutage},
		{name: "one key first, then another", attempts: append(rowOf(30, oneKey), fails(31, 40)), want: streams.SuspendedByOutage},
		{name: "a success in between", attempts: append(append(rowOf(9, nil), works(9, 50)), rowOf(9, nil)...)},
		{name: "a dropped event in between", attempts: append(append(rowOf(9, nil), Attempt{Outcome: functions.Discarded, Sequence: 50}), rowOf(9, nil)...)},
		{name: "a judgment in between", attempts: append(append(rowOf(9, nil), parks(9, 50)), fails(10, 51)), want: streams.SuspendedByOutage},
		{name: "three that are called unavailable", attempts: rowOf(3, func(_ int, a *Attempt) { a.Key, a.Class = "k", functions.ClassUnavailable }), want: streams.SuspendedByOutage},
		{name: "two that are called unavailable", attempts: rowOf(2, func(_ int, a *Attempt) { a.Class = functions.ClassUnavailable })},
		{name: "panics", attempts: rowOf(10, func(_ int, a *Attempt) { a.Class = functions.ClassPanic }), want: streams.SuspendedByOutage},
		{name: "fifty judged", attempts: rowOf(50, func(_ int, a *Attempt) { a.Outcome, a.Class = functions.Parked, functions.ClassPermanent })},
		{name: "fifty-one judged", attempts: rowOf(51, func(_ int, a *Attempt) { a.Outcome, a.Class = functions.Parked, functions.ClassPermanent }), want: streams.SuspendedByInflow},
		{name: "half of many judged", attempts: rowOf(400, func(i int, a *Attempt) {
			if *a = works(i, uint64(i+1)); i%2 == 0 {
				*a = parks(i, uint64(i+1))
			}
		})},
		{name: "no limit of the inflow", rules: functions.Breaker{Inflow: 1}, attempts: rowOf(300, func(_ int, a *Attempt) { a.Outcome = functions.Parked })},
		{name: "off", rules: functions.Breaker{Off: true}, attempts: rowOf(300, nil)},
	} {
		m := New("f", c.rules, 16, nil)
		for i, a := range c.attempts {
			answer := m.Ended(a)
			if last := i == len(c.attempts)-1; answer.Free != (last && c.want != "") || answer.Changed != answer.Free {
				t.Errorf("%s: attempt %d: got %+v", c.name, i+1, answer)
			}
		}
		if s := m.Suspension(); (s == nil) != (c.want == "") || s != nil && s.Cause != c.want {
			t.Errorf("%s: got %+v, want the cause %q", c.name, s, c.want)
		}
	}
}

func TestChargedAreTheAttemptsOfTheRowButTheOneThatShowsIt(t *testing.T) {
	m := New("f", functions.Breaker{Failures: 3}, 16, nil)
	second := fails(1, 1)
	second.Number = 2
	for _, a := range []Attempt{works(0, 9), fails(0, 1), second, fails(2, 2), fails(3, 3)} {
		m.Ended(a)
	}
	want := []streams.Charge{{Sequence: 1, Attempt: 1}, {Sequence: 2, Attempt: 1}}
	if s := m.Suspension(); fmt.Sprint(s.Charged) != fmt.Sprint(want) || s.ID != "f-20260301T020003Z" || !s.Since.Equal(base) {
		t.Errorf("got %+v, want %v charged", s, want)
	}
	if got, want := Describe(*m.Suspension()), "4 attempts of 3 events, 3 keys and 1 source failed in a row, none succeeded: away"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProbesComeAtGrowingIntervalsUntilItGivesUp(t *testing.T) {
	m := New("f", functions.Breaker{Failures: 1, Probes: 7}, 16, nil)
	m.Ended(fails(0, 1))
	m.Ended(Attempt{At: base, Sequence: 2, Key: "b", Source: "s", Outcome: functions.Retried})
	if m.Suspension() == nil {
		t.Fatal("got no suspension")
	}
	var waits []time.Duration
	now := base
	for n := uint64(10); m.Suspension().Phase == streams.SuspensionOpen; n++ {
		room, next := m.Room(now, 0)
		if room != 0 {
			t.Fatalf("got room for %d before the probe is due", room)
		}
		waits = append(waits, next.Sub(now))
		now = next
		if room, _ := m.Room(now, 3); room != 4 {
			t.Fatalf("got room for %d beside 3, want one more", room)
		}
		m.Began(n)
		if room, next := m.Room(now.Add(time.Hour), 1); room != 0 || !next.IsZero() {
			t.Fatalf("got room for %d while a probe runs", room)
		}
		a := fails(0, n)
		a.At = now
		m.Ended(a)
	}
	if want := "[10s 20s 40s 1m20s 2m40s 5m0s 5m0s]"; fmt.Sprint(waits) != want {
		t.Errorf("got the waits %v, want %v", waits, want)
	}
	if s := m.Suspension(); s.GaveUp.IsZero() || s.Probes != 7 {
		t.Errorf("got %+v, want it given up", s)
	}
	if room, next := m.Room(now.Add(1000*time.Hour), 0); room != 0 || !next.IsZero() {
		t.Errorf("got room for %d, want none until a person resumes it", room)
	}
}

// TestASuspensionKeepsItsRules draws what happens to a function, and says about each step what must hold.
func TestASuspensionKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := functions.Breaker{Failures: rapid.IntRange(1, 4).Draw(t, "failures"), Probes: rapid.IntRange(1, 4).Draw(t, "probes")}
		workers := rapid.IntRange(1, 8).Draw(t, "workers")
		m := New("f", rules, workers, nil)
		now, running := base, map[uint64]bool{}
		var sinceSuccess []Attempt
		next := uint64(1)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "wait")) * time.Second)
			before := m.Suspension()
			switch rapid.SampledFrom([]string{"begin", "begin", "end", "end", "end", "suspend", "resume", "restart"}).Draw(t, "what") {
			case "begin":
				room, _ := m.Room(now, len(running))
				if before != nil && before.Phase == streams.SuspensionStays && room > 0 {
					t.Fatalf("room for %d while it stays suspended", room)
				}
				if before != nil && before.Phase == streams.SuspensionOpen && room > len(running)+1 {
					t.Fatalf("room for %d beside %d while suspended", room, len(running))
				}
				if room > len(running) && len(running) < workers {
					m.Began(next)
					running[next] = true
					next++
				}
			case "end":
				seq := uint64(rapid.IntRange(1, int(next)).Draw(t, "which"))
				if !running[seq] {
					continue
				}
				delete(running, seq)
				a := Attempt{
					At: now, Sequence: seq, Number: 1, Key: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"), Source: "s",
					Outcome: rapid.SampledFrom([]functions.Outcome{functions.Done, functions.Retried, functions.Retried, functions.Parked}).Draw(t, "outcome"),
				}
				answer := m.Ended(a)
				if a.succeeded() {
					sinceSuccess = nil
				} else {
					sinceSuccess = append(sinceSuccess, a)
				}
				after := m.Suspension()
				switch {
				case before == nil && after == nil && answer.Free:
					t.Fatal("an attempt is not charged although the function was never suspended")
				case before == nil && after != nil && len(sinceSuccess) < rules.Failures:
					t.Fatalf("suspended by %d failures", len(sinceSuccess))
				case before != nil && before.Cause == streams.SuspendedByOutage && a.failed() && !answer.Free:
					t.Fatal("an attempt is charged while an outage suspends")
				case after != before && !answer.Changed:
					t.Fatal("a change that is not to be written down")
				case after != nil && after.Probes > rules.Probes:
					t.Fatalf("%d probes, allowed are %d", after.Probes, rules.Probes)
				}
			case "suspend":
				m.Suspend(now, streams.SuspendedByPerson, "anna", "why")
				if !m.Suspended() {
					t.Fatal("not suspended by a person")
				}
			case "resume":
				if was := m.Suspended(); m.Resume(now, "anna", "why") != was || m.Suspended() {
					t.Fatal("not resumed by a person")
				}
			case "restart":
				m, running = New("f", rules, workers, before), map[uint64]bool{}
				if after := m.Suspension(); after != before {
					t.Fatalf("after a restart: got %+v, want %+v", after, before)
				}
			}
		}
	})
}

func TestExplainNamesWhatElseHappened(t *testing.T) {
	for _, c := range []struct {
		name  string
		ends  []Attempt
		class functions.Class
		want  string
	}{
		{"nothing else", nil, functions.ClassTransient, "undetermined: no other event was attempted since its first failure"},
		{"its own attempts", []Attempt{fails(1, 7), fails(2, 7)}, functions.ClassTransient, "undetermined: no other event was attempted since its first failure"},
		{"before it", []Attempt{works(-5, 1)}, functions.ClassTransient, "undetermined: no other event was attempted since its first failure"},
		{"one success", []Attempt{works(5, 1), fails(6, 2)}, functions.ClassTimeout, "poison: of 2 other events from 1 source, 1 succeeded and 1 failed since its first failure"},
		{"two failures", []Attempt{fails(5, 1), fails(6, 2)}, functions.ClassTimeout, "undetermined: of 2 other events from 1 source, 0 succeeded and 2 failed since its first failure"},
		{"many failures", rowOf(9, func(i int, a *Attempt) { a.Sequence += 20 }), functions.ClassTimeout, "outage: of 9 other events from 1 source, 0 succeeded and 9 failed since its first failure"},
		{"judged", []Attempt{works(5, 1)}, functions.ClassPermanent, "poison: its handler says that no retry can help"},
	} {
		m := New("f", functions.Breaker{}, 1, nil)
		for _, a := range c.ends {
			m.Ended(a)
		}
		verdict, why := m.Explain(7, base, c.class)
		if got := string(verdict) + ": " + why; got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
