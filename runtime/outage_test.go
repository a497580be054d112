package runtime

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// errAway is what a resource that is away looks like to a handler that knows nothing about classes.
var errAway = errors.New("contract system: connection refused")

// from is an event of one of a few sources and keys.
func from(id, sources, keys int) event.Event {
	e := newEvent(strconv.Itoa(id))
	e.SetSource(fmt.Sprintf("//broker%d.example/portal", id%sources))
	if keys > 0 {
		e.SetExtension("partitionkey", fmt.Sprintf("contract-%d", id%keys))
	}
	return e
}

// auditCounts counts the audit entries of a function by action.
func (l *life) auditCounts(function string) map[string]int {
	l.w.t.Helper()
	counts := map[string]int{}
	for seq := uint64(1); ; {
		m, err := l.store.Next(context.Background(), streams.AuditStream, seq, streams.AuditSubject(function))
		if err != nil {
			return counts
		}
		counts[m.Header.Get("ce-type")]++
		seq = m.Sequence + 1
	}
}

// feed sends events at a steady rate until the count is reached.
func (l *life) feed(count, perMinute, sources, keys int) {
	l.w.t.Helper()
	for i := range count {
		l.sendEvent(from(i+1, sources, keys))
		time.Sleep(time.Minute / time.Duration(perMinute))
	}
}

// TestAnOutageOfTenMinutesCostsNoEventAnAttempt: the contract system is away for ten minutes, and 200 events a minute come in from five sources.
func TestAnOutageOfTenMinutesCostsNoEventAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var away, back time.Time
		inFlight, most := 0, 0
		fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second, 5*time.Second)}}, forever,
			func(context.Context, string, functions.Attempt) error {
				w.mu.Lock()
				inFlight++
				most = max(most, inFlight)
				w.mu.Unlock()
				time.Sleep(50 * time.Millisecond)
				w.mu.Lock()
				inFlight--
				w.mu.Unlock()
				if now := time.Now(); now.After(away) && now.Before(back) {
					return errAway
				}
				return nil
			})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		away = time.Now().Add(time.Minute)
		back = away.Add(10 * time.Minute)
		const count = 14 * 200
		l.feed(count, 200, 5, 40)
		time.Sleep(10 * time.Minute)
		a := l.settle("f")
		if a.Delivered != count || a.Parked != 0 {
			t.Errorf("got %+v, want all %d delivered", a, count)
		}
		failed, probes := 0, 0
		for _, c := range w.calls("") {
			if c.err != nil {
				failed++
				if c.attempt.Number != 1 && c.attempt.Number != 2 {
					t.Errorf("event %s: got attempt %d of 3", c.event, c.attempt.Number)
				}
			}
		}
		for wait, at := 10*time.Second, 10*time.Second; at < 10*time.Minute; at += wait {
			probes++
			wait = min(2*wait, 5*time.Minute)
		}
		if limit := 10 + 16 + probes; failed > limit || failed < 10 {
			t.Errorf("got %d failed attempts, want at most %d: those that show the outage, those in flight, and the probes", failed, limit)
		}
		for key := range 40 {
			want := make([]string, 0, count/40)
			for id := 1; id <= count; id++ {
				if id%40 == key {
					want = append(want, strconv.Itoa(id))
				}
			}
			var got []string
			for _, c := range w.calls("") {
				if id, _ := strconv.Atoi(c.event); id%40 == key && c.err == nil {
					got = append(got, c.event)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("key %d: got %v, want %v", key, got, want)
			}
		}
		if counts := l.auditCounts("f"); counts["siding.suspended"] != 1 || counts["siding.resumed"] != 1 || counts["siding.parked"] != 0 {
			t.Errorf("got %v, want one suspension, one resumption and nothing parked", counts)
		}
		t.Attr("failed-attempts", strconv.Itoa(failed))
		t.Attr("most-at-once", strconv.Itoa(most))
	})
}

// TestAfterAnOutageAttemptsComeBackAtARamp: one at first, then two, four and so on.
func TestAfterAnOutageAttemptsComeBackAtARamp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		away, running := true, 0
		var steps []int
		fn := w.function(functions.Function{Retry: every(time.Second)}, forever, func(context.Context, string, functions.Attempt) error {
			w.mu.Lock()
			running++
			if !away {
				steps = append(steps, running)
			}
			failing := away
			w.mu.Unlock()
			time.Sleep(time.Second)
			w.mu.Lock()
			running--
			w.mu.Unlock()
			if failing {
				return errAway
			}
			return nil
		})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		for i := range 100 {
			l.sendEvent(from(i+1, 5, 0))
		}
		time.Sleep(time.Minute)
		if !l.host.owner("f").isSuspended() {
			t.Fatal("got a running function, want it suspended")
		}
		w.mu.Lock()
		away = false
		w.mu.Unlock()
		l.settle("f")
		// One is the probe, one the first of the ramp.
		if len(steps) < 31 || steps[0] != 1 || steps[1] != 1 || steps[2] > 2 || steps[3] > 2 || max(steps[4], steps[5], steps[6], steps[7]) > 4 {
			t.Errorf("got %v attempts at once, want 1, 1, then up to 2, 4 and so on", steps)
		}
	})
}

// TestOneEventThatFailsAloneIsNoOutage: with one event in the queue nobody can tell, and the retry policy decides.
func TestOneEventThatFailsAloneIsNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 12, Backoff: functions.Delays(time.Second)}}, forever,
			func(context.Context, string, functions.Attempt) error { return errAway })
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.send(1)
		if a := l.settle("f"); a.Parked != 1 || len(w.calls("")) != 12 {
			t.Errorf("got %+v after %d attempts, want it parked after 12", a, len(w.calls("")))
		}
		if l.host.owner("f").isSuspended() || l.auditCounts("f")["siding.suspended"] != 0 {
			t.Error("got a suspension, want none")
		}
		letter := l.report("f", "1")
		if want := "undetermined: no other event was attempted since its first failure"; letter.Diagnosis != want {
			t.Errorf("got the diagnosis %q, want %q", letter.Diagnosis, want)
		}
	})
}

// TestPoisonAmongGoodEventsDoesNotSuspend: what cannot be helped is parked at its first attempt.
func TestPoisonAmongGoodEventsDoesNotSuspend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{}, forever, func(_ context.Context, id string, _ functions.Attempt) error {
			if n, _ := strconv.Atoi(id); n <= 37*11 && n%11 == 0 {
				return functions.Park(errors.New("date of loss is missing"))
			}
			return nil
		})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		for i := range 437 {
			l.sendEvent(from(i+1, 5, 0))
		}
		if a := l.settle("f"); a.Parked != 37 || a.Delivered != 400 || len(w.calls("")) != 437 {
			t.Errorf("got %+v after %d attempts, want 37 parked at their first one", a, len(w.calls("")))
		}
		if l.auditCounts("f")["siding.suspended"] != 0 {
			t.Error("got a suspension, want none")
		}
	})
}

// TestPoisonThatIsRetriedWhileOthersSucceedIsParkedAsPoison: the dead letter says why it is not the resource.
func TestPoisonThatIsRetriedWhileOthersSucceedIsParkedAsPoison(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(10 * time.Second)}}, forever,
			func(_ context.Context, id string, _ functions.Attempt) error {
				if id == "7" {
					return errAway
				}
				return nil
			})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.feed(30, 60, 5, 0)
		l.settle("f")
		letter := l.report("f", "7")
		want := regexp.MustCompile(`^poison: of (\d+) other events from 5 sources, (\d+) succeeded and 0 failed since its first failure$`)
		if found := want.FindStringSubmatch(letter.Diagnosis); found == nil || found[1] != found[2] || len(found[1]) != 2 {
			t.Errorf("got the diagnosis %q, want %s", letter.Diagnosis, want)
		}
	})
}

// TestAnInflowThatWouldAllBeParkedSuspends: a sender that has gone wrong does not turn a whole backlog into dead letters.
func TestAnInflowThatWouldAllBeParkedSuspends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		broken := true
		fn := w.function(functions.Function{}, forever, func(context.Context, string, functions.Attempt) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if broken {
				return functions.Park(errNo)
			}
			return nil
		})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		for i := range 300 {
			l.sendEvent(from(i+1, 5, 0))
		}
		time.Sleep(2 * time.Minute)
		a := l.account("f")
		s := l.host.owner("f").suspension.Load()
		if a.Parked != 50 || !a.Holds || s == nil || s.Cause != streams.SuspendedByInflow {
			t.Errorf("got %+v, %+v; want 50 parked, and the rest waiting", a, s)
		}
		w.mu.Lock()
		broken = false
		w.mu.Unlock()
		if a := l.settle("f"); a.Parked != 50 || a.Delivered != 250 {
			t.Errorf("got %+v, want the rest delivered", a)
		}
	})
}

// TestASuspensionThatGivesUpStaysOverARestartUntilAPersonResumesIt also says that it is told once.
func TestASuspensionThatGivesUpStaysOverARestartUntilAPersonResumesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		away := true
		start := func() *life {
			fn := w.function(functions.Function{Retry: every(time.Second)}, forever, func(context.Context, string, functions.Attempt) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if away {
					return errAway
				}
				return nil
			})
			l := w.start(testTiming(), []functions.Function{fn})
			<-l.host.started
			return l
		}
		l := start()
		for i := range 40 {
			l.sendEvent(from(i+1, 5, 0))
		}
		time.Sleep(3 * time.Hour)
		made := len(w.calls(""))
		s := l.host.owner("f").suspension.Load()
		if s.Phase != streams.SuspensionStays || s.Probes != 10 || s.GaveUp.IsZero() {
			t.Errorf("got %+v, want it given up after 10 probes", s)
		}
		w.mu.Lock()
		away = false
		w.mu.Unlock()
		l.end()
		l = start()
		time.Sleep(3 * time.Hour)
		if len(w.calls("")) != made || !l.host.owner("f").isSuspended() {
			t.Errorf("got %d attempts after a restart, want none", len(w.calls(""))-made)
		}
		if counts := l.auditCounts("f"); counts["siding.suspended"] != 1 || counts["siding.gave-up"] != 1 || counts["siding.resumed"] != 0 {
			t.Errorf("got %v, want the suspension and that it gave up told once each", counts)
		}
		if err := l.host.owner("f").resumeFunction(t.Context(), client.SuspendRequest{Function: "f", Reason: "fixed", By: "anna"}); err != nil {
			t.Errorf("resume: %v", err)
		}
		if a := l.settle("f"); a.Delivered != 40 || a.Parked != 0 {
			t.Errorf("got %+v, want all delivered", a)
		}
		if counts := l.auditCounts("f"); counts["siding.resumed"] != 1 {
			t.Errorf("got %v, want the resumption told once", counts)
		}
		if err := l.host.owner("f").resumeFunction(t.Context(), client.SuspendRequest{Function: "f", Reason: "again", By: "anna"}); err == nil {
			t.Error("got no error of a second resumption")
		}
	})
}

// TestGivenBackAreTheAttemptsThatAnOutageSpoiledBeforeItWasRecognised: each event may fail as often as its policy allows afterwards.
func TestGivenBackAreTheAttemptsThatAnOutageSpoiledBeforeItWasRecognised(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		away := true
		perEvent := map[string]int{}
		fn := w.function(functions.Function{Concurrency: 1, Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}}, forever,
			func(_ context.Context, id string, a functions.Attempt) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if away {
					return errAway
				}
				perEvent[id]++
				if n, _ := strconv.Atoi(id); n <= 3 && perEvent[id] <= 2 { // twice more, for its own sake
					return errNo
				}
				return nil
			})
		fn.Breaker.Failures = 10
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		for i := range 10 { // the tenth shows the outage, when some have failed twice
			l.sendEvent(from(i+1, 5, 0))
			time.Sleep(150 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if a := l.account("f"); a.Parked != 0 || a.Retrying+a.Delivering+a.Pending != 10 || !a.Holds {
			t.Errorf("got %+v, want all ten waiting", a)
		}
		w.mu.Lock()
		away = false
		w.mu.Unlock()
		if a := l.settle("f"); a.Delivered != 10 || a.Parked != 0 {
			t.Errorf("got %+v, want all delivered", a)
		}
	})
}

// TestWhatAnOutageParkedBeforeItWasRecognisedIsOneRedrive: a slow trickle is exhausted before ten events have failed.
func TestWhatAnOutageParkedBeforeItWasRecognisedIsOneRedrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		away := false
		fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}}, forever,
			func(_ context.Context, id string, a functions.Attempt) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if away || id == "1" && a.Cycle == 0 { // the first one is poison
					return errAway
				}
				return nil
			})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.sendEvent(from(1, 5, 0))
		time.Sleep(time.Minute)
		l.sendEvent(from(2, 5, 0))
		time.Sleep(time.Minute)
		set := func(to bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			away = to
		}
		set(true)
		for i := range 10 {
			l.sendEvent(from(3+i, 5, 0))
			time.Sleep(10 * time.Second)
		}
		set(false)
		if a := l.settle("f"); a.Parked != 10 || a.Delivered != 2 {
			t.Errorf("got %+v, want the poison and the first nine of the outage parked", a)
		}
		d, err := l.store.Declared(t.Context(), "f")
		if err != nil || len(d.Outages) != 1 {
			t.Fatalf("got %+v, %v; want one outage remembered", d.Outages, err)
		}
		var spoiled []string
		all := func(q client.DeadLetterQuery) error {
			return l.host.eachLetter(t.Context(), q, func(_ streams.Ref, _ streams.Message, d client.DeadLetter) (bool, error) {
				spoiled = append(spoiled, d.EventID)
				l.decideWith(client.Decision{Function: "f", Sequence: d.Sequence, Action: client.Redrive, By: "anna"})
				return true, nil
			})
		}
		if err := all(client.DeadLetterQuery{Outage: d.Outages[0].ID}); err != nil || fmt.Sprint(spoiled) != "[3 4 5 6 7 8 9 10 11]" {
			t.Errorf("got %v, %v; want what the outage exhausted", spoiled, err)
		}
		if a := l.settle("f"); a.Parked != 1 || a.Delivered != 11 {
			t.Errorf("got %+v, want only the poison left", a)
		}
		if err := all(client.DeadLetterQuery{Outage: "f-20000101T000000Z"}); problemCode(err) != client.NotFound {
			t.Errorf("got %v of an outage that never was, want it not found", err)
		}
	})
}
