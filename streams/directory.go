package streams

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// The files that the data directory holds beside the store and the ledgers.
const (
	lockFile   = "lock"      // the lock itself; always empty, never removed
	holderFile = "lock.json" // who holds the lock, for the one who is refused
	formatFile = "format"    // version of the layout, one decimal number
	storeDir   = "store"     // JetStream's own directory
)

// formatVersion is the version of the data directory's layout that this code reads and writes.
const formatVersion = 1

// LockedError says that another node holds the data directory.
type LockedError struct {
	Dir   string
	PID   int       // the holder's process, 0 if it did not say
	Since time.Time // when the holder took the lock, zero if it did not say
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("directory %s: locked by %s: hint: stop it or choose another --data-dir", e.Dir, e.Holder())
}

// Holder says who holds the directory, as far as that is known.
func (e *LockedError) Holder() string {
	if e.PID == 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d since %s", e.PID, e.Since.Format(time.RFC3339))
}

// FormatError says that the data directory is not one that this version can read.
type FormatError struct {
	Dir     string
	Version int // what the directory holds, 0 if that is no version
	Reason  string
	Hint    string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("directory %s: %s: hint: %s", e.Dir, e.Reason, e.Hint)
}

// UnwritableError says that the data directory, or a stream in it, cannot be written, and why.
type UnwritableError struct {
	Dir    string
	Reason string
	Hint   string
	Err    error // the cause, nil if only the server's words are known
}

func (e *UnwritableError) Error() string {
	return fmt.Sprintf("directory %s: not writable: %s: hint: %s", e.Dir, e.Reason, e.Hint)
}

func (e *UnwritableError) Unwrap() error { return e.Err }

// directory is a data directory that this process has to itself until release.
//
// JetStream takes no lock on its store: two servers on one directory both start, both acknowledge, and what one wrote
// the other overwrites. So the lock is ours and is taken before the server starts. It is an advisory lock of the
// operating system: it goes with the process however that ends, and a file left behind locks nothing.
type directory struct {
	path string
	lock *flock.Flock
	died *Ended
}

// Ended is what is known of a process that had the directory and did not give it back.
type Ended struct {
	PID   int
	Since time.Time // when it took the directory
	At    time.Time // its last sign of life
}

// openDirectory makes the directory if it is missing, locks it and checks its format. On an error nothing stays locked.
func openDirectory(path string) (*directory, error) {
	if path == "" {
		return nil, errors.New("data directory: empty: hint: name one with --data-dir")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", path, err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, unwritable(path, err)
	}
	d := &directory{path: path, lock: flock.New(filepath.Join(path, lockFile), flock.SetPermissions(0o600))}
	locked, err := d.lock.TryLock()
	if err != nil {
		return nil, errors.Join(unwritable(path, err), d.lock.Close())
	}
	if !locked {
		refusal := &LockedError{Dir: path}
		refusal.PID, refusal.Since = readHolder(path)
		// The handle is closed, not the lock: the lock was never ours.
		return nil, errors.Join(refusal, d.lock.Close())
	}
	if info, err := os.Stat(filepath.Join(path, holderFile)); err == nil {
		d.died = &Ended{At: info.ModTime()}
		d.died.PID, d.died.Since = readHolder(path)
	}
	if err := errors.Join(checkFormat(path), writeHolder(path)); err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

// Died says how the process ended that had the directory before, if it did not give it back.
func (n *Node) Died() (Ended, bool) {
	if n.dir.died == nil {
		return Ended{}, false
	}
	return *n.dir.died, true
}

// Alive leaves a sign of life for the process that comes after one that dies. It need not succeed.
func (n *Node) Alive() {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(n.dir.path, holderFile), now, now)
}

// release gives the directory back. The holder's name goes first, while the lock still keeps a successor from writing
// its own.
func (d *directory) release() error {
	if err := os.Remove(filepath.Join(d.path, holderFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, d.lock.Close())
	}
	return d.lock.Close()
}

// holder stands in its own file because Windows does not let others read a locked one.
type holder struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

func writeHolder(dir string) error {
	b, err := json.Marshal(holder{PID: os.Getpid(), Since: time.Now().Truncate(time.Second)})
	if err != nil {
		return err
	}
	return replaceFile(dir, holderFile, append(b, '\n'))
}

// readHolder returns zeros if the holder is not known, which is so for an instant after it has taken the lock.
func readHolder(dir string) (pid int, since time.Time) {
	var h holder
	b, err := os.ReadFile(filepath.Join(dir, holderFile))
	if err != nil || json.Unmarshal(b, &h) != nil {
		return 0, time.Time{}
	}
	return h.PID, h.Since
}

// checkFormat refuses a directory that is not ours or newer than this code, and marks an empty one as ours. The mark is
// on disk before the server writes anything, so a directory with a store and no mark was never made by us.
func checkFormat(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, formatFile))
	if errors.Is(err, fs.ErrNotExist) {
		stranger, err := findStranger(dir)
		if err != nil {
			return unwritable(dir, err)
		}
		if stranger != "" {
			return &FormatError{
				Dir:    dir,
				Reason: fmt.Sprintf("holds %q and no file %q", stranger, formatFile),
				Hint:   "choose an empty directory with --data-dir",
			}
		}
		return replaceFile(dir, formatFile, fmt.Appendf(nil, "%d\n", formatVersion))
	}
	if err != nil {
		return unwritable(dir, err)
	}
	text := strings.TrimSpace(string(b[:min(len(b), 40)]))
	version, err := strconv.Atoi(text)
	switch {
	case err != nil || version < 1 || len(b) > 40:
		return &FormatError{
			Dir:    dir,
			Reason: fmt.Sprintf("file %q holds %q, which is no version", formatFile, text),
			Hint:   "restore the directory from a backup or choose another --data-dir",
		}
	case version > formatVersion:
		return &FormatError{
			Dir: dir, Version: version,
			Reason: fmt.Sprintf("format %d is newer than %d, the newest this program reads", version, formatVersion),
			Hint:   "use the program version that wrote it, or a newer one",
		}
	}
	return nil
}

// findStranger returns the name of a file that an empty data directory would not hold, "" if there is none. A freshly
// made file system comes with lost+found, and a start that died left our own first files.
func findStranger(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		switch entry.Name() {
		case lockFile, holderFile, "lost+found", formatFile + ".tmp", holderFile + ".tmp":
		default:
			return entry.Name(), nil
		}
	}
	return "", nil
}

// replaceFile writes a small file so that a crash or a full disk leaves the old one or the new one, never a torn one.
func replaceFile(dir, name string, content []byte) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return unwritable(dir, err)
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return errors.Join(unwritable(dir, err), os.Remove(path+".tmp"))
	}
	return nil
}

// unwritable names the directory once: the path in the cause would only repeat it.
func unwritable(dir string, err error) *UnwritableError {
	reason := err.Error()
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		reason = path.Op + " " + filepath.Base(path.Path) + ": " + path.Err.Error()
	}
	return &UnwritableError{
		Dir: dir, Reason: reason, Err: err,
		Hint: "make it writable for this user and see that its disk has room, or choose another --data-dir",
	}
}
