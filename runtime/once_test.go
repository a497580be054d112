package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// effects counts what steps did outside, over all lives.
type effects struct {
	mu   sync.Mutex
	done map[string]int
}

// doing does a step once and returns its result: which effect of its kind it was.
func (e *effects) doing(ctx context.Context, id, step string) (int, error) {
	return functions.Once(ctx, step, func(context.Context) (int, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.done == nil {
			e.done = map[string]int{}
		}
		e.done[id+"/"+step]++
		return e.done[id+"/"+step], nil
	})
}

func (e *effects) count(id, step string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.done[id+"/"+step]
}

// twoSteps does two steps, and comes to what result says in between.
func (e *effects) twoSteps(result script) script {
	return func(ctx context.Context, id string, a functions.Attempt) error {
		if _, err := e.doing(ctx, id, "first"); err != nil {
			return err
		}
		if err := result(ctx, id, a); err != nil {
			return err
		}
		_, err := e.doing(ctx, id, "second")
		return err
	}
}

func (l *life) steps(id string) int {
	l.w.t.Helper()
	steps, err := l.store.Steps(context.Background(), "f", "test", id)
	if err != nil {
		l.w.t.Fatalf("steps of %s: %v", id, err)
	}
	return len(steps)
}

// TestOnceOverRetriesRedrivesAndLives: whatever brings an event back finds the steps that were done, also when the ledger is lost after its end.
func TestOnceOverRetriesRedrivesAndLives(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		var e effects
		fn := functions.Function{Retry: thrice()}
		l := start(fn, e.twoSteps(scripted))
		l.sendIDs("done-1", "twice-1", "park-1", "never-1")
		time.Sleep(time.Hour)
		l.end()
		l = start(fn, e.twoSteps(scripted))
		time.Sleep(30 * time.Hour) // beyond the day for which the steps of what has ended are kept
		l.redrive("f", 3)
		l.redrive("f", 4)
		if a := l.settle("f"); a.Delivered != 4 {
			t.Errorf("got %+v, want all delivered", a)
		}
		for _, id := range []string{"twice-1", "park-1", "never-1", "done-1"} {
			if e.count(id, "first") != 1 || e.count(id, "second") != 1 {
				t.Errorf("%s: got the steps done %d and %d times, want once", id, e.count(id, "first"), e.count(id, "second"))
			}
		}
	})
}

// TestOnceAfterTheLedgerWasLost: an event of the hot path comes again without its mark, and its steps are not done again.
func TestOnceAfterTheLedgerWasLost(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		var e effects
		l := start(functions.Function{}, e.twoSteps(good))
		l.sendIDs("1", "2")
		l.settle("f")
		time.Sleep(20 * time.Hour)
		if err := l.store.JetStream().DeleteConsumer(t.Context(), streams.EventsStream, "f"); err != nil {
			t.Fatal(err)
		}
		l.end()
		w.loseLedger()
		l = start(functions.Function{}, e.twoSteps(good))
		l.settle("f")
		if n := len(w.calls("1")); n != 2 {
			t.Errorf("got %d attempts, want the event attempted again", n)
		}
		if e.count("1", "first") != 1 || e.count("2", "second") != 1 {
			t.Errorf("got %v, want each step done once", e.done)
		}
	})
}

// TestOnceIsForgottenADayAfterTheEnd: not while the event can come back, and not for ever.
func TestOnceIsForgottenADayAfterTheEnd(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		var e effects
		fn := functions.Function{Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(60 * time.Hour)}}
		l := start(fn, e.twoSteps(scripted))
		l.sendIDs("done-1", "park-1", "twice-1")
		time.Sleep(20 * time.Hour)
		if n := l.steps("done-1"); n != 2 {
			t.Errorf("20 h after the end: got %d steps, want both", n)
		}
		time.Sleep(32 * time.Hour)
		if n := l.steps("done-1"); n != 0 {
			t.Errorf("52 h after the end: got %d steps, want none", n)
		}
		if p, r := l.steps("park-1"), l.steps("twice-1"); p != 1 || r != 1 {
			t.Errorf("got %d steps of a dead letter and %d of an event that is retried, want them kept", p, r)
		}
		l.redrive("f", 2)
		time.Sleep(20 * time.Hour)
		if n := l.steps("park-1"); n != 2 {
			t.Errorf("20 h after the end of what was a dead letter: got %d steps, want both, however old they are", n)
		}
		time.Sleep(34 * time.Hour)
		left, err := l.store.Subjects(t.Context(), "KV_SIDING_ONCE", ">")
		if err != nil || len(left) != 1 { // of the dead letter that was retried
			t.Errorf("at the end: got %v, %v, want the one of the dead letter", left, err)
		}
	})
}

// TestOnceOverAnEdit: the steps that were done stay, unless somebody says that they are to be forgotten.
func TestOnceOverAnEdit(t *testing.T) {
	for _, forget := range []bool{false, true} {
		t.Run(fmt.Sprintf("forget %v", forget), func(t *testing.T) {
			lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
				var e effects
				l := start(functions.Function{}, e.twoSteps(parkEach("1", "2")))
				l.sendIDs("1", "2")
				l.settle("f")
				_, err := l.host.decide(t.Context(), client.Decision{
					Function: "f", Sequence: 1, Action: client.Edit, By: "anna", Reason: "wrong", Data: []byte(editedData), ForgetSteps: forget,
				})
				if err != nil {
					t.Fatal(err)
				}
				l.redrive("f", 2)
				l.settle("f")
				want := 1
				if forget {
					want = 2
				}
				if got := e.count("1", "first"); got != want {
					t.Errorf("got the step done %d times, want %d", got, want)
				}
				if got := e.count("2", "first"); got != 1 {
					t.Errorf("got the step of another event done %d times, want once", got)
				}
			})
		})
	}
}

// TestOnceKilledAtEveryPoint kills the process before and after each operation of events with steps. A step whose record had been written is never done
// again; one is done again only by a life that found none.
func TestOnceKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	everyPoint(t, func(t *testing.T, at int) bool {
		w := newWorld(t)
		var e effects
		forgotten := false // whether an edit that forgets was stated
		fn := func(alive func() bool) functions.Function {
			return w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}}, alive,
				e.twoSteps(both(parkOnce("2"), failTimes("1", 1))))
		}
		hit, where := w.killed(at, fn, func(l *life, wait func(time.Duration)) {
			l.sendIDs("1", "2", "3")
			wait(time.Minute)
			select {
			case <-l.host.started:
			default:
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _ = l.host.decide(ctx, client.Decision{
				Function: "f", Sequence: 2, Action: client.Edit, By: "anna", Reason: "wrong", Data: []byte(editedData), ForgetSteps: true,
			})
			wait(time.Minute)
		})
		before := map[string]int{}
		l := w.open()
		recorded := map[string]bool{}
		for _, id := range []string{"1", "2", "3"} {
			steps, err := l.store.Steps(t.Context(), "f", "test", id)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range steps {
				recorded[id+"/"+s.Name] = true
			}
			for _, step := range []string{"first", "second"} {
				before[id+"/"+step] = e.count(id, step)
			}
		}
		if refs, err := l.store.Standing(t.Context(), streams.InDecisions, "f"); err != nil {
			t.Fatal(err)
		} else {
			forgotten = len(refs) > 0
		}
		l.end()
		l = w.start(testTiming(), []functions.Function{fn(forever)})
		<-l.host.started
		l.sendIDs("1", "2", "3")
		if a := l.settle("f"); a.Parked == 1 {
			l.redrive("f", 2)
			l.settle("f")
		}
		for key, n := range before {
			id, step := key[:1], key[2:]
			after := e.count(id, step)
			if again := after - n; again > 0 && recorded[key] && (id != "2" || !forgotten) || again > 1 || after == 0 {
				t.Errorf("killed at %s: step %s: done %d times before and %d after, recorded %v, to be forgotten %v", where, key, n, again, recorded[key], forgotten)
			}
		}
		return hit
	})
}

// TestOnceWithAFullStore: a result that cannot be recorded is tried until the attempt is over, the error says that the step was done, and the event is
// not lost.
func TestOnceWithAFullStore(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		var e effects
		var mu sync.Mutex
		var errs []error
		heard := func() []error {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(errs)
		}
		l := start(functions.Function{Timeout: time.Minute, Retry: every(time.Hour)}, func(ctx context.Context, id string, _ functions.Attempt) error {
			_, err := e.doing(ctx, id, "first")
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			return err
		})
		bucket, err := l.store.JetStream().Stream(t.Context(), "KV_SIDING_ONCE")
		if err != nil {
			t.Fatal(err)
		}
		cfg := bucket.CachedInfo().Config
		full := cfg
		full.Discard, full.MaxBytes = jetstream.DiscardNew, 1
		if _, err := l.store.JetStream().UpdateStream(t.Context(), full); err != nil {
			t.Fatal(err)
		}
		l.sendIDs("1", "2")
		time.Sleep(30 * time.Second)
		if early := heard(); len(early) != 0 {
			t.Errorf("got %v before the attempt was over", early)
		}
		time.Sleep(time.Minute)
		said := heard()
		if len(said) != 2 || !errors.Is(said[0], streams.ErrFull) || functions.ResultOf(said[0]).Class != functions.ClassUnavailable {
			t.Errorf("got %v, want the store's own word", said)
		}
		if _, err := l.store.JetStream().UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if a := l.settle("f"); a.Delivered != 2 {
			t.Errorf("got %+v, want both delivered when there is room", a)
		}
	})
}
