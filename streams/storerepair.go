package streams

import (
	"crypto/sha256"
	"encoding/binary"
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
//
// A consumer's state is one file, which a power loss can leave zeroed or short. JetStream does not start such a consumer, and
// refuses to make one of its name while the file is there. Its folder goes: where it was is lost already, and a function's
// owner makes its own again behind the last event that the ledger calls settled.
func repairStore(store string, log *slog.Logger) error {
	metas, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", "*"))
	if err != nil {
		return fmt.Errorf("store %s: %w", store, err)
	}
	for _, dir := range metas {
		// JetStream marks streams that it is deleting with a dot. It would go on removing them beside its start, and call itself ill until that is done.
		if name, removed := strings.CutPrefix(filepath.Base(dir), "."); removed {
			if err := os.RemoveAll(dir); err != nil {
				return fmt.Errorf("stream %s: remove what is left of it: %w", name, err)
			}
			continue
		}
		err := repairStream(dir, log)
		if err == nil {
			err = repairConsumers(dir, log)
		}
		if err != nil {
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

func repairConsumers(dir string, log *slog.Logger) error {
	states, err := filepath.Glob(filepath.Join(dir, "obs", "*", "o.dat"))
	if err != nil {
		return err
	}
	for _, path := range states {
		state, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if readableConsumerState(state) {
			continue
		}
		consumer := filepath.Dir(path)
		log.Warn("removing a consumer whose state is damaged", slog.String("stream", filepath.Base(dir)), slog.String("consumer", filepath.Base(consumer)))
		if err := os.RemoveAll(consumer); err != nil {
			return err
		}
	}
	return nil
}

// readableConsumerState reports whether JetStream can read a consumer's state: a magic byte and a version, the ack floor and what
// was delivered (two numbers each), what is pending and what was redelivered. An empty file is no state yet.
func readableConsumerState(b []byte) bool {
	const magic = 22
	if len(b) == 0 {
		return true
	}
	if len(b) < 2 || b[0] != magic || b[1] < 1 || b[1] > 2 {
		return false
	}
	version := b[1]
	b = b[2:]
	whole := true
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			whole = false
			return 0
		}
		b = b[size:]
		return n
	}
	for range 4 {
		number()
	}
	if pending := number(); pending > 0 {
		number() // the time that the others count from; signed or not, it takes the same bytes
		for ; pending > 0 && whole; pending-- {
			for range 1 + version { // sequence, in version 2 also the consumer's, and time
				number()
			}
		}
	}
	for redelivered := number(); redelivered > 0 && whole; redelivered-- {
		number()
		number()
	}
	return whole
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
