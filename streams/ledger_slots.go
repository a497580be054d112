package streams

import (
	"fmt"
	"math"
	"math/bits"
	"os"
	"sync/atomic"
)

// LedgerSlots is how many runs of one function can be in progress at once.
const LedgerSlots = 2048

// Run is one attempt of an event. The numbers must lie between 0 and 2^31-1.
type Run struct {
	Sequence uint64
	Cycle    int
	Attempt  int
	// Boot is the boot in which the attempt began. Begin takes 0 for the present
	// one.
	Boot uint32
	// Crashes is how often the process had died while the event ran, before this.
	Crashes int
}

// RunState is how far a run has come.
type RunState int

// The states. The first one is that of Begin; whoever calls the handler says the others.
const (
	RunBegun    RunState = iota // the handler was not called yet
	RunStarted                  // it was called
	RunReturned                 // it has returned, and what follows from that was not stored yet
)

// RunningSlot is a slot in use.
type RunningSlot struct {
	Slot int
	Run
	State RunState
}

// A slot is four words: sequence, cycle and attempt, boot and crashes, and a seal
// over these and the slot's number, which also says the state. A seal of 0 is a free slot, whatever the other words say.
const ledgerSealAt = ledgerSlotWords - 1

func ledgerSlotIndex(slot int) int { return ledgerSlotsAt + slot*ledgerSlotWords }

func encodeRun(slot int, r Run) (words [ledgerSlotWords]uint64, err error) {
	for _, n := range []struct {
		name  string
		value int
	}{{"cycle", r.Cycle}, {"attempt", r.Attempt}, {"crashes", r.Crashes}} {
		if n.value < 0 || n.value > math.MaxInt32 {
			return words, fmt.Errorf("sequence %d: %s %d is not between 0 and %d", r.Sequence, n.name, n.value, math.MaxInt32)
		}
	}
	words[0] = r.Sequence
	words[1] = uint64(r.Cycle)<<32 | uint64(r.Attempt)
	words[2] = uint64(r.Boot)<<32 | uint64(r.Crashes)
	words[ledgerSealAt] = ledgerSlotSeal(slot, words[:])
	return words, nil
}

func ledgerSlotSeal(slot int, words []uint64) uint64 {
	return ledgerHash(uint64(slot), words[0], words[1], words[2])
}

func decodeRun(words []uint64) Run {
	return Run{
		Sequence: words[0],
		Cycle:    int(words[1] >> 32),
		Attempt:  int(uint32(words[1])),
		Boot:     uint32(words[2] >> 32),
		Crashes:  int(uint32(words[2])),
	}
}

// sealed is a seal as it stands in a slot whose run has come so far.
func sealed(seal uint64, s RunState) uint64 {
	switch s {
	case RunStarted:
		return bits.RotateLeft64(seal, 32)
	case RunReturned:
		return ^seal
	case RunBegun:
	}
	return seal
}

// stateOf reads how far the run in a slot has come; false for a seal that is none of these words.
func stateOf(slot int, words []uint64) (s RunState, ok bool) {
	seal, stands := ledgerSlotSeal(slot, words), atomic.LoadUint64(&words[ledgerSealAt])
	for _, s := range []RunState{RunBegun, RunStarted, RunReturned} {
		if stands == sealed(seal, s) {
			return s, true
		}
	}
	return RunBegun, false
}

// Reach notes how far a run has come that Begin has given a slot. It is safe for concurrent use with everything else: a slot that has
// been ended, and may be another run's by now, stays as it is.
func (l *Ledger) Reach(slot int, r Run, s RunState) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.words == nil || slot < 0 || slot >= LedgerSlots {
		return
	}
	if r.Boot == 0 {
		r.Boot = l.boot
	}
	words, err := encodeRun(slot, r)
	if err != nil {
		return
	}
	at := &l.words[ledgerSlotIndex(slot)+ledgerSealAt]
	for _, before := range []RunState{RunBegun, RunStarted} {
		if before < s && atomic.CompareAndSwapUint64(at, sealed(words[ledgerSealAt], before), sealed(words[ledgerSealAt], s)) {
			if l.cut != nil {
				l.cut()
			}
			return
		}
	}
}

// Begin records that r runs and returns its slot. The error is ErrLedgerSlots if
// there is none free, or ErrLedgerClosed.
func (l *Ledger) Begin(r Run) (slot int, err error) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.words == nil {
		return -1, ErrLedgerClosed
	}
	if len(l.free) == 0 {
		return -1, fmt.Errorf("ledger %s: sequence %d: %w", l.path, r.Sequence, ErrLedgerSlots)
	}
	if r.Boot == 0 {
		r.Boot = l.boot
	}
	slot = l.free[len(l.free)-1]
	words, err := encodeRun(slot, r)
	if err != nil {
		return -1, fmt.Errorf("ledger %s: %w", l.path, err)
	}
	l.free = l.free[:len(l.free)-1]
	l.putSlot(ledgerSlotIndex(slot), words)
	return slot, nil
}

// putSlot stores the payload first and the seal last.
func (l *Ledger) putSlot(at int, words [ledgerSlotWords]uint64) {
	for i, w := range words {
		l.put(at+i, w)
	}
}

// End frees a slot. A slot that is not in use stays as it is.
func (l *Ledger) End(slot int) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.inUse(slot) {
		l.put(ledgerSlotIndex(slot)+ledgerSealAt, 0)
		l.free = append(l.free, slot)
	}
}

func (l *Ledger) inUse(slot int) bool {
	return l.words != nil && slot >= 0 && slot < LedgerSlots && atomic.LoadUint64(&l.words[ledgerSlotIndex(slot)+ledgerSealAt]) != 0
}

// Running lists the slots in use by number.
func (l *Ledger) Running() []RunningSlot {
	l.gate.RLock()
	defer l.gate.RUnlock()
	return l.running()
}

func (l *Ledger) running() []RunningSlot {
	var running []RunningSlot
	for slot := range LedgerSlots {
		if l.inUse(slot) {
			words := l.words[ledgerSlotIndex(slot):]
			state, _ := stateOf(slot, words)
			running = append(running, RunningSlot{slot, decodeRun(words), state})
		}
	}
	return running
}

// CleanStop ends what runs and closes: the next open finds no run that this process
// did not survive.
func (l *Ledger) CleanStop() error {
	l.gate.Lock()
	defer l.gate.Unlock()
	for _, r := range l.running() {
		l.put(ledgerSlotIndex(r.Slot)+ledgerSealAt, 0)
	}
	return l.unmap()
}

func (c *ledgerContent) inspectSlots(words []uint64) error {
	for slot := LedgerSlots - 1; slot >= 0; slot-- {
		s := words[ledgerSlotIndex(slot):]
		_, whole := stateOf(slot, s)
		switch {
		case s[ledgerSealAt] == 0:
			c.free = append(c.free, slot)
		case !whole:
			return fmt.Errorf("slot %d: checksum does not match", slot)
		}
	}
	return nil
}

// LedgerRuns lists what the ledger at a path says was running when the process that
// had it open died. The file is only read, and nothing comes of one that cannot be
// trusted, which is for whoever opens it to say.
func LedgerRuns(path string) []RunningSlot {
	content, err := os.ReadFile(path)
	if err != nil || len(content) != ledgerBytes {
		return nil
	}
	words := make([]uint64, ledgerWords)
	copy(ledgerFileBytes(words), content)
	if _, err := intactLedger(words); err != nil {
		return nil
	}
	return (&Ledger{words: words}).running()
}
