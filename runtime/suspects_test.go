package runtime

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// company notes what runs beside what.
type company struct {
	mu       sync.Mutex
	running  map[string]bool
	beside   map[string]int // the most that ran beside an attempt of an event, of this life
	order    []string
	ended    time.Time
	shortest time.Duration // between the end of an attempt and the begin of the next one
}

func newCompany() *company {
	return &company{running: map[string]bool{}, beside: map[string]int{}, shortest: time.Hour}
}

func (c *company) script(s script) script {
	return func(ctx context.Context, id string, a functions.Attempt) error {
		c.mu.Lock()
		if !c.ended.IsZero() && len(c.running) == 0 {
			c.shortest = min(c.shortest, time.Since(c.ended))
		}
		c.running[id] = true
		c.order = append(c.order, id)
		for other := range c.running {
			c.beside[other] = max(c.beside[other], len(c.running)-1)
		}
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			delete(c.running, id)
			c.ended = time.Now()
			c.mu.Unlock()
		}()
		return s(ctx, id, a)
	}
}

// takes is a handler that takes some time, and much of it for events that hang.
func takes(d time.Duration, hang ...string) script {
	return func(ctx context.Context, id string, _ functions.Attempt) error {
		long := d
		if slices.Contains(hang, id) {
			long = time.Hour
		}
		select {
		case <-time.After(long):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// startAfter begins a process after one that died with these last words.
func (w *world) startAfter(report string, fns ...functions.Function) *life {
	w.t.Helper()
	l := w.open()
	l.host = newHost(l.store, fns, services{log: testLog(), metrics: newMetrics(names(fns)...), timing: testTiming(), death: &death{report: report}})
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	go func() {
		defer close(l.done)
		l.err = l.host.run(ctx)
	}()
	<-l.host.started
	return l
}

const aPanic = "panic: boom\n\ngoroutine 7 [running]:\nmain.later()\n"

// crashesOf lists the crash records of an event.
func (l *life) crashesOf(sequence uint64) (crashes []streams.Record) {
	l.w.t.Helper()
	records, err := l.store.Records(context.Background(), "f", sequence)
	if err != nil {
		l.w.t.Fatal(err)
	}
	return slices.DeleteFunc(records, func(r streams.Record) bool { return r.Kind != streams.RecordCrash })
}

// TestWhatRanWhenTheProcessCrashedRunsAlone: nothing runs beside a suspect, of no function, and what never ran is none. Nobody is charged, and each record
// says what ran beside it.
func TestWhatRanWhenTheProcessCrashedRunsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t), newCompany()
		fns := func(s script) []functions.Function {
			return []functions.Function{
				w.function(functions.Function{Concurrency: 4}, forever, s),
				w.function(functions.Function{Name: "g", Types: []string{"u"}, Concurrency: 4}, forever, s),
			}
		}
		l := w.start(testTiming(), fns(takes(time.Minute)))
		<-l.host.started
		for i := 1; i <= 8; i++ {
			l.sendEvent(from(i, 3, 0))
			e := from(100+i, 3, 0)
			e.SetType("u")
			l.sendEvent(e)
		}
		time.Sleep(time.Second)
		l.kill()
		ran := map[string]bool{}
		for _, call := range w.calls("") {
			ran[call.event] = true
		}
		if len(ran) != 8 {
			t.Fatalf("got %d events running, want 4 of each function", len(ran))
		}
		l = w.start(testTiming(), fns(c.script(takes(time.Second))))
		<-l.host.started
		time.Sleep(500 * time.Millisecond)
		for _, name := range []string{"f", "g"} {
			said := l.host.owner(name).waiting.Load()
			if !strings.HasPrefix(*said, "event ") || !strings.HasSuffix(*said, ", which ran when the process died and is attempted alone") {
				t.Errorf("got %s waiting for %q, want it to name the event that is attempted alone", name, *said)
			}
		}
		for _, name := range []string{"f", "g"} {
			if a := l.settle(name); a.Delivered != 8 {
				t.Errorf("got %+v, want all delivered", a)
			}
		}
		for id, n := range c.beside {
			if ran[id] && n > 0 {
				t.Errorf("%d attempts ran beside the suspect %s", n, id)
			}
		}
		if first := c.order[:8]; slices.ContainsFunc(first, func(id string) bool { return !ran[id] }) {
			t.Errorf("got %v first, want the suspects %v", first, ran)
		}
		for seq := uint64(1); seq <= 15; seq += 2 { // those of f
			crashes := l.crashesOf(seq)
			if want := seq <= 7; (len(crashes) == 1) != want {
				t.Errorf("event %d: got %+v, want a record exactly if it ran", seq, crashes)
			}
			for _, r := range crashes {
				if r.Charged || !strings.Contains(r.Reason, "beside it ran f/") || !strings.Contains(r.Reason, "g/") || strings.Contains(r.Reason, fmt.Sprintf("f/%d,", seq)) {
					t.Errorf("event %d: got %+v, want it uncharged, and what ran beside it", seq, r)
				}
			}
		}
	})
}

// TestTheCulpritOfTwoCrashesIsParkedAndNobodyElse: a process that dies again while a suspect runs alone has been killed by it. It is parked as crash, keeps
// the order of its key, and can be redriven.
func TestTheCulpritOfTwoCrashesIsParkedAndNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := func(s script) functions.Function { return w.function(functions.Function{Concurrency: 5}, forever, s) }
		culprit := takes(time.Second, "7")
		l := w.startAfter("", fn(culprit))
		for id := 1; id <= 20; id++ {
			l.sendEvent(from(id, 3, 5)) // 7 is the second of its key, 12 and 17 come behind it
		}
		time.Sleep(1500 * time.Millisecond) // 6 to 10 run
		l.kill()
		l = w.startAfter(aPanic, fn(culprit))
		time.Sleep(20 * time.Second) // 7 runs, alone
		l.kill()
		l = w.startAfter(aPanic, fn(culprit))
		l.settle("f")
		letters := l.letters("f")
		report, err := advisories.ReadReport(letters["7"])
		if err != nil || len(letters) != 1 || report.Cause != advisories.Crashed || report.ParkedBy != advisories.ByOwner || report.Attempts != 0 {
			t.Fatalf("got %d dead letters, and %+v, %v, want 7 parked as crash", len(letters), report, err)
		}
		if !strings.Contains(report.Error, "died again while the attempt ran, with nothing beside it: panic: boom") || !strings.Contains(report.Stack, "main.later()") {
			t.Errorf("got %q and %q, want what happened", report.Error, report.Stack)
		}
		if a := l.account("f"); a.Delivered != 17 || a.Held != 2 || a.Parked != 1 {
			t.Errorf("got %+v, want 12 and 17 held and the others delivered", a)
		}
		l.end()
		l = w.startAfter("", fn(good))
		l.redrive("f", 7)
		if a := l.settle("f"); a.Delivered != 20 {
			t.Errorf("got %+v, want all delivered", a)
		}
		latest := map[int]int{}
		for _, c := range w.calls("") {
			if n, _ := strconv.Atoi(c.event); n < latest[n%5] {
				t.Errorf("event %d: attempted after %d of its key", n, latest[n%5])
			} else {
				latest[n%5] = n
			}
		}
	})
}

// TestAnAttemptThatFailsClearsNoSuspect: it may not have come as far as the one that crashed. It runs alone until it is delivered.
func TestAnAttemptThatFailsClearsNoSuspect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t), newCompany()
		fn := func(s script) functions.Function {
			return w.function(functions.Function{Concurrency: 4, Retry: every(time.Second)}, forever, s)
		}
		l := w.startAfter("", fn(takes(time.Minute)))
		l.sendEvent(from(1, 1, 0))
		time.Sleep(time.Second)
		l.kill()
		l = w.startAfter("", fn(c.script(func(ctx context.Context, id string, a functions.Attempt) error {
			time.Sleep(300 * time.Millisecond)
			if id == "1" && a.Number < 3 {
				return errNo
			}
			return nil
		})))
		for id := 2; id <= 60; id++ {
			l.sendEvent(from(id, 1, 0))
		}
		if a := l.settle("f"); a.Delivered != 60 {
			t.Errorf("got %+v, want all delivered", a)
		}
		if n := len(w.calls("1")); n != 4 || c.beside["1"] != 0 {
			t.Errorf("got %d attempts, and %d beside one of them, want 4 and 0", n, c.beside["1"])
		}
	})
}

// TestACrashInTheQuietBehindASuspectIsItsFunctions: what dies a moment after a handler has returned convicts nobody. The third time its function is suspended, over
// restarts, until a person resumes it; the others go on.
func TestACrashInTheQuietBehindASuspectIsItsFunctions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newCompany()
		fns := func(s script) []functions.Function {
			return []functions.Function{
				w.function(functions.Function{Concurrency: 4}, forever, s),
				w.function(functions.Function{Name: "g", Types: []string{"u"}, Concurrency: 4}, forever, s),
			}
		}
		l := w.startAfter("", fns(takes(time.Minute))...)
		for i := 1; i <= 6; i++ {
			l.sendEvent(from(i, 3, 0))
			e := from(100+i, 3, 0)
			e.SetType("u")
			l.sendEvent(e)
		}
		time.Sleep(time.Second)
		l.kill()                        // 4 of each run
		for range 2*deathsAllowed - 3 { // until one of them has its third: one suspect has returned, the next one has not begun
			before := len(w.calls(""))
			l = w.startAfter(aPanic, fns(takes(10*time.Millisecond))...)
			for n := 0; n < 100 && len(w.calls("")) == before; n++ {
				time.Sleep(5 * time.Millisecond)
			}
			time.Sleep(200 * time.Millisecond)
			if n := len(w.calls("")) - before; n != 1 {
				t.Errorf("got %d attempts, want one and quiet", n)
			}
			l.kill()
		}
		l = w.startAfter(aPanic, fns(c.script(takes(10*time.Millisecond)))...)
		time.Sleep(time.Minute)
		suspended := 0
		for _, name := range []string{"f", "g"} {
			a, o := l.account(name), l.host.owner(name)
			if a.Parked != 0 {
				t.Errorf("%s: got %+v, want nobody convicted", name, a)
			}
			if o.isSuspended() {
				suspended++
				if why := o.suspendedBecause(); !strings.Contains(why, "the process died 3 times") || !strings.Contains(why, "panic: boom") {
					t.Errorf("got %q, want why", why)
				}
			} else if a.Delivered != 6 {
				t.Errorf("%s: got %+v, want all delivered", name, a)
			}
		}
		if suspended != 1 {
			t.Fatalf("got %d functions suspended, want the one whose suspects were running", suspended)
		}
		if c.shortest < quietAfterPanic {
			t.Errorf("got %s between two suspects, want %s", c.shortest, quietAfterPanic)
		}
		l.end()
		l = w.startAfter("", fns(good)...)
		time.Sleep(time.Minute)
		for _, name := range []string{"f", "g"} {
			o := l.host.owner(name)
			if !o.isSuspended() {
				continue
			}
			if counts := l.auditCounts(name); counts["siding.suspended"] != 1 {
				t.Errorf("got %v, want the suspension told once", counts)
			}
			if err := o.resumeFunction(t.Context(), client.SuspendRequest{Function: name, By: "anna", Reason: "fixed"}); err != nil {
				t.Fatal(err)
			}
			if a := l.settle(name); a.Delivered != 6 {
				t.Errorf("got %+v, want all delivered after it was resumed", a)
			}
			suspended--
		}
		if suspended != 0 {
			t.Error("the suspension did not outlive a restart")
		}
	})
}

// TestASuspectDoesNotKeepALongAttemptsProcessStill: one that comes back while another function's attempt takes an hour lets the others go on after a
// while, and runs when it can.
func TestASuspectDoesNotKeepALongAttemptsProcessStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fns := func(s script) []functions.Function {
			return []functions.Function{
				w.function(functions.Function{Concurrency: 4, Timeout: 2 * time.Hour, Retry: every(time.Second)}, forever, s),
			}
		}
		l := w.startAfter("", fns(takes(time.Minute))...)
		l.sendEvent(from(1, 1, 0))
		time.Sleep(time.Second)
		l.kill()
		l = w.startAfter("", fns(func(ctx context.Context, id string, a functions.Attempt) error {
			switch {
			case id == "1" && a.Number == 1:
				return errNo // comes back when the long one runs
			case id == "2":
				return takes(time.Hour)(ctx, id, a)
			}
			return nil
		})...)
		l.sendEvent(from(2, 1, 0))
		time.Sleep(2 * time.Second)
		for id := 3; id <= 10; id++ {
			l.sendEvent(from(id, 1, 0))
		}
		time.Sleep(10 * time.Second)
		if n := len(w.calls("3")); n != 0 {
			t.Errorf("got %d attempts while a suspect waits for its turn, want 0", n)
		}
		time.Sleep(longStill)
		if a := l.account("f"); a.Delivered != 8 {
			t.Errorf("got %+v, want all but the suspect and the long one delivered", a)
		}
		if a := l.settle("f"); a.Delivered != 10 {
			t.Errorf("got %+v, want all delivered", a)
		}
	})
}

// TestStartsThatCrashConvictNobody kills the process at each operation of a start after a death, and up to twenty starts in a row. Nobody is parked, and
// each event that ran has one record of it.
func TestStartsThatCrashConvictNobody(t *testing.T) {
	t.Parallel()
	everyPointOf(t, 8, func(t *testing.T, at int) (hit bool) {
		w := newWorld(t)
		fn := func(alive func() bool, s script) functions.Function {
			return w.function(functions.Function{Concurrency: 3, Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Minute)}}, alive, s)
		}
		l := w.startAfter("", fn(forever, func(ctx context.Context, id string, a functions.Attempt) error {
			if id == "1" && a.Number == 1 {
				return errNo // it runs from RETRY when the process dies
			}
			return takes(time.Hour)(ctx, id, a)
		}))
		for id := 1; id <= 4; id++ {
			l.sendEvent(from(id, 1, 0))
		}
		time.Sleep(2 * time.Minute)
		l.kill()
		where := ""
		for n := range 20 {
			m := newMortal(w, at, n%2 == 0)
			l := w.start(testTiming(), []functions.Function{fn(m.alive, takes(time.Hour))}, streams.WithGate(func(op string) {
				if op == "begin" { // the start is over
					<-m.killed
				}
				m.gate(op)
			}))
			select {
			case <-m.killed:
			case <-time.After(time.Minute): // the start has fewer operations
				m.mu.Lock()
				m.dead, m.copied = true, scratch(t)
				m.mu.Unlock()
				if err := copyDirectory(m.copied, w.dir); err != nil {
					t.Fatal(err)
				}
				close(m.killed)
			}
			l.bury(m)
			if n == 0 {
				hit, where = m.calls == m.at, m.lastOp()
			}
			if !hit {
				return false
			}
		}
		l = w.start(testTiming(), []functions.Function{fn(forever, good)})
		if a := l.settle("f"); a.Delivered != 4 {
			t.Errorf("killed at %s: got %+v, want all delivered", where, a)
		}
		for seq := uint64(1); seq <= 4; seq++ {
			if n := len(l.crashesOf(seq)); n > 1 {
				t.Errorf("killed at %s: event %d: got %d records of a crash, want at most one", where, seq, n)
			}
		}
		if l.host.owner("f").isSuspended() {
			t.Errorf("killed at %s: the function is suspended for a single death", where)
		}
		return hit
	})
}
