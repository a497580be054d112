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

// shrinkEvents makes what EVENTS reserves for itself fit into a store that has become smaller: others have filled the disk, or the directory was
// restored on a smaller one. JetStream takes no change of any stream, not even this one, while more is reserved than there is, so it is made in
// the file, before the server starts; repairStore completes it if a kill cuts it. What EVENTS holds stays, and may make it full.
func shrinkEvents(store string, limits Limits, log *slog.Logger) error {
	dirs, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", EventsStream))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := lowerMaxBytes(dir, limits.eventBytes(), log); err != nil {
			return fmt.Errorf("stream %s: limit: %w", EventsStream, err)
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
	log.Warn("the store has become smaller, and so has what events may take of it", slog.Int64("before", before), slog.Int64("now", most))
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
