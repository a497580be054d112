package lane

import "fmt"

// Position is where an event of a lane stands.
type Position uint8

// The positions.
const (
	Absent  Position = iota // not in the lane: never seen, or finished
	Line                    // in memory, from the source stream, not started
	Running                 // started
	Moving                  // its move to another place is being applied
	Waiting                 // in RETRY, not due or not delivered
	Ready                   // in RETRY, delivered and due: it starts when it is the lowest
	Held                    // in HELD
	Parked                  // a dead letter

	// Moving, told apart by where to. The last is not known to the lane, which hears of it by Retry, Park or Done.
	holding
	releasing
	leaving
)

// String returns the word for p in logs and tools.
func (p Position) String() string {
	switch p {
	case Absent:
		return "absent"
	case Line:
		return "line"
	case Running:
		return "running"
	case Moving, holding, releasing, leaving:
		return "moving"
	case Waiting:
		return "waiting"
	case Ready:
		return "ready"
	case Held:
		return "held"
	case Parked:
		return "parked"
	}
	return fmt.Sprintf("position(%d)", uint8(p))
}

type inputKind uint8

const (
	arrive inputKind = iota + 1
	standing
	done
	retry
	due
	park
	parkPassing
	redrive
	move
	heldNow
	releasedNow
	cursor
	pause
	resume
	hang
)

// Input is one fact that a lane is told. Make one by the functions of this file.
//
// Inputs that claim a place for an event (Standing, Retry, Due, Park, Redrive) are believed about one that the lane does not know. A word
// that comes late, such as HeldNow about an event that was discarded meanwhile, changes nothing.
type Input struct {
	kind inputKind
	at   Position // of standing
	seq  uint64
}

// Arrive says that the source stream has delivered an event that is neither settled nor standing elsewhere.
func Arrive(seq uint64) Input { return Input{kind: arrive, seq: seq} }

// Standing says where an event was found at the start: Waiting, Held or Parked.
func Standing(seq uint64, at Position) Input { return Input{kind: standing, seq: seq, at: at} }

// Done says that an event is delivered or discarded for good, from any position.
func Done(seq uint64) Input { return Input{kind: done, seq: seq} }

// Retry says that an event failed, or was not due after all, and waits in RETRY.
func Retry(seq uint64) Input { return Input{kind: retry, seq: seq} }

// Due says that RETRY has delivered an event and that it may be attempted. A dead letter is not due; it needs a Redrive.
func Due(seq uint64) Input { return Input{kind: due, seq: seq} }

// Park says that an event has become a dead letter. It blocks its lane, unless the function continues behind dead letters.
func Park(seq uint64) Input { return Input{kind: park, seq: seq} }

// ParkPassing says that an event is, or has become, a dead letter that blocks no lane: by its cause, or because an operator lets its tail go
// on without it.
func ParkPassing(seq uint64) Input { return Input{kind: parkPassing, seq: seq} }

// Redrive says that a dead letter has been moved to RETRY for its next cycle.
func Redrive(seq uint64) Input { return Input{kind: redrive, seq: seq} }

// Move says that an event's attempt has ended, or that it will have none, and that its way to RETRY, to the dead letters or to its end is
// being stored. It is optional: without it the event counts as running until that is stored.
func Move(seq uint64) Input { return Input{kind: move, seq: seq} }

// Hang says that the attempt of a running event does not end: its handler was given up and has not returned. What waits in Line would keep its place
// in memory for as long as that lasts, and is held instead.
func Hang(seq uint64) Input { return Input{kind: hang, seq: seq} }

// HeldNow says that the move which a Hold asked for is stored.
func HeldNow(seq uint64) Input { return Input{kind: heldNow, seq: seq} }

// ReleasedNow says that the move which a Release asked for is stored: the event waits in RETRY.
func ReleasedNow(seq uint64) Input { return Input{kind: releasedNow, seq: seq} }

// Cursor says that the owner has seen every sequence of the source stream up to seq. A lower one than before says nothing new.
func Cursor(seq uint64) Input { return Input{kind: cursor, seq: seq} }

// Pause is an operator's word that nothing of the lane may start; what runs ends. Arrivals are held.
func Pause() Input { return Input{kind: pause} }

// Resume ends a pause.
func Resume() Input { return Input{kind: resume} }

// String returns the input as it would be written in a test, for failing sequences and debug logs.
func (in Input) String() string {
	switch in.kind {
	case arrive:
		return fmt.Sprintf("Arrive(%d)", in.seq)
	case standing:
		return fmt.Sprintf("Standing(%d, %v)", in.seq, in.at)
	case done:
		return fmt.Sprintf("Done(%d)", in.seq)
	case retry:
		return fmt.Sprintf("Retry(%d)", in.seq)
	case due:
		return fmt.Sprintf("Due(%d)", in.seq)
	case park:
		return fmt.Sprintf("Park(%d)", in.seq)
	case parkPassing:
		return fmt.Sprintf("ParkPassing(%d)", in.seq)
	case redrive:
		return fmt.Sprintf("Redrive(%d)", in.seq)
	case move:
		return fmt.Sprintf("Move(%d)", in.seq)
	case heldNow:
		return fmt.Sprintf("HeldNow(%d)", in.seq)
	case releasedNow:
		return fmt.Sprintf("ReleasedNow(%d)", in.seq)
	case cursor:
		return fmt.Sprintf("Cursor(%d)", in.seq)
	case pause:
		return "Pause()"
	case resume:
		return "Resume()"
	case hang:
		return fmt.Sprintf("Hang(%d)", in.seq)
	}
	return fmt.Sprintf("Input(%d, %d)", in.kind, in.seq)
}

// Action is what an Effect asks for.
type Action uint8

// The actions.
const (
	Run     Action = iota + 1 // attempt the event
	Hold                      // move it from the source stream to HELD
	Release                   // move it from HELD to RETRY
)

// String returns the word for a in logs.
func (a Action) String() string {
	switch a {
	case Run:
		return "run"
	case Hold:
		return "hold"
	case Release:
		return "release"
	}
	return fmt.Sprintf("action(%d)", uint8(a))
}

// Effect is one thing that the owner is to do about one event.
type Effect struct {
	Action Action
	Seq    uint64
}

// String returns the effect as "run 7".
func (e Effect) String() string { return fmt.Sprintf("%v %d", e.Action, e.Seq) }
