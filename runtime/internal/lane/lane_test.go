package lane

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A beat is one input and the effects that it must have, in order, as in "run 1, hold 2".
type beat struct {
	in   Input
	want string
}

func tell(t *testing.T, l *Lane, beats ...beat) {
	t.Helper()
	for i, b := range beats {
		if got := words(l.Step(b.in, nil)); got != b.want {
			t.Fatalf("input %d, %v: got effects %q, want %q", i, b.in, got, b.want)
		}
	}
}

func words(effects []Effect) string {
	var texts []string
	for _, e := range effects {
		texts = append(texts, e.String())
	}
	return strings.Join(texts, ", ")
}

// Stories that people who do this job have told, and the ones of our own rules. The cursor is far ahead unless a story moves it.
func TestLaneKeepsOrderThrough(t *testing.T) {
	stories := map[string]struct {
		rules   Rules
		beats   []beat
		blocker Position // at the end
		held    []uint64
	}{
		"a dead letter that is redriven": { // rebus-org/Rebus#1067
			beats: []beat{
				{Arrive(1), "run 1"}, {Arrive(2), ""}, {Park(1), "hold 2"}, {Arrive(3), "hold 3"}, {HeldNow(3), ""}, {HeldNow(2), ""},
				{Redrive(1), ""}, {Due(1), "run 1"}, {Done(1), "release 2"},
				{ReleasedNow(2), ""}, {Due(2), "run 2"}, {Done(2), "release 3"},
				{ReleasedNow(3), ""}, {Due(3), "run 3"}, {Done(3), ""}, {Arrive(4), "run 4"},
			},
		},
		"a retry with followers at its heels": { // apache/pulsar#15317, apache/pulsar#9582, apache/pulsar#23480
			beats: []beat{
				{Arrive(10), "run 10"}, {Arrive(11), ""}, {Arrive(12), ""}, {Retry(10), "hold 11, hold 12"}, {Arrive(13), "hold 13"},
				{HeldNow(11), ""}, {HeldNow(12), ""}, {HeldNow(13), ""}, {Arrive(14), "hold 14"}, {HeldNow(14), ""},
				{Due(10), "run 10"}, {Done(10), "release 11"},
				{ReleasedNow(11), ""}, {Due(11), "run 11"}, {Done(11), "release 12"},
				{ReleasedNow(12), ""}, {Due(12), "run 12"}, {Done(12), "release 13"},
				{ReleasedNow(13), ""}, {Due(13), "run 13"}, {Done(13), "release 14"},
			},
			blocker: Moving,
		},
		"an event that fails until it is dead": { // apache/pulsar-client-go#351
			beats: []beat{
				{Arrive(1), "run 1"}, {Arrive(2), ""}, {Retry(1), "hold 2"}, {HeldNow(2), ""}, {Due(1), "run 1"}, {Retry(1), ""},
				{Due(1), "run 1"}, {Park(1), ""},
			},
			blocker: Parked, held: []uint64{2},
		},
		"a second event a moment behind one that fails twice": { // lightninglabs/wavelength#435
			beats: []beat{
				{Arrive(1), "run 1"}, {Retry(1), ""}, {Arrive(2), "hold 2"}, {Due(1), "run 1"}, {HeldNow(2), ""}, {Retry(1), ""},
				{Due(1), "run 1"}, {Done(1), "release 2"}, {ReleasedNow(2), ""}, {Due(2), "run 2"}, {Done(2), ""},
			},
		},
		"a redrive while fresh ones arrive": { // amazon-sqs-developer-guide#45
			beats: []beat{
				{Standing(1, Parked), ""}, {Standing(3, Held), ""}, {Standing(2, Held), ""}, {Redrive(1), ""}, {Arrive(4), "hold 4"},
				{Due(1), "run 1"}, {Arrive(5), "hold 5"}, {HeldNow(5), ""}, {Done(1), "release 2"}, {HeldNow(4), ""},
				{ReleasedNow(2), ""}, {Due(2), "run 2"}, {Done(2), "release 3"}, {ReleasedNow(3), ""}, {Due(3), "run 3"},
				{Done(3), "release 4"}, {ReleasedNow(4), ""}, {Due(4), "run 4"}, {Done(4), "release 5"},
				{ReleasedNow(5), ""}, {Due(5), "run 5"}, {Done(5), ""},
			},
		},
		"a batch with a failure in its middle": { // aws-powertools/powertools-lambda-java#1140, aws-powertools/powertools-lambda-python#2981
			beats: []beat{
				{Arrive(1), "run 1"}, {Arrive(2), ""}, {Arrive(3), ""}, {Done(1), "run 2"}, {Retry(2), "hold 3"}, {HeldNow(3), ""},
			},
			blocker: Waiting, held: []uint64{3},
		},
		"a parked event with its tail, redriven": { // Azure/azure-service-bus#675, MicrosoftDocs/azure-docs#128317
			beats: []beat{
				{Arrive(1), "run 1"}, {Arrive(2), ""}, {Arrive(3), ""}, {Arrive(4), ""}, {Done(1), "run 2"}, {Park(2), "hold 3, hold 4"},
				{HeldNow(4), ""}, {HeldNow(3), ""}, {Redrive(2), ""}, {Due(2), "run 2"}, {Done(2), "release 3"},
				{ReleasedNow(3), ""}, {Due(3), "run 3"}, {Done(3), "release 4"}, {ReleasedNow(4), ""}, {Due(4), "run 4"},
			},
		},
		"a parked event with its tail, discarded": { // Azure/azure-service-bus#675
			beats: []beat{
				{Arrive(2), "run 2"}, {Park(2), ""}, {Arrive(3), "hold 3"}, {Arrive(4), "hold 4"}, {HeldNow(3), ""}, {HeldNow(4), ""},
				{Done(3), ""}, {Done(4), ""}, {Done(2), ""}, {Arrive(5), "run 5"},
			},
		},
		"an attempt that ends by a panic, an error and a timeout": { // Azure/azure-sdk-for-java#43855, Azure/azure-sdk-for-net#26618
			beats: []beat{
				{Arrive(1), "run 1"}, {Arrive(2), ""}, {Move(1), ""}, {Retry(1), "hold 2"}, {HeldNow(2), ""},
				{Due(1), "run 1"}, {Move(1), ""}, {Retry(1), ""}, {Due(1), "run 1"}, {Move(1), ""}, {Retry(1), ""},
			},
			blocker: Waiting, held: []uint64{2},
		},
		"a released event that fails for good": {
			beats: []beat{
				{Standing(1, Parked), ""}, {Standing(2, Held), ""}, {Standing(3, Held), ""}, {Done(1), "release 2"}, {ReleasedNow(2), ""},
				{Due(2), "run 2"}, {Park(2), ""},
			},
			blocker: Parked, held: []uint64{3},
		},
		"a replay below a waiting event": {
			beats: []beat{
				{Standing(5, Waiting), ""}, {Arrive(3), "run 3"}, {Arrive(4), ""}, {Arrive(6), "hold 6"}, {Due(5), ""}, {Done(3), "run 4"},
				{Done(4), "run 5"}, {HeldNow(6), ""}, {Done(5), "release 6"},
			},
			blocker: Moving,
		},
		"a replay below a running event": {
			beats: []beat{{Arrive(5), "run 5"}, {Arrive(3), ""}, {Arrive(6), ""}, {Retry(5), "run 3, hold 6"}, {Park(3), ""}, {Due(5), ""}},
			// 5 stands ready and 3 blocks.
			blocker: Parked,
		},
		"a burst beyond the bound": {
			rules: Rules{Bound: 2},
			beats: []beat{
				{Arrive(1), "run 1"}, {Arrive(2), ""}, {Arrive(3), ""}, {Arrive(4), "hold 4"}, {Done(1), "run 2"}, {Arrive(5), "hold 5"},
				{HeldNow(5), ""}, {HeldNow(4), ""}, {Done(2), "run 3"}, {Arrive(6), "hold 6"}, {Done(3), "release 4"},
				{HeldNow(6), ""}, {ReleasedNow(4), ""}, {Due(4), "run 4"}, {Done(4), "release 5"}, {ReleasedNow(5), ""}, {Due(5), "run 5"},
				{Done(5), "release 6"}, {ReleasedNow(6), ""}, {Due(6), "run 6"}, {Arrive(7), ""}, {Done(6), "run 7"},
			},
		},
		"a spill that is overtaken by the end of its line": {
			rules: Rules{Bound: 1},
			beats: []beat{{Arrive(1), "run 1"}, {Arrive(2), ""}, {Arrive(3), "hold 3"}, {Done(1), "run 2"}, {Done(2), ""}, {HeldNow(3), "release 3"}},
			// Nothing starts while the move to HELD is under way.
			blocker: Moving,
		},
		"a function that continues behind dead letters": {
			rules: Rules{Continue: true},
			beats: []beat{
				{Standing(1, Parked), ""}, {Arrive(2), "run 2"}, {Arrive(3), ""}, {Retry(2), "hold 3"}, {HeldNow(3), ""}, {Due(2), "run 2"},
				{Park(2), "release 3"}, {ReleasedNow(3), ""}, {Redrive(2), ""}, {Due(3), ""}, {Due(2), "run 2"}, {Done(2), "run 3"}, {Done(3), ""},
			},
		},
		"a dead letter that has expired": {
			beats: []beat{{Arrive(1), "run 1"}, {Arrive(2), ""}, {ParkPassing(1), "run 2"}, {Done(2), ""}},
		},
		"a blocker that is set aside": {
			beats: []beat{{Standing(1, Parked), ""}, {Standing(2, Held), ""}, {ParkPassing(1), "release 2"}, {Redrive(1), ""}, {ReleasedNow(2), ""}, {Due(2), ""}},
			// Redriven, it is the lowest again, and what was released for it waits.
			blocker: Waiting,
		},
		"a pause": {
			beats: []beat{
				{Arrive(1), "run 1"}, {Arrive(2), ""}, {Pause(), "hold 2"}, {Arrive(3), "hold 3"}, {HeldNow(3), ""}, {HeldNow(2), ""},
				{Done(1), ""}, {Resume(), "release 2"}, {ReleasedNow(2), ""}, {Pause(), ""}, {Due(2), ""}, {Resume(), "run 2"},
			},
			held: []uint64{3},
		},
		"a dead letter whose tail goes on without it": {
			beats: []beat{
				{Standing(1, Parked), ""}, {Standing(2, Held), ""}, {Standing(3, Held), ""}, {Standing(4, Held), ""}, {ParkPassing(1), "release 2"},
				{Arrive(5), "hold 5"}, {ReleasedNow(2), ""}, {Due(2), "run 2"}, {HeldNow(5), ""}, {Retry(2), ""}, {Due(2), "run 2"}, {Done(2), "release 3"},
				{ReleasedNow(3), ""}, {Redrive(1), ""}, {Due(3), ""}, {Due(1), "run 1"}, {Done(1), "run 3"}, {Done(3), "release 4"},
			},
			// Redriven, the dead letter went before what had not started yet.
			blocker: Moving, held: []uint64{5},
		},
		"a tail that goes on up to the next dead letter": {
			beats: []beat{
				{Standing(1, Parked), ""}, {Standing(2, Held), ""}, {Standing(3, Parked), ""}, {Standing(4, Held), ""}, {ParkPassing(1), "release 2"},
				{ReleasedNow(2), ""}, {Due(2), "run 2"}, {Done(2), ""},
			},
			blocker: Parked, held: []uint64{4},
		},
		"a higher dead letter that is let pass": {
			beats: []beat{
				{Standing(1, Parked), ""}, {Standing(2, Held), ""}, {Standing(3, Parked), ""}, {Standing(4, Held), ""}, {ParkPassing(3), ""},
				{Done(1), "release 2"}, {ReleasedNow(2), ""}, {Due(2), "run 2"}, {Done(2), "release 4"},
			},
			blocker: Moving,
		},
		"words that come late": {
			beats: []beat{
				{Arrive(1), "run 1"}, {Arrive(1), ""}, {Due(1), ""}, {Retry(1), ""}, {Arrive(2), "hold 2"}, {Arrive(2), ""}, {Done(2), ""}, {HeldNow(2), ""},
				{ReleasedNow(2), ""}, {Due(1), "run 1"}, {ReleasedNow(1), ""}, {Park(1), ""}, {Due(1), ""}, {Park(1), ""}, {Standing(1, Waiting), ""},
				{Arrive(0), ""}, {Due(0), ""},
			},
			blocker: Parked,
		},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			l := New(story.rules)
			tell(t, l, beat{Cursor(1000), ""})
			tell(t, l, story.beats...)
			if _, got := l.Blocker(); got != story.blocker {
				t.Errorf("got blocker %v, want %v", got, story.blocker)
			}
			if diff := cmp.Diff(story.held, l.Tail(0)); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
			if got, want := l.Held(), len(story.held); got != want {
				t.Errorf("got %d held, want %d", got, want)
			}
		})
	}
}

// After a crash a lower event may still be on its way from the source stream.
func TestNothingStartsBeforeTheCursorHasPassedIt(t *testing.T) {
	for name, in := range map[string][]Input{
		"from the source stream": {Arrive(7)},
		"from RETRY":             {Standing(7, Waiting), Due(7)},
		"from HELD":              {Standing(7, Held)},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(Rules{})
			for _, in := range in {
				tell(t, l, beat{in, ""})
			}
			if seq, ok := l.AwaitsCursor(); seq != 7 || !ok {
				t.Errorf("got awaiting (%d, %v), want (7, true)", seq, ok)
			}
			tell(t, l, beat{Cursor(4), ""}, beat{Arrive(5), ""}, beat{Cursor(5), "run 5"})
			if seq, ok := l.AwaitsCursor(); ok {
				t.Errorf("got awaiting %d while another runs, want none", seq)
			}
			tell(t, l, beat{Done(5), ""}, beat{Cursor(3), ""}, beat{Cursor(6), ""})
			if got := l.Step(Cursor(7), nil); len(got) != 1 || got[0].Seq != 7 || got[0].Action == Hold {
				t.Errorf("cursor at 7: got %v, want 7 to start", got)
			}
		})
	}
}

// A pause outlives the last event: the owner must not forget it with the lane.
func TestIdleMeansThatNothingIsToBeRemembered(t *testing.T) {
	l := New(Rules{})
	idle := func(want bool) {
		t.Helper()
		if got := l.Idle(); got != want {
			t.Fatalf("got idle %v, want %v", got, want)
		}
	}
	idle(true)
	l.Step(Cursor(9), nil)
	idle(true)
	l.Step(Arrive(1), nil)
	idle(false)
	l.Step(Pause(), nil)
	l.Step(Done(1), nil)
	idle(false)
	if !l.Paused() {
		t.Error("got not paused, want paused")
	}
	l.Step(Resume(), nil)
	idle(true)
}

func TestTailIsWhatIsHeldAboveADeadLetter(t *testing.T) {
	l := New(Rules{})
	for _, in := range []Input{
		Standing(9, Held), Standing(2, Held), Standing(4, Parked), Standing(6, Held), Standing(7, Waiting), Arrive(8), Standing(5, Parked),
	} {
		l.Step(in, nil)
	}
	for seq, want := range map[uint64][]uint64{0: {2, 6, 9}, 4: {6, 9}, 6: {9}, 9: {}} {
		if got := l.Tail(seq); !slices.Equal(got, want) {
			t.Errorf("tail of %d: got %v, want %v", seq, got, want)
		}
	}
}

// A lower dead letter is in the way of a higher one's redrive, wherever the lane's other events stand.
func TestLowestParkedIsTheFirstDeadLetterThatBlocks(t *testing.T) {
	l := New(Rules{})
	for _, step := range []struct {
		in   Input
		want uint64 // 0 is none
	}{
		{Standing(5, Held), 0}, {Standing(9, Parked), 9}, {Standing(3, Waiting), 9}, {Standing(4, Parked), 4}, {Park(4), 4}, {Standing(7, Parked), 4},
		{ParkPassing(4), 7}, {Redrive(7), 9}, {Park(7), 7}, {Done(7), 9}, {Redrive(4), 9}, {ParkPassing(4), 9}, {Redrive(9), 0},
	} {
		l.Step(step.in, nil)
		if got, ok := l.LowestParked(); got != step.want || ok != (step.want != 0) {
			t.Fatalf("%v: got %d (%v), want %d", step.in, got, ok, step.want)
		}
	}
	passing := New(Rules{Continue: true})
	passing.Step(Standing(1, Parked), nil)
	if got, ok := passing.LowestParked(); ok {
		t.Errorf("function that continues behind dead letters: got %d, want none", got)
	}
}
