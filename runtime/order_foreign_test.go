package runtime

import (
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// plantAll puts what is none of ours into a register for several events of key a.
func (l *life) plantAll(place streams.Place, sequences ...uint64) {
	l.w.t.Helper()
	for _, seq := range sequences {
		l.plant(place.Subject(streams.Ref{Function: "f", Lane: streams.Lane("a"), Sequence: seq}), pubAck)
	}
}

// TestForeignMessagesInALaneHoldNothingUp: a guest can write at any subject, and so between the lives into the registers of events that are still
// to be handled. They are no events of the lane: they neither block it nor take the place of one in its order.
func TestForeignMessagesInALaneHoldNothingUp(t *testing.T) {
	for _, place := range []streams.Place{streams.InHeld, streams.InRetry, streams.InDeadLetters} {
		t.Run(place.String(), func(t *testing.T) {
			lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
				l := start(functions.Function{}, parkEach("a2", "b1")) // so that there is a stream of dead letters
				l.sendKeyed("b1")
				l.settle("f")
				l.end()
				l = w.open()
				l.sendKeyed("a1", "a2", "a3", "a4") // 2 … 5
				l.plantAll(place, 1, 2, 3, 5, 900)
				l.end()

				l = start(functions.Function{}, parkOnce("a2"))
				l.sendKeyed("a5")
				time.Sleep(10 * time.Minute)
				wantOrder(t, "attempted", w.began(), "b1", "a1", "a2")
				l.decideAbout("a2", client.Redrive)
				time.Sleep(10 * time.Minute)
				wantOrder(t, "delivered", w.order(), "a1", "a2", "a3", "a4", "a5")
				wantOrder(t, "attempted", w.began(), "b1", "a1", "a2", "a2", "a3", "a4", "a5")
				l.sendKeyed("a6")
				time.Sleep(time.Minute)
				wantOrder(t, "delivered later", w.orderOf("a"), "a1", "a2", "a3", "a4", "a5", "a6")
			})
		})
	}
}

// TestAForeignMessageInThePlaceOfOneOfOursDoesNotBlockForEver: whoever writes over a copy of ours takes the event away. Its lane
// goes on: at once where it was held, after a while where it waited, and by a discard where it was a dead letter.
func TestAForeignMessageInThePlaceOfOneOfOursDoesNotBlockForEver(t *testing.T) {
	for _, tc := range []struct {
		place    streams.Place
		sequence uint64
		restart  bool
		want     []string
	}{
		{streams.InHeld, 2, false, []string{"a1", "a3", "a4"}},
		{streams.InHeld, 2, true, []string{"a1", "a3", "a4"}},
		{streams.InDeadLetters, 1, false, []string{"a2", "a3", "a4"}},
		{streams.InDeadLetters, 1, true, []string{"a2", "a3", "a4"}},
	} {
		name := tc.place.String()
		if tc.restart {
			name += ", and a restart"
		}
		t.Run(name, func(t *testing.T) {
			lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
				l := start(functions.Function{}, parkOnce("a1"))
				l.sendKeyed("a1", "a2", "a3")
				l.settle("f")
				l.plantAll(tc.place, tc.sequence)
				if tc.restart {
					l.end()
					l = start(functions.Function{}, parkOnce("a1"))
				}
				l.sendKeyed("a4")
				time.Sleep(10 * time.Minute)
				switch {
				case tc.place == streams.InHeld:
					l.decideAbout("a1", client.Redrive)
				case !tc.restart:
					l.decide(client.Discard, "f", 1)
				}
				time.Sleep(10 * time.Minute)
				wantOrder(t, "delivered", w.order(), tc.want...)
			})
		})
	}
}

// TestARetryThatSomebodyWroteOverDoesNotBlockForEver: RETRY stays silent about it, and the sweep finds out.
func TestARetryThatSomebodyWroteOverDoesNotBlockForEver(t *testing.T) {
	ordered(t, functions.Function{Retry: every(5 * time.Second)}, failTimes("a1", 1), func(t *testing.T, w *world, l *life) {
		l.sendKeyed("a1", "a2", "b1")
		time.Sleep(time.Second)
		l.plantAll(streams.InRetry, 1)
		time.Sleep(10 * time.Minute)
		wantOrder(t, "delivered", w.order(), "b1", "a2")
	})
}

// TestHeldEventsDeletedByHandAreNamedAndPassed: somebody purges HELD, or deletes from it, while events of a lane stand there.
func TestHeldEventsDeletedByHandAreNamedAndPassed(t *testing.T) {
	for _, tc := range []struct {
		name    string
		restart bool
		action  string
		tail    bool
		want    []string
	}{
		{"running", false, client.Redrive, false, []string{"a1", "a3", "a5"}},
		{"between two lives", true, client.Redrive, false, []string{"a1", "a3", "a5"}},
		{"before a discard with its tail", false, client.Discard, true, []string{"a5"}},
		{"before a release", false, client.Release, false, []string{"a3", "a5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
				l := start(functions.Function{}, parkOnce("a1"))
				l.sendKeyed("a1", "a2", "a3", "a4")
				l.settle("f")
				if tc.restart {
					l.end()
					l = w.open()
				}
				for _, seq := range []uint64{2, 4} {
					m := l.at(streams.InHeld, "f", seq)
					if err := l.store.Delete(t.Context(), m.Stream, m.Sequence); err != nil {
						t.Fatal(err)
					}
				}
				if tc.restart {
					l.end()
					l = start(functions.Function{}, parkOnce("a1"))
				}
				l.decideWith(client.Decision{Function: "f", Sequence: 1, Action: tc.action, Tail: tc.tail, By: "test"})
				l.sendKeyed("a5")
				time.Sleep(time.Minute)
				wantOrder(t, "delivered", w.order(), tc.want...)
				a := l.account("f")
				if a.Holds || len(a.Problems) != 2 || a.Problems[0].Sequence != 2 || a.Problems[1].Sequence != 4 {
					t.Errorf("got %+v, want the account to name 2 and 4", a)
				}
			})
		})
	}
}

// TestADeadLetterStreamDeletedBetweenLivesFreesItsLanes: nothing says any more that the lane is blocked, and the account says what is gone.
func TestADeadLetterStreamDeletedBetweenLivesFreesItsLanes(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		l := start(functions.Function{}, parkOnce("a1"))
		l.sendKeyed("a1", "a2", "a3")
		l.settle("f")
		l.end()
		l = w.open()
		if err := l.store.JetStream().DeleteStream(t.Context(), streams.DeadLetterStream("f")); err != nil {
			t.Fatal(err)
		}
		l.end()
		l = start(functions.Function{}, parkOnce("a1"))
		l.sendKeyed("a4")
		time.Sleep(time.Minute)
		wantOrder(t, "delivered", w.order(), "a2", "a3", "a4")
		if a := l.account("f"); a.Holds || len(a.Problems) != 1 || a.Problems[0].Sequence != 1 {
			t.Errorf("got %+v, want the account to name 1", a)
		}
	})
}
