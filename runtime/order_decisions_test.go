package runtime

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// twoLetters leaves two dead letters in a lane: a1, which an operator let the others pass, and a2, which blocks a3 and a4.
func twoLetters(t *testing.T, l *life) {
	t.Helper()
	l.sendKeyed("a1", "a2", "a3", "a4")
	l.settle("f")
	l.decideAbout("a1", client.Release)
	if a := l.settle("f"); a.Parked != 2 || a.Held != 2 {
		t.Fatalf("got %+v, want 2 parked and 2 held", a)
	}
}

// TestTwoDeadLettersOfALaneAreDecidedInAnyOrder states decisions about both at once and one after the other.
func TestTwoDeadLettersOfALaneAreDecidedInAnyOrder(t *testing.T) {
	redrive, discard, release := client.Redrive, client.Discard, client.Release
	for _, tc := range []struct {
		name          string
		first, second string // about a1 and a2
		later         bool   // a2's is stated when a1's has been applied
		want          []string
		parked        int64
	}{
		{"both redriven at once", redrive, redrive, false, []string{"a1", "a2", "a3", "a4"}, 0},
		{"both redriven", redrive, redrive, true, []string{"a1", "a2", "a3", "a4"}, 0},
		{"both discarded at once", discard, discard, false, []string{"a3", "a4"}, 0},
		{"redriven and released at once", redrive, release, false, []string{"a1", "a3", "a4"}, 1},
		{"discarded and redriven at once", discard, redrive, false, []string{"a2", "a3", "a4"}, 0},
		{"the first one only", redrive, "", false, []string{"a1"}, 1},
		{"the second one only", "", redrive, false, []string{"a2", "a3", "a4"}, 1},
		{"the second one released", "", release, false, []string{"a3", "a4"}, 2},
	} {
		for _, down := range []bool{false, true} {
			name := tc.name
			if down {
				name += ", while the owner is down"
			}
			t.Run(name, func(t *testing.T) {
				lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
					parks := parkEach("a1", "a2")
					l := start(functions.Function{}, parks)
					twoLetters(t, l)
					if down {
						l.end()
						l = w.open()
					}
					if tc.first != "" {
						l.state(1, streams.Decision{Action: tc.first})
					}
					if tc.later {
						time.Sleep(time.Second)
					}
					if tc.second != "" {
						l.state(2, streams.Decision{Action: tc.second})
					}
					if down {
						l.end()
						l = start(functions.Function{}, parks)
					}
					time.Sleep(time.Minute)
					if a := l.settle("f"); a.Parked != tc.parked || (a.Held == 0) != (len(tc.want) > 1) {
						t.Errorf("got %+v, want %d parked", a, tc.parked)
					}
					wantOrder(t, "delivered", w.order(), tc.want...)
					l.nothingPending()
				})
			})
		}
	}
}

// TestADecisionTakesEffectAtOnce: no sweep has to find out that a lane may go on.
func TestADecisionTakesEffectAtOnce(t *testing.T) {
	for _, tc := range []struct {
		action string
		tail   bool
		want   []string
	}{
		{client.Redrive, false, []string{"a1", "a2", "a3"}}, {client.Discard, false, []string{"a2", "a3"}},
		{client.Discard, true, []string{"a4"}}, {client.Release, false, []string{"a2", "a3"}},
	} {
		t.Run(tc.action+", tail "+strconv.FormatBool(tc.tail), func(t *testing.T) {
			ordered(t, functions.Function{}, parkOnce("a1"), func(t *testing.T, w *world, l *life) {
				l.sendKeyed("a1", "a2", "a3")
				l.settle("f")
				l.decideWith(client.Decision{Function: "f", Sequence: 1, Action: tc.action, Tail: tc.tail, By: "test"})
				if tc.tail {
					l.sendKeyed("a4")
				}
				time.Sleep(time.Second)
				wantOrder(t, "delivered within a second", w.order(), tc.want...)
			})
		})
	}
}

// TestAReleasedDeadLetterThatParksAgainBlocksAgain: what an operator let pass was its case of that cycle.
func TestAReleasedDeadLetterThatParksAgainBlocksAgain(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run("restart "+strconv.FormatBool(restart), func(t *testing.T) {
			lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
				bad := func(_ context.Context, id string, a functions.Attempt) error {
					if id == "a1" && a.Cycle < 2 {
						return functions.Park(errNo)
					}
					return nil
				}
				l := start(functions.Function{}, bad)
				l.sendKeyed("a1", "a2")
				l.settle("f")
				l.decideAbout("a1", client.Release)
				time.Sleep(time.Second) // decisions are told apart by their time
				_, err := l.host.decide(t.Context(), client.Decision{Function: "f", Sequence: 1, Action: client.Release, By: "ben"})
				wantRefusal(t, err, client.Conflict, "f/1", "released by test")
				l.settle("f")
				l.decideAbout("a1", client.Redrive)
				l.settle("f")
				if restart {
					l.end()
					l = start(functions.Function{}, bad)
				}
				l.sendKeyed("a3")
				if a := l.settle("f"); a.Parked != 1 || a.Held != 1 {
					t.Errorf("restart %v: got %+v, want a3 held behind a1", restart, a)
				}
				l.decideAbout("a1", client.Redrive)
				l.settle("f")
				wantOrder(t, "delivered", w.order(), "a2", "a1", "a3")
			})
		})
	}
}

// TestAReleaseWhoseAnswerWasLostIsApplied: the dead letter has been written anew, and nobody heard so.
func TestAReleaseWhoseAnswerWasLostIsApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var outside *life
		parked := false
		gate := func(op string) {
			if op == "place "+streams.InDeadLetters.String() && parked {
				parked = false
				m := outside.at(streams.InDeadLetters, "f", 1)
				c := streams.ReadCopy(m.Header, m.Data)
				c.Extra = map[string]string{"Siding-Released": "now"}
				for _, name := range []string{"Siding-Dead-Letter", "Siding-Cause"} {
					c.Extra[name] = m.Header.Get(name)
				}
				ref := streams.Ref{Function: "f", Lane: streams.Lane("a"), Sequence: 1}
				if _, err := outside.store.Replace(context.Background(), streams.InDeadLetters, ref, c, m.Sequence); err != nil {
					t.Errorf("replace: %v", err)
				}
			}
		}
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, parkOnce("a1"))}, streams.WithGate(gate))
		<-l.host.started
		outside = &life{w: w, store: l.store.Ungated()}
		outside.sendKeyed("a1", "a2")
		l.settle("f")
		if err := l.host.owner("f").call(t.Context(), func() { parked = true }); err != nil {
			t.Fatal(err)
		}
		l.decideAbout("a1", client.Release)
		l.settle("f")
		wantOrder(t, "delivered", w.order(), "a2")
		l.end()
		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, parkOnce("a1"))})
		l.sendKeyed("a3")
		l.settle("f")
		wantOrder(t, "delivered after a restart", w.order(), "a2", "a3")
	})
}

// TestARedriveOfAReleasedDeadLetterThatFailsForGoodIsTheBlocker: it goes before a later one that blocks, and holds that one too when it parks again.
func TestARedriveOfAReleasedDeadLetterThatFailsForGoodIsTheBlocker(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		l := start(functions.Function{}, func(_ context.Context, id string, a functions.Attempt) error {
			if id == "a1" && a.Cycle < 2 || id == "a2" && a.Cycle < 1 {
				return functions.Park(errNo)
			}
			return nil
		})
		twoLetters(t, l)
		l.decideAbout("a1", client.Redrive)
		l.settle("f") // parked again, and the lowest
		_, err := l.host.decide(t.Context(), client.Decision{Function: "f", Sequence: 2, Action: client.Redrive, By: "anna"})
		wantRefusal(t, err, client.Conflict, "f/2", "f/1")
		wantOrder(t, "attempted", w.began(), "a1", "a2", "a1")
		l.decideAbout("a1", client.Redrive)
		l.settle("f")
		l.decideAbout("a2", client.Redrive)
		l.settle("f")
		wantOrder(t, "delivered", w.order(), "a1", "a2", "a3", "a4")
	})
}
