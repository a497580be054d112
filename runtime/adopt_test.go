package runtime

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// renamed is the function of leaveBehind under its new name.
func (w *world) renamed() functions.Function {
	fn := w.function(functions.Function{Retry: every(time.Hour)}, forever, both(parkOnce("a1"), failTimes("b1", 1)))
	fn.Name = "g"
	return fn
}

// TestAnAdoptedFunctionGoesOnAtEveryPoint kills the process before and after each operation of an adoption; doing it again finishes it, and under its
// new name the function goes on with everything where it was: parked, held, retrying, delivered, not yet seen.
func TestAnAdoptedFunctionGoesOnAtEveryPoint(t *testing.T) {
	points := 0
	for at, hit := 1, true; hit && !t.Failed(); at++ {
		synctest.Test(t, func(t *testing.T) {
			w := leaveBehind(t)
			m := newMortal(w, at, false)
			l := w.start(testTiming(), nil, streams.WithGate(m.gate))
			<-l.host.started
			(&life{w: w, store: l.store.Ungated()}).sendKeyed("c2") // nobody has seen it
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = l.store.Adopt(t.Context(), streams.Adoption{Old: "f", Name: "g", By: "anna", Reason: "renamed"})
			}()
			select {
			case <-m.killed:
				<-done
				l.bury(m)
				points++
			case <-done:
				hit = false
				l.end()
			}
			w.checkAdopted(t, m.lastOp())
		})
	}
	t.Attr("crash-points", strconv.Itoa(points))
	if points < 20 {
		t.Errorf("got %d points, want each operation of the adoption", points)
	}
}

func (w *world) checkAdopted(t *testing.T, where string) {
	l := w.start(testTiming(), nil)
	<-l.host.started
	if _, err := l.store.Adopt(t.Context(), streams.Adoption{Old: "f", Name: "g", By: "anna", Reason: "renamed"}); err != nil && !errors.Is(err, streams.ErrNotFound) {
		t.Errorf("killed at %s: again: %v", where, err)
	}
	if _, err := l.store.Declared(t.Context(), "f"); !errors.Is(err, streams.ErrNotFound) {
		t.Errorf("killed at %s: got %v of the old name, want it unknown", where, err)
	}
	if left, err := l.host.orphans.Left(t.Context(), "f"); err != nil || left.Parked+left.Held+left.Retrying+left.Decisions > 0 {
		t.Errorf("killed at %s: got %+v, %v of the old name, want nothing left", where, left, err)
	}
	if _, err := os.Stat(ledgerPath(l.store, "f")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("killed at %s: got %v, want no ledger of the old name", where, err)
	}
	l.end()
	l = w.start(testTiming(), []functions.Function{w.renamed()})
	<-l.host.started
	l.sendKeyed("a3")
	time.Sleep(time.Minute)
	if a := l.account("g"); a.Accepted != 6 || a.Delivered != 2 || a.Parked != 1 || a.Held != 2 || a.Retrying != 1 || !a.Holds {
		t.Errorf("killed at %s: got %+v, want 2 delivered, 1 parked, 2 held, 1 retrying", where, a)
	}
	l.decideWith(client.Decision{Function: "g", Sequence: 1, Action: client.Redrive, Reason: "test", By: "test"})
	time.Sleep(time.Hour)
	if a := l.settle("g"); a.Delivered != 6 {
		t.Errorf("killed at %s: got %+v, want all delivered", where, a)
	}
	wantOrder(t, "killed at "+where+": attempted", w.orderOf("a"), "a1", "a2", "a3")
	wantOrder(t, "killed at "+where+": attempted", w.orderOf("b"), "b1")
	wantOrder(t, "killed at "+where+": attempted", w.orderOf("c"), "c1", "c2")
	if calls := w.calls("b1"); len(calls) != 2 || calls[1].attempt.Number != 2 {
		t.Errorf("killed at %s: got %d attempts of what was retrying, want the second one last", where, len(calls))
	}
	records, err := l.store.Records(t.Context(), "g", 1)
	if err != nil || len(records) < 2 || records[0].Kind != streams.RecordAttempt {
		t.Errorf("killed at %s: got %d records, %v, want the history from its beginning", where, len(records), err)
	}
	l.end()
}

func TestAnAdoptionIsRefusedWhereItWouldMixTwoFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := leaveBehind(t)
		l := w.start(testTiming(), []functions.Function{w.renamed()})
		<-l.host.started
		l.end()
		l = w.start(testTiming(), nil)
		<-l.host.started
		defer l.end()
		for names, want := range map[[2]string]error{{"f", "g"}: streams.ErrTaken, {"h", "i"}: streams.ErrNotFound, {"f", "f"}: streams.ErrTaken} {
			if _, err := l.store.Adopt(t.Context(), streams.Adoption{Old: names[0], Name: names[1]}); !errors.Is(err, want) {
				t.Errorf("%v: got %v, want %v", names, err, want)
			}
		}
		if a, err := l.store.Adopt(t.Context(), streams.Adoption{Old: "f", Name: "new", DryRun: true}); err != nil || a != (streams.Adopted{Parked: 1, Retrying: 1, Held: 1}) {
			t.Errorf("got %+v, %v of a dry run, want what stands", a, err)
		}
		if _, err := l.store.Declared(t.Context(), "new"); !errors.Is(err, streams.ErrNotFound) {
			t.Errorf("got %v after a dry run, want nothing changed", err)
		}
	})
}

// TestAdoptSaysWhyItDoesNot runs the command's part on a real directory.
func TestAdoptSaysWhyItDoesNot(t *testing.T) {
	dir := t.TempDir()
	node, stop := served(t, dir, functions.Function{Name: "file-claim", Types: []string{"t"}, Handle: func(context.Context, functions.Event) error { return functions.Park(errNo) }})
	if _, err := node.Send(t.Context(), newEvent("1")); err != nil {
		t.Fatal(err)
	}
	until(t, 10*time.Second, "parked", func() bool {
		letters, err := node.DeadLetters(t.Context(), client.DeadLetterQuery{})
		return err == nil && len(letters) == 1
	})
	request := client.AdoptRequest{Function: "file-claim", As: "book-claim", Reason: "renamed", By: "anna"}
	refused := func(dir string, r client.AdoptRequest, code client.Code, says string) {
		t.Helper()
		_, err := adopt(t.Context(), dir, r)
		if p, known := problemOf(err); !known || p.Code != code || !strings.Contains(p.Detail+" "+p.Hint, says) {
			t.Errorf("got %v, want %s that says %q", err, code, says)
		}
	}
	refused(dir, request, client.Refused, "stop the node")
	stop()
	refused(dir+"-none", request, client.NotFound, "--data-dir")
	refused(dir, client.AdoptRequest{Function: "file-clam", As: "book-claim"}, client.NotFound, "did you mean file-claim?")
	refused(dir, client.AdoptRequest{Function: "file-claim", As: "Book Claim"}, client.Usage, "small letters")
	got, err := adopt(t.Context(), dir, request)
	if want := (client.Adopted{Function: "file-claim", As: "book-claim", Parked: 1, Applied: true}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	refused(dir, request, client.NotFound, "file-claim: not found")
	node, _ = served(t, dir, functions.Function{Name: "book-claim", Types: []string{"t"}, Handle: func(context.Context, functions.Event) error { return nil }})
	letter, err := node.DeadLetter(t.Context(), "book-claim", 1)
	if err != nil || len(letter.History) != 2 || letter.Cause != "permanent" {
		t.Errorf("got %+v, %v, want the dead letter with its history", letter, err)
	}
	refused(dir, client.AdoptRequest{Function: "book-claim", As: "file-claim", Reason: "back", By: "anna"}, client.Refused, "stop the node")
}
