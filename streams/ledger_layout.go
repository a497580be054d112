package streams

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// The file is an array of 64-bit words in the machine's own byte order: a header of
// one page, the ring of marks, the slots. A file from a machine of the other byte
// order fails at its first word.
const (
	ledgerMagic   = 0x5349444c45444752 // "SIDLEDGR"
	ledgerVersion = 1

	// The header starts with magic, version, ring words, slots, four words of
	// identity, and the sum over these.
	ledgerVersionAt  = 1
	ledgerIdentityAt = 4
	ledgerSumAt      = 8
	// Values that change are three words each, and each has a cache line of its own.
	ledgerFloorAt  = 16
	ledgerCursorAt = 24
	ledgerBootAt   = 32 // The words from 40 on, up to the ring, are reserved.

	ledgerHeaderWords = 512
	ledgerRingWords   = 1 << 16
	ledgerWordBits    = 48
	ledgerSlotWords   = 4
	ledgerRingAt      = ledgerHeaderWords
	ledgerSlotsAt     = ledgerRingAt + ledgerRingWords
	ledgerWords       = ledgerSlotsAt + LedgerSlots*ledgerSlotWords
	ledgerBytes       = ledgerWords * 8
)

// A word of the ring holds 48 marks below 16 check bits. Word number n (sequence /
// 48) stands at n modulo the ring's length. The check bits are:
//
//   - bit 63, always set, so that a word with marks has two bytes that are not zero
//     and no damage to one byte can make it look empty;
//   - 15 bits: a CRC over the marks, combined with a hash of the place in the ring
//     and a code for the lap.
//
// The CRC is CAN's CRC-15 (x^15+x^14+x^10+x^8+x^7+x^4+x^3+1), which finds every error
// of up to five bits and every error inside one byte at this length. It is linear: a further
// mark changes the check by a constant, so setting one needs no sum over the word.
const (
	ledgerMarkBits  = 1<<ledgerWordBits - 1
	ledgerCRC       = 0x4599
	ledgerCRCBits   = 0x7fff
	ledgerWordInUse = 1 << 63
)

// ledgerMarkCRC is the CRC of each single mark; read-only.
var ledgerMarkCRC = func() (crc [ledgerWordBits]uint64) {
	c := uint64(ledgerCRC)
	for i := range crc {
		crc[i] = c
		if c <<= 1; c > ledgerCRCBits {
			c = (c ^ ledgerCRC) & ledgerCRCBits
		}
	}
	return crc
}()

func ledgerRingIndex(n uint64) int { return ledgerRingAt + int(n%ledgerRingWords) }

// ledgerWordCheck is the check of word number n while it has no marks. A word of
// another lap must never pass for one of this lap, not even with a damaged byte or two
// flipped bits: the codes of any two of eight consecutive laps differ by a value that is no CRC of
// such an error. The test of this file verifies these three constants.
func ledgerWordCheck(n uint64) uint64 {
	lap := n / ledgerRingWords
	code := lap&1*0x0221 ^ lap>>1&1*0x1a0f ^ lap>>2&1*0x4dc7
	place := (n % ledgerRingWords) * 0x9e3779b97f4a7c15 >> 49
	return ledgerWordInUse | (code^place)<<ledgerWordBits
}

// addLedgerMark returns word number n with the given mark added, which it must not have yet.
func addLedgerMark(word, n, bit uint64) uint64 {
	if word == 0 {
		word = ledgerWordCheck(n)
	}
	return (word | 1<<bit) ^ ledgerMarkCRC[bit]<<ledgerWordBits
}

// validLedgerMarks reports whether word is what word number n looks like with its marks.
func validLedgerMarks(word, n uint64) bool {
	check := ledgerWordCheck(n)
	for marks := word & ledgerMarkBits; marks != 0; marks &= marks - 1 {
		check ^= ledgerMarkCRC[bits.TrailingZeros64(marks)] << ledgerWordBits
	}
	return word&ledgerMarkBits != 0 && word&^ledgerMarkBits == check
}

// ledgerMarksAbove returns the marks of word number n for sequences above floor.
func ledgerMarksAbove(word, n, floor uint64) uint64 {
	marks := word & ledgerMarkBits
	if first := n * ledgerWordBits; floor >= first {
		marks &^= 1<<min(floor-first+1, ledgerWordBits) - 1
	}
	return marks
}

// ledgerHash chains words so that a change of any one of them changes the result. Its first
// and last bits are set: damage to one byte cannot turn it into 0, which means
// "nothing here".
func ledgerHash(words ...uint64) uint64 {
	h := uint64(ledgerMagic)
	for _, w := range words {
		h ^= w
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h | 1<<63 | 1
}

// A value is kept in three words: two cells, and a seal that is the hash of one of
// them. The cell without the seal is scratch.
func readLedgerValue(words []uint64, at int) (value uint64, cell int, err error) {
	for cell := range 2 {
		if words[at+2] == ledgerHash(uint64(at), uint64(cell), words[at+cell]) {
			return words[at+cell], cell, nil
		}
	}
	return 0, 0, errors.New("checksum does not match")
}

// setValue writes the scratch cell and then makes it the value by storing its seal.
func (l *Ledger) setValue(at int, value uint64) {
	_, cell, err := readLedgerValue(l.words, at)
	if err == nil {
		cell = 1 - cell
	}
	l.put(at+cell, value)
	l.put(at+2, ledgerHash(uint64(at), uint64(cell), value))
}

// identity hashes the key; lengths come first, so that no two keys run together.
func (k LedgerKey) identity() (words [4]uint64) {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(k.Function)))
	b = append(b, k.Function...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(k.Stream)))
	b = append(b, k.Stream...)
	b = binary.BigEndian.AppendUint64(b, uint64(k.Created.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(k.Created.Nanosecond()))
	sum := sha256.Sum256(b)
	for i := range words {
		words[i] = binary.BigEndian.Uint64(sum[i*8:])
	}
	return words
}

// emptyLedger is the content of a new file.
func emptyLedger(key LedgerKey) []uint64 {
	words := make([]uint64, ledgerWords)
	id := key.identity()
	copy(words, []uint64{ledgerMagic, ledgerVersion, ledgerRingWords, LedgerSlots})
	copy(words[ledgerIdentityAt:], id[:])
	words[ledgerSumAt] = ledgerHash(words[:ledgerSumAt]...)
	for _, at := range []int{ledgerFloorAt, ledgerCursorAt, ledgerBootAt} {
		words[at+2] = ledgerHash(uint64(at), 0, 0)
	}
	return words
}

// ledgerContent is what inspectLedger found, and what a kill left for adopt to finish.
type ledgerContent struct {
	floor, cursor, boot uint64
	highest             uint64 // number of the last word with marks
	stale               []int  // ring words of the previous lap, still to be cleared
	free                []int  // slots not in use, the lowest last
}

// inspectLedger reads a whole ledger without changing it. An error says in which way it is
// not a ledger of key, or damaged; the file is then of no use as a whole, since what
// is left of it may lie.
func inspectLedger(words []uint64, key LedgerKey) (c ledgerContent, err error) {
	if c, err = intactLedger(words); err != nil {
		return c, err
	}
	if [4]uint64(words[ledgerIdentityAt:]) != key.identity() {
		return c, fmt.Errorf("belongs to another function or stream than %s on %s created %s",
			key.Function, key.Stream, key.Created.UTC().Format("2006-01-02T15:04:05.999999999Z"))
	}
	return c, nil
}

// intactLedger is inspectLedger for a ledger of whatever function and stream.
func intactLedger(words []uint64) (c ledgerContent, err error) {
	if words[0] != ledgerMagic {
		return c, errors.New("not a ledger")
	}
	if v := words[ledgerVersionAt]; v != ledgerVersion {
		return c, fmt.Errorf("layout version %d, this program reads %d", v, ledgerVersion)
	}
	if words[ledgerSumAt] != ledgerHash(words[:ledgerSumAt]...) {
		return c, errors.New("header: checksum does not match")
	}
	if words[2] != ledgerRingWords || words[3] != LedgerSlots {
		return c, fmt.Errorf("has %d words and %d slots, want %d and %d", words[2], words[3], ledgerRingWords, LedgerSlots)
	}
	for _, v := range []struct {
		name string
		at   int
		to   *uint64
	}{{"floor", ledgerFloorAt, &c.floor}, {"cursor", ledgerCursorAt, &c.cursor}, {"boot", ledgerBootAt, &c.boot}} {
		if *v.to, _, err = readLedgerValue(words, v.at); err != nil {
			return c, fmt.Errorf("%s: %w", v.name, err)
		}
	}
	if err := c.inspectRing(words); err != nil {
		return c, err
	}
	return c, c.inspectSlots(words)
}

func (c *ledgerContent) inspectRing(words []uint64) error {
	first := c.floor / ledgerWordBits
	for n := first; n < first+ledgerRingWords; n++ {
		at := ledgerRingIndex(n)
		switch word := words[at]; {
		case word == 0:
		case validLedgerMarks(word, n):
			c.highest = n
		case n >= ledgerRingWords && validLedgerMarks(word, n-ledgerRingWords):
			c.stale = append(c.stale, at)
		default:
			return fmt.Errorf("marks of sequences %d to %d: checksum does not match", n*ledgerWordBits, n*ledgerWordBits+ledgerWordBits-1)
		}
	}
	return nil
}

// adopt makes the words, which have just been inspected, the ledger's own, and
// finishes what a kill interrupted. Each step may itself be interrupted and repeated.
func (l *Ledger) adopt(words []uint64, c ledgerContent) {
	l.words = words
	for _, at := range c.stale {
		l.put(at, 0)
	}
	l.boot = uint32(c.boot) + 1
	if l.boot == 0 {
		l.boot = 1
	}
	l.setValue(ledgerBootAt, uint64(l.boot))
	l.floor.Store(c.floor)
	l.cursor.Store(c.cursor)
	l.highest.Store(c.highest)
	l.free = c.free
}
