package streams

import "fmt"

// Sync says when the store forces what it has acknowledged down to the disk.
type Sync string

const (
	// SyncInterval writes every event into the operating system's cache before it is acknowledged and forces the disk
	// every two minutes. Acknowledged events survive kill -9; a power loss can take the last two minutes. The zero
	// value of Sync means the same.
	SyncInterval Sync = "interval"
	// SyncAlways forces the disk for every event before it is acknowledged, which also survives a power loss and costs
	// more than nine tenths of the throughput. Ledgers come to the disk too, before what they allow is done: an
	// acknowledgement, and the next event of the key. The more events end at a time, the more of them share one sync.
	SyncAlways Sync = "always"
)

// ParseSync reads a Sync as a person writes it. The empty text is the default, SyncInterval.
func ParseSync(s string) (Sync, error) {
	switch Sync(s) {
	case "", SyncInterval:
		return SyncInterval, nil
	case SyncAlways:
		return SyncAlways, nil
	}
	return "", fmt.Errorf("sync %q: unknown: hint: use %q or %q", s, SyncInterval, SyncAlways)
}
