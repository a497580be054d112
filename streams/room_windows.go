package streams

import "golang.org/x/sys/windows"

// diskSpace returns what this user may still write to the disk of path, and the disk's size.
func diskSpace(path string) (free, total int64, err error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, 0, err
	}
	var available, size uint64
	if err := windows.GetDiskFreeSpaceEx(p, &available, &size, nil); err != nil {
		return 0, 0, err
	}
	return int64(available), int64(size), nil
}
