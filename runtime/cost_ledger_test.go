package runtime

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// noMarks takes nothing down.
type noMarks struct{}

func (noMarks) Begin(streams.Run) (slot int, err error)  { return 0, nil }
func (noMarks) Reach(int, streams.Run, streams.RunState) {}
func (noMarks) End(int)                                  {}
func (noMarks) Mark(uint64) error                        { return nil }
func (noMarks) SetCursor(uint64)                         {}
func (noMarks) SetFloor(uint64)                          {}

// TestCostOfTheLedger drains a backlog with a handler that does nothing, with the ledger and without it, round by round.
func TestCostOfTheLedger(t *testing.T) {
	events, rounds := costSize(100_000), 5
	if underRace() {
		rounds = 1
	}
	dir := backlog(t, events, func(i int) string { return "k" + strconv.Itoa(i%1_000) })
	drain := func(unmarked marking) float64 {
		var calls tallied
		var takes atomic.Int64
		timing := defaultTiming()
		timing.unmarked = unmarked
		l := onCopy(t, dir).start(timing, []functions.Function{costFunction(&calls, &takes)})
		l.started()
		began := time.Now()
		until(t, 2*time.Minute, "all are handled", func() bool { return int(calls.others.Load()) == events })
		took := time.Since(began)
		l.remove()
		return float64(events) / took.Seconds()
	}
	var keeps []float64
	for round := range rounds {
		var with, without float64
		if round%2 == 0 { // whoever is second finds a machine that is warm, or tired
			with, without = drain(nil), drain(noMarks{})
		} else {
			without, with = drain(noMarks{}), drain(nil)
		}
		keeps = append(keeps, with/without)
		t.Attr("cost_ledger_round", fmt.Sprintf("%.0f/s with, %.0f/s without", with, without))
	}
	ratio(t, "cost_ledger_keeps", median(keeps), atLeast, 0.9)
}
