package streams

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// shrinkReserved makes what EVENTS and SIDING_OPS reserve for themselves fit into a store that has become smaller: others have filled the disk, or the directory was
// restored on a smaller one. JetStream takes no change of any stream, not even this one, while more is reserved than there is, so it is made in
// the file, before the server starts; repairStore completes it if a kill cuts it. What EVENTS holds stays, and may make it full.
func shrinkReserved(store string, limits Limits, log *slog.Logger) error {
	for name, most := range map[string]int64{EventsStream: limits.eventBytes(), OpsStream: limits.opsBytes()} {
		dirs, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", name))
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if err := lowerMaxBytes(dir, most, log); err != nil {
				return fmt.Errorf("stream %s: limit: %w", name, err)
			}
		}
	}
	return nil
}

func lowerMaxBytes(dir string, most int64, log *slog.Logger) error {
	meta, err := os.ReadFile(filepath.Join(dir, "meta.inf"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var config map[string]json.RawMessage
	var before int64
	if err := json.Unmarshal(meta, &config); err != nil {
		return err
	}
	if limit, limited := config["max_bytes"]; !limited {
		return nil
	} else if err := json.Unmarshal(limit, &before); err != nil || before <= most {
		return err
	}
	log.Warn("the store has become smaller, and so has what a stream may take of it", slog.String("stream", filepath.Base(dir)), slog.Int64("before", before), slog.Int64("now", most))
	if config["max_bytes"], err = json.Marshal(most); err != nil {
		return err
	}
	if meta, err = json.Marshal(config); err != nil {
		return err
	}
	sum, err := metaSum(filepath.Base(dir), meta)
	if err != nil {
		return err
	}
	if err := replaceFile(dir, "meta.inf", meta); err != nil {
		return err
	}
	return replaceFile(dir, "meta.sum", []byte(sum))
}
