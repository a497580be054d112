package streams

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// removeDeleted removes what is left of streams that were deleted. The server gives the directory of a deleted stream a name with a dot in front and
// empties it in the background; a process that dies meanwhile leaves a part of it, and the next server neither finishes that nor calls itself whole.
func removeDeleted(store string) error {
	dirs, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams"))
	if err != nil {
		return fmt.Errorf("deleted streams: %w", err)
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("deleted streams: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() && isDeleted(e) {
				if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
					return fmt.Errorf("deleted stream %s: %w", e.Name(), err)
				}
			}
		}
	}
	return nil
}

// isDeleted tells a stream's directory that is being emptied from one in use: no stream's name begins with a dot.
func isDeleted(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }
