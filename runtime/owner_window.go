package runtime

import (
	"context"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/gate"
)

// seekPause is the time between two looks whether the source stream still has something of a run, and between two tries to begin one.
const seekPause = time.Second

// gated is what an owner keeps about the gate of its function.
type gated struct {
	*gate.Gate
	after   []*item   // queued, and not of the run that is on: the next one takes them up
	keeper  *item     // an event that the run has to wait for, as found by the last look
	tried   time.Time // when the mark of a run could not be read
	told    string    // what waiting says
	passing bool      // the gate has been free from the start
}

// newGated makes the gate of a function that starts now.
func newGated(fn functions.Function) gated {
	rules := gate.Rules{Rate: fn.Rate, Window: fn.Window}
	for _, d := range fn.Dependencies {
		rules.Dependencies = append(rules.Dependencies, d.Name)
	}
	g := gated{Gate: gate.New(rules, time.Now())}
	g.passing = g.Free()
	return g
}

// mayPass reports whether the gate lets one more attempt begin, and asks for a timer if the clock alone stands against it.
func (o *owner) mayPass(now time.Time) bool {
	may, next := o.gate.May(now)
	if !may && !next.IsZero() {
		o.wake(next)
	}
	return may
}

// tend opens and closes windows. run calls it after each input.
func (o *owner) tend(ctx context.Context) {
	if o.gate.passing {
		return
	}
	now := time.Now()
	opens, closed := o.gate.Tick(now)
	if closed {
		o.log.Info("the window closes; what is left waits for the next one", "running", len(o.attempting))
	}
	if opens {
		o.openWindow(ctx, now)
	}
	if mark, running := o.gate.Run(); running && o.workedOff(ctx, now, mark) {
		o.gate.EndRun()
		o.log.Info("all is worked off that was there when the window opened", "through", mark)
	}
	if at := o.gate.Wakes(); at.After(now) {
		o.wake(at)
	}
}

// tellWaiting says for others to read what keeps attempts from beginning.
func (o *owner) tellWaiting() {
	text, some := "", o.lineUp() > 0
	if !o.gate.passing {
		text = o.gate.Waits(time.Now(), some)
	}
	if text == "" && some {
		text = o.alone.waits()
	}
	if text != o.gate.told {
		o.gate.told = text
		o.waiting.Store(&text)
	}
}

// openWindow begins a run: of everything that stands in the source stream now.
func (o *owner) openWindow(ctx context.Context, now time.Time) {
	if now.Sub(o.gate.tried) < seekPause {
		return
	}
	source, err := o.store.Source(ctx, o.declared.Stream)
	if err != nil {
		o.gate.tried = now
		o.wake(now.Add(seekPause))
		o.metrics.storeError("read")
		o.log.Warn("a window is to open, and the source stream cannot be read; trying again", "stream", o.declared.Stream, "err", err)
		o.fault(err)
		return
	}
	o.gate.Open(source.Last)
	o.queue = append(o.gate.after, o.queue...) // they have waited longest
	o.gate.after, o.gate.keeper = nil, nil
	o.log.Info("a window opens", "through", source.Last)
}

// ofRun reports whether an item whose turn has come may be attempted in the run that is on. Any other one is kept for the next.
func (o *owner) ofRun(it *item) bool {
	if o.gate.Admits(it.ref.Sequence) {
		return true
	}
	o.gate.after = append(o.gate.after, it)
	return false
}

// workedOff reports whether nothing is left that a run up to mark could attempt before its window closes. What only waits in its lane is not asked: it
// waits for another event, which is, or for a person.
func (o *owner) workedOff(ctx context.Context, now time.Time, mark uint64) bool {
	if o.lineUp()+len(o.attempting)+len(o.stalled)+o.departed+o.syncs.pending() > 0 {
		return false
	}
	if o.cursor < mark { // something may be on its way, or what lies between is not the function's
		if now.Sub(o.looked) >= seekPause {
			o.looked = now
			if err := o.lookAhead(ctx); err != nil {
				o.fault(err)
			}
		}
		if o.cursor < mark {
			o.wake(o.looked.Add(seekPause))
			return false
		}
	}
	if it := o.gate.keeper; it != nil && o.items[it.ref.Sequence] == it && o.keepsRun(it) {
		return false
	}
	o.gate.keeper = nil
	for _, it := range o.items {
		if o.keepsRun(it) {
			o.gate.keeper = it // most looks find it unchanged, however many events wait in RETRY
			return false
		}
	}
	return true
}

// keepsRun reports whether the run that is on has to wait for an event.
func (o *owner) keepsRun(it *item) bool {
	switch it.phase {
	case moving, queued, running:
		return o.gate.Keeps(it.ref.Sequence, time.Time{})
	case waiting, delayed:
		return o.gate.Keeps(it.ref.Sequence, it.due)
	default:
		return false
	}
}
