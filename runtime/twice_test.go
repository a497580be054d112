package runtime

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// twices are the entries of the audit about events that were, or may have been, handled twice.
func (l *life) twices() (entries []streams.AuditEntry) {
	l.w.t.Helper()
	err := l.store.AuditBackwards(context.Background(), "f", 0, func(m streams.Message) bool {
		if a := streams.ReadAudit(m); a.Action == auditPossiblyTwice || a.Action == auditAgain {
			entries = append(entries, a)
		}
		return true
	})
	if err != nil {
		l.w.t.Fatal(err)
	}
	return entries
}

func (l *life) counted(want ...string) {
	l.w.t.Helper()
	wantLines(l.w.t, l.host.metrics, want...)
}

// TestTwiceIsPossibleWhereAKillCutTheMark kills the process between the end of a handler and its mark, and once before the handler had ended: nobody can tell
// the two apart, and the next success says so. Behind the mark a kill leaves no doubt.
func TestTwiceIsPossibleWhereAKillCutTheMark(t *testing.T) {
	for _, tc := range []struct {
		name     string
		op       string // at whose first call the process dies; "" = while the handler runs
		call     int
		possibly bool
		calls    int
	}{
		{"while it runs", "", 0, true, 2},
		{"behind the handler", "mark", 1, true, 2},
		{"behind the mark", "mark", 2, false, 1},
		{"behind the ack", "ack", 2, false, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m := newMortal(w, 0, false)
				gate := m.gate
				if tc.op != "" {
					gate = m.dies(tc.op, tc.call)
				}
				took := time.Second
				s := func(context.Context, string, functions.Attempt) error { time.Sleep(took); return nil }
				l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, m.alive, s)}, streams.WithGate(gate))
				<-l.host.started
				(&life{w: w, store: l.store.Ungated()}).sendKeyed("a1")
				if tc.op == "" {
					time.Sleep(took / 2)
					m.kill()
				}
				<-m.killed
				died := time.Now()
				l.bury(m)
				time.Sleep(time.Hour)

				l = w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, s)})
				<-l.host.started
				l.sendKeyed("a2")
				time.Sleep(time.Minute)
				l.settle("f")
				if n := len(w.calls("a1")); n != tc.calls {
					t.Errorf("got %d attempts of a1, want %d", n, tc.calls)
				}
				entries := l.twices()
				l.counted(`siding_delivered_again_total{function="f"} 0`, `siding_possibly_delivered_twice_total{function="f",why="ledger"} 0`)
				if !tc.possibly {
					l.counted(`siding_possibly_delivered_twice_total{function="f",why="crash"} 0`)
					if len(entries) > 0 {
						t.Errorf("got %+v, want no doubt", entries)
					}
					return
				}
				l.counted(`siding_possibly_delivered_twice_total{function="f",why="crash"} 1`)
				if len(entries) != 1 || entries[0].Sequence != 1 || entries[0].Action != auditPossiblyTwice {
					t.Fatalf("got %+v, want one entry about a1", entries)
				}
				d := entries[0].Detail
				if d["earlier_life"] != "1" || d["life"] != "2" || d["earlier_attempt"] != "1" || d["attempt"] != "1" || d["why"] != "crash" {
					t.Errorf("got %v, want both lives and attempts", d)
				}
				noticed, err := time.Parse(time.RFC3339Nano, d["death_noticed_at"])
				succeeded, err2 := time.Parse(time.RFC3339Nano, d["succeeded_at"])
				if err != nil || err2 != nil || !noticed.After(died) || succeeded.Before(noticed.Add(took)) {
					t.Errorf("got %v, want when the death was noticed and when it succeeded", d)
				}
			})
		})
	}
}

// TestTwiceIsNotSaidOfWhatFailsAfterACrash: an attempt that the process did not survive may have succeeded, and that is of interest only if a later one
// does. It is then said once, also when it took retries.
func TestTwiceIsNotSaidOfWhatFailsAfterACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := newMortal(w, 0, false)
		hour := func(context.Context, string, functions.Attempt) error { time.Sleep(time.Hour); return nil }
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Timeout: 2 * time.Hour}, m.alive, hour)}, streams.WithGate(m.gate))
		<-l.host.started
		(&life{w: w, store: l.store.Ungated()}).sendKeyed("a1", "b1")
		time.Sleep(time.Minute)
		m.kill()
		l.bury(m)
		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: every(time.Minute)}, forever, both(failTimes("a1", 2), parkOnce("b1")))})
		<-l.host.started
		time.Sleep(90 * time.Second)
		if entries := l.twices(); len(entries) > 0 {
			t.Errorf("got %+v while it fails, want nothing said", entries)
		}
		time.Sleep(time.Hour)
		l.decideAbout("b1", client.Redrive) // another cycle: somebody wants it handled again
		time.Sleep(time.Minute)
		l.settle("f")
		if entries := l.twices(); len(entries) != 1 || entries[0].Sequence != 1 || entries[0].Detail["attempt"] != "3" {
			t.Errorf("got %+v, want one entry about a1 at its third attempt", entries)
		}
	})
}

// TestTwiceIsPossibleWithoutTheLedger: what had been delivered to an earlier life, and of which no record tells anything, may have been handled by it. What
// comes later has not been.
func TestTwiceIsPossibleWithoutTheLedger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fns := func() []functions.Function {
			return []functions.Function{w.function(functions.Function{Timeout: 24 * time.Hour}, forever, both(parkOnce("p1"), slowly("s1", 20*time.Hour)))}
		}
		timing := testTiming()
		timing.grace = 0
		l := w.start(timing, fns())
		<-l.host.started
		l.sendKeyed("a1", "s1", "b1", "p1", "c1") // s1 keeps the acknowledgements from reaching the others
		time.Sleep(time.Minute)
		l.end()
		w.loseLedger()
		l = w.start(timing, fns())
		<-l.host.started
		l.sendKeyed("d1")
		time.Sleep(30 * time.Hour)
		l.settle("f")
		got := map[uint64]string{}
		for _, e := range l.twices() {
			got[e.Sequence] = e.Detail["why"]
		}
		if len(got) != 3 || got[2] != "ledger" || got[3] != "ledger" || got[5] != "ledger" {
			t.Errorf("got %v, want s1, b1 and c1", got)
		}
		l.counted(`siding_possibly_delivered_twice_total{function="f",why="ledger"} 3`, `siding_possibly_delivered_twice_total{function="f",why="crash"} 0`,
			`siding_delivered_again_total{function="f"} 0`)
	})
}

// TestTwiceIsCertainWhereAHandlerThatWasGivenUpSucceeds: its event was parked as stuck, and is redriven. A success of that is the second one.
func TestTwiceIsCertainWhereAHandlerThatWasGivenUpSucceeds(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		l := start(functions.Function{Timeout: time.Second}, func(_ context.Context, id string, a functions.Attempt) error {
			if strings.HasPrefix(id, "a") && a.Cycle == 0 {
				time.Sleep(time.Minute) // and does not look at its context
			}
			return nil
		})
		l.sendKeyed("a1", "b1")
		time.Sleep(10 * time.Minute)
		if entries := l.twices(); len(entries) > 0 {
			t.Errorf("got %+v before anybody has redriven it, want nothing said", entries)
		}
		l.decideAbout("a1", client.Redrive)
		time.Sleep(time.Minute)
		l.settle("f")
		entries := l.twices()
		if len(entries) != 1 || entries[0].Action != auditAgain || entries[0].Sequence != 1 || entries[0].Detail["earlier_cycle"] != "0" || entries[0].Cycle != 1 {
			t.Fatalf("got %+v, want a1 handled twice", entries)
		}
		earlier, err := time.Parse(time.RFC3339Nano, entries[0].Detail["earlier_succeeded_at"])
		if first := w.calls("a1")[0]; err != nil || earlier.Sub(first.at) != time.Minute {
			t.Errorf("got %v, want when the first one succeeded, a minute after %s", entries[0].Detail, first.at)
		}
		l.counted(`siding_delivered_again_total{function="f"} 1`, `siding_possibly_delivered_twice_total{function="f",why="crash"} 0`)
	})
}

// TestTwiceIsCertainWhereAMarkStands: nothing marks an event while its handler runs, and if anything ever does, it is said.
func TestTwiceIsCertainWhereAMarkStands(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		l := start(functions.Function{}, slowly("a1", time.Second))
		l.sendKeyed("a1", "b1")
		time.Sleep(time.Second / 2)
		o := l.host.owner("f")
		if err := o.call(t.Context(), func() {
			if err := o.ledger.Mark(1); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		l.settle("f")
		if entries := l.twices(); len(entries) != 1 || entries[0].Action != auditAgain || entries[0].Sequence != 1 {
			t.Errorf("got %+v, want a1 handled twice", entries)
		}
		l.counted(`siding_delivered_again_total{function="f"} 1`)
	})
}
