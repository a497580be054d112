package torture_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/e2e/torture"
)

// write makes a log from a short text, one line each:
//
//	sent a1                about to be sent; the key is the letter
//	accepted a1 a2 b1      as the next sequences
//	7 begin a1 1.2         in process 7, cycle 1, attempt 2; without a number cycle 0, attempt 1
//	7 done a1 1.2          and likewise for the other outcomes
//	killed 7
//	1 asked discard a1 0   decision 1, about cycle 0; discard+ is with tail
//	1 answered applied
//	letter a1 0 exhausted  in the end
//	account accepted=1 …   in the end, of the function f
//
// All is about the function f, which is ordered and allows three attempts; u/a1 is about the function u, which is not.
func write(t *testing.T, text string) torture.Log {
	t.Helper()
	log := torture.Log{Functions: map[string]torture.Rules{"f": {Ordered: true, Allowed: 3}, "u": {Allowed: 3}}}
	end := torture.End{Letters: map[string][]torture.Letter{}, Accounts: map[string]torture.Counts{}}
	sequences := map[string]uint64{}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	named := func(l torture.Line, name string) torture.Line {
		l.Function, l.ID = "f", name
		if id, ok := strings.CutPrefix(name, "u/"); ok {
			l.Function, l.ID = "u", id
		}
		if l.Sequence = sequences[l.ID]; l.Function == "f" {
			l.Key = l.ID[:1]
		}
		return l
	}
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		switch {
		case len(w) == 0:
		case w[0] == "sent" || w[0] == "accepted":
			for _, id := range w[1:] {
				if w[0] == "accepted" {
					sequences[id] = uint64(len(sequences) + 1)
				}
				log.Lines = append(log.Lines, torture.Line{What: torture.What(w[0]), ID: id, Key: id[:1], Sequence: sequences[id]})
			}
		case w[0] == "killed" || w[0] == "stopped" || w[0] == "resumed":
			log.Lines = append(log.Lines, torture.Line{What: torture.What(w[0]), PID: number(w[1])})
		case w[0] == "letter":
			l := named(torture.Line{}, w[1])
			end.Letters[l.Function] = append(end.Letters[l.Function], torture.Letter{ID: l.ID, Sequence: l.Sequence, Cycle: number(w[2]), Cause: w[3]})
			log.End = &end
		case w[0] == "account":
			var a torture.Counts
			fields := map[string]*int{
				"accepted": &a.Accepted, "delivered": &a.Delivered, "pending": &a.Pending, "retrying": &a.Retrying, "held": &a.Held,
				"parked": &a.Parked, "discarded": &a.Discarded, "gone": &a.Gone,
			}
			for _, f := range w[1:] {
				name, value, _ := strings.Cut(f, "=")
				*fields[name] = number(value)
			}
			end.Accounts["f"] = a
			delete(log.Functions, "u") // there is one account here
			log.End = &end
		case w[1] == "asked":
			action, tail := strings.CutSuffix(w[2], "+")
			l := torture.Line{What: torture.Asked, Decision: number(w[0]), Action: action, Tail: tail, Cycle: number(w[4])}
			log.Lines = append(log.Lines, named(l, w[3]))
		case w[1] == "answered":
			log.Lines = append(log.Lines, torture.Line{What: torture.Answered, Decision: number(w[0]), Outcome: w[2]})
		default:
			l := torture.Line{PID: number(w[0]), What: torture.Finish, Outcome: w[1], Attempt: 1}
			if w[1] == "begin" {
				l.What, l.Outcome = torture.Begin, ""
			}
			if len(w) > 3 {
				if _, err := fmt.Sscanf(w[3], "%d.%d", &l.Cycle, &l.Attempt); err != nil {
					t.Fatal(err)
				}
			}
			log.Lines = append(log.Lines, named(l, w[2]))
		}
	}
	return log
}

// parked is a lane whose first event has been parked.
const parked = "accepted a1 a2 a3 \n 7 begin a1 \n 7 park a1 \n"

// passed is a lane of which the first event was parked and released, and the second one has been delivered.
const passed = parked + "1 asked release a1 0 \n 1 answered applied \n 7 begin a2 \n 7 done a2 \n"

// Each break of a promise has a twin, as like it as can be, that keeps it.
func TestCheckFindsEachBreakAndNotItsTwin(t *testing.T) {
	for _, tc := range []struct {
		name      string
		kind      torture.Kind
		bad, good string
	}{
		{
			"behind a retry", torture.Overtaken,
			"accepted a1 a2 \n 7 begin a1 \n 7 error a1 \n 7 begin a2",
			"accepted a1 a2 \n 7 begin a1 \n 7 error a1 \n 7 begin a1 0.2 \n 7 done a1 0.2 \n 7 begin a2",
		},
		{
			"before the first attempt of a lower one", torture.Overtaken,
			"accepted a1 a2 \n 7 begin a2",
			"accepted a2 a1 \n 7 begin a2",
		},
		{"other keys and functions without order", torture.Overtaken, parked + "7 begin a2", parked + "accepted b1 \n 7 begin b1 \n 7 begin u/a3 \n 7 begin u/a2"},
		{"behind what a kill interrupted", torture.Overtaken, "accepted a1 a2 \n 7 begin a1 \n killed 7 \n 8 begin a2", "accepted a1 a2 \n 7 begin a1 \n 7 done a1 \n killed 7 \n 8 begin a2"},
		{
			"behind the repeat of what was delivered", torture.Overtaken,
			"accepted a1 a2 \n 7 begin a1 \n 7 done a1 \n killed 7 \n 8 begin a1 \n 8 error a1 \n 8 begin a2",
			"accepted a1 a2 \n 7 begin a1 \n 7 done a1 \n killed 7 \n 8 begin a1 \n 8 done a1 \n 8 begin a2",
		},
		{
			"a stop is no kill", torture.Overlap,
			"accepted a1 a2 \n 7 begin a1 \n stopped 7 \n resumed 7 \n 7 begin a2",
			"accepted a1 a2 \n 7 begin a1 \n stopped 7 \n resumed 7 \n 7 done a1 \n 7 begin a2",
		},
		{"behind a dead letter", torture.Overtaken, parked + "7 begin a2", parked + "1 asked discard a1 0 \n 7 begin a2"},
		{"behind a discard that was refused", torture.Overtaken, parked + "1 asked discard a1 0 \n 1 answered refused \n 7 begin a2", parked + "1 asked discard a1 0 \n 1 answered stored \n 7 begin a2"},
		{"behind a discard to come", torture.Overtaken, parked + "7 begin a2 \n 1 asked discard a1 0", parked + "1 asked discard a1 0 \n killed 7 \n 8 begin a2"},
		{
			"behind a redrive", torture.Overtaken,
			parked + "1 asked redrive a1 0 \n 7 begin a1 1.1 \n 7 error a1 1.1 \n 7 begin a2",
			parked + "1 asked redrive a1 0 \n 7 begin a1 1.1 \n 7 done a1 1.1 \n 7 begin a2",
		},
		{
			"behind an edit", torture.Overtaken,
			parked + "1 asked edit a1 0 \n 7 begin a1 1.1 \n 7 error a1 1.1 \n 7 begin a2",
			parked + "1 asked edit a1 0 \n 7 begin a1 1.1 \n 7 done a1 1.1 \n 7 begin a2",
		},
		{
			"behind the discard of an earlier cycle", torture.Overtaken,
			parked + "1 asked discard a1 0 \n 2 asked redrive a1 0 \n 7 begin a1 1.1 \n 7 park a1 1.1 \n 7 begin a2",
			parked + "1 asked discard a1 0 \n 2 asked redrive a1 0 \n 7 begin a1 1.1 \n 7 park a1 1.1 \n 3 asked discard a1 1 \n 7 begin a2",
		},
		{"behind a release that was refused", torture.Overtaken, parked + "1 asked release a1 0 \n 1 answered refused \n 7 begin a2", parked + "1 asked release a1 0 \n 7 begin a2"},
		{
			"behind the release of an earlier cycle", torture.Overtaken,
			passed + "2 asked redrive a1 0 \n 7 begin a1 1.1 \n 7 park a1 1.1 \n 7 begin a3",
			passed + "2 asked redrive a1 0 \n 7 begin a1 1.1 \n 7 park a1 1.1 \n 3 asked release a1 1 \n 7 begin a3",
		},
		{
			"what was not discarded after all", torture.Overtaken,
			parked + "1 asked discard a1 0 \n 2 asked redrive a1 0 \n 7 begin a2 \n 7 done a2 \n 7 begin a1 1.1",
			parked + "1 asked release a1 0 \n 2 asked redrive a1 0 \n 7 begin a2 \n 7 done a2 \n 7 begin a1 1.1",
		},
		{
			"what was not discarded with a tail after all", torture.Overtaken,
			parked + "1 asked discard+ a1 0 \n 7 begin a3 \n 7 done a3 \n 7 begin a2",
			parked + "1 asked discard+ a1 0 \n 7 begin a2 \n 7 done a2 \n 7 begin a3",
		},
		{"behind a tail of which the head alone was discarded", torture.Overtaken, parked + "1 asked discard a1 0 \n 7 begin a3", parked + "1 asked discard+ a1 0 \n 7 begin a3"},
		{"behind a tail that was refused", torture.Overtaken, parked + "1 asked discard+ a1 0 \n 1 answered refused \n 7 begin a3", parked + "1 asked discard+ a1 0 \n 1 answered stored \n 7 begin a3"},
		{
			"behind what came after a tail", torture.Overtaken,
			parked + "1 asked discard+ a1 0 \n 1 answered applied \n sent a4 \n accepted a4 a5 \n 7 begin a5",
			parked + "1 asked discard+ a1 0 \n sent a4 \n 1 answered applied \n accepted a4 a5 \n 7 begin a5",
		},
		{
			"behind a tail that was refused, its head released", torture.Overtaken,
			parked + "1 asked release a1 0 \n 2 asked discard+ a1 0 \n 2 answered refused \n 7 begin a3",
			parked + "1 asked release a1 0 \n 2 asked discard+ a1 0 \n 2 answered unknown \n sent a4 \n accepted a4 a5 \n 7 begin a5",
		},
		{
			"what was discarded when it was released too late", torture.Overtaken,
			parked + "1 asked discard a1 0 \n 7 begin a2 \n 7 done a2 \n 2 asked release a1 0 \n 3 asked redrive a1 0 \n 7 begin a1 1.1",
			parked + "1 asked discard a1 0 \n 2 asked release a1 0 \n 7 begin a2 \n 7 done a2 \n 3 asked redrive a1 0 \n 7 begin a1 1.1",
		},
		{"behind a dead letter that passed in another cycle", torture.Overtaken, parked + "7 begin a2 \n letter a1 1 expired", parked + "7 begin a2 \n 7 done a2 \n 7 begin a3 \n 7 done a3 \n letter a1 0 set-aside \n account accepted=3 delivered=2 parked=1"},
		{
			"behind what was attempted after a tail", torture.Overtaken,
			parked + "1 asked discard+ a1 0 \n 1 answered applied \n 7 begin a2 \n 7 error a2 \n 7 begin a3",
			parked + "1 asked discard+ a1 0 \n 7 begin a2 \n 7 error a2 \n 1 answered applied \n 7 begin a3",
		},
		{"below the head of a tail", torture.Overtaken, passed + "2 asked discard+ a3 0 \n accepted a4 \n 3 asked redrive a1 0 \n 7 begin a1 1.1 \n 7 error a1 1.1 \n 7 begin a4", passed + "2 asked discard+ a3 0 \n accepted a4 \n 7 begin a4"},
		{"behind a dead letter that blocks", torture.Overtaken, parked + "7 begin a2 \n letter a1 0 exhausted", parked + "7 begin a2 \n 7 done a2 \n 7 begin a3 \n 7 done a3 \n letter a1 0 expired \n account accepted=3 delivered=2 parked=1"},

		{"two of one key", torture.Overlap, "accepted a1 a2 \n 7 begin a1 \n 7 begin a2", "accepted a1 b1 \n 7 begin a1 \n 7 begin b1"},
		{"two of one event without order", torture.Overlap, "accepted a1 \n 7 begin u/a1 \n 7 begin u/a1 0.2", "accepted a1 a2 \n 7 begin u/a1 \n 7 begin u/a2"},
		{
			"of a handler that was given up", torture.Overlap,
			"accepted a1 \n 7 begin a1 \n 1 asked redrive a1 0 \n 7 begin a1 1.1",
			"accepted a1 \n 7 begin u/a1 \n 1 asked redrive u/a1 0 \n 7 begin u/a1 1.1 \n 7 error u/a1 1.1 \n 7 begin u/a1 1.2 \n 7 error u/a1 0.1 \n 7 done u/a1 1.2",
		},
		{"across a kill", torture.Overlap, "accepted a1 \n 7 begin a1 \n killed 6 \n 7 begin a1 0.2", "accepted a1 \n 7 begin a1 \n killed 7 \n 8 begin a1 0.2"},
		{
			"behind a handler that does not return", torture.Overlap,
			"accepted a1 a2 \n 7 begin a1 \n 1 asked discard a1 0 \n 1 answered applied \n 7 begin a2",
			"accepted a1 a2 \n 7 begin a1 \n 1 asked discard a1 0 \n 1 answered applied \n 7 error a1 \n 7 begin a2",
		},

		{"in the same process", torture.AfterDelivery, "accepted a1 \n 7 begin a1 \n 7 done a1 \n 7 begin a1 0.2", "accepted a1 \n 7 begin a1 \n 7 done a1 \n killed 7 \n 8 begin a1"},
		{
			"twice for one kill", torture.AfterDelivery,
			"accepted a1 \n 7 begin a1 \n 7 done a1 \n killed 7 \n 8 begin a1 \n 8 done a1 \n 8 begin a1",
			"accepted a1 \n 7 begin a1 \n 7 done a1 \n killed 7 \n 8 begin a1 \n 8 done a1 \n killed 8 \n 9 begin a1",
		},
		{
			"after something higher has begun", torture.AfterDelivery,
			"accepted a1 a2 \n 7 begin a1 \n 7 done a1 \n 7 begin a2 \n 7 error a2 \n killed 7 \n 8 begin a1",
			"accepted a1 a2 \n 7 begin a1 \n 7 done a1 \n killed 7 \n 8 begin a1 \n 8 done a1 \n 8 begin a2",
		},
		{
			"after something higher has begun again", torture.AfterDelivery,
			passed + "2 asked redrive a1 0 \n 7 begin a1 1.1 \n 7 done a1 1.1 \n 7 begin a3 \n killed 7 \n 8 begin a1 1.1",
			passed + "2 asked redrive a1 0 \n 7 begin a1 1.1 \n 7 done a1 1.1 \n killed 7 \n 8 begin a1 1.1",
		},
		{"without order", torture.AfterDelivery, "accepted a1 \n 7 begin u/a1 \n 7 done u/a1 \n 7 begin u/a1", "accepted a1 a2 \n 7 begin u/a1 \n 7 done u/a1 \n 7 begin u/a2 \n 7 done u/a2 \n killed 7 \n 8 begin u/a1"},
		{
			"after a kill before the delivery", torture.AfterDelivery,
			"accepted a1 \n 7 begin a1 \n killed 7 \n 8 begin a1 \n 8 done a1 \n 8 begin a1",
			"accepted a1 \n 7 begin a1 \n killed 7 \n 8 begin a1 \n 8 done a1 \n killed 8 \n 9 begin a1",
		},

		{"answered as applied", torture.AfterDiscard, parked + "1 asked discard a1 0 \n 1 answered applied \n 2 asked redrive a1 0 \n 7 begin a1 1.1", parked + "1 asked discard a1 0 \n 1 answered unknown \n 2 asked redrive a1 0 \n 7 begin a1 1.1"},
		{"across a kill", torture.AfterDiscard, parked + "1 asked discard a1 0 \n 1 answered applied \n killed 7 \n 8 begin a1", parked + "2 asked redrive a1 0 \n 7 begin a1 1.1 \n 1 asked discard a1 0 \n 1 answered refused"},
		{"by the handler", torture.AfterDiscard, "accepted a1 \n 7 begin a1 \n 7 discard a1 \n 7 begin a1", "accepted a1 \n 7 begin a1 \n 7 discard a1 \n killed 7 \n 8 begin a1"},
		{
			"by the handler, with something higher begun", torture.AfterDiscard,
			"accepted a1 a2 \n 7 begin a1 \n 7 discard a1 \n 7 begin a2 \n killed 7 \n 8 begin a1",
			"accepted a1 a2 \n 7 begin a1 \n 7 discard a1 \n 7 begin a2 \n killed 7 \n 8 begin a2",
		},

		{
			"more than allowed", torture.TooOften,
			"accepted a1 \n 7 begin a1 \n 7 error a1 \n 7 begin a1 0.2 \n 7 error a1 0.2 \n 7 begin a1 0.3 \n 7 error a1 0.3 \n 7 begin a1 0.4",
			"accepted a1 \n 7 begin a1 \n 7 error a1 \n 7 begin a1 0.2 \n 7 error a1 0.2 \n 7 begin a1 0.3 \n killed 7 \n 8 begin a1 0.3",
		},
		{"the same attempt twice", torture.TooOften, "accepted a1 \n 7 begin a1 \n 7 error a1 \n 7 begin a1", "accepted a1 \n 7 begin a1 \n 7 error a1 \n killed 7 \n 8 begin a1"},
		{"the same attempt after a stop", torture.TooOften, "accepted a1 \n 7 begin a1 \n stopped 7 \n resumed 7 \n 7 error a1 \n 7 begin a1", "accepted a1 \n 7 begin a1 \n 7 interrupted a1 \n 7 begin a1"},
		{
			"twice for one kill", torture.TooOften,
			"accepted a1 \n 7 begin a1 \n killed 7 \n 8 begin a1 \n 8 error a1 \n 8 begin a1",
			"accepted a1 \n 7 begin a1 \n killed 7 \n 8 begin a1 \n killed 8 \n 9 begin a1",
		},
		{
			"an attempt before the last one", torture.TooOften,
			"accepted a1 \n 7 begin a1 \n 7 error a1 \n 7 begin a1 0.2 \n killed 7 \n 8 begin a1",
			"accepted a1 \n 7 begin a1 \n 7 error a1 \n 7 begin a1 0.2 \n killed 7 \n 8 begin a1 0.2",
		},
		{"a cycle that is over", torture.TooOften, parked + "1 asked redrive a1 0 \n 7 begin a1 1.1 \n killed 7 \n 8 begin a1 0.2", parked + "1 asked redrive a1 0 \n 7 begin a1 1.1 \n killed 7 \n 8 begin a1 1.1"},
		{"after it was parked", torture.TooOften, parked + "7 begin a1 0.2", parked + "killed 7 \n 8 begin a1 0.2"},
		{"after somebody saw it parked", torture.TooOften, parked + "1 asked redrive a1 0 \n 1 answered refused \n killed 7 \n 8 begin a1 0.2", parked + "killed 7 \n 8 begin a1 0.2"},

		{"an event that nobody sent", torture.Unasked, "accepted a1 \n 7 begin a2", "sent a2 \n accepted a1 a2 \n 7 begin a1"},
		{"a cycle that nobody began", torture.Unasked, parked + "1 asked discard a1 0 \n 1 answered refused \n 7 begin a1 1.1", parked + "1 asked redrive a1 0 \n 7 begin a1 1.1"},
		{"a cycle after a discard", torture.Unasked, parked + "1 asked discard a1 0 \n 7 begin a1 1.1", parked + "1 asked discard a1 0 \n 2 asked redrive a1 0 \n 7 begin a1 1.1"},
		{"a cycle whose redrive was refused", torture.Unasked, parked + "1 asked redrive a1 0 \n 1 answered refused \n 7 begin a1 1.1", parked + "1 asked redrive a1 0 \n 1 answered unknown \n 7 begin a1 1.1"},

		{
			"among dead letters that are looked at", torture.Both,
			"accepted a1 \n 7 begin a1 \n 7 done a1 \n 1 asked redrive a1 0",
			"accepted a1 \n 7 begin a1 \n 7 done a1 \n killed 7 \n 1 asked redrive a1 0",
		},
		{
			"among dead letters that are looked at again", torture.Both,
			parked + "1 asked redrive a1 0 \n 7 begin a1 1.1 \n 7 done a1 1.1 \n 2 asked discard a1 1",
			parked + "1 asked redrive a1 0 \n 7 begin a1 1.1 \n 7 done a1 1.1 \n 2 asked discard a1 0",
		},
		{
			"in the end", torture.Both,
			"accepted a1 \n 7 begin a1 \n 7 done a1 \n letter a1 0 exhausted \n account accepted=1 parked=1",
			"accepted a1 \n 7 begin a1 \n 7 done a1 \n killed 7 \n 8 begin a1 \n 8 park a1 \n letter a1 0 permanent \n account accepted=1 parked=1",
		},
		{
			"of a process that was not killed", torture.Both,
			"accepted a1 \n 7 begin a1 \n 7 done a1 \n letter a1 0 crash \n account accepted=1 parked=1",
			"accepted a1 \n 7 begin a1 \n 7 done a1 \n killed 7 \n letter a1 0 crash \n account accepted=1 parked=1",
		},

		{"never attempted", torture.Lost, "accepted a1 \n account accepted=1", "accepted a1 \n account accepted=1 pending=1"},
		{"failed", torture.Lost, "accepted a1 \n 7 begin a1 \n 7 error a1 \n account accepted=1 delivered=1", "accepted a1 \n 7 begin a1 \n 7 error a1 \n account accepted=1 retrying=1"},
		{"held", torture.Lost, parked + "letter a1 0 permanent \n account accepted=3 parked=1 held=1 delivered=1", parked + "letter a1 0 permanent \n account accepted=3 parked=1 held=2"},
		{"parked", torture.Lost, parked + "account accepted=3 held=2", parked + "letter a1 0 permanent \n account accepted=3 parked=1 held=2"},
		{
			"held behind a dead letter that was to be discarded", torture.Lost,
			parked + "1 asked discard a1 0 \n 1 answered unknown \n account accepted=3 held=2 discarded=1",
			parked + "1 asked discard a1 0 \n 1 answered unknown \n letter a1 0 permanent \n account accepted=3 parked=1 held=2",
		},
		{
			"held behind a dead letter that was to be released", torture.Lost,
			parked + "1 asked release a1 0 \n 1 answered applied \n letter a1 0 permanent \n account accepted=3 parked=1 held=2",
			parked + "1 asked release a1 0 \n 1 answered unknown \n letter a1 0 permanent \n account accepted=3 parked=1 held=2",
		},
		{
			"held behind nothing", torture.Lost,
			parked + "1 asked release a1 0 \n 1 answered applied \n letter a1 0 permanent \n account accepted=3 parked=1 held=2",
			parked + "1 asked release a1 0 \n 1 answered refused \n letter a1 0 permanent \n account accepted=3 parked=1 held=2",
		},
		{"by a discard that was refused", torture.Lost, parked + "1 asked discard+ a1 0 \n 1 answered refused \n account accepted=3 discarded=3", parked + "1 asked discard+ a1 0 \n 1 answered applied \n account accepted=3 discarded=3"},

		{"accepted", torture.Account, "accepted a1 \n 7 begin a1 \n 7 done a1 \n account accepted=2 delivered=1", "sent a2 \n accepted a1 \n 7 begin a1 \n 7 done a1 \n account accepted=1 delivered=1"},
		{"delivered", torture.Account, "accepted a1 \n 7 begin a1 \n 7 done a1 \n account accepted=1 discarded=1", "accepted a1 \n 7 begin a1 \n 7 done a1 \n account accepted=1 delivered=1"},
		{"delivered twice", torture.Account, "accepted a1 \n 7 begin a1 \n 7 done a1 \n account accepted=1 delivered=2", "accepted a1 \n 7 begin a1 \n 7 done a1 \n account accepted=1 delivered=1"},
		{"discarded by the handler", torture.Account, "accepted a1 \n 7 begin a1 \n 7 discard a1 \n account accepted=1 delivered=1", "accepted a1 \n 7 begin a1 \n 7 discard a1 \n account accepted=1 discarded=1"},
		{"parked", torture.Account, "accepted a1 \n 7 begin a1 \n 7 park a1 \n letter a1 0 permanent \n account accepted=1", "accepted a1 \n 7 begin a1 \n 7 park a1 \n letter a1 0 permanent \n account accepted=1 parked=1"},
		{"a dead letter of nothing", torture.Account, "accepted a1 \n 7 begin a1 \n 7 done a1 \n letter a2 0 permanent \n account accepted=1 delivered=1", "accepted a1 \n 7 begin a1 \n 7 done a1 \n account accepted=1 delivered=1"},
		{"two dead letters of one event", torture.Account, parked + "letter a1 0 permanent \n letter a1 0 permanent \n account accepted=3 parked=1 held=2", parked + "letter a1 0 permanent \n account accepted=3 parked=1 held=2"},
		{"gone", torture.Account, parked + "letter a1 0 permanent \n account accepted=3 parked=1 held=2 gone=1", parked + "letter a1 0 permanent \n account accepted=3 parked=1 held=2"},
		{"more that waits than there is", torture.Account, parked + "letter a1 0 permanent \n account accepted=3 parked=1 held=3", parked + "1 asked discard+ a1 0 \n letter a1 0 permanent \n account accepted=3 parked=1 held=2"},
		{"discards that nobody asked for", torture.Account, parked + "letter a1 0 permanent \n account accepted=3 parked=1 held=2 discarded=1", parked + "1 asked discard+ a1 0 \n account accepted=3 discarded=1 held=2"},
		{"fewer discards than events that are gone", torture.Account, parked + "1 asked discard+ a1 0 \n account accepted=3 discarded=2", parked + "1 asked discard+ a1 0 \n account accepted=3 discarded=3"},
	} {
		t.Run(string(tc.kind)+"/"+tc.name, func(t *testing.T) {
			if v := torture.Check(write(t, tc.bad)); v == nil || v.Kind != tc.kind {
				t.Errorf("got %v, want it %s", v, tc.kind)
			}
			if v := torture.Check(write(t, tc.good)); v != nil {
				t.Errorf("twin: got %v, want no violation", v)
			}
		})
	}
}

func TestCheckLooksAtTheKeyAndTheSequence(t *testing.T) {
	for name, change := range map[string]func(*torture.Line){
		"key":      func(l *torture.Line) { l.Key = "b" },
		"sequence": func(l *torture.Line) { l.Sequence = 9 },
	} {
		log := write(t, "accepted a1 \n 7 begin a1")
		if v := torture.Check(log); v != nil {
			t.Errorf("%s: got %v, want no violation", name, v)
		}
		change(&log.Lines[1])
		if v := torture.Check(log); v == nil || v.Kind != torture.Unasked {
			t.Errorf("%s: got %v, want it unasked", name, v)
		}
	}
}

func TestViolationShowsTheHistoryOfItsLaneAndNoOther(t *testing.T) {
	v := torture.Check(write(t, `sent a1
		accepted a1 b1 a2
		6 begin a1
		6 begin b1
		killed 6
		7 begin a1
		7 begin u/a1
		7 error a1
		1 asked discard b1 0
		1 answered unknown
		2 asked discard+ a1 0
		2 answered refused
		stopped 7
		7 begin a2
		7 done a2`))
	if v == nil || v.Kind != torture.Overtaken || v.Function != "f" || v.Key != "a" || v.Line != 15 {
		t.Fatalf("got %+v, want a2 in line 15 to overtake a1 of function f, key a", v)
	}
	if want := "function f, key a: attempt 1 of cycle 0 of a2 (sequence 3) begins, and a1 (sequence 1) is not finished: attempt 1 of cycle 0 ended with error"; v.Text != want {
		t.Errorf("got %q, want %q", v.Text, want)
	}
	want := `        1 00:00:00.000 a1: sent
        2 00:00:00.000 a1: accepted as sequence 1
        4 00:00:00.000 a2: accepted as sequence 3
        5 00:00:00.000 process 6: a1 (sequence 1) cycle 0 attempt 1 begins
        7 00:00:00.000 process 6: killed
        8 00:00:00.000 process 7: a1 (sequence 1) cycle 0 attempt 1 begins
       10 00:00:00.000 process 7: a1 (sequence 1) cycle 0 attempt 1 ends: error
       13 00:00:00.000 decision 2: discard with tail a1 (sequence 1) of cycle 0
       14 00:00:00.000 decision 2: refused
       15 00:00:00.000 process 7: stopped
>      16 00:00:00.000 process 7: a2 (sequence 3) cycle 0 attempt 1 begins`
	if diff := cmp.Diff(want, strings.Join(v.History, "\n")); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestReadLeavesOutWhatAKillTore(t *testing.T) {
	text := "\n" + `{"what":"begin","pid":7,"id":"a1","attributes":{"x":"y"}}` + "\n\n" + `{"what":"end","pi` + "\n" + `{"what":"killed","pid":7}` + "\n" + `{"what":"begin"`
	lines, err := torture.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []torture.Line{{What: torture.Begin, PID: 7, ID: "a1"}, {What: torture.Killed, PID: 7}}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestMeasure(t *testing.T) {
	f := torture.Measure(write(t, parked+`7 begin u/a1
		7 done u/a1
		7 begin u/a2
		killed 7
		8 begin u/a1
		8 done u/a1
		1 asked discard+ a1 0
		1 answered applied`).Lines)
	want := torture.Figures{
		Interrupted: map[int]int{7: 1},
		Outcomes:    map[string]map[string]int{"f": {"park": 1}, "u": {"done": 2}},
		Twice:       map[string]int{"u": 1},
		Decisions:   map[string]map[string]int{"discard with tail": {"applied": 1}},
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}
