package runtime

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// left is what leaveBehind leaves.
var left = streams.Adopted{Parked: 1, Retrying: 1, Held: 1}

// rest ends a process when nothing of it is on its way: a request that is given up while the server shuts down, such as one of the sweep that comes
// each minute, waits for a lock under which the server sleeps, and the bubble's time stands still.
func (l *life) rest() {
	l.w.t.Helper()
	synctest.Wait()
	l.end()
}

func (l *life) adopt(name string, dry bool) (streams.Adopted, error) {
	return l.store.Adopt(l.w.t.Context(), streams.Adoption{Old: "f", Name: name, By: "anna", Reason: "renamed", DryRun: dry})
}

// standing counts what stands of a function.
func (l *life) standing(function string) streams.Adopted {
	l.w.t.Helper()
	got, err := l.host.orphans.Left(l.w.t.Context(), function)
	if err != nil {
		l.w.t.Fatal(err)
	}
	return streams.Adopted(got)
}

// hosts starts a function beside what runs, and returns why it does not.
func (l *life) hosts(name string) error {
	l.w.t.Helper()
	fn := l.w.function(functions.Function{Name: name}, forever, parkOnce(""))
	ctx, cancel := context.WithTimeout(l.w.t.Context(), time.Minute)
	defer cancel()
	return newHost(l.store, []functions.Function{fn}, services{log: testLog(), metrics: newMetrics(name), timing: testTiming()}).run(ctx)
}

// refused checks that an error tells somebody what is wrong and what to do.
func refused(t *testing.T, what string, err error, says ...string) {
	t.Helper()
	p, known := problemOf(adoptionProblem(err))
	if err == nil || !known || p.Code != client.Refused {
		t.Errorf("%s: got %v, want a refusal", what, err)
		return
	}
	for _, s := range says {
		if !strings.Contains(p.Error(), s) {
			t.Errorf("%s: got %q, want it to say %q", what, p.Error(), s)
		}
	}
}

// TestAnAdoptionThatWasCutCanOnlyBeFinished kills the process before and after each operation of an adoption. From the first change on nobody gets
// what is half moved but the name that was chosen; when it is finished, hours later and by somebody else, the audit says it once.
func TestAnAdoptionThatWasCutCanOnlyBeFinished(t *testing.T) {
	begun, whole := 0, 0
	for at, hit := 1, true; hit && !t.Failed(); at++ {
		synctest.Test(t, func(t *testing.T) {
			w := leaveBehind(t)
			m := newMortal(w, at, false)
			l := w.start(testTiming(), nil, streams.WithGate(m.gate))
			<-l.host.started
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = l.adopt("g", false)
			}()
			select {
			case <-m.killed:
				<-done
				l.bury(m)
			case <-done:
				hit = false
				l.rest()
				return
			}
			l = w.start(testTiming(), nil)
			defer l.rest()
			<-l.host.started
			where := "killed at " + m.lastOp()
			d, err := l.store.Declared(t.Context(), "f")
			switch {
			case errors.Is(err, streams.ErrNotFound): // finished but for the answer
			case err != nil:
				t.Fatal(err)
			case d.Adopting == nil:
				whole++
				l.checkWhole(t, where)
			default:
				begun++
				l.checkBegun(t, where)
			}
			time.Sleep(time.Hour)
			got, err := l.store.Adopt(t.Context(), streams.Adoption{Old: "f", Name: "g", By: "bert", Reason: "goes on"})
			if d.Name != "" && (err != nil || got != left) {
				t.Errorf("%s: again: got %+v, %v, want all of %+v", where, got, err, left)
			}
			if n := l.adoptions(t, "g"); n != 1 {
				t.Errorf("%s: got %d audit entries, want one", where, n)
			}
		})
	}
	if whole < 1 || begun < 20 {
		t.Errorf("got %d points before and %d points after the beginning, want each operation of the adoption", whole, begun)
	}
}

// checkWhole checks that nothing has moved while nobody knows of the adoption.
func (l *life) checkWhole(t *testing.T, where string) {
	t.Helper()
	if f, g := l.standing("f"), l.standing("g"); f != left || g != (streams.Adopted{}) {
		t.Errorf("%s: got %+v of the old name and %+v of the new one, want nothing moved", where, f, g)
	}
	if records, err := l.store.Recorded(t.Context(), "g"); err != nil || len(records) > 0 {
		t.Errorf("%s: got %d records, %v, want none", where, len(records), err)
	}
}

// checkBegun checks that neither name can be used while an adoption is under way, and that asking changes nothing.
func (l *life) checkBegun(t *testing.T, where string) {
	t.Helper()
	f, g := l.standing("f"), l.standing("g")
	const finish = "`siding function adopt f --as g`"
	for _, dry := range []bool{false, true} {
		_, err := l.adopt("h", dry)
		refused(t, where+": to another name", err, "an adoption to g has begun", finish)
	}
	for _, name := range []string{"f", "g"} {
		refused(t, where+": hosting "+name, l.hosts(name), "an adoption to g has begun", finish)
		_, err := l.host.forget(t.Context(), client.ForgetRequest{Function: name, Reason: "renamed", By: "anna"})
		if _, unknown := l.store.Declared(t.Context(), name); unknown == nil {
			refused(t, where+": forgetting "+name, err, finish)
		}
	}
	if got, err := l.adopt("g", true); err != nil || got != left {
		t.Errorf("%s: got %+v, %v of a dry run, want %+v", where, got, err, left)
	}
	if h := l.standing("h"); h != (streams.Adopted{}) || l.standing("f") != f || l.standing("g") != g {
		t.Errorf("%s: got %+v of another name, and changed %+v, %+v, want all where it was", where, h, f, g)
	}
}

// adoptions counts the audit entries that say that a function was adopted.
func (l *life) adoptions(t *testing.T, function string) (n int) {
	t.Helper()
	for next := uint64(1); ; n++ {
		m, err := l.store.Next(t.Context(), streams.AuditStream, next, streams.AuditSubject(function))
		if errors.Is(err, streams.ErrNotFound) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get("ce-type") != "siding.adopted" {
			t.Errorf("got an entry %s, want adoptions alone", m.Header.Get("ce-type"))
		}
		next = m.Sequence + 1
	}
}

// TestAFunctionThatIsHostedAgainAfterItsAdoptionLosesNothing starts the old program once more, which does something, and adopts again.
func TestAFunctionThatIsHostedAgainAfterItsAdoptionLosesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(l *life)
		left      streams.Adopted
		says      string
	}{
		"parks and holds": {func(l *life) { l.sendKeyed("d1", "d2") }, streams.Adopted{Parked: 1, Held: 1}, "1 dead letters, 0 retrying, 1 held, 0 decisions"},
		"retries":         {func(l *life) { l.sendKeyed("e1") }, streams.Adopted{Retrying: 1}, "1 retrying"},
		"delivers":        {func(l *life) { l.sendKeyed("c3", "c4") }, streams.Adopted{}, "2 settled events that g does not have"},
		"pauses a lane": {func(l *life) {
			if err := l.host.owner("f").pauseLane(l.w.t.Context(), streams.PausedLane{Lane: "z", Key: "z", By: "anna", Reason: "test", At: time.Now()}); err != nil {
				l.w.t.Error(err)
			}
		}, streams.Adopted{}, "1 paused lanes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkHostedAgain(t, c.meanwhile, c.left, c.says) })
		})
	}
}

// hostedAgain is a directory whose function f was adopted as g, and then hosted once more by the old program.
func hostedAgain(t *testing.T, start functions.Start, meanwhile func(*life)) *world {
	w := leaveBehind(t)
	l := w.start(testTiming(), nil)
	<-l.host.started
	l.sendKeyed("c2") // nobody has seen it
	if got, err := l.adopt("g", false); err != nil || got != left {
		t.Fatalf("got %+v, %v, want all of %+v", got, err, left)
	}
	l.rest()
	old := w.function(functions.Function{Retry: every(time.Hour)}, forever, both(parkOnce("d1"), failTimes("e1", 9)))
	old.Start = start
	l = w.start(testTiming(), []functions.Function{old})
	<-l.host.started
	meanwhile(l)
	time.Sleep(time.Minute)
	l.rest()
	return w
}

func checkHostedAgain(t *testing.T, meanwhile func(*life), stands streams.Adopted, says string) {
	w := hostedAgain(t, functions.FromNow, meanwhile)
	l := w.start(testTiming(), nil)
	<-l.host.started
	for _, dry := range []bool{true, false} {
		_, err := l.adopt("g", dry)
		refused(t, "again", err, says, "siding function forget f")
	}
	if f, g := l.standing("f"), l.standing("g"); f != stands || g != left {
		t.Errorf("got %+v of the old name and %+v of the new one, want %+v and %+v", f, g, stands, left)
	}
	if n := l.adoptions(t, "g"); n != 1 {
		t.Errorf("got %d adoptions, want the first one alone", n)
	}
	l.rest()
	// As the hint says: the new name goes on, and somebody decides about what the old one has left.
	l = w.start(testTiming(), []functions.Function{w.renamed()})
	defer l.rest()
	<-l.host.started
	time.Sleep(time.Minute)
	if got := mustForget(t, l); got != stands {
		t.Errorf("got %+v forgotten, want %+v", got, stands)
	}
	l.decideWith(client.Decision{Function: "g", Sequence: 1, Action: client.Redrive, Reason: "test", By: "test"})
	time.Sleep(time.Hour)
	if a := l.settle("g"); !a.Holds || a.Delivered != a.Accepted || a.Accepted < 5 {
		t.Errorf("got %+v, want all delivered under the new name", a)
	}
}

func mustForget(t *testing.T, l *life) streams.Adopted {
	t.Helper()
	got, err := l.forget()
	if err != nil || !got.Applied {
		t.Fatalf("got %+v, %v, want it forgotten", got, err)
	}
	return streams.Adopted{Parked: got.Parked, Retrying: got.Retrying, Held: got.Held, Decisions: got.Decisions}
}

// TestTheCommandSaysWhatStandsInItsWay runs the command's part on directories whose adoptions cannot be done.
func TestTheCommandSaysWhatStandsInItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := hostedAgain(t, functions.FromNow, func(l *life) { l.sendKeyed("d1") })
		r := client.AdoptRequest{Function: "f", As: "g", Reason: "renamed", By: "anna"}
		_, err := adopt(t.Context(), w.dir, r)
		refused(t, "hosted again", err, "was hosted again after it became g", "1 dead letters", "siding function forget f")
		l := w.open()
		d, err := l.store.Declared(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		d.Adopting = &streams.Adopting{To: "h", At: time.Now()}
		if err := l.store.Declare(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		l.rest()
		_, err = adopt(t.Context(), w.dir, r)
		refused(t, "under way", err, "function f: an adoption to h has begun", "`siding function adopt f --as h`")
	})
}

// TestAFunctionThatDidNothingWhenItWasHostedAgainIsAdopted has no decision to ask for: nothing is lost with the old name.
func TestAFunctionThatDidNothingWhenItWasHostedAgainIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := hostedAgain(t, functions.FromNow, func(*life) {})
		l := w.start(testTiming(), nil)
		defer l.rest()
		<-l.host.started
		for _, dry := range []bool{true, false} {
			if got, err := l.adopt("g", dry); err != nil || got != left {
				t.Errorf("got %+v, %v, want %+v", got, err, left)
			}
		}
		if _, err := l.store.Declared(t.Context(), "f"); !errors.Is(err, streams.ErrNotFound) {
			t.Errorf("got %v of the old name, want it unknown", err)
		}
		if g := l.standing("g"); g != left {
			t.Errorf("got %+v, want %+v", g, left)
		}
	})
}

// TestAFunctionThatBeganAnewWhenItWasHostedAgainIsNotAdopted handles everything once more, from the beginning, also what the new name has yet to see.
func TestAFunctionThatBeganAnewWhenItWasHostedAgainIsNotAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := hostedAgain(t, functions.FromBeginning, func(*life) {})
		l := w.start(testTiming(), nil)
		defer l.rest()
		<-l.host.started
		_, err := l.adopt("g", false)
		refused(t, "again", err, "0 dead letters, 0 retrying, 0 held", "1 settled events that g does not have")
	})
}

// TestALostLedgerStaysLostWhenAnAdoptionLooksForIt guards the records: beside an empty ledger nobody would ask them what has been delivered.
func TestALostLedgerStaysLostWhenAnAdoptionLooksForIt(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"removed": os.Remove,
		"torn":    func(path string) error { return os.Truncate(path, 100) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := leaveBehind(t)
				l := w.start(testTiming(), nil)
				defer l.rest()
				<-l.host.started
				if err := lose(ledgerPath(l.store, "f")); err != nil {
					t.Fatal(err)
				}
				for _, dry := range []bool{true, false} {
					if got, err := l.adopt("g", dry); err != nil || got != left {
						t.Errorf("got %+v, %v, want %+v", got, err, left)
					}
					if _, err := os.Stat(ledgerPath(l.store, "g")); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("got %v, want no ledger of g", err)
					}
					if _, err := os.Stat(ledgerPath(l.store, "f")); errors.Is(err, os.ErrNotExist) != (name == "removed" || !dry) {
						t.Errorf("dry %v: got %v, want a torn ledger to stay until its function is gone", dry, err)
					}
				}
			})
		})
	}
}
