package streams

import (
	"errors"
	"fmt"
	"math"
)

// LedgerSlots is how many runs of one function can be in progress at once.
const LedgerSlots = 2048

// Run is one event whose handler runs, or a suspect: an event whose handler was
// running when the process died. The numbers must lie between 0 and 2^31-1.
type Run struct {
	Sequence uint64
	Cycle    int
	Attempt  int
	// Boot is the boot in which the handler started. Begin takes 0 for the present
	// one. A slot whose Boot is 0 is a suspect that does not run.
	Boot uint32
	// Crashes is how often the process died while this event ran.
	Crashes int
}

// RunningSlot is a slot in use.
type RunningSlot struct {
	Slot int
	Run
}

// A slot is four words: sequence, cycle and attempt, boot and crashes, and a seal
// over these and the slot's number. A seal of 0 is a free slot, whatever the other words say.
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
	return l.words != nil && slot >= 0 && slot < LedgerSlots && l.words[ledgerSlotIndex(slot)+ledgerSealAt] != 0
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
			running = append(running, RunningSlot{slot, decodeRun(l.words[ledgerSlotIndex(slot):])})
		}
	}
	return running
}

// Flip replaces what a slot in use says, as one step: after a kill it says the one
// or the other, and is never free. The error names a slot that is not in use.
func (l *Ledger) Flip(slot int, r Run) error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.words == nil {
		return ErrLedgerClosed
	}
	return l.flip(slot, r)
}

func (l *Ledger) flip(slot int, r Run) error {
	if !l.inUse(slot) {
		return fmt.Errorf("ledger %s: slot %d is not in use", l.path, slot)
	}
	words, err := encodeRun(slot, r)
	if err != nil {
		return fmt.Errorf("ledger %s: slot %d: %w", l.path, slot, err)
	}
	l.put(ledgerJournalAt, uint64(slot))
	l.putSlot(ledgerJournalAt+1, words)
	l.finishFlip()
	return nil
}

// finishFlip copies the journal, which is in use, to its slot and frees the journal.
func (l *Ledger) finishFlip() {
	slot := int(l.words[ledgerJournalAt])
	l.putSlot(ledgerSlotIndex(slot), [ledgerSlotWords]uint64(l.words[ledgerJournalAt+1:]))
	l.put(ledgerJournalAt+1+ledgerSealAt, 0)
}

// CleanStop ends what runs and closes: the next open finds no run that this process
// did not survive. An event with crashes keeps its slot and its count, with Boot 0,
// because stopping in time does not clear a suspect.
func (l *Ledger) CleanStop() error {
	l.gate.Lock()
	defer l.gate.Unlock()
	var errs error
	for _, r := range l.running() {
		if r.Crashes == 0 {
			l.put(ledgerSlotIndex(r.Slot)+ledgerSealAt, 0)
			continue
		}
		r.Boot = 0
		errs = errors.Join(errs, l.flip(r.Slot, r.Run))
	}
	return errors.Join(errs, l.unmap())
}

func (c *ledgerContent) inspectSlots(words []uint64) error {
	flipped := -1
	if journal := words[ledgerJournalAt:]; journal[1+ledgerSealAt] != 0 {
		if journal[0] >= LedgerSlots || journal[1+ledgerSealAt] != ledgerSlotSeal(int(journal[0]), journal[1:]) {
			return errors.New("journal: checksum does not match")
		}
		c.flip, flipped = true, int(journal[0])
	}
	for slot := LedgerSlots - 1; slot >= 0; slot-- {
		switch s := words[ledgerSlotIndex(slot):]; {
		case slot == flipped: // The journal holds the whole of it.
		case s[ledgerSealAt] == 0:
			c.free = append(c.free, slot)
		case s[ledgerSealAt] != ledgerSlotSeal(slot, s):
			return fmt.Errorf("slot %d: checksum does not match", slot)
		}
	}
	return nil
}
