package runtime

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

func (l *life) pause(key string) {
	l.w.t.Helper()
	if err := l.host.owner("f").pauseLane(l.w.t.Context(), streams.PausedLane{Lane: streams.Lane(key), Key: key, By: "anna", Reason: "stock-taking", At: time.Now().UTC()}); err != nil {
		l.w.t.Fatalf("pause %s: %v", key, err)
	}
}

func (l *life) resume(key string) {
	l.w.t.Helper()
	if resumed, err := l.host.owner("f").resumeLane(l.w.t.Context(), streams.Lane(key), "counted", "ben"); err != nil || !resumed {
		l.w.t.Fatalf("resume %s: got %v, %v", key, resumed, err)
	}
}

// TestAPausedLaneStandsStillUntilItIsResumed: whatever state its events are in, none of them starts, over restarts too, and no other key notices
// (restatedev/restate#5196 paused more than was asked for).
func TestAPausedLaneStandsStillUntilItIsResumed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script script
		before []string // attempted before the pause, or begun then
	}{
		{"nothing in it", parkOnce(""), nil},
		{"an event that runs", slowly("a1", 30*time.Second), []string{"a1"}},
		{"an event that retries", failTimes("a1", 1), []string{"a1"}},
		{"a dead letter", parkOnce("a1"), []string{"a1"}},
		{"an event that runs and will be retried", both(slowly("a1", 30*time.Second), failTimes("a1", 1)), []string{"a1"}},
		{"an event that runs and will be parked", both(slowly("a1", 30*time.Second), parkOnce("a1")), []string{"a1"}},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(tc.name+", restart "+strconv.FormatBool(restart), func(t *testing.T) {
				lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
					fn := functions.Function{Retry: every(time.Minute), Timeout: time.Hour}
					l := start(fn, tc.script)
					if tc.before != nil {
						l.sendKeyed("a1", "a2")
						time.Sleep(time.Second)
					}
					l.pause("a")
					if tc.before == nil {
						l.sendKeyed("a1", "a2")
					}
					l.sendKeyed("a3", "b1")
					time.Sleep(5 * time.Minute)
					if restart {
						l.end()
						l = start(fn, tc.script)
						l.sendKeyed("a4")
						time.Sleep(5 * time.Minute)
					} else {
						l.sendKeyed("a4")
					}
					parked := len(l.letters("f")) == 1
					if parked {
						l.decideAbout("a1", client.Redrive) // it is applied, and waits
					}
					l.sendKeyed("b2")
					time.Sleep(5 * time.Minute)
					wantOrder(t, "attempted while it is paused", w.beganOf("a"), append([]string{}, tc.before...)...)
					wantOrder(t, "another key", w.orderOf("b"), "b1", "b2")
					l.resume("a")
					time.Sleep(2 * time.Minute)
					if a := l.settle("f"); a.Delivered != 6 {
						t.Errorf("got %+v, want 6 delivered", a)
					}
					wantOrder(t, "delivered", w.orderOf("a"), "a1", "a2", "a3", "a4")
					wantOrder(t, "in their order", slices.Compact(w.beganOf("a")), "a1", "a2", "a3", "a4")
					l.sendKeyed("a5")
					if a := l.settle("f"); a.Delivered != 7 {
						t.Errorf("after the resume: got %+v, want a5 delivered as well", a)
					}
					l.nothingPending()
				})
			})
		}
	}
}

// TestAnEventThatWaitsForAWorkerDoesNotStartInAPausedLane: its turn has come, and no worker was free before the pause.
func TestAnEventThatWaitsForAWorkerDoesNotStartInAPausedLane(t *testing.T) {
	fn := functions.Function{Concurrency: 1, Timeout: time.Hour, Retry: every(time.Second)}
	for _, retried := range []bool{false, true} {
		t.Run("retried "+strconv.FormatBool(retried), func(t *testing.T) {
			s := slowly("b1", 10*time.Minute)
			if retried {
				s = both(s, failTimes("a1", 1))
			}
			ordered(t, fn, s, func(t *testing.T, w *world, l *life) {
				var before []string
				if retried {
					l.sendKeyed("a1")
					time.Sleep(time.Millisecond)
					before = []string{"a1"}
				}
				l.sendKeyed("b1", "a1", "a2", "b2")
				time.Sleep(2 * time.Second)
				l.pause("a")
				time.Sleep(30 * time.Minute)
				wantOrder(t, "attempted while it is paused", w.began(), append(before, "b1", "b2")...)
				l.resume("a")
				l.settle("f")
				wantOrder(t, "delivered", w.order(), "b1", "b2", "a1", "a2")
				if n, want := len(w.calls("a1")), 1+len(before); n != want {
					t.Errorf("a1 was attempted %d times, want %d", n, want)
				}
			})
		})
	}
}

// TestDecisionsAreAppliedInAPausedLane: what they let go on waits for the resume.
func TestDecisionsAreAppliedInAPausedLane(t *testing.T) {
	for _, tc := range []struct {
		action string
		tail   bool
		want   []string
	}{
		{client.Redrive, false, []string{"a1", "a2", "a3"}}, {client.Discard, false, []string{"a2", "a3"}},
		{client.Discard, true, []string{"a3"}}, {client.Release, false, []string{"a2", "a3"}},
	} {
		t.Run(tc.action+", tail "+strconv.FormatBool(tc.tail), func(t *testing.T) {
			ordered(t, functions.Function{}, parkOnce("a1"), func(t *testing.T, w *world, l *life) {
				l.sendKeyed("a1", "a2")
				l.settle("f")
				l.pause("a")
				l.decideWith(client.Decision{Function: "f", Sequence: 1, Action: tc.action, Tail: tc.tail, By: "test"})
				l.sendKeyed("a3")
				time.Sleep(10 * time.Minute)
				wantOrder(t, "attempted while it is paused", w.began(), "a1")
				l.resume("a")
				l.settle("f")
				wantOrder(t, "delivered", w.order(), tc.want...)
			})
		})
	}
}

// TestALaneIsPausedOnce: a second pause is refused with who was first, and one resume ends it for good.
func TestALaneIsPausedOnce(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		l := start(functions.Function{}, parkOnce(""))
		l.pause("a")
		err := l.host.owner("f").pauseLane(t.Context(), streams.PausedLane{Lane: streams.Lane("a"), Key: "a", By: "ben", At: time.Now().UTC()})
		wantRefusal(t, err, client.Conflict, "anna")
		l.resume("a")
		if resumed, err := l.host.owner("f").resumeLane(t.Context(), streams.Lane("a"), "", "ben"); err != nil || resumed {
			t.Errorf("a second resume: got %v, %v; want that nothing was paused", resumed, err)
		}
		l.end()
		l = start(functions.Function{}, parkOnce(""))
		l.sendKeyed("a1")
		l.settle("f")
		wantOrder(t, "delivered", w.order(), "a1")
		if got := l.audited("f", 0); !slices.Equal(got, []string{"paused by anna", "resumed by ben"}) {
			t.Errorf("audit: got %q", got)
		}
	})
}

// TestAPauseThatCannotBeAuditedHoldsNow: what has been written down is in force at once, not only after the next start.
func TestAPauseThatCannotBeAuditedHoldsNow(t *testing.T) {
	ordered(t, functions.Function{}, parkOnce(""), func(t *testing.T, w *world, l *life) {
		lift := l.limit(streams.AuditStream)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := l.host.owner("f").pauseLane(ctx, streams.PausedLane{Lane: streams.Lane("a"), Key: "a", By: "anna", At: time.Now().UTC()})
		if err == nil {
			t.Error("got a pause without an error, want one that says that it is not in the audit")
		}
		l.sendKeyed("a1", "b1")
		time.Sleep(time.Minute)
		d, err := l.store.Declared(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		if started := len(w.calls("a1")) > 0; started == (len(d.Paused) == 1) {
			t.Errorf("got %d lanes paused as it is written down, and a1 started %v", len(d.Paused), started)
		}
		lift()
	})
}

// TestAPauseShowsWhoAndOutlivesRestarts, and so does its end.
func TestAPauseShowsWhoAndOutlivesRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fn := func() []functions.Function {
			return []functions.Function{w.function(functions.Function{}, forever, parkOnce("none"))}
		}
		l := w.start(testTiming(), fn())
		<-l.host.started
		l.pause("a")
		l.sendKeyed("a1", "b1", "a2")
		if a := l.settle("f"); a.Held != 2 || a.Delivered != 1 {
			t.Errorf("paused: got %+v, want 2 held and b1 delivered", a)
		}
		l.end()
		l = w.start(testTiming(), fn())
		<-l.host.started
		l.sendKeyed("a3", "b2")
		if a := l.settle("f"); a.Held != 3 || a.Delivered != 2 {
			t.Errorf("paused, after a restart: got %+v, want 3 held and b2 delivered", a)
		}
		d, err := l.host.lane(t.Context(), "f", "a")
		if err != nil || d.State != client.LanePaused || d.PausedBy != "anna" || d.PauseReason != "stock-taking" || d.Held != 3 {
			t.Errorf("lane: got %+v, %v, want it paused by anna with 3 held", d, err)
		}
		l.resume("a")
		l.settle("f")
		wantOrder(t, "delivered", w.order(), "b1", "b2", "a1", "a2", "a3")
		l.end()
		l = w.start(testTiming(), fn())
		<-l.host.started
		l.sendKeyed("a4")
		if a := l.settle("f"); a.Held != 0 {
			t.Errorf("resumed, after a restart: got %+v, want nothing held", a)
		}
	})
}
