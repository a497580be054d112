package streams

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edsrzf/mmap-go"
)

// LedgerWindow is how far beyond the floor a sequence can be marked. The bound
// keeps the file at about half a MiB whatever the length of the stream; it is one
// word less than the ring, because a window that starts inside a word ends inside one.
const LedgerWindow = (ledgerRingWords - 1) * ledgerWordBits

var (
	// ErrLedgerWindow says that a sequence lies further beyond the floor than
	// LedgerWindow: the owner must wait until the floor has moved.
	ErrLedgerWindow = errors.New("beyond the ledger's window; wait for the floor to move")
	// ErrLedgerSlots says that LedgerSlots runs are in progress already.
	ErrLedgerSlots = errors.New("all slots of the ledger are in use; end a run first")
	// ErrLedgerClosed is what a ledger answers after Close or CleanStop.
	ErrLedgerClosed = errors.New("ledger is closed")
)

// LedgerKey is the identity of a ledger: the function and the very stream whose
// sequences it counts. A stream that was deleted and made anew starts again at
// sequence 1, so its creation time belongs to the identity: marks of the old one
// would settle events that nobody has seen.
type LedgerKey struct {
	Function string
	Stream   string
	Created  time.Time
}

// Ledger remembers for one function which source sequences are settled and which
// events run. What a method has stored when it returns is found by the next
// OpenLedger, even after kill -9 a nanosecond later: the stores go to a mapped file,
// that is to the page cache, which outlives the process. JetStream's own acks do not
// have this property; it forgets the last 100 ms of them.
//
// A sequence is settled if it is at or below the floor or if its mark is set.
// Nothing is inferred: whatever is in doubt after a crash reads as not settled.
//
// # Why a kill at any instant is harmless
//
// Every change takes effect by one aligned 8-byte store, and all that this store
// depends on is stored before it. A mark and its check bits are one word. The floor
// is written beside the old value and then switched to. A slot's payload comes
// before the word that puts the slot in use, and how far the run has come is said
// by that word alone. The floor moves before the marks that it passes are cleared; marks left
// behind by a kill carry the previous lap of the ring and are dropped at open.
//
// Power loss is different, because the kernel writes pages back in any order. Call
// Sync where that matters. Without it, changes since the last write-back may be gone
// page by page: marks are absent then, runs that ended may still be listed, and what
// does not fit together is set aside at open.
//
// # Concurrency
//
// One goroutine owns the ledger and calls the methods that change it, and Running.
// Settled, Floor, Cursor, Marked, MarkedCount, Boot and Sync may be called from
// anywhere. After Close or CleanStop, which may come from anywhere too, methods with
// an error answer ErrLedgerClosed and the others do nothing and answer zero values:
// nothing is settled then. Boot stays.
//
// One limit is the file system's: the file has all its blocks from the beginning, so
// that a full disk cannot fail a mark (a fault on a page without a block kills the
// process by SIGBUS), but a copy-on-write file system needs new ones all the same.
type Ledger struct {
	path string
	boot uint32

	// gate keeps the mapping alive while a method uses it: all methods hold it
	// shared, Close holds it alone. It does not order the owner and the readers.
	gate   sync.RWMutex
	words  []uint64 // the mapped file; nil when closed
	mapped mmap.MMap
	file   *os.File // kept open, because Windows flushes a mapping through it; nil for a ledger in memory alone

	// What the words say, for readers. Each is published after the word itself,
	// except that the floor precedes the clearing of marks: a reader that finds a
	// mark gone therefore finds the floor above it.
	floor  atomic.Uint64
	cursor atomic.Uint64
	// highest is the highest word number that has had a mark. Readers look no further:
	// words beyond it may still hold marks of the previous lap while the floor moves.
	highest atomic.Uint64

	free []int // slots not in use, the owner's

	// Where power loss matters, the floor must be on the disk before the marks that it
	// passed are cleared: the kernel might write the cleared page alone. synced is the
	// floor that is on the disk. All words that the floor had passed when it stood at
	// cleared are empty; at emptied, they are so on the disk.
	clearAfterSync           bool
	synced, cleared, emptied atomic.Uint64

	// cut is called after each store to the mapping; tests take the words there,
	// as a kill at that instant would leave them. It is nil otherwise.
	cut func()
	// flushed is called when all is on the disk, for tests too.
	flushed func()
}

// put is the only way by which a ledger in use changes its file.
func (l *Ledger) put(at int, word uint64) {
	atomic.StoreUint64(&l.words[at], word)
	if l.cut != nil {
		l.cut()
	}
}

// Boot is a number that differs at each open of the file; it is never 0.
func (l *Ledger) Boot() uint32 { return l.boot }

// Floor is the sequence up to which everything is settled.
func (l *Ledger) Floor() uint64 { return l.floor.Load() }

// Cursor is the highest source sequence seen.
func (l *Ledger) Cursor() uint64 { return l.cursor.Load() }

// SetCursor raises the cursor to seq; a lower seq changes nothing.
func (l *Ledger) SetCursor(seq uint64) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.words == nil || seq <= l.cursor.Load() {
		return
	}
	l.setValue(ledgerCursorAt, seq)
	l.cursor.Store(seq)
}

// SetFloor declares everything up to seq settled and frees the marks that the floor
// passes for the next lap of the ring. It may jump any distance; a lower seq changes
// nothing.
func (l *Ledger) SetFloor(seq uint64) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.words == nil {
		return
	}
	floor := l.floor.Load()
	if seq <= floor {
		return
	}
	if l.clearAfterSync {
		l.setFloorAfterSync(seq)
		return
	}
	// A far jump takes two steps: the first passes every mark there is, so that the
	// second finds an empty ring. After a single one, a kill could leave marks from
	// many laps ago.
	near := min(seq-floor, LedgerWindow) + floor
	l.storeFloor(near)
	l.clearPassed(floor, near)
	if near < seq {
		l.clearWord(near / ledgerWordBits)
		l.storeFloor(seq)
	}
}

// ClearAfterSync has the ledger clear the marks that the floor has passed only when a
// Sync has brought that floor to the disk. Call it before the first change. It syncs.
func (l *Ledger) ClearAfterSync() error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	l.clearAfterSync = true
	l.cleared.Store(l.floor.Load())
	return l.flush()
}

// setFloorAfterSync moves the floor. The disk may have the new floor beside every mark that
// has not been cleared there, which must not be further behind it than a lap: a jump
// that is too far for that has to sync in the middle; if it cannot, the floor stays there.
func (l *Ledger) setFloorAfterSync(seq uint64) {
	near := min(seq, l.emptied.Load()+LedgerWindow)
	if near < seq {
		if l.flush() != nil {
			l.storeFloor(near)
			return
		}
		near = min(seq, l.emptied.Load()+LedgerWindow) // it passes every mark there is
	}
	l.storeFloor(near)
	if near < seq {
		if l.reclaim() != nil {
			return
		}
		l.clearWord(near / ledgerWordBits)
		if l.flush() != nil {
			return
		}
		l.storeFloor(seq)
		l.cleared.Store(seq) // the ring is empty
		l.emptied.Store(seq)
		_ = l.flush() // a mark must not stand beside the floor before this one; who waits for a Sync hears of an error
		return
	}
	l.clearSynced()
}

func (l *Ledger) clearSynced() {
	if synced, cleared := l.synced.Load(), l.cleared.Load(); synced > cleared {
		l.clearPassed(cleared, synced)
		l.cleared.Store(synced)
	}
}

// reclaim syncs and clears all that the floor has passed. Only what comes close to the
// window needs it: mostly the caller's own Sync has come before.
func (l *Ledger) reclaim() error {
	err := l.flush()
	if err == nil {
		l.clearSynced()
	}
	return err
}

func (l *Ledger) storeFloor(seq uint64) {
	l.setValue(ledgerFloorAt, seq)
	l.floor.Store(seq)
}

// clearPassed clears the words that the floor has wholly passed on its way, which is no
// longer than a window. The word that the floor stands in keeps its lower bits;
// readers mask them, and it is cleared when the floor leaves it.
func (l *Ledger) clearPassed(from, to uint64) {
	for n := from / ledgerWordBits; n < to/ledgerWordBits; n++ {
		l.clearWord(n)
	}
}

func (l *Ledger) clearWord(n uint64) {
	if at := ledgerRingIndex(n); atomic.LoadUint64(&l.words[at]) != 0 {
		l.put(at, 0)
	}
}

// Mark records that seq is settled. A sequence at or below the floor or already
// marked changes nothing. The error is ErrLedgerWindow if seq is too far beyond the
// floor, or ErrLedgerClosed.
func (l *Ledger) Mark(seq uint64) error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.words == nil {
		return ErrLedgerClosed
	}
	floor := l.floor.Load()
	if seq <= floor {
		return nil
	}
	if l.clearAfterSync && seq-l.cleared.Load() > LedgerWindow {
		if err := l.reclaim(); err != nil {
			return err
		}
	}
	if seq-floor > LedgerWindow {
		return fmt.Errorf("ledger %s: sequence %d with floor %d: %w", l.path, seq, floor, ErrLedgerWindow)
	}
	n, bit := seq/ledgerWordBits, seq%ledgerWordBits
	at := ledgerRingIndex(n)
	word := atomic.LoadUint64(&l.words[at])
	if word>>bit&1 == 1 {
		return nil
	}
	l.put(at, addLedgerMark(word, n, bit))
	if n > l.highest.Load() {
		l.highest.Store(n)
	}
	return nil
}

// Settled reports whether seq is at or below the floor or marked.
func (l *Ledger) Settled(seq uint64) bool {
	l.gate.RLock()
	defer l.gate.RUnlock()
	n := seq / ledgerWordBits
	switch {
	case l.words == nil:
		return false
	case seq <= l.floor.Load():
		return true
	case n > l.highest.Load():
		return false
	}
	word := atomic.LoadUint64(&l.words[ledgerRingIndex(n)])
	// The floor may have passed seq since, and its word may be empty or in its next
	// lap by now. Then the second look at the floor decides.
	return word>>(seq%ledgerWordBits)&1 == 1 || seq <= l.floor.Load()
}

// Marked yields the marks above the floor, ascending. Marks set or passed by the
// floor meanwhile may or may not be among them. The loop may call any method of l.
func (l *Ledger) Marked() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for n := uint64(0); ; n++ {
			marks, at, ok := l.nextMarks(n)
			if !ok {
				return
			}
			for n = at; marks != 0; marks &= marks - 1 {
				if !yield(n*ledgerWordBits + uint64(bits.TrailingZeros64(marks))) {
					return
				}
			}
		}
	}
}

// MarkedCount is the number of marks above the floor. It looks at each word from the
// floor to the highest mark.
func (l *Ledger) MarkedCount() int {
	count := 0
	for n := uint64(0); ; n++ {
		marks, at, ok := l.nextMarks(n)
		if !ok {
			return count
		}
		n = at
		count += bits.OnesCount64(marks)
	}
}

// nextMarks finds the first word from number n on that has marks above the floor.
// It holds the gate for this search alone, so that a caller between two of them may close the ledger.
func (l *Ledger) nextMarks(n uint64) (marks, at uint64, ok bool) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.words == nil {
		return 0, 0, false
	}
	highest := l.highest.Load()
	for n = max(n, l.floor.Load()/ledgerWordBits); n <= highest; n++ {
		word := atomic.LoadUint64(&l.words[ledgerRingIndex(n)])
		if word == 0 {
			continue
		}
		// The floor is read after the word: if the word was reused for a later lap,
		// the floor is past number n and masks everything.
		if marks := ledgerMarksAbove(word, n, l.floor.Load()); marks != 0 {
			return marks, n, true
		}
	}
	return 0, 0, false
}

// Sync writes the file to the disk and returns when the operating system says that
// it is there. Only a power loss needs it; a killed process does not.
func (l *Ledger) Sync() error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.words == nil {
		return ErrLedgerClosed
	}
	return l.flush()
}

// flush needs the gate.
func (l *Ledger) flush() error {
	floor, cleared := l.floor.Load(), l.cleared.Load()
	if l.file != nil {
		if err := l.mapped.Flush(); err != nil {
			return fmt.Errorf("ledger %s: sync: %w", l.path, err)
		}
	}
	if l.flushed != nil {
		l.flushed()
	}
	raise(&l.synced, floor)
	raise(&l.emptied, cleared)
	return nil
}

// raise makes v at least n.
func raise(v *atomic.Uint64, n uint64) {
	for is := v.Load(); n > is && !v.CompareAndSwap(is, n); is = v.Load() {
	}
}

// Snapshot returns the content of the file as it is between two changes, slots in use included: a file with these bytes is what a
// kill -9 at this instant would leave. The error is ErrLedgerClosed.
func (l *Ledger) Snapshot() ([]byte, error) {
	l.gate.Lock() // every change holds it shared, so that none is half done now
	defer l.gate.Unlock()
	if l.words == nil {
		return nil, ErrLedgerClosed
	}
	return slices.Clone(ledgerFileBytes(l.words)), nil
}

// Close lets go of the file and leaves the slots as they are: the next open finds
// what ran. A second Close does nothing.
func (l *Ledger) Close() error {
	l.gate.Lock()
	defer l.gate.Unlock()
	return l.unmap()
}

// unmap needs the gate exclusively.
func (l *Ledger) unmap() error {
	if l.words == nil {
		return nil
	}
	l.words, l.free = nil, nil
	for _, v := range []*atomic.Uint64{&l.floor, &l.cursor, &l.highest} {
		v.Store(0)
	}
	if l.file == nil {
		return nil
	}
	if err := errors.Join(l.mapped.Unmap(), l.file.Close()); err != nil {
		return fmt.Errorf("ledger %s: close: %w", l.path, err)
	}
	return nil
}
