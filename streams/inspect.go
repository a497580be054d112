package streams

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Inspection is what a data directory shows from outside, whether a node runs on it or not.
type Inspection struct {
	Dir    string
	Absent bool // there is no such directory; the rest is zero
	// Lock says who holds the directory, nil when nobody does.
	Lock *LockedError
	// Format says why this program does not read the directory, nil when it does. It reads an empty one.
	Format        *FormatError
	Free, Reserve int64 // bytes of its disk, and how many of them the store leaves free
	Used          int64 // bytes that the store takes
	Ledgers       []InspectedLedger
	Aside         []string // ledgers that a start did not trust
	Newest        time.Time
}

// InspectedLedger is one ledger file. Damage is nil for an intact one.
type InspectedLedger struct {
	Function string
	Damage   error
}

// Inspect looks at a data directory and changes nothing in it but the lock, which it takes for an instant to see whether it is free.
func Inspect(dir string) (Inspection, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Inspection{}, err
	}
	i := Inspection{Dir: dir}
	if _, err := os.ReadDir(dir); errors.Is(err, fs.ErrNotExist) {
		i.Absent = true
		return i, nil
	} else if err != nil {
		return i, err
	}
	if i.Lock, err = inspectLock(dir); err != nil {
		return i, err
	}
	if i.Format, err = inspectFormat(dir); err != nil {
		return i, err
	}
	free, total, err := diskSpace(dir)
	if err != nil {
		return i, err
	}
	i.Free, i.Reserve = free, reserveOf(total)
	if i.Used, err = usage(filepath.Join(dir, storeDir)); err != nil {
		return i, err
	}
	if err := i.ledgers(); err != nil {
		return i, err
	}
	i.Newest, err = newest(dir)
	return i, err
}

// inspectLock takes the lock if it is there and free, and lets go of it at once.
func inspectLock(dir string) (held *LockedError, err error) {
	path := filepath.Join(dir, lockFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDWR))
	free, err := lock.TryLock()
	if err != nil || free {
		return nil, errors.Join(err, lock.Close())
	}
	refusal := &LockedError{Dir: dir}
	refusal.PID, refusal.Since = readHolder(dir)
	return refusal, lock.Close()
}

// inspectFormat is checkFormat for a directory that is not ours to mark.
func inspectFormat(dir string) (refused *FormatError, err error) {
	if _, err := os.Stat(filepath.Join(dir, formatFile)); errors.Is(err, fs.ErrNotExist) {
		stranger, err := findStranger(dir)
		if err != nil || stranger == "" {
			return nil, err
		}
	}
	err = checkFormat(dir)
	if format, ok := errors.AsType[*FormatError](err); ok {
		return format, nil
	}
	return nil, err
}

func (i *Inspection) ledgers() error {
	entries, err := os.ReadDir(filepath.Join(i.Dir, ledgerDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		name := entry.Name()
		switch function, ok := strings.CutSuffix(name, ledgerSuffix); {
		case strings.Contains(name, ledgerSuffix+".aside-"):
			i.Aside = append(i.Aside, filepath.Join(ledgerDir, name))
		case ok:
			content, err := readIntactLedger(LedgerPath(i.Dir, function))
			if err == nil {
				err = CheckLedger(content)
			}
			i.Ledgers = append(i.Ledgers, InspectedLedger{Function: function, Damage: err})
		}
	}
	return err
}

// newest is the time of the file below dir that was written last.
func newest(dir string) (last time.Time, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil && info.ModTime().After(last) {
				last = info.ModTime()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return last, err
}
