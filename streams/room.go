package streams

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"
)

// The reserve is a tenth of the disk within these bounds. It keeps the store's own limit, which refuses one publish,
// before the disk's limit, which makes streams unwritable until the server is started again.
const (
	minReserve = 64 << 20
	maxReserve = 10 << 30
)

// reserveOf returns what the store leaves free on a disk of this size. On a disk too small for the lower bound a
// quarter is enough.
func reserveOf(total int64) int64 {
	return min(max(total/10, minReserve), maxReserve, total/4)
}

// maxStore derives the store's limit: what it uses already and what is free, less the reserve. As the store grows the
// free part shrinks by as much, so restarts find the same limit. Where the reserve is gone already (somebody else
// filled the disk) half of what is left may be used: moving an event to its dead letters needs room too, and a node
// that can do nothing never gets better.
func maxStore(used, free, reserve int64) int64 {
	// The server takes 0 for "decide yourself", hence the floor.
	return max(used+max(free-reserve, free/2), 1<<20)
}

// deriveMaxStore is maxStore of a data directory. It looks at the disk once, at the first start, so that a restart
// of the server within this process keeps the limit.
func deriveMaxStore(dir string, log *slog.Logger) (int64, error) {
	free, total, err := diskSpace(dir)
	if err != nil {
		return 0, fmt.Errorf("directory %s: free disk space: %w", dir, err)
	}
	used, err := usage(filepath.Join(dir, storeDir))
	if err != nil {
		return 0, fmt.Errorf("directory %s: %w", dir, err)
	}
	reserve := reserveOf(total)
	limit := maxStore(used, free, reserve)
	level := slog.LevelInfo
	if free < reserve {
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "store limit derived from free disk space",
		slog.Int64("max_store", limit), slog.Int64("used", used), slog.Int64("free", free), slog.Int64("reserve", reserve))
	return limit, nil
}

// Room returns how many bytes are free on the data directory's disk and how many of them the store means to leave free.
func (n *Node) Room() (free, reserve int64, err error) {
	free, total, err := diskSpace(n.dir.path)
	if err != nil {
		return 0, 0, fmt.Errorf("directory %s: free disk space: %w", n.dir.path, err)
	}
	return free, reserveOf(total), nil
}

// HasRoom reports whether a restart after a full disk is worth while: at least half of the reserve is free. Asking for
// all of it could wait for ever, because a store at its limit leaves hardly more than the reserve.
func (n *Node) HasRoom() bool {
	free, reserve, err := n.Room()
	return err == nil && free >= reserve/2
}

// AwaitRoom returns when HasRoom, looking every poll. It returns early, with an error, if ctx ends, the node is closed
// or the disk cannot be asked.
func (n *Node) AwaitRoom(ctx context.Context, poll time.Duration) error {
	return n.awaitRoom(ctx, poll, n.Room)
}

func (n *Node) awaitRoom(ctx context.Context, poll time.Duration, room func() (free, reserve int64, err error)) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		free, reserve, err := room()
		if err != nil {
			return err
		}
		if free >= reserve/2 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("directory %s: %d bytes free, %d needed: %w", n.dir.path, free, reserve/2, context.Cause(ctx))
		case <-n.closing:
			return ErrNodeClosed
		case <-ticker.C:
		}
	}
}
