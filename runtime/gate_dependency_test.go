package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	stdruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// away is something that a function depends on, and that can go away.
type away struct{ gone atomic.Bool }

func (a *away) check(context.Context) error {
	if a.gone.Load() {
		return errors.New("connection refused")
	}
	return nil
}

// on is what a function that depends on it declares.
func (a *away) on() []functions.Dependency {
	return []functions.Dependency{{Name: "contract-system", Check: a.check}}
}

// waitingFor is what the function says that it waits for.
func (l *life) waitingFor(function string) string {
	if text := l.host.owner(function).waiting.Load(); text != nil {
		return *text
	}
	return ""
}

// nothingSpent checks that no event of a function has a record, and that none was delivered twice.
func (l *life) nothingSpent(function string, events int) {
	l.w.t.Helper()
	for seq := 1; seq <= events; seq++ {
		if records, err := l.store.Records(context.Background(), function, uint64(seq)); err != nil || len(records) > 0 {
			l.w.t.Fatalf("event %s/%d: got records %+v (%v), want none", function, seq, records, err)
		}
	}
	for _, stream := range []string{streams.EventsStream, streams.RetryStream} {
		consumer, err := l.store.JetStream().Consumer(context.Background(), stream, function)
		if err != nil {
			l.w.t.Fatal(err)
		}
		info, err := consumer.Info(context.Background())
		if err != nil {
			l.w.t.Fatal(err)
		}
		if info.NumRedelivered != 0 {
			l.w.t.Errorf("consumer of %s: got %d redelivered, want none", stream, info.NumRedelivered)
		}
	}
}

const (
	keysOfTen = "abcdefghij"
	ofEachKey = 50
)

// fillTen stores 500 events of ten keys, mixed.
func (l *life) fillTen() {
	l.w.t.Helper()
	for i := 1; i <= ofEachKey; i++ {
		for _, key := range keysOfTen {
			l.fillKeyed("t", string(key), i, i)
		}
	}
}

// TestDependencyAwayAtTheStart: 500 events wait for ten minutes, longer than their deliveries live without heartbeats, and nothing is spent on that. Another
// function, which depends on nothing, notices nothing.
func TestDependencyAwayAtTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var contracts away
		contracts.gone.Store(true)
		l := w.start(testTiming(), []functions.Function{
			w.function(functions.Function{Dependencies: contracts.on()}, forever, good),
			w.function(functions.Function{Name: "other"}, forever, good),
		}, streams.WithAckWait(30*time.Second))
		<-l.host.started
		l.fillTen()
		begin := time.Now() // writing took no time
		time.Sleep(10 * time.Minute)
		for _, c := range w.calls("") {
			if c.function != "other" || c.at.Sub(begin) > time.Second {
				t.Fatalf("got %s of function %s handled after %s, want only the other function's, at once", c.event, c.function, c.at.Sub(begin))
			}
		}
		l.nothingSpent("f", 10*ofEachKey)
		if got, want := l.waitingFor("f"), "dependency contract-system: connection refused, since "+begin.UTC().Format(time.RFC3339); got != want {
			t.Errorf("got it waiting for %q, want %q", got, want)
		}
		wantLines(t, l.host.metrics, `siding_dependency_up{dependency="contract-system",function="f"} 0`)

		contracts.gone.Store(false)
		back := time.Now()
		time.Sleep(10 * time.Second)
		wantLines(t, l.host.metrics, `siding_dependency_up{dependency="contract-system",function="f"} 1`)
		if got := l.waitingFor("f"); got != "" {
			t.Errorf("got it waiting for %q", got)
		}
		for _, c := range w.calls("") {
			if c.function == "f" && (c.attempt.Number != 1 || c.at.Sub(back) > functions.DefaultCheckEvery) {
				t.Fatalf("event %s: got attempt %d %s after the dependency was back", c.event, c.attempt.Number, c.at.Sub(back))
			}
		}
		l.nothingSpent("f", 10*ofEachKey)
		for _, function := range []string{"f", "other"} {
			if a := l.settle(function); a.Delivered != 10*ofEachKey {
				t.Errorf("function %s: got %+v, want all delivered", function, a)
			}
			w.wantOrder(function)
		}
	})
}

// wantOrder checks that a function has handled the events of fillTen once each, and those of each key in order.
func (w *world) wantOrder(function string) {
	w.t.Helper()
	next := map[string]int{}
	for _, c := range w.calls("") {
		if key := c.event[:1]; c.function == function && c.err == nil {
			if next[key]++; c.event != fmt.Sprint(key, next[key]) {
				w.t.Fatalf("function %s: got %s where %s%d was next", function, c.event, key, next[key])
			}
		}
	}
	for _, key := range keysOfTen {
		if n := next[string(key)]; n != ofEachKey {
			w.t.Errorf("function %s: got %d events of key %c handled, want %d", function, n, key, ofEachKey)
		}
	}
}

// TestDependencyGoesAwayInTheMiddle: what runs goes on to its end, and nothing begins for ten minutes, first attempts and retries alike.
func TestDependencyGoesAwayInTheMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var contracts away
		fn := functions.Function{Breaker: functions.Breaker{Off: true}, Dependencies: contracts.on(), Concurrency: 5, Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(30 * time.Second)}}
		l := w.start(testTiming(), []functions.Function{w.function(fn, forever, func(_ context.Context, id string, a functions.Attempt) error {
			time.Sleep(time.Second)
			if id[1:] == "1" && a.Number == 1 {
				return errNo // the first of each key: its retry falls due while the dependency is away
			}
			return nil
		})}, streams.WithAckWait(30*time.Second))
		<-l.host.started
		l.fillTen()
		time.Sleep(12500 * time.Millisecond)
		contracts.gone.Store(true)
		gone := time.Now()
		time.Sleep(10 * time.Minute)
		contracts.gone.Store(false)
		back := time.Now()
		a := l.settle("f")
		if a.Delivered != 10*ofEachKey {
			t.Errorf("got %+v, want all delivered", a)
		}
		before := 0
		for _, c := range w.calls("") {
			if c.at.Before(gone) {
				before++
			}
			if c.at.After(gone.Add(functions.DefaultCheckEvery)) && c.at.Before(back) {
				t.Errorf("event %s: attempt %d began %s after the dependency had gone", c.event, c.attempt.Number, c.at.Sub(gone))
			}
			if c.attempt.Number > 2 || c.attempt.Number == 2 && c.event[1:] != "1" {
				t.Errorf("event %s: got attempt %d", c.event, c.attempt.Number)
			}
		}
		if before == 0 || before == 10*ofEachKey {
			t.Fatalf("got %d attempts before the dependency went: it was not in the middle", before)
		}
		w.wantOrder("f")
	})
}

// TestDependencyWhoseCheckHangs: it is given up after its timeout and not called again while it hangs, the function waits, and the owner ends as if nothing
// were. When it returns, the function goes on.
func TestDependencyWhoseCheckHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var calls, at, most atomic.Int32
		release := make(chan struct{})
		defer func() {
			select {
			case <-release:
			default:
				close(release)
			}
		}()
		deaf := functions.Dependency{Name: "deaf", Every: time.Second, Timeout: 2 * time.Second, Check: func(context.Context) error {
			calls.Add(1)
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			<-release
			return nil
		}}
		start := func() *life {
			l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Dependencies: []functions.Dependency{deaf}}, forever, good)})
			<-l.host.started
			return l
		}
		l := start()
		late := ", since " + time.Now().Add(deaf.Timeout+checkGrace).UTC().Format(time.RFC3339)
		l.send(1)
		if got, want := l.waitingFor("f"), "dependency deaf: not checked yet"; got != want {
			t.Errorf("got it waiting for %q, want %q", got, want)
		}
		time.Sleep(2500 * time.Millisecond)
		if got, want := l.waitingFor("f"), "dependency deaf: no answer within 2s"+late; got != want {
			t.Errorf("got it waiting for %q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		if got, want := l.waitingFor("f"), "dependency deaf: the last check has not returned yet"+late; got != want {
			t.Errorf("got it waiting for %q, want %q", got, want)
		}
		if calls.Load() != 1 || len(w.calls("")) != 0 {
			t.Errorf("got %d calls of the check and %d attempts, want one and none", calls.Load(), len(w.calls("")))
		}
		stopping := time.Now()
		l.end()
		if took := time.Since(stopping); took > time.Second {
			t.Errorf("got the end after %s", took)
		}
		close(release)
		l = start()
		if a := l.settle("f"); a.Delivered != 1 || most.Load() != 1 {
			t.Errorf("got %+v and %d checks at once, want one delivered and one at a time", a, most.Load())
		}
	})
}

// TestDependencyIsAskedByOneCheckAtATime: also by another owner, which begins while a check of the one before hangs.
func TestDependencyIsAskedByOneCheckAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release, ctx := make(chan struct{}), context.Background()
		hangs := functions.Dependency{Name: "d", Timeout: time.Second, Check: func(context.Context) error { <-release; return nil }}
		c := newChecks()
		if got, want := c.ask(ctx, "f", hangs), "no answer within 1s"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := c.ask(ctx, "f", hangs), "the last check has not returned yet"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		fine := hangs
		fine.Check = func(context.Context) error { return nil }
		if got := c.ask(ctx, "g", fine); got != "" {
			t.Errorf("another function's: got %q, want it there", got)
		}
		close(release)
		synctest.Wait()
		if got := c.ask(ctx, "f", fine); got != "" {
			t.Errorf("when it has returned: got %q, want it there", got)
		}
	})
}

// badError is an error that cannot say what it is.
type badError struct{}

func (badError) Error() string { panic("no words") }

func TestDependencyCheckFailsInOneLineWhateverItDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newChecks()
		for want, check := range map[string]func(context.Context) error{
			"":                                      func(context.Context) error { return nil },
			"the check panicked: no route":          func(context.Context) error { panic("no route") },
			"the check panicked: no words":          func(context.Context) error { return badError{} },
			"the check did not return":              func(context.Context) error { stdruntime.Goexit(); return nil },
			"an error without a text":               func(context.Context) error { return errors.New("\n ") },
			"two lines and a �":                     func(context.Context) error { return errors.New("two\r\nlines\x1b and a \xff") },
			strings.Repeat("ä", longestCheck) + "…": func(context.Context) error { return errors.New(strings.Repeat("ä", 1<<16)) },
			"no answer within 1s":                   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		} {
			if got := c.ask(context.Background(), "f", functions.Dependency{Name: "d", Timeout: time.Second, Check: check}); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

// TestDependencyIsToldWhenItGoesAndWhenItComesBack: one line each, however often it is checked meanwhile, and `function show` says why nothing begins.
func TestDependencyIsToldWhenItGoesAndWhenItComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var contracts away
		fns := []functions.Function{w.function(functions.Function{Dependencies: contracts.on()}, forever, good)}
		l := w.open()
		var log bytes.Buffer
		l.host = newHost(l.store, fns, services{log: slog.New(slog.NewTextHandler(&log, nil)), metrics: newMetrics("f"), timing: testTiming()})
		ctx, cancel := context.WithCancel(context.Background())
		l.stop = cancel
		go func() {
			defer close(l.done)
			l.err = l.host.run(ctx)
		}()
		<-l.host.started
		r := &Runtime{fns: fns}
		r.host.Store(l.host)
		show := func(want string) {
			t.Helper()
			f, err := r.functionShow(t.Context(), "f")
			if err != nil || f.WaitingFor != want || f.State != "running" {
				t.Errorf("got it %s and waiting for %q (%v), want it running and %q", f.State, f.WaitingFor, err, want)
			}
		}
		time.Sleep(7 * time.Second)
		show("")
		contracts.gone.Store(true)
		time.Sleep(time.Minute)
		show("dependency contract-system: connection refused, since " + time.Now().Add(-57*time.Second).UTC().Format(time.RFC3339))
		contracts.gone.Store(false)
		time.Sleep(10 * time.Second)
		show("")
		l.end()
		var told []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "dependency=contract-system") {
				told = append(told, line[strings.Index(line, "level="):])
			}
		}
		want := []string{
			`level=WARN msg="a dependency is away; no attempt begins until it is back" function=f dependency=contract-system err="connection refused" running=0` + "\n",
			`level=INFO msg="a dependency is back; the function goes on" function=f dependency=contract-system away=1m0s` + "\n",
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}
