//go:build unix

package streams_test

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// TestFileThatMayNotGrowIsReportedAndRepairedByRestart needs no privilege: a limit on the size of files stands for the
// full disk. It binds the whole process, so the story is told by a child.
func TestFileThatMayNotGrowIsReportedAndRepairedByRestart(t *testing.T) {
	if dir := os.Getenv(fullDiskVariable); dir != "" {
		signal.Ignore(syscall.SIGXFSZ) // the write then fails instead
		var before syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
		small := before
		small.Cur = 1 << 20
		surviveFullDisk(t, dir,
			func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small) },
			func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before) })
		return
	}
	tell(t, exec.CommandContext(t.Context(), os.Args[0]), t.TempDir())
}

// tell runs the calling test once more in a child with dir as its disk.
func tell(t *testing.T, child *exec.Cmd, dir string) {
	t.Helper()
	child.Args = append(child.Args, "-test.v", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), fullDiskVariable+"="+dir)
	out, err := child.CombinedOutput()
	t.Logf("child:\n%s", out)
	if err != nil {
		t.Fatalf("child: %v", err)
	}
}
