package streams

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/minio/highwayhash"
)

// repairStore mends what a kill can leave behind in JetStream's store and what JetStream would answer by leaving the
// whole stream out, with a warning in the log as the only sign. It runs under the directory's lock, before the server.
//
// A stream's configuration is two files, meta.inf and its checksum meta.sum, each written at once but one after the
// other. Killed in between while a configuration is changed, the stream's checksum is that of the old one; the new
// checksum is written. Killed while a stream is created or deleted, a folder without a configuration stays; it goes,
// unless it holds messages: those are never removed here, and the start is refused.
func repairStore(store string, log *slog.Logger) error {
	metas, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", "*"))
	if err != nil {
		return fmt.Errorf("store %s: %w", store, err)
	}
	for _, dir := range metas {
		// JetStream marks streams that it is deleting with a dot and removes them itself.
		if strings.HasPrefix(filepath.Base(dir), ".") {
			continue
		}
		if err := repairStream(dir, log); err != nil {
			return fmt.Errorf("stream %s: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

func repairStream(dir string, log *slog.Logger) error {
	name := filepath.Base(dir)
	meta, err := os.ReadFile(filepath.Join(dir, "meta.inf"))
	if errors.Is(err, fs.ErrNotExist) {
		held, err := usage(filepath.Join(dir, "msgs"))
		if err != nil {
			return err
		}
		if held > 0 {
			return fmt.Errorf("%d bytes of messages without a configuration: hint: restore meta.inf and meta.sum from a backup, or move the folder %s away", held, dir)
		}
		log.Warn("removing what is left of a stream that was being created or deleted", slog.String("stream", name))
		return os.RemoveAll(dir)
	}
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(dir, "meta.sum"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	want, err := metaSum(name, meta)
	if err != nil || string(sum) == want {
		return err
	}
	var config struct{ Name string }
	if json.Unmarshal(meta, &config) != nil || config.Name != name {
		return fmt.Errorf("configuration damaged: hint: restore meta.inf and meta.sum from a backup, or move the folder %s away", dir)
	}
	log.Warn("completing a change of a stream's configuration that was cut off", slog.String("stream", name))
	return replaceFile(dir, "meta.sum", []byte(want))
}

// metaSum is the checksum that JetStream expects beside a stream's configuration.
func metaSum(stream string, meta []byte) (string, error) {
	key := sha256.Sum256([]byte(stream))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		return "", err
	}
	if _, err := h.Write(meta); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// usage adds up the sizes of all files below dir. A missing dir, or a file that goes away meanwhile, counts nothing.
func usage(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return total, err
}
