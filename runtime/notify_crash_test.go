package runtime

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/streams"
)

// crashInterval is the time between two digests in the test below.
const crashInterval = 2 * time.Minute

// happenings are what the audit says in the test below, and how long it waits before each.
func happenings() []struct {
	wait   time.Duration
	action string
} {
	return []struct {
		wait   time.Duration
		action string
	}{
		{time.Second, "held"}, {time.Second, "suspended"}, {0, "parked"}, {0, "parked"}, {20 * time.Second, "resumed"}, {time.Second, "stuck"}, {0, "parked"},
		{3 * crashInterval / 2, "gave-up"}, {0, "parked"}, {0, "suspended"}, {2 * crashInterval, "released"}, {crashInterval + time.Second, "held"},
		{time.Second, "parked"}, {crashInterval + time.Second, "resumed"},
	}
}

// TestKilledAtEveryPointOfTellingEverythingIsToldOnce kills the process before and after each operation of the notifier and of the webhook, and
// starts another one on what is on disk. Every notice stands in SIDING_OPS exactly once, digests tell of each parked event exactly once, and the
// webhook is posted every notice in order: again, with the same id, only what it took in the moment before the kill, whose acknowledgement is lost.
func TestKilledAtEveryPointOfTellingEverythingIsToldOnce(t *testing.T) {
	points := 0
	for _, keep := range []bool{false, true} {
		for at := 1; ; at++ {
			hit := false
			synctest.Test(t, func(t *testing.T) {
				w, r := newWorld(t), newHookReceiver(t)
				m := newMortal(w, at, keep)
				w.tellUntil(m, r)
				died := time.Now()
				if hit = !m.alive(); hit {
					// The server knows ids for a while. What is told twice must not be found out by that alone.
					time.Sleep(2 * streams.DedupeWindow)
					w.tellUntil(newMortal(w, 0, false), r)
				}
				l := w.open()
				checkTold(t, fmt.Sprintf("killed at %d (%s), acks kept %v", at, m.lastOp(), keep), l, r, died)
			})
			if !hit || t.Failed() {
				break
			}
			points++
		}
	}
	t.Attr("crash-points", fmt.Sprint(points))
	if points < 40 {
		t.Errorf("got %d points, want all of them", points)
	}
}

// tellUntil runs one life in which the audit is written and told, until all has happened or the process dies.
func (w *world) tellUntil(m *mortal, r *hookReceiver) {
	w.t.Helper()
	l := w.open(streams.WithGate(m.gate))
	l.host = newHost(l.store, nil, services{log: testLog(), metrics: newMetrics(), timing: testTiming()})
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	go func() {
		defer close(l.done)
		l.err = l.host.notify(ctx, crashInterval, r.hook(l))
	}()
	synctest.Wait() // it has begun, or died in that
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		w.happen(l.store.Ungated(), m.killed)
	}()
	select {
	case <-m.killed:
	case <-finished:
	}
	if m.alive() {
		l.end()
		return
	}
	<-m.killed
	<-finished
	l.bury(m)
}

// happen writes what has not been written yet. Nobody else writes to the audit: an entry's sequence is its place.
func (w *world) happen(store *streams.Store, killed <-chan struct{}) {
	source, err := store.Source(context.Background(), streams.AuditStream)
	if err != nil {
		w.t.Errorf("audit: %v", err)
		return
	}
	all := happenings()
	for i := int(source.Last); i <= len(all); i++ {
		wait := 2 * crashInterval
		if i < len(all) {
			wait = all[i].wait
		}
		select {
		case <-killed:
			return
		case <-time.After(wait):
		}
		if i == len(all) {
			return
		}
		a := streams.AuditEntry{Action: all[i].action, Function: "f", Sequence: uint64(i + 1), At: time.Now()}
		if a.Action == "stuck" {
			a.Action, a.Reason = "parked", "stuck"
		}
		if err := store.Audit(context.Background(), a); err != nil {
			return // the process has died
		}
	}
}

func checkTold(t *testing.T, where string, l *life, r *hookReceiver, died time.Time) {
	t.Helper()
	var want, got, stored []string
	parked := 0
	for i, h := range happenings() {
		switch h.action {
		case "suspended", "resumed", "gave-up", "stuck":
			want = append(want, fmt.Sprint(h.action, " ", i+1))
		}
		if h.action == "parked" || h.action == "stuck" {
			parked++
		}
	}
	for _, n := range l.notices() {
		stored = append(stored, n.ID)
		if n.Kind != noticeDigest {
			got = append(got, fmt.Sprint(n.Kind, " ", n.Audit))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", where, got, want)
	}
	told := 0
	for _, d := range l.digests() {
		told += d.Parked
	}
	if told != parked {
		t.Errorf("%s: got %d parked events told, want %d", where, told, parked)
	}
	var posted []string
	for i, id := range r.ids() {
		known := slices.Contains(posted, id)
		switch {
		case !known:
			posted = append(posted, id)
		case died.Sub(r.at[slices.Index(r.taken, id)]) > time.Second:
			t.Errorf("%s: %s was posted again at %s, long after it was taken", where, id, r.at[i])
		}
	}
	if !slices.Equal(posted, stored) {
		t.Errorf("%s: posted %q, want %q", where, r.ids(), stored)
	}
}
