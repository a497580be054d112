//go:build linux || darwin

package streams

import "golang.org/x/sys/unix"

// diskSpace returns what this user may still write to the disk of path, and the disk's size.
func diskSpace(path string) (free, total int64, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, 0, err
	}
	return int64(stat.Bavail) * int64(stat.Bsize), int64(stat.Blocks) * int64(stat.Bsize), nil
}
