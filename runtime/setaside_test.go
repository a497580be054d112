package runtime

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// setsAside states a rule as the HTTP surface does, or ends it.
func (l *life) setsAside(conditions string, end bool) error {
	return l.host.owner("f").changeSetAside(context.Background(), streams.SetAside{Where: conditions, By: "anna", Reason: "acme sends nonsense", At: time.Now().UTC()}, end)
}

// setAsideOf lists the events of a function that were set aside, and fails for any other dead letter.
func (l *life) setAsideOf(function string) (ids []int) {
	l.w.t.Helper()
	for id, m := range l.letters(function) {
		r, err := advisories.ReadReport(m)
		if err != nil || r.Cause != advisories.SetAside || r.Attempts != 0 || !strings.Contains(r.Error, "set aside by anna, where source=//broker1*: acme sends nonsense") {
			l.w.t.Errorf("dead letter of %s: got %+v, %v, want it set aside, and who did that and why", id, r, err)
		}
		n, _ := strconv.Atoi(id)
		ids = append(ids, n)
	}
	slices.Sort(ids)
	return ids
}

const ofBroker1 = "source=//broker1*"

// TestEventsThatARuleSetsAsideNeverRun: what waits for a worker, what is held and what comes later is parked without an attempt, also after a restart.
// Other events of the same keys go on in order, and what somebody redrives runs although the rule stands.
func TestEventsThatARuleSetsAsideNeverRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := functions.Function{Concurrency: 1}
		slow := func(_ context.Context, id string, a functions.Attempt) error {
			time.Sleep(time.Second)
			if id == "2" && a.Cycle == 0 {
				return functions.Park(errNo) // the first of its key, from another source
			}
			return nil
		}
		l := w.start(testTiming(), []functions.Function{w.function(fn, forever, slow)})
		<-l.host.started
		for id := 1; id <= 20; id++ {
			l.sendEvent(from(id, 2, 5)) // odd ones are of broker 1; of each key every second one
		}
		time.Sleep(3500 * time.Millisecond)
		before := w.calls("")
		if err := l.setsAside(ofBroker1, false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(30 * time.Second)
		l.redrive("f", 2)
		time.Sleep(30 * time.Second)
		for _, c := range w.calls("")[len(before):] {
			if n, _ := strconv.Atoi(c.event); n%2 == 1 {
				t.Errorf("got an attempt of %s, which the rule picks", c.event)
			}
		}
		began := map[string]bool{}
		for _, c := range before {
			began[c.event] = true
		}
		var want []int
		for id := 1; id <= 20; id += 2 {
			if !began[strconv.Itoa(id)] {
				want = append(want, id)
			}
		}
		if got := l.setAsideOf("f"); !slices.Equal(got, want) {
			t.Errorf("got %v set aside, want %v", got, want)
		}
		latest := map[int]int{}
		for _, c := range w.calls("") {
			n, _ := strconv.Atoi(c.event)
			if c.attempt.Cycle == 0 && n < latest[n%5] {
				t.Errorf("event %d: attempted after %d of its key", n, latest[n%5])
			}
			latest[n%5] = n
		}
		if a := l.account("f"); a.Delivered != int64(20-len(want)) || a.Parked != int64(len(want)) || a.Held != 0 {
			t.Errorf("got %+v, want everything delivered or set aside", a)
		}
		l.end()
		l = w.start(testTiming(), []functions.Function{w.function(fn, forever, slow)})
		<-l.host.started
		l.sendEvent(from(21, 2, 5))
		l.sendEvent(from(22, 2, 5))
		time.Sleep(10 * time.Second)
		if got := l.setAsideOf("f"); !slices.Equal(got, append(want, 21)) {
			t.Errorf("after a restart: got %v set aside, want 21 among them", got)
		}
		l.redrive("f", 21)
		time.Sleep(10 * time.Second)
		if got := len(w.calls("21")); got != 1 {
			t.Errorf("got %d attempts of what was redriven, want 1", got)
		}
		if err := l.setsAside(ofBroker1, true); err != nil {
			t.Fatal(err)
		}
		l.sendEvent(from(23, 2, 5))
		time.Sleep(10 * time.Second)
		if got := len(w.calls("23")); got != 1 {
			t.Errorf("got %d attempts after the rule was ended, want 1", got)
		}
		if counts := l.auditCounts("f"); counts["siding.set-aside"] != 1 || counts["siding.set-aside-ended"] != 1 {
			t.Errorf("got %v, want both told", counts)
		}
		l.settle("f")
	})
}

// TestASuspendedFunctionSetsAside: nobody need wait for a function to go on to be rid of what it should not see then.
func TestASuspendedFunctionSetsAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, good)})
		<-l.host.started
		request := client.SuspendRequest{Function: "f", By: "anna", Reason: "deploy"}
		if err := l.host.owner("f").suspend(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		for id := 1; id <= 4; id++ {
			l.sendEvent(from(id, 2, 2))
		}
		time.Sleep(time.Second)
		if err := l.setsAside(ofBroker1, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := l.setAsideOf("f"); !slices.Equal(got, []int{1, 3}) {
			t.Errorf("got %v set aside, want 1 and 3", got)
		}
		if err := l.host.owner("f").resumeFunction(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if a := l.settle("f"); a.Delivered != 2 || a.Parked != 2 {
			t.Errorf("got %+v, want 2 delivered and 2 parked", a)
		}
	})
}

// TestSetAsideRulesAreBoundedAndSaidOnce: a second rule with the same conditions is refused with who made the first one, as is one too many.
func TestSetAsideRulesAreBoundedAndSaidOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, good)})
		<-l.host.started
		for i := range maxSetAside {
			if err := l.setsAside(fmt.Sprintf("size>%d", i+1), false); err != nil {
				t.Fatal(err)
			}
		}
		for conditions, want := range map[string]string{"size>1": "anna sets that aside since", "size>99": "can have no more"} {
			if err := l.setsAside(conditions, false); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", conditions, err, want)
			}
		}
		if err := l.setsAside("size>99", true); err == nil || !strings.Contains(err.Error(), "no rule sets aside where size>99") {
			t.Errorf("got %v, want it refused", err)
		}
	})
}

// TestSetAsideKilledAtEveryPoint kills the process before and after each operation while a rule is made, parks what waits and what comes, and is ended.
func TestSetAsideKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	everyPoint(t, func(t *testing.T, at int) bool {
		w := newWorld(t)
		fn := func(alive func() bool) functions.Function {
			return w.function(functions.Function{Concurrency: 1}, alive, func(context.Context, string, functions.Attempt) error {
				time.Sleep(time.Second)
				return nil
			})
		}
		inForce := -1 // how many attempts had begun when the rule was in force
		script := func(l *life, wait func(time.Duration)) {
			select {
			case <-l.host.started:
			case <-time.After(time.Minute):
				return
			}
			for id := 1; id <= 6; id++ {
				l.sendEvent(from(id, 2, 3))
			}
			wait(1500 * time.Millisecond)
			o := l.host.owner("f")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if o == nil || o.changeSetAside(ctx, streams.SetAside{Where: ofBroker1, By: "anna", Reason: "acme sends nonsense", At: time.Now().UTC()}, false) != nil {
				return
			}
			inForce = len(w.calls(""))
			wait(10 * time.Second)
			l.sendEvent(from(7, 2, 3))
			wait(10 * time.Second)
		}
		hit, where := w.killed(at, fn, script)
		l := w.start(testTiming(), []functions.Function{fn(forever)})
		<-l.host.started
		for id := 1; id <= 7; id++ {
			l.sendEvent(from(id, 2, 3)) // again, for a life that did not come so far
		}
		time.Sleep(30 * time.Second)
		if inForce >= 0 {
			for _, c := range w.calls("")[inForce:] {
				if n, _ := strconv.Atoi(c.event); n%2 == 1 {
					t.Errorf("killed at %s: got %+v, which the rule picks", where, c)
				}
			}
		}
		a := l.settle("f")
		aside := l.setAsideOf("f")
		if a.Delivered+a.Parked != 7 || int(a.Parked) != len(aside) {
			t.Errorf("killed at %s: got %+v and %v set aside, want each event once", where, a, aside)
		}
		for _, id := range aside {
			if id%2 == 0 {
				t.Errorf("killed at %s: got %d set aside, which the rule does not pick", where, id)
			}
		}
		if counts := l.auditCounts("f"); len(aside) > 0 && counts["siding.set-aside"] != 1 {
			t.Errorf("killed at %s: got %v, want the rule told", where, counts)
		}
		return hit
	})
}
