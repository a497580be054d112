package runtime

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// disk is what a power loss leaves of the ledger: its content as it was when the last sync that has ended began. What was written since is gone, which
// is the worst that can happen.
type disk struct {
	w     *world
	mu    sync.Mutex
	began []byte // nil while no sync is under way
	safe  []byte
	syncs int
}

// gate watches the syncs, which take a while, and then asks the next gate.
func (d *disk) gate(next func(string)) func(string) {
	return func(op string) {
		if op == "sync" {
			d.sync()
		}
		next(op)
	}
}

func (d *disk) sync() {
	d.mu.Lock()
	if d.began != nil {
		d.safe, d.began = d.began, nil
		d.syncs++
		d.mu.Unlock()
		return
	}
	content, err := os.ReadFile(d.w.ledgerFile())
	if err != nil {
		d.w.t.Errorf("ledger: %v", err)
	}
	d.began = content
	d.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
}

// lose puts what is safe in the place of the ledger of a dead process.
func (d *disk) lose() {
	d.w.t.Helper()
	path := filepath.Join(d.w.dir, "ledger", "f.ledger")
	err := os.RemoveAll(path)
	if err == nil && d.safe != nil {
		err = os.WriteFile(path, d.safe, 0o600)
	}
	if err != nil {
		d.w.t.Fatal(err)
	}
}

// TestLedgerSyncedAlwaysSurvivesAPowerLossAtEveryPoint takes away from the ledger, at every operation, all that no sync had brought to the disk. An event is
// never handled again once a later one of its key has begun, and what ended off the hot path never comes back.
func TestLedgerSyncedAlwaysSurvivesAPowerLossAtEveryPoint(t *testing.T) {
	t.Parallel()
	everyPoint(t, func(t *testing.T, at int) bool {
		w := newWorld(t)
		w.sync = streams.SyncAlways
		d := &disk{w: w}
		s := both(failTimes("b1", 2), parkOnce("c2"))
		fn := func(alive func() bool) []functions.Function {
			return []functions.Function{w.function(functions.Function{Retry: every(time.Second)}, alive, func(ctx context.Context, id string, a functions.Attempt) error {
				time.Sleep(time.Millisecond)
				return s(ctx, id, a)
			})}
		}
		ids := []string{"a1", "b1", "c1", "a2", "b2", "c2", "a3", "c3", "a4"}
		m := newMortal(w, at, at%2 == 0)
		l := w.start(testTiming(), fn(m.alive), streams.WithGate(d.gate(m.gate)))
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			(&life{w: w, store: l.store.Ungated()}).sendKeyed(ids...)
			select {
			case <-m.killed:
			case <-time.After(time.Minute):
			}
		}()
		select {
		case <-m.killed:
		case <-finished:
		}
		hit := !m.alive()
		if hit {
			<-m.killed
			<-finished
			l.bury(m)
			d.lose()
		} else {
			l.end()
		}
		l = w.start(testTiming(), fn(forever))
		<-l.host.started
		l.sendKeyed(ids...)
		time.Sleep(time.Minute)
		if a := l.settle("f"); a.Delivered != 7 || a.Parked != 1 || a.Held != 1 {
			t.Errorf("killed at %s: got %+v, want 7 delivered, 1 parked and 1 held", m.lastOp(), a)
		}
		for _, key := range []string{"a", "b", "c"} {
			last := ""
			for _, id := range w.beganOf(key) {
				if id < last {
					t.Errorf("killed at %s: %s was attempted behind %s", m.lastOp(), id, last)
				}
				last = max(id, last)
			}
		}
		// What ran is forgotten with the power, so that no record says that an attempt was cut.
		if n := len(w.calls("c2")); n > 2 {
			t.Errorf("killed at %s: got %d attempts of the event that is parked, want 1, or 2 if it was cut", m.lastOp(), n)
		}
		return hit
	})
}

// TestLedgerSyncIsSharedByManyMarks: a sync takes as long as five handlers here. No acknowledgement comes before one, and still there are far fewer.
func TestLedgerSyncIsSharedByManyMarks(t *testing.T) {
	const events = 600
	for _, mode := range []streams.Sync{streams.SyncAlways, streams.SyncInterval} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.sync = mode
				d := &disk{w: w}
				var mu sync.Mutex
				marks, acks, early := 0, 0, 0
				covered := 0 // marks that were made before a sync began which has ended
				began := 0
				l := w.open()
				for i := range events {
					l.sendEvent(newEvent(strconv.Itoa(i)))
				}
				l.end()
				inside := map[string]bool{}
				l = w.start(testTiming(), []functions.Function{w.function(functions.Function{Concurrency: 16}, forever, func(context.Context, string, functions.Attempt) error {
					time.Sleep(time.Millisecond)
					return nil
				})}, streams.WithGate(d.gate(func(op string) {
					mu.Lock()
					defer mu.Unlock()
					first := !inside[op]
					inside[op] = first
					switch {
					case op == "mark" && !first:
						marks++
					case op == "sync" && first:
						began = marks
					case op == "sync":
						covered = began
					case op == "ack" && first:
						if acks++; acks > covered {
							early++
						}
					}
				})))
				from := time.Now()
				for len(w.calls("")) < events {
					time.Sleep(time.Millisecond)
				}
				took := time.Since(from)
				time.Sleep(time.Second)
				l.settle("f")
				l.end()
				t.Attr("syncs", strconv.Itoa(d.syncs))
				t.Attr("took", took.String())
				if mode == streams.SyncInterval {
					if d.syncs != 0 {
						t.Errorf("got %d syncs, want none", d.syncs)
					}
					return
				}
				if early > 0 || acks != events || marks != events {
					t.Errorf("got %d marks and %d acks, %d of them before their sync had ended; want %d, all behind", marks, acks, early, events)
				}
				if d.syncs > events/8 || took > time.Second {
					t.Errorf("got %d syncs and %s for %d events, want many events to share one", d.syncs, took, events)
				}
			})
		})
	}
}
