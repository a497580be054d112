package streams

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/edsrzf/mmap-go"
)

// LedgerState says what OpenLedger or ReadLedger found. The zero value: the file was
// there and is used as it was.
type LedgerState struct {
	// Fresh: there was no file. For a function that has run before, its marks are lost.
	Fresh bool
	// SetAside is the path to which OpenLedger moved a file of no use. A new file
	// stands in its place.
	SetAside string
	// Why is the reason why a file is of no use, for a person to read.
	Why string
}

// Kept reports whether the marks of earlier lives are there.
func (s LedgerState) Kept() bool { return !s.Fresh && s.Why == "" }

// OpenLedger opens the ledger of key at path, or makes it. What stands there but is no
// intact ledger of key (torn, cut, of another stream, of another layout, not to be read
// or not to be written, not even a file) is
// renamed to <path>.aside-<unix nanoseconds>, untouched, and a new one is made: marks
// are worth less than a start, because the last attempt record of each event tells
// the same more slowly. The error means that the directory cannot be written or the
// file not mapped.
//
// Only one process may have the file open, and only once; the lock on the data
// directory sees to that.
func OpenLedger(path string, key LedgerKey) (*Ledger, LedgerState, error) {
	var state LedgerState
	file, _, content, err := readLedger(path, key, os.O_RDWR)
	if err != nil {
		if state, err = replaceLedger(path, key, err); err != nil {
			return nil, LedgerState{}, fmt.Errorf("ledger %s: cannot be made: %w: hint: let this user write to %s, and see that its disk has room", path, err, filepath.Dir(path))
		}
		if file, _, content, err = readLedger(path, key, os.O_RDWR); err != nil {
			return nil, state, fmt.Errorf("ledger %s: just written, but: %w", path, err)
		}
	}
	mapped, err := mmap.MapRegion(file, ledgerBytes, mmap.RDWR, 0, 0)
	if err != nil {
		return nil, state, fmt.Errorf("ledger %s: map: %w: hint: the data directory needs a file system that maps files, which a network share may not", path, errors.Join(err, file.Close()))
	}
	l := &Ledger{path: path, mapped: mapped, file: file}
	if len(content.stale) > 0 { // the floor that passed them comes to the disk before they are cleared
		if err := mapped.Flush(); err != nil {
			return nil, state, fmt.Errorf("ledger %s: sync: %w", path, errors.Join(err, mapped.Unmap(), file.Close()))
		}
	}
	l.adopt(unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(mapped))), ledgerWords), content)
	return l, state, nil
}

// ReadLedger reads the ledger of key at path for somebody who only wants to know what it
// says. It changes no file: what is not there or of no use is left so, for the next
// OpenLedger to find, and reads as an empty ledger, as state says. What is changed in
// the ledger that it returns stays in memory.
func ReadLedger(path string, key LedgerKey) (l *Ledger, state LedgerState) {
	file, words, content, err := readLedger(path, key, os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		state.Fresh = true
	case err != nil:
		state.Why = err.Error()
	default:
		_ = file.Close() // nothing was written to it
	}
	if !state.Kept() {
		words = emptyLedger(key)
		content, _ = inspectLedger(words, key) // it is intact
	}
	l = &Ledger{path: path}
	l.adopt(words, content)
	return l, state
}

// readLedger reads and checks the whole file before it is mapped: a bad disk block is
// an error here and would be a signal there.
func readLedger(path string, key LedgerKey, flag int) (_ *os.File, words []uint64, content ledgerContent, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, content, err
	case !info.Mode().IsRegular():
		return nil, nil, content, fmt.Errorf("not a file but %s", info.Mode())
	case info.Size() != ledgerBytes:
		return nil, nil, content, fmt.Errorf("has %d bytes, want %d", info.Size(), ledgerBytes)
	}
	file, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, nil, content, err
	}
	words = make([]uint64, ledgerWords)
	if _, err = io.ReadFull(file, ledgerFileBytes(words)); err == nil {
		content, err = inspectLedger(words, key)
	}
	if err != nil {
		// Closed before the file is renamed, which Windows demands.
		return nil, nil, content, errors.Join(err, file.Close())
	}
	return file, words, content, nil
}

func ledgerFileBytes(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
}

// replaceLedger puts a new file at path and moves what stands there out of the way.
// The new file is complete before the old one is touched.
func replaceLedger(path string, key LedgerKey, why error) (LedgerState, error) {
	// The name is always the same, so that kills leave at most one behind. Whatever
	// stands there is removed first: it might not be ours to write.
	made := path + ".new"
	err := os.RemoveAll(made)
	if err == nil {
		err = writeLedger(made, key)
	}
	if err != nil {
		return LedgerState{}, err
	}
	state := LedgerState{Fresh: true}
	if !errors.Is(why, fs.ErrNotExist) {
		aside, err := ledgerAsideName(path)
		if err == nil {
			err = os.Rename(path, aside)
		}
		if err != nil {
			return LedgerState{}, errors.Join(err, os.Remove(made))
		}
		state = LedgerState{SetAside: aside, Why: why.Error()}
	}
	if err := os.Rename(made, path); err != nil {
		if state.SetAside != "" {
			err = errors.Join(err, os.Rename(state.SetAside, path))
		}
		return LedgerState{}, err
	}
	syncLedgerDirectory(filepath.Dir(path))
	return state, nil
}

// writeLedger writes every byte, zeros included, and syncs, so that each page has its
// block on the disk before it is mapped.
func writeLedger(path string, key LedgerKey) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(ledgerFileBytes(emptyLedger(key)))
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// ledgerAsideName finds a name that is not taken; the clock may stand still or go back.
func ledgerAsideName(path string) (string, error) {
	for nanos := time.Now().UnixNano(); ; nanos++ {
		name := fmt.Sprintf("%s.aside-%d", path, nanos)
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
}

// syncLedgerDirectory makes the new name survive power loss where the system can do
// that. Where it cannot, the file may be missing afterwards, which is safe: its marks
// are absent then. So an error here stops nobody.
func syncLedgerDirectory(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
