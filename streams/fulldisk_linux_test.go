package streams_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFullDiskIsReportedAndRepairedByRestart tells the story on a real file system of 8 MiB that somebody else fills. A
// child mounts it in a mount namespace of its own, which needs no cleaning up; who is not root becomes root in a user
// namespace for it. It is not skipped where both are forbidden: allow one of them, or do without this test by name.
func TestFullDiskIsReportedAndRepairedByRestart(t *testing.T) {
	if dir := os.Getenv(fullDiskVariable); dir != "" {
		// What is mounted here must not spread to the parent's namespace.
		if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
			t.Fatal(err)
		}
		ballast := filepath.Join(dir, "ballast")
		surviveFullDisk(t, filepath.Join(dir, "data"),
			func() error { return os.WriteFile(ballast, make([]byte, 6<<20), 0o600) },
			func() error { return os.Remove(ballast) })
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		child.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		child.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		child.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	tell(t, child, t.TempDir())
}
