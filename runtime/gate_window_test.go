package runtime

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// nightly opens at two o'clock for an hour.
func nightly() functions.Schedule { return functions.Window("0 2 * * *", time.Hour) }

// nights runs a test in fake time that begins three hours before a window opens, with a function of its own for each life. until sleeps until some time after
// that window opens. Sweeps are seldom, because two days of them take real time.
func nights(t *testing.T, test func(t *testing.T, w *world, night time.Time, until func(time.Duration), start func(functions.Function, script) *life)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		night := nightly().Next(time.Now().Add(3 * time.Hour))
		until := func(after time.Duration) {
			t.Helper()
			if rest := time.Until(night.Add(after)); rest > 0 {
				time.Sleep(rest)
				return
			}
			t.Fatalf("it is %s already", time.Since(night))
		}
		until(-3 * time.Hour)
		test(t, w, night, until, func(f functions.Function, s script) *life {
			t.Helper()
			timing := testTiming()
			timing.sweep = 6 * time.Hour
			l := w.start(timing, []functions.Function{w.function(f, forever, s)})
			<-l.host.started
			synctest.Wait()
			return l
		})
	})
}

// begun says when each attempt began, as in "a1/1 +2h10m0s" for the first attempt of a1, counted from an instant.
func (w *world) begun(from time.Time) []string {
	var all []string
	for _, c := range w.calls("") {
		all = append(all, c.event+"/"+strconv.Itoa(c.attempt.Number)+" +"+c.at.Sub(from).Round(time.Second).String())
	}
	slices.Sort(all)
	return all
}

func (w *world) wantBegun(from time.Time, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.begun(from)); diff != "" {
		w.t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

func good(context.Context, string, functions.Attempt) error { return nil }

// TestWindowHandlesWhatWasThereWhenItOpened: two days of events in and outside of windows. Each attempt begins at two o'clock sharp, and what comes in
// while a window is open, or in the same second, waits for the next one.
func TestWindowHandlesWhatWasThereWhenItOpened(t *testing.T) {
	nights(t, func(t *testing.T, w *world, night time.Time, until func(time.Duration), start func(functions.Function, script) *life) {
		l := start(functions.Function{Window: nightly(), Timeout: 2 * time.Hour, Concurrency: 2}, slowly("a1", 50*time.Minute))
		if got, want := l.waitingFor("f"), "window opens "+night.Format(time.RFC3339); got != want {
			t.Errorf("got it waiting for %q, want %q", got, want)
		}
		l.sendKeyed("a1", "b1")
		until(-time.Second)
		l.sendKeyed("a2", "c1")
		until(time.Millisecond)
		l.sendKeyed("b2")
		time.Sleep(time.Minute)
		if got := l.waitingFor("f"); got != "" {
			t.Errorf("in the window: got it waiting for %q", got)
		}
		until(20 * time.Minute)
		l.sendKeyed("a3", "d1")
		until(10 * time.Hour)
		l.sendKeyed("d2")
		until(25 * time.Hour)
		l.settle("f")
		for _, c := range w.calls("") {
			if exact := night.Add(c.at.Sub(night).Round(time.Hour)); c.event != "a2" && !c.at.Equal(exact) {
				t.Errorf("event %s: got it attempted at %s, want %s", c.event, c.at, exact)
			}
		}
		w.wantBegun(night, "a1/1 +0s", "a2/1 +50m0s", "a3/1 +24h0m0s", "b1/1 +0s", "b2/1 +24h0m0s", "c1/1 +0s", "d1/1 +24h0m0s", "d2/1 +24h0m0s")
		l.nothingPending()
	})
}

// TestWindowIsOverWhenAllIsWorkedOff: what arrives in the rest of its hour waits for the next one, also where the last events of the stream are not the function's.
func TestWindowIsOverWhenAllIsWorkedOff(t *testing.T) {
	nights(t, func(t *testing.T, w *world, night time.Time, until func(time.Duration), start func(functions.Function, script) *life) {
		l := start(functions.Function{Window: nightly(), Concurrency: 1}, good)
		l.sendKeyed("a1")
		l.fillKeyed("u", "z", 1, 3) // of another type
		until(5 * time.Second)
		if got, want := l.waitingFor("f"), "window opens "+night.Add(24*time.Hour).Format(time.RFC3339); got != want {
			t.Errorf("got it waiting for %q, want %q", got, want)
		}
		l.sendKeyed("a2")
		until(25 * time.Hour)
		w.wantBegun(night, "a1/1 +0s", "a2/1 +24h0m0s")
	})
}

// TestWindowThatClosesLetsAttemptsEnd: what runs when the hour is over ends and counts, and nothing more begins.
func TestWindowThatClosesLetsAttemptsEnd(t *testing.T) {
	nights(t, func(t *testing.T, w *world, night time.Time, until func(time.Duration), start func(functions.Function, script) *life) {
		l := start(functions.Function{Window: nightly(), Timeout: 2 * time.Hour}, slowly("a1", 90*time.Minute))
		l.sendKeyed("a1", "a2")
		until(2 * time.Hour)
		if a := l.account("f"); a.Delivered != 1 {
			t.Errorf("got %+v, want one delivered", a)
		}
		until(25 * time.Hour)
		w.wantBegun(night, "a1/1 +0s", "a2/1 +24h0m0s")
	})
}

// TestWindowCountsAttemptsAcrossRuns: a backoff that ends outside of a window waits for the next one, and the third failed run parks the event. A redrive that
// is decided by day is made at night.
func TestWindowCountsAttemptsAcrossRuns(t *testing.T) {
	nights(t, func(t *testing.T, w *world, night time.Time, until func(time.Duration), start func(functions.Function, script) *life) {
		fn := functions.Function{Window: nightly(), Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(90 * time.Minute)}}
		l := start(fn, func(_ context.Context, _ string, a functions.Attempt) error {
			if a.Cycle == 0 {
				return errNo
			}
			return nil
		})
		l.sendKeyed("a1", "a2")
		until(49 * time.Hour)
		if letters := l.letters("f"); len(letters) != 1 {
			t.Fatalf("after the third run: got %d dead letters, want one", len(letters))
		}
		time.Sleep(9 * time.Hour)
		l.state(1, streams.Decision{Action: streams.ActionRedrive})
		time.Sleep(13 * time.Hour)
		w.wantBegun(night, "a1/1 +0s", "a1/2 +24h0m0s", "a1/3 +48h0m0s")
		until(73 * time.Hour)
		w.wantBegun(night, "a1/1 +0s", "a1/1 +72h0m0s", "a1/2 +24h0m0s", "a1/3 +48h0m0s", "a2/1 +72h0m0s")
	})
}

// TestWindowRetriesWithinItsHour: a retry that falls due while the window is open is made then, and keeps the run going.
func TestWindowRetriesWithinItsHour(t *testing.T) {
	nights(t, func(t *testing.T, w *world, night time.Time, until func(time.Duration), start func(functions.Function, script) *life) {
		fn := functions.Function{Window: nightly(), Retry: functions.Retry{Attempts: 5, Backoff: functions.Delays(25 * time.Minute)}}
		l := start(fn, failTimes("a1", 3))
		l.sendKeyed("a1", "a2", "b1")
		until(30 * time.Hour)
		w.wantBegun(night, "a1/1 +0s", "a1/2 +25m0s", "a1/3 +50m0s", "a1/4 +24h0m0s", "a2/1 +24h0m0s", "b1/1 +0s")
	})
}

// TestWindowIsEndedByAnOutage: what is left of a run that was ended waits for the next window.
func TestWindowIsEndedByAnOutage(t *testing.T) {
	nights(t, func(t *testing.T, w *world, night time.Time, until func(time.Duration), start func(functions.Function, script) *life) {
		l := start(functions.Function{Window: nightly(), Concurrency: 1, Timeout: time.Hour}, slowly("a1", 10*time.Minute))
		l.sendKeyed("a1", "a2", "b1")
		until(5 * time.Minute)
		if err := l.host.owner("f").call(t.Context(), l.host.owner("f").gate.EndRun); err != nil {
			t.Fatal(err)
		}
		until(25 * time.Hour)
		w.wantBegun(night, "a1/1 +0s", "a2/1 +24h0m0s", "b1/1 +24h0m0s")
	})
}

// TestWindowOutlivesRestarts: one between two windows changes nothing, and one within a window begins a run of what stands then.
func TestWindowOutlivesRestarts(t *testing.T) {
	nights(t, func(t *testing.T, w *world, night time.Time, until func(time.Duration), start func(functions.Function, script) *life) {
		fn := functions.Function{Window: nightly(), Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(3 * time.Hour)}, Concurrency: 1, Timeout: time.Hour}
		again := func() *life { return start(fn, both(failTimes("a1", 2), slowly("b1", 30*time.Minute))) }
		l := again()
		l.sendKeyed("a1", "b1", "c1")
		time.Sleep(time.Hour)
		l.end()
		l = again()
		until(10 * time.Minute) // a1 has failed, b1 runs
		l.sendKeyed("d1")       // not of this run, but of the one that the next process begins
		time.Sleep(time.Minute)
		l.end()
		until(20 * time.Minute)
		l = again()
		until(10 * time.Hour)
		l.end()
		l = again()
		until(50 * time.Hour)
		l.settle("f")
		w.wantBegun(night, "a1/1 +0s", "a1/2 +24h0m0s", "a1/3 +48h0m0s", "b1/1 +0s", "b1/1 +20m0s", "c1/1 +50m0s", "d1/1 +50m0s")
		l.nothingPending()
	})
}

// TestWindowHasManyMoreEventsThanFitInMemory: one key with more events than wait in memory, and more of others than the owner takes at once. All are handled
// in one run, in order.
func TestWindowHasManyMoreEventsThanFitInMemory(t *testing.T) {
	nights(t, func(t *testing.T, w *world, night time.Time, until func(time.Duration), start func(functions.Function, script) *life) {
		l := start(functions.Function{Window: nightly()}, good)
		l.fillKeyed("t", "a", 1, 300)
		l.fillKeyed("t", "b", 1, 40)
		for i := range window {
			e := newEvent("u" + strconv.Itoa(i))
			l.sendEvent(e)
		}
		until(30 * time.Minute)
		l.settle("f")
		w.wantAscending("a", 1, 300)
		w.wantAscending("b", 1, 40)
		for _, c := range w.calls("") {
			if c.at.Sub(night) > time.Minute || c.attempt.Number != 1 {
				t.Fatalf("event %s: got attempt %d after %s", c.event, c.attempt.Number, c.at.Sub(night))
			}
		}
		l.nothingPending()
	})
}

// TestWindowParksWhatHasExpiredMeanwhile: an event whose time is over when the window opens is not attempted, and its key goes on.
func TestWindowParksWhatHasExpiredMeanwhile(t *testing.T) {
	nights(t, func(t *testing.T, w *world, night time.Time, until func(time.Duration), start func(functions.Function, script) *life) {
		l := start(functions.Function{Window: nightly()}, good)
		e := newEvent("a1")
		e.SetExtension("partitionkey", "a")
		e.SetExtension("expirytime", night.Add(-time.Hour).Format(time.RFC3339))
		l.sendEvent(e)
		l.sendKeyed("a2")
		until(time.Minute)
		w.wantBegun(night, "a2/1 +0s")
		if _, parked := l.letters("f")["a1"]; !parked {
			t.Error("the event that had expired is no dead letter")
		}
	})
}

// TestWindowKilled kills the process at many points of runs of a minute in every two: nothing is lost, and no attempt is made too much.
func TestWindowKilled(t *testing.T) {
	t.Parallel()
	p := path{
		name: "window", keys: []string{"k", "", "k"}, delivered: 3,
		fn: functions.Function{
			Window: functions.Window("*/2 * * * *", time.Minute),
			Retry:  functions.Retry{Attempts: 4, Backoff: functions.Delays(20*time.Second, 90*time.Second)},
		},
		script: failTimes("1", 2), // the first retry falls into the same window, the second one between two
	}
	stride, n := 4, 0
	if underRace() {
		stride = 13
	}
	for at := 1; killAt(t, p, n%2 == 0, at) && !t.Failed(); at += stride {
		n++
	}
	t.Attr("crash-points", strconv.Itoa(n))
	if n < 4 {
		t.Errorf("got %d points, want more: the path is shorter than it was", n)
	}
}

// TestWindowIsOverAtOnceWithoutEvents: also of a stream that has never had any.
func TestWindowIsOverAtOnceWithoutEvents(t *testing.T) {
	nights(t, func(t *testing.T, _ *world, night time.Time, until func(time.Duration), start func(functions.Function, script) *life) {
		until(-time.Hour)
		l := start(functions.Function{Window: nightly()}, good)
		until(time.Second)
		if got, want := l.waitingFor("f"), "window opens "+night.Add(24*time.Hour).Format(time.RFC3339); got != want {
			t.Errorf("got it waiting for %q, want %q", got, want)
		}
	})
}
