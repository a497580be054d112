package streams

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// copyStreamHead copies what a stream is, and how far its consumers have read: everything but its messages. Each of these files is
// replaced as a whole by the server, so that none is torn. A consumer can come and go meanwhile: whoever browses makes some.
func copyStreamHead(ctx context.Context, to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case name == "msgs":
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case !entry.Type().IsRegular() || strings.HasSuffix(name, ".tmp"):
			return nil
		}
		if err := copyFile(ctx, filepath.Join(to, name), path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// copyMessages copies a stream's messages. The index comes first and the blocks in the order in which they were written, so that the
// copy is a beginning of what was written, with an index no newer than it: that is what kills leave, and what the server mends. When
// a block goes away meanwhile (somebody removes old messages of a stream of theirs) the copy is begun anew.
func copyMessages(ctx context.Context, to, from string) error {
	for try := 1; ; try++ {
		err := copyBlocks(ctx, filepath.Join(to, "msgs"), filepath.Join(from, "msgs"))
		if !errors.Is(err, fs.ErrNotExist) || try == 5 {
			return err
		}
		if err := os.RemoveAll(filepath.Join(to, "msgs")); err != nil {
			return err
		}
	}
}

func copyBlocks(ctx context.Context, to, from string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	const index = "index.db"
	if err := copyFile(ctx, filepath.Join(to, index), filepath.Join(from, index)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	var names []string
	for _, entry := range entries {
		if name := entry.Name(); entry.Type().IsRegular() && name != index && !strings.HasSuffix(name, ".tmp") {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(blockNumber(a), blockNumber(b)), strings.Compare(a, b))
	})
	for _, name := range names {
		if err := copyFile(ctx, filepath.Join(to, name), filepath.Join(from, name)); err != nil {
			return err
		}
	}
	return nil
}

// blockNumber is the number of a block of messages, 0 for another file.
func blockNumber(name string) uint64 {
	digits, _, _ := strings.Cut(name, ".")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func copyFile(ctx context.Context, to, from string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// listFiles lists the regular files below dir by their paths in it, with slashes.
func listFiles(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, filepath.ToSlash(name))
		return err
	})
	slices.Sort(files)
	return files, err
}
