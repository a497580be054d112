package lane

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// world is all that surrounds one lane: the streams, an owner that applies effects in any order, handlers that fail, operators, and
// crashes. It keeps the obvious model: every unfinished event with its position in a map, and a naive rule for what must follow.
type world struct {
	t     *rapid.T
	rules Rules
	lane  *Lane

	accepted uint64   // the last sequence of the source stream
	source   []uint64 // of them, what has not been delivered in this life
	unsaid   []uint64 // what stands somewhere and has not been told to the lane in this life

	at      map[uint64]Position
	inRetry map[uint64]bool // where a running or leaving event is stored: RETRY, or the source stream
	cursor  uint64
	paused  bool
	hangs   map[uint64]bool

	past []string // inputs and effects, for whoever reads a failure

	done   map[uint64]bool
	passed map[uint64]bool // dead letters that block nothing
}

func newWorld(t *rapid.T, rules Rules) *world {
	return &world{
		t: t, rules: rules, lane: New(rules),
		at: map[uint64]Position{}, inRetry: map[uint64]bool{}, done: map[uint64]bool{}, passed: map[uint64]bool{},
		hangs: map[uint64]bool{},
	}
}

// wrong fails the test with the sequence that led there.
func (w *world) wrong(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nwith %+v, after\n  %s", fmt.Sprintf(format, args...), w.rules, strings.Join(w.past, "\n  "))
}

// say gives the lane an input, with what it makes of the model, and compares everything that can be seen.
func (w *world) say(in Input, change func()) {
	w.t.Helper()
	change()
	before := maps.Clone(w.at)
	want := w.follows()
	got := w.lane.Step(in, nil)
	w.past = append(w.past, strings.TrimSpace(fmt.Sprintf("%v  %s", in, words(got))))
	for _, e := range got {
		w.guarantee(e, before)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.wrong("%v: effects (-want +got):\n%s", in, diff)
	}
	w.look()
}

func (w *world) put(seq uint64, at Position) func() {
	return func() {
		delete(w.hangs, seq)
		switch at {
		case Absent:
			delete(w.at, seq)
			delete(w.inRetry, seq)
		default:
			w.at[seq] = at
		}
	}
}

// guarantee holds without any model of the rule: nothing runs beside another, nothing overtakes what is not finished, wherever that is, and what is
// held does not run.
func (w *world) guarantee(e Effect, before map[uint64]Position) {
	if e.Action == Hold {
		if before[e.Seq] != Line {
			w.wrong("%v: it is %v, want line", e, before[e.Seq])
		}
		return
	}
	if at := before[e.Seq]; e.Action == Run && at != Line && at != Ready || e.Action == Release && at != Held {
		w.wrong("%v: it is %v", e, at)
	}
	for seq, at := range before {
		if at == Running {
			w.wrong("%v while %d runs", e, seq)
		}
		if seq < e.Seq {
			w.wrong("%v overtakes %d, which is %v", e, seq, at)
		}
	}
	if len(w.source) > 0 && w.source[0] < e.Seq || len(w.unsaid) > 0 {
		w.wrong("%v with %v still on its way from the source stream and %v not looked up", e, w.source, w.unsaid)
	}
	if w.paused {
		w.wrong("%v in a paused lane", e)
	}
}

// follows is the naive rule: sort, and look at the first. It also takes the effects into the model.
func (w *world) follows() []Effect {
	var effects []Effect
	switch seq, at := w.startable(); {
	case at == Absent || seq > w.cursor:
	case at == Held:
		effects = append(effects, Effect{Release, seq})
		w.at[seq] = releasing
	default:
		effects = append(effects, Effect{Run, seq})
		w.inRetry[seq] = at == Ready
		w.at[seq] = Running
	}
	lined, elsewhere := 0, false
	for _, seq := range w.sorted() {
		switch w.at[seq] {
		case Line:
			lined++
			if elsewhere || w.paused || len(w.hangs) > 0 || lined > w.rules.Bound {
				effects = append(effects, Effect{Hold, seq})
				w.at[seq] = holding
			}
		case Running, leaving:
		default:
			elsewhere = true
		}
	}
	return effects
}

// startable is what starts, as soon as the cursor has passed it.
func (w *world) startable() (uint64, Position) {
	if w.paused || len(w.all(Running)) > 0 || len(w.at) == 0 {
		return 0, Absent
	}
	seq := w.sorted()[0]
	switch at := w.at[seq]; at {
	case Line, Ready, Held:
		return seq, at
	}
	return 0, Absent
}

// look compares what the lane shows with the model.
func (w *world) look() {
	w.t.Helper()
	for seq := range w.accepted + 2 {
		if got, want := w.lane.Position(seq), public(w.at[seq]); got != want {
			w.wrong("position of %d: got %v, want %v", seq, got, want)
		}
	}
	held := w.all(Held)
	if got, want := w.lane.Held(), len(held); got != want {
		w.wrong("got %d held, want %d", got, want)
	}
	if got := w.lane.Tail(0); !slices.Equal(got, held) {
		w.wrong("got held %v, want %v", got, held)
	}
	if got, want := w.lane.Len(), len(w.at); got != want {
		w.wrong("got length %d, want %d", got, want)
	}
	if got, want := w.lane.Idle(), len(w.at) == 0 && !w.paused; got != want {
		w.wrong("got idle %v, want %v", got, want)
	}
	if got := w.lane.Paused(); got != w.paused {
		w.wrong("got paused %v, want %v", got, w.paused)
	}
	awaited, at := w.startable()
	if seq, ok := w.lane.AwaitsCursor(); ok != (at != Absent) || ok && seq != awaited {
		w.wrong("got awaiting the cursor at %d (%v), want %d", seq, ok, awaited)
	}
	var blocker uint64
	for _, seq := range w.sorted()[:min(1, len(w.at))] {
		if at := w.at[seq]; at != Line && at != Running && at != Held || w.hangs[seq] {
			blocker = seq
		}
	}
	if got, _ := w.lane.Blocker(); got != blocker {
		w.wrong("got blocker %d, want %d", got, blocker)
	}
	parked := append(w.all(Parked), 0)
	if got, ok := w.lane.LowestParked(); got != parked[0] || ok != (len(parked) > 1) {
		w.wrong("got lowest dead letter %d (%v), want the first of %v", got, ok, w.all(Parked))
	}
}

func (w *world) sorted() []uint64 { return slices.Sorted(maps.Keys(w.at)) }

func (w *world) all(at ...Position) []uint64 {
	var found []uint64
	for seq, stands := range w.at {
		if slices.Contains(at, stands) {
			found = append(found, seq)
		}
	}
	slices.Sort(found)
	return found
}

// one draws an event that stands at one of these positions.
func (w *world) one(at ...Position) uint64 { return w.drawn(w.all(at...)) }

func (w *world) drawn(from []uint64) uint64 { return rapid.SampledFrom(from).Draw(w.t, "seq") }

// live lets one thing happen that can happen now. The ways forward are drawn more often than the ways aside (rapid also draws
// what comes first more often), or hardly any life would come far.
func (w *world) live() {
	var names []string
	ways := map[string]func(){}
	may := func(weight int, name string, can bool, do func()) {
		if can {
			names = append(names, slices.Repeat([]string{name}, weight)...)
			ways[name] = do
		}
	}
	stands := func(at ...Position) bool { return len(w.all(at...)) > 0 }
	may(3, "end an attempt", stands(Running), w.end)
	may(3, "deliver from RETRY", stands(Waiting), w.deliverRetry)
	may(3, "apply a move", stands(holding, releasing), w.apply)
	may(2, "store an outcome", stands(leaving), w.store)
	may(2, "redrive", stands(Parked) || len(w.passed) > 0, w.redrive)
	may(1, "discard with its tail", stands(Parked) && stands(Held), w.discardWithTail)
	may(1, "discard", stands(Parked), w.discard)
	may(3, "deliver", len(w.source) > 0, w.deliver)
	may(2, "accept", len(w.source) < 4, w.accept)
	may(1, "end without an attempt", stands(anywhere...), w.withoutAttempt)
	may(1, "let a dead letter's tail go on", stands(Parked), w.letTailGoOn)
	may(1, "replay", len(w.forgotten()) > 0, w.replay)
	may(1, "repeat", len(w.at) > 0, w.repeat)
	may(1, "move the cursor", true, w.seeMore)
	may(1, "pause or resume", true, w.pauseOrResume)
	may(1, "hang", stands(Running), w.hang)
	may(1, "crash", true, w.crash)
	ways[rapid.SampledFrom(names).Draw(w.t, "what")]()
}

// anywhere is where an event may be found to need no attempt.
var anywhere = []Position{Line, Ready, Waiting, Held, holding, releasing}

// seen is the highest sequence that the cursor may have.
func (w *world) seen() uint64 {
	if len(w.source) > 0 {
		return w.source[0] - 1
	}
	return w.accepted
}

// accept stores events; some sequences between belong to other lanes.
func (w *world) accept() {
	for range rapid.IntRange(1, 4).Draw(w.t, "events") {
		w.accepted += rapid.Uint64Range(1, 2).Draw(w.t, "step")
		w.source = append(w.source, w.accepted)
	}
}

// deliver brings the next event from the source stream. The owner may move the cursor just before or just after.
func (w *world) deliver() {
	seq := w.source[0]
	cursorFirst := rapid.Bool().Draw(w.t, "cursor first")
	w.source = w.source[1:]
	if cursorFirst {
		w.moveCursor(seq)
	}
	w.say(Arrive(seq), w.put(seq, Line))
	if !cursorFirst {
		w.moveCursor(seq)
	}
}

func (w *world) moveCursor(seq uint64) {
	w.say(Cursor(seq), func() { w.cursor = max(w.cursor, seq) })
}

func (w *world) seeMore() {
	w.moveCursor(rapid.Uint64Range(0, w.seen()).Draw(w.t, "cursor"))
}

// end ends what runs, in every way that an attempt can end.
func (w *world) end() { w.outcome(w.one(Running)) }

// store ends what is on its way to where its attempt has sent it.
func (w *world) store() { w.outcome(w.one(leaving)) }

func (w *world) outcome(seq uint64) {
	outcomes := []func(uint64){w.finish, w.finish, w.fail, w.park, w.parkPassing}
	if w.at[seq] == Running {
		outcomes = append(outcomes, func(seq uint64) { w.say(Move(seq), w.put(seq, leaving)) })
	}
	outcomes[rapid.IntRange(0, len(outcomes)-1).Draw(w.t, "outcome")](seq)
}

func (w *world) finish(seq uint64) {
	w.done[seq] = true
	w.say(Done(seq), w.put(seq, Absent))
}

func (w *world) fail(seq uint64) { w.say(Retry(seq), w.put(seq, Waiting)) }

func (w *world) park(seq uint64) {
	if w.rules.Continue {
		w.passed[seq] = true
		w.say(Park(seq), w.put(seq, Absent))
		return
	}
	w.say(Park(seq), w.put(seq, Parked))
}

func (w *world) parkPassing(seq uint64) {
	w.passed[seq] = true
	w.say(ParkPassing(seq), w.put(seq, Absent))
}

// withoutAttempt takes away what is found to need no attempt, or none yet: expired, set aside, parked by a sweep, delivered too early.
func (w *world) withoutAttempt() {
	seq := w.one(anywhere...)
	ways := []func(uint64){w.park, w.parkPassing, w.finish}
	if at := w.at[seq]; at == Line || at == Ready {
		ways = append(ways, w.fail, func(seq uint64) {
			w.inRetry[seq] = at == Ready
			w.say(Move(seq), w.put(seq, leaving))
		})
	}
	ways[rapid.IntRange(0, len(ways)-1).Draw(w.t, "way")](seq)
}

// apply stores one of the moves that the lane asked for, in any order.
func (w *world) apply() {
	seq := w.one(holding, releasing)
	if w.at[seq] == holding {
		w.say(HeldNow(seq), w.put(seq, Held))
		return
	}
	w.say(ReleasedNow(seq), w.put(seq, Waiting))
}

func (w *world) hang() {
	seq := w.one(Running)
	w.say(Hang(seq), func() { w.hangs[seq] = true })
}

func (w *world) deliverRetry() {
	seq := w.one(Waiting)
	w.say(Due(seq), w.put(seq, Ready))
}

func (w *world) redrive() {
	seq := w.drawn(append(w.all(Parked), slices.Sorted(maps.Keys(w.passed))...))
	delete(w.passed, seq)
	w.say(Redrive(seq), w.put(seq, Waiting))
}

func (w *world) discard() { w.finish(w.one(Parked)) }

func (w *world) discardWithTail() {
	seq := w.one(Parked)
	for _, held := range w.lane.Tail(seq) {
		w.finish(held)
	}
	w.finish(seq)
}

// letTailGoOn is an operator's release: the dead letter stays one, and may be redriven later, but its lane no longer waits for it.
func (w *world) letTailGoOn() { w.parkPassing(w.one(Parked)) }

func (w *world) pauseOrResume() {
	if w.paused {
		w.say(Resume(), func() { w.paused = false })
		return
	}
	w.say(Pause(), func() { w.paused = true })
}

// repeat says about every event what the lane has heard already, or what is no longer true.
func (w *world) repeat() {
	for _, seq := range w.sorted() {
		late := []Input{Arrive(seq), Cursor(0)}
		switch w.at[seq] {
		case Running:
			late = append(late, Due(seq), HeldNow(seq), ReleasedNow(seq), Redrive(seq), Standing(seq, Waiting))
		case Parked:
			late = append(late, Due(seq), HeldNow(seq), ReleasedNow(seq), Park(seq), Standing(seq, Waiting))
		case Held:
			late = append(late, Hang(seq), HeldNow(seq), ReleasedNow(seq), Retry(seq), Move(seq), Standing(seq, Waiting))
		case Waiting, Ready:
			late = append(late, ReleasedNow(seq), HeldNow(seq), Redrive(seq), Standing(seq, Held))
		}
		for _, in := range late {
			w.say(in, func() {})
		}
	}
}

func (w *world) forgotten() []uint64 {
	done := slices.Sorted(maps.Keys(w.done))
	return slices.DeleteFunc(done, func(seq uint64) bool { return seq > w.cursor })
}

// replay brings back an event whose end was forgotten with the ledger.
func (w *world) replay() {
	seq := w.drawn(w.forgotten())
	delete(w.done, seq)
	w.say(Arrive(seq), w.put(seq, Line))
}

// crash loses what is in memory. Moves that were under way are found on one side or the other.
func (w *world) crash() {
	said := map[uint64]Position{} // what is told about each event, in any order
	either := func(a, b Position) Position {
		if rapid.Bool().Draw(w.t, "moved") {
			return b
		}
		return a
	}
	for _, seq := range w.sorted() {
		stored := Line
		if w.inRetry[seq] {
			stored = Waiting
		}
		switch at := w.at[seq]; at {
		case Line, Running:
			said[seq] = stored
		case Ready:
			said[seq] = Waiting
		case holding:
			said[seq] = either(Line, Held)
		case releasing:
			said[seq] = either(Held, Waiting)
		case leaving:
			said[seq] = either(stored, either(Waiting, Parked))
		default:
			said[seq] = at
		}
	}
	w.past = append(w.past, "crash")
	w.lane, w.at, w.inRetry, w.cursor = New(w.rules), map[uint64]Position{}, map[uint64]bool{}, 0
	w.hangs = map[uint64]bool{}
	for _, seq := range slices.Sorted(maps.Keys(said)) {
		// Some come only as the source stream is replayed, in its order.
		if said[seq] == Line && rapid.Bool().Draw(w.t, "later") {
			w.source = append(w.source, seq)
			continue
		}
		w.unsaid = append(w.unsaid, seq)
	}
	slices.Sort(w.source)
	if w.paused {
		w.paused = false
		w.pauseOrResume()
	}
	for _, seq := range rapid.Permutation(w.unsaid).Draw(w.t, "order") {
		w.unsaid = slices.DeleteFunc(w.unsaid, func(s uint64) bool { return s == seq })
		switch at := said[seq]; {
		case at == Line:
			w.say(Arrive(seq), w.put(seq, Line))
		case at == Parked && w.rules.Continue:
			w.passed[seq] = true
			w.say(Standing(seq, Parked), func() {})
		default:
			w.say(Standing(seq, at), w.put(seq, at))
		}
	}
}

// settle is the world at its best: everything is delivered, moved, due and successful, and dead letters are redriven. All must end.
func (w *world) settle() {
	w.past = append(w.past, "from here on everything succeeds")
	if w.paused {
		w.pauseOrResume()
	}
	for steps := 0; len(w.at)+len(w.source) > 0; steps++ {
		if steps > 50*int(w.accepted+1) {
			w.wrong("nothing moves any more: %v, cursor %d", w.at, w.cursor)
		}
		switch running, moved, waiting := w.all(Running), w.all(holding, releasing), w.all(Waiting); {
		case len(w.source) > 0:
			w.deliver()
		case w.cursor < w.accepted:
			w.moveCursor(w.accepted)
		case len(running) > 0:
			w.finish(running[0])
		case len(moved) > 0:
			w.apply()
		case len(w.all(leaving)) > 0:
			w.fail(w.one(leaving))
		case len(waiting) > 0:
			w.deliverRetry()
		case len(w.all(Parked)) > 0:
			w.redrive()
		default:
			w.wrong("nothing is under way and nothing starts: %v, cursor %d", w.at, w.cursor)
		}
	}
	if !w.lane.Idle() {
		w.wrong("everything is done, and the lane is not idle")
	}
	if seq, ok := w.lane.AwaitsCursor(); ok {
		w.wrong("an idle lane awaits the cursor at %d", seq)
	}
}
