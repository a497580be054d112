package runtime

import (
	"container/heap"
	"context"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// lanes are those of one function that have an event in them, or are paused. Only their owner touches them.
type lanes struct {
	rules   lane.Rules
	all     map[string]*keptLane // by lane token; see streams.Lane
	effects []effect             // said by a lane and not applied yet
	scratch []lane.Effect
	// awaiting are lanes whose next event the cursor has not passed yet.
	awaiting cursorWaits
	// hanging are events whose handler was given up and has not returned: what happens to them is told to their lanes when it has, because
	// two attempts of one lane must not overlap.
	hanging map[uint64][]func(uint64) lane.Input
	blocked int  // lanes that have a blocker
	held    int  // events in HELD
	changed bool // since the metrics were told
	open    bool // what stands is known, and lanes may start events
}

// keptLane is a lane and what is kept beside its order.
type keptLane struct {
	*lane.Lane
	token    string
	awaits   uint64 // the event that it stands in lanes.awaiting for; 0 = none
	blocked  bool   // it is counted as blocked
	held     int    // as counted
	breached bool   // its hold is over a limit, and that has been said
	// announced says that the audit knows of its hold behind a dead letter.
	announced bool
	// holdingSince is when something began to be held without a break; unknown (zero) for a hold that an earlier life began.
	holdingSince time.Time
	blocking     blocking
	unstarted    *item   // whose turn had come before the lane was paused
	freed        spanRef // of the last end of one of its events
}

// effect is what a lane asks for.
type effect struct {
	token string
	lane.Effect
}

func newLanes(fn functions.Function, line int) lanes {
	return lanes{
		rules: lane.Rules{Bound: line, Continue: fn.OnPark == functions.Continue},
		all:   map[string]*keptLane{}, hanging: map[uint64][]func(uint64) lane.Input{},
	}
}

func (ls *lanes) of(token string) *keptLane {
	l := ls.all[token]
	if l == nil {
		l = &keptLane{Lane: lane.New(ls.rules), token: token}
		ls.all[token] = l
	}
	return l
}

// step gives a lane one input, and forgets the lane if nothing is left in it.
func (ls *lanes) step(l *keptLane, in lane.Input) {
	ls.scratch = l.Step(in, ls.scratch[:0])
	for _, e := range ls.scratch {
		ls.effects = append(ls.effects, effect{token: l.token, Effect: e})
	}
}

// settle brings the counts up to date after one or more steps of a lane.
func (ls *lanes) settle(l *keptLane) {
	if seq, ok := l.AwaitsCursor(); !ok {
		l.awaits = 0
	} else if seq != l.awaits {
		l.awaits = seq
		heap.Push(&ls.awaiting, cursorWait{seq, l.token})
	}
	if held := l.Held(); held != l.held {
		if l.held == 0 {
			l.holdingSince = time.Now()
		}
		if held == 0 {
			l.holdingSince, l.breached, l.announced = time.Time{}, false, false
		}
		ls.held += held - l.held
		l.held, ls.changed = held, true
	}
	if _, at := l.Blocker(); (at != lane.Absent) != l.blocked {
		l.blocked, ls.changed = !l.blocked, true
		if l.blocked {
			ls.blocked++
		} else {
			ls.blocked--
		}
	}
	if l.Idle() {
		delete(ls.all, l.token)
	}
}

// tell gives the lane of an event an input about it. What follows from it is done by perform.
func (o *owner) tell(ref streams.Ref, what func(uint64) lane.Input) {
	if ref.Lane == streams.NoLane {
		return
	}
	if late, hangs := o.lanes.hanging[ref.Sequence]; hangs {
		o.lanes.hanging[ref.Sequence] = append(late, what)
		return
	}
	l := o.lanes.of(ref.Lane)
	o.lanes.step(l, lane.Cursor(o.cursor))
	o.lanes.step(l, what(ref.Sequence))
	o.lanes.settle(l)
}

// stand tells a lane where one of its events was found. Until everything that stands is known no lane may start anything: a start tells no
// lane the cursor before openLanes.
func (o *owner) stand(ref streams.Ref, at lane.Position) {
	if ref.Lane == streams.NoLane {
		return
	}
	l := o.lanes.of(ref.Lane)
	o.lanes.step(l, lane.Standing(ref.Sequence, at))
	if o.lanes.open {
		o.lanes.settle(l)
		o.passed()
	}
}

// openLanes lets the lanes of what stands go on.
func (o *owner) openLanes() {
	o.lanes.open = true
	for _, p := range o.declared.Paused {
		o.lanes.step(o.lanes.of(p.Lane), lane.Pause())
	}
	for _, l := range o.lanes.all {
		o.lanes.step(l, lane.Cursor(o.cursor))
		o.lanes.settle(l)
		l.holdingSince, l.announced = time.Time{}, l.Held() > 0 // it began in an earlier life
	}
}

// returned tells the lane of an event whose handler hung what has become of it meanwhile.
func (o *owner) returned(ref streams.Ref) {
	late := o.lanes.hanging[ref.Sequence]
	delete(o.lanes.hanging, ref.Sequence)
	for _, what := range late {
		o.tell(ref, what)
	}
}

// position is where an event stands by its lane.
func (o *owner) position(ref streams.Ref) lane.Position {
	if l := o.lanes.all[ref.Lane]; l != nil {
		return l.Position(ref.Sequence)
	}
	return lane.Absent
}

// passed tells the lanes that wait for it that the cursor has moved.
func (o *owner) passed() {
	for len(o.lanes.awaiting) > 0 && o.lanes.awaiting[0].seq <= o.cursor {
		wait := heap.Pop(&o.lanes.awaiting).(cursorWait) //nolint:forcetypeassert // it holds nothing else
		if l := o.lanes.all[wait.token]; l != nil && l.awaits == wait.seq {
			l.awaits = 0
			o.lanes.step(l, lane.Cursor(o.cursor))
			o.lanes.settle(l)
		}
	}
}

// lookFor looks ahead again and again while a lane waits for the cursor: what lies between may be of other types, or acknowledged long ago, and
// then nothing is delivered that would move it.
func (o *owner) lookFor(ctx context.Context) {
	const pause = 100 * time.Millisecond
	if len(o.lanes.awaiting) == 0 {
		return
	}
	now := time.Now()
	if now.Sub(o.looked) >= pause {
		o.looked = now
		if err := o.lookAhead(ctx); err != nil {
			o.fault(err)
		}
	}
	if len(o.lanes.awaiting) > 0 {
		o.wake(o.looked.Add(pause))
	}
}

// perform applies what the lanes have asked for. That may make them ask for more.
func (o *owner) perform(ctx context.Context) {
	for i := 0; i < len(o.lanes.effects); i++ {
		e := o.lanes.effects[i]
		ref := streams.Ref{Function: o.fn.Name, Lane: e.token, Sequence: e.Seq}
		if e.Action == lane.Release {
			o.release(ctx, ref)
			continue
		}
		it := o.items[e.Seq]
		if it == nil {
			o.log.Error("a lane asks for an event that is not in memory; a restart repairs that", "event", ref.ID(), "action", e.Action)
			continue
		}
		if e.Action == lane.Hold {
			o.hold(ctx, it)
		} else {
			o.attend(ctx, it)
		}
	}
	o.lanes.effects = o.lanes.effects[:0]
	if o.lanes.changed {
		o.lanes.changed = false
		o.metrics.lanes(o.fn.Name, o.lanes.blocked, o.lanes.held, len(o.declared.Paused))
	}
}

// line puts an event that the source stream has delivered into its lane.
func (o *owner) line(ctx context.Context, it *item) {
	if it.ref.Lane == streams.NoLane {
		o.attend(ctx, it)
		return
	}
	it.phase = lined
	o.tell(it.ref, lane.Arrive)
}

// due puts an event that RETRY has delivered, and whose next attempt may start, into its lane. One that has to wait there for lower ones
// gives its place in the window back: RETRY delivers in the order of moves, and the lowest may come last.
func (o *owner) due(ctx context.Context, it *item) {
	_, hangs := o.lanes.hanging[it.ref.Sequence]
	if it.ref.Lane == streams.NoLane || !hangs && o.position(it.ref) == lane.Running {
		o.attend(ctx, it)
		return
	}
	it.phase = lined
	o.tell(it.ref, lane.Due)
	if o.position(it.ref) != lane.Running || hangs {
		it.release()
	}
}

// attend does what is next for an event whose turn it is. In a lane in which a handler of an earlier owner hangs, it asks again.
func (o *owner) attend(ctx context.Context, it *item) {
	switch {
	case it.ref.Lane != streams.NoLane && o.hung.in(o.fn.Name, it.ref.Lane):
		it.phase, it.due = delayed, time.Now().Add(time.Second)
		o.held[it.ref.Sequence] = it
		o.wake(it.due)
	case it.retry != 0:
		o.resume(ctx, it)
	case it.ref.Sequence <= o.replayed:
		o.replay(ctx, it)
	default:
		o.admit(ctx, it, it.broken)
	}
}

// cursorWait is a lane whose event seq starts as soon as the cursor has passed it.
type cursorWait struct {
	seq   uint64
	token string
}

// cursorWaits is a heap, the lowest sequence first.
type cursorWaits []cursorWait

func (w cursorWaits) Len() int           { return len(w) }
func (w cursorWaits) Less(i, j int) bool { return w[i].seq < w[j].seq }
func (w cursorWaits) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

// Push is heap's.
func (w *cursorWaits) Push(x any) { *w = append(*w, x.(cursorWait)) } //nolint:forcetypeassert // it holds nothing else

// Pop is heap's.
func (w *cursorWaits) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}
