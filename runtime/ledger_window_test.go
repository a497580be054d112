package runtime

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// jump lets the source stream go on behind a gap, as long as if so many events of other types stood there.
func (l *life) jump(n uint64) {
	l.w.t.Helper()
	st, err := l.store.JetStream().Stream(context.Background(), streams.EventsStream)
	if err == nil {
		var info *jetstream.StreamInfo
		if info, err = st.Info(context.Background()); err == nil {
			err = st.Purge(context.Background(), jetstream.WithPurgeSequence(info.State.LastSeq+n))
		}
	}
	if err != nil {
		l.w.t.Fatalf("jump: %v", err)
	}
}

// TestLedgerGoesOnBehindAGapLongerThanItsWindow: a function of a rare type sees its next event more than a window behind the last one. The gap is
// settled as far as the function is concerned, so that the event can be marked.
func TestLedgerGoesOnBehindAGapLongerThanItsWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		timing := testTiming()
		timing.sweep = 0 // no look ahead helps it
		l := w.start(timing, []functions.Function{w.function(functions.Function{}, forever, good)})
		<-l.host.started
		l.sendKeyed("a1")
		time.Sleep(time.Second)
		for i := range 3 {
			l.jump(2 * streams.LedgerWindow)
			l.sendKeyed("a2"+strconv.Itoa(i), "b1"+strconv.Itoa(i))
			time.Sleep(10 * time.Second)
		}
		o := l.host.owner("f")
		if last := l.source().Last; o.ledger.Floor() != last {
			t.Errorf("got floor %d, want all settled up to %d", o.ledger.Floor(), last)
		}
		if n := len(w.calls("")); n != 7 {
			t.Errorf("got %d attempts, want each of 7 events once", n)
		}
	})
}

// TestLedgerWindowHoldsBackWhatDoesNotFit: the first event takes for ever, and many more come behind it than can be marked above it. What could not
// be marked is not begun, so that a kill repeats nothing of it; and it goes on by itself.
func TestLedgerWindowHoldsBackWhatDoesNotFit(t *testing.T) {
	const span, others = 100, 700
	for _, how := range []string{"hangs", "is queued", "between foreign ones"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				timing := testTiming()
				timing.span, timing.line = span, others
				fn := functions.Function{Concurrency: 4, Timeout: 24 * time.Hour, Breaker: functions.Breaker{Off: true}}
				fns := func(alive func() bool) []functions.Function {
					return []functions.Function{w.function(fn, alive, slowly("s1", 5*time.Hour))}
				}
				m := newMortal(w, 0, false)
				l := w.start(timing, fns(m.alive), streams.WithGate(m.gate))
				<-l.host.started
				outside := &life{w: w, store: l.store.Ungated(), node: l.node}
				outside.sendKeyed("s1")
				within := span - 1 // the sequences up to span fit
				switch how {
				case "hangs":
					outside.fillKeyed("t", "x", 1, others)
				case "is queued": // behind one of its key
					outside.sendKeyed("s2")
					outside.fillKeyed("t", "x", 1, others)
					within--
				default:
					outside.fillKeyed("u", "y", 1, span-20)
					outside.fillKeyed("t", "x", 1, others)
					within = 19
				}
				time.Sleep(time.Hour)
				if n := len(w.orderOf("x")); n != within {
					t.Errorf("got %d events handled behind the one that takes for ever, want the %d that can be marked", n, within)
				}
				o := l.host.owner("f")
				if got := o.ledger.MarkedCount(); got != within {
					t.Errorf("got %d marks, want one for each of the %d events that were handled", got, within)
				}
				m.kill()
				l.bury(m)

				before := len(w.orderOf("x"))
				l = w.start(timing, fns(forever))
				<-l.host.started
				time.Sleep(time.Hour)
				if n := len(w.orderOf("x")); n != before {
					t.Errorf("got %d events handled after a kill, want none before the first one has ended", n-before)
				}
				time.Sleep(5 * time.Hour)
				l.settle("f")
				w.wantAscending("x", 1, others)
				if last := l.source().Last; l.host.owner("f").ledger.Floor() != last {
					t.Errorf("got floor %d, want all settled up to %d", l.host.owner("f").ledger.Floor(), last)
				}
			})
		})
	}
}

// TestLedgerWindowIsNotHeldUpByWhatStandsElsewhere: what is retried, held or parked is marked, and however much comes behind it, the floor goes on.
func TestLedgerWindowIsNotHeldUpByWhatStandsElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const span, others = 50, 500
		w := newWorld(t)
		timing := testTiming()
		timing.span, timing.line = span, others
		l := w.start(timing, []functions.Function{w.function(functions.Function{Retry: every(10 * time.Hour)}, forever, both(parkOnce("p1"), failTimes("r1", 1)))})
		<-l.host.started
		l.sendKeyed("p1", "r1", "p2", "r2", "p3")
		time.Sleep(time.Second)
		l.fillKeyed("t", "x", 1, others)
		time.Sleep(time.Minute)
		w.wantAscending("x", 1, others)
		if a := l.account("f"); a.Parked != 1 || a.Retrying != 1 || a.Held != 3 || !a.Holds {
			t.Errorf("got %+v, want 1 parked, 1 retrying and 3 held", a)
		}
		if last := l.source().Last; l.host.owner("f").ledger.Floor() != last {
			t.Errorf("got floor %d, want %d", l.host.owner("f").ledger.Floor(), last)
		}
	})
}

func (l *life) source() streams.Source {
	l.w.t.Helper()
	source, err := l.store.Source(context.Background(), streams.EventsStream)
	if err != nil {
		l.w.t.Fatal(err)
	}
	return source
}
