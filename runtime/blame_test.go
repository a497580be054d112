package runtime

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
)

// panicOf is what a process says that is ended by a goroutine which an attempt of this event has started.
func panicOf(event string) string {
	return fmt.Sprintf("panic: boom\n\ngoroutine 7 [running labels:{\"tenant\": \"a\", \"siding.event\": %q}]:\nmain.later()\n\ngoroutine 9 [select labels:{\"siding.event\": \"f/999\"}]:\n", event)
}

// TestACrashByWhatAnotherEventStartedConvictsNobody: the panic says whose goroutine it was. What ran alone then is attempted again, and parked only
// when it is named itself.
func TestACrashByWhatAnotherEventStartedConvictsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{Concurrency: 5}, forever, takes(time.Second, "2"))
		l := w.startAfter("", fn)
		for id := 1; id <= 4; id++ {
			l.sendEvent(from(id, 4, 4))
		}
		time.Sleep(1500 * time.Millisecond) // only 2 runs still
		l.kill()
		l = w.startAfter(panicOf("f/2"), fn)
		time.Sleep(5 * time.Second) // 2 runs, alone
		l.kill()
		l = w.startAfter(panicOf("f/1"), fn)
		time.Sleep(5 * time.Second) // 2 runs again, alone
		if letters := l.letters("f"); len(letters) != 0 {
			t.Fatalf("got %v parked, want nobody convicted of what f/1 had started", letters)
		}
		l.kill()
		l = w.startAfter(panicOf("f/2"), fn)
		l.settle("f")
		report, err := advisories.ReadReport(l.letters("f")["2"])
		if err != nil || report.Cause != advisories.Crashed {
			t.Errorf("got %+v, %v, want 2 parked as crash", report, err)
		}
		crashes := l.crashesOf(2)
		if len(crashes) != 3 || !strings.Contains(crashes[1].Error, "of what another event's attempt had started") || !strings.Contains(crashes[1].Reason, "the goroutine came from f/1") {
			t.Errorf("got %+v, want three crashes, and who was to blame for the second", crashes)
		}
	})
}

// TestCrashesCountForTheFunctionThatPanicked: nothing of g runs when its goroutines panic, and f is busy all the while. g is suspended and f served.
func TestCrashesCountForTheFunctionThatPanicked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fns := func(s script) []functions.Function {
			return []functions.Function{
				w.function(functions.Function{Concurrency: 4}, forever, s),
				w.function(functions.Function{Name: "g", Types: []string{"u"}, Concurrency: 4}, forever, good),
			}
		}
		l := w.startAfter("", fns(takes(time.Hour))...)
		for id := 1; id <= 8; id++ {
			l.sendEvent(from(id, 4, 4))
		}
		time.Sleep(time.Second)
		for n := 1; n <= deathsAllowed; n++ {
			l.kill()
			l = w.startAfter(panicOf("g/1"), fns(takes(time.Hour))...)
			time.Sleep(10 * time.Second)
			if got := l.host.owner("g").isSuspended(); got != (n == deathsAllowed) {
				t.Errorf("after %d deaths: g is suspended: %v", n, got)
			}
		}
		if why := l.host.owner("g").suspendedBecause(); !strings.Contains(why, "the process died 3 times") || !strings.Contains(why, "by what g/1 had started: panic: boom") {
			t.Errorf("got %q, want why", why)
		}
		l.kill()
		l = w.startAfter(panicOf("g/1"), fns(good)...)
		if a := l.settle("f"); a.Delivered != 8 {
			t.Errorf("got %+v, want all of f delivered", a)
		}
		if deaths := l.host.owner("f").declared.Deaths; len(deaths) > 1 { // the first one left no panic
			t.Errorf("got %v, want none of g's deaths counted for f", deaths)
		}
	})
}
