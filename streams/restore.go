package streams

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// VerifyBackup reads the backup in a file and checks it without restoring it. The error is a *BackupError.
func VerifyBackup(path string) (Manifest, error) {
	return readBackup(path, func(string) (io.WriteCloser, error) { return discard{io.Discard}, nil })
}

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// Restore makes the directory dir from the backup in a file. dir must be missing or empty. Nothing is visible there before the whole backup
// has been read and every checksum has been compared: it is unpacked beside dir, and renamed. On an error nothing is left behind.
func Restore(path, dir string) (m Manifest, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return m, err
	}
	if err := restorableInto(dir); err != nil {
		return m, err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return m, unwritable(parent, err)
	}
	beside, err := os.MkdirTemp(parent, filepath.Base(dir)+".restoring-")
	if err != nil {
		return m, unwritable(parent, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(beside))
		}
	}()
	m, err = readBackup(path, func(name string) (io.WriteCloser, error) { return createIn(beside, name) })
	if err != nil {
		return m, err
	}
	// An empty directory is in the way of the rename on some systems, and one that something is mounted on cannot go.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, &BackupError{
			What: "directory " + dir, Reason: "not replaceable: " + unwritable(dir, err).Reason,
			Hint: "restore into a directory in it, and serve that", Err: err,
		}
	}
	if err := os.Rename(beside, dir); err != nil {
		return m, unwritable(parent, err)
	}
	syncLedgerDirectory(parent)
	return m, nil
}

func restorableInto(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &BackupError{What: "directory " + dir, Reason: "not readable as one", Hint: "name a directory that is empty or not there", Err: err}
	case len(entries) > 0:
		return &BackupError{
			What: "directory " + dir, Reason: fmt.Sprintf("not empty: holds %q", entries[0].Name()), Hint: "name a directory that is empty or not there",
		}
	}
	return nil
}

// createIn makes one file of a data directory, which is on the disk when it has been closed.
func createIn(dir, name string) (io.WriteCloser, error) {
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return synced{f}, nil
}

type synced struct{ *os.File }

func (s synced) Close() error { return errors.Join(s.Sync(), s.File.Close()) }

func readBackup(path string, create func(name string) (io.WriteCloser, error)) (Manifest, error) {
	refuse := func(err error) error {
		return &BackupError{What: "backup " + path, Reason: err.Error(), Hint: "nothing was restored; use another backup, or check how the file was copied", Err: err}
	}
	in, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, &BackupError{What: "backup " + path, Reason: "not found", Hint: "name a file that siding backup has written", Err: err}
	}
	if err != nil {
		return Manifest{}, refuse(err)
	}
	defer in.Close()
	m, err := CheckBackup(in, create)
	if err != nil {
		return m, refuse(err)
	}
	return m, nil
}
