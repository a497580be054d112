package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// renaming gives f to another name.
func renaming(name string) streams.Adoption {
	return streams.Adoption{Old: "f", Name: name, By: "anna", Reason: "renamed"}
}

// TestACutAdoptionIsFinishedByTheSameNameAlone kills an adoption at every operation and then asks for another name: from its first word on what has been moved
// would be left under a name that nobody knows. Until it is finished neither name is hosted, nothing is forgotten, and it is told once.
func TestACutAdoptionIsFinishedByTheSameNameAlone(t *testing.T) {
	begun := 0
	for at, hit := 1, true; hit && !t.Failed(); at++ {
		synctest.Test(t, func(t *testing.T) {
			w := leaveBehind(t)
			m := newMortal(w, at, false)
			l := w.start(testTiming(), nil, streams.WithGate(m.gate))
			<-l.host.started
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = l.store.Adopt(t.Context(), renaming("g"))
			}()
			select {
			case <-m.killed:
				<-done
				l.bury(m)
			case <-done:
				hit = false
				l.end()
				return
			}
			l = w.start(testTiming(), nil)
			<-l.host.started
			d, err := l.store.Declared(t.Context(), "f")
			if err != nil || d.Moving == nil {
				l.end()
				return // before its first word, or after its last
			}
			begun++
			where := m.lastOp()
			for _, dry := range []bool{true, false} {
				other := renaming("h")
				other.DryRun = dry
				if _, err := l.store.Adopt(t.Context(), other); !errors.Is(err, streams.ErrMoving) {
					t.Errorf("killed at %s: got %v of another name, want %v", where, err, streams.ErrMoving)
				}
			}
			if _, err := l.forget(); problemCode(err) != client.Refused {
				t.Errorf("killed at %s: got %v of forgetting the old name, want it refused", where, err)
			}
			l.end()
			for _, name := range []string{"f", "g"} {
				fn := w.renamed()
				fn.Name = name
				if err := w.refusedStart(fn); err == nil || !strings.Contains(err.Error(), "siding function adopt f --as g") {
					t.Errorf("killed at %s: got %v of a start of %s, want a refusal that says how to go on", where, err, name)
				}
			}
			l = w.start(testTiming(), nil)
			<-l.host.started
			if _, err := l.store.Adopt(t.Context(), renaming("g")); err != nil {
				t.Errorf("killed at %s: again: %v", where, err)
			}
			if counts := l.auditCounts("g"); counts["siding.adopted"] != 1 {
				t.Errorf("killed at %s: got %v, want it told once", where, counts)
			}
			l.end()
		})
	}
	if begun < 15 {
		t.Errorf("got %d points at which an adoption is under way, want more", begun)
	}
}

// refusedStart is why a node does not start with a function.
func (w *world) refusedStart(fn functions.Function) error {
	l := w.open()
	defer l.end()
	h := newHost(l.store, []functions.Function{fn}, services{log: testLog(), metrics: newMetrics(fn.Name), timing: testTiming()})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := h.run(ctx)
	synctest.Wait() // as in bury
	return err
}

// TestAFunctionThatIsHostedAgainByItsOldNameIsNotAdoptedOnceMore: what it left since stands where nobody has decided about it.
func TestAFunctionThatIsHostedAgainByItsOldNameIsNotAdoptedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := leaveBehind(t)
		l := w.start(testTiming(), nil)
		<-l.host.started
		if _, err := l.store.Adopt(t.Context(), renaming("g")); err != nil {
			t.Fatal(err)
		}
		l.end()
		old := w.function(functions.Function{Retry: every(time.Hour)}, forever, parkOnce("d1"))
		l = w.start(testTiming(), []functions.Function{old})
		<-l.host.started
		l.sendKeyed("d1", "d2")
		time.Sleep(time.Minute)
		before := l.account("f")
		l.end()
		l = w.start(testTiming(), nil)
		<-l.host.started
		for _, dry := range []bool{true, false} {
			again := renaming("g")
			again.DryRun = dry
			if _, err := l.store.Adopt(t.Context(), again); !errors.Is(err, streams.ErrTaken) {
				t.Errorf("got %v, want %v", err, streams.ErrTaken)
			}
		}
		if a := l.account("f"); a.Parked != before.Parked || a.Held != before.Held || a.Parked == 0 {
			t.Errorf("got %+v, want what was there: %+v", a, before)
		}
		if a, err := l.store.Adopt(t.Context(), renaming("h")); err != nil || int64(a.Parked) != before.Parked {
			t.Errorf("got %+v, %v; want it given to a third name", a, err)
		}
		l.end()
	})
}
