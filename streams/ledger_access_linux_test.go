package streams

import (
	"os"
	"path/filepath"
	stdruntime "runtime"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user who owns nothing else.
const nobody = 65534

// asNobody runs f as a user without rights. Where the tests run as root, permissions would mean nothing.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		stdruntime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0); errno != 0 {
			t.Errorf("setfsuid: %v", errno)
			return
		}
		f()
	}()
	<-done
}

// TestLedgerWithoutPermission: a file that cannot be read or written is of no use, and one that cannot be put in its place either is an error
// that says what to do.
func TestLedgerWithoutPermission(t *testing.T) {
	const kept, aside, refused = "kept", "set aside", "refused"
	for _, tt := range []struct {
		name      string
		file, dir os.FileMode
		content   func([]byte) []byte // nil: there is no file
		left      bool                // something that cannot be written stands where a new one is made
		want      string
	}{
		{"all is allowed", 0o600, 0o700, same, false, kept},
		{"file is read-only", 0o400, 0o700, same, false, aside},
		{"file cannot be read", 0o200, 0o700, same, false, aside},
		{"file has no permissions", 0, 0o700, same, false, aside},
		{"directory is read-only, file is intact", 0o600, 0o500, same, false, kept},
		{"directory is read-only, file is read-only too", 0o400, 0o500, same, false, refused},
		{"directory is read-only, file is damaged", 0o600, 0o500, damaged, false, refused},
		{"directory is read-only, no file", 0, 0o500, nil, false, refused},
		{"file is damaged, and so is what a kill left", 0o600, 0o700, damaged, true, aside},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // the other user must come by
				t.Fatal(err)
			}
			path := filepath.Join(dir, "ledger")
			var before []byte
			if tt.content != nil {
				before = tt.content(intactFile(t))
				writeAs(t, path, before, tt.file)
			}
			if tt.left {
				writeAs(t, path+".new", []byte("x"), 0)
			}
			if err := os.Chown(dir, nobody, nobody); os.Getuid() == 0 && err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, tt.dir); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) //nolint:gosec // a directory
			var l *Ledger
			var state LedgerState
			var err error
			asNobody(t, func() { l, state, err = OpenLedger(path, testLedgerKey) })
			if l != nil {
				if err := l.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			got := kept
			switch {
			case err != nil:
				got = refused
			case !state.Kept():
				got = aside
			}
			if got != tt.want {
				t.Errorf("got %s (%+v, %v), want %s", got, state, err, tt.want)
			}
			stands := path
			switch {
			case got == refused && (!strings.Contains(err.Error(), "permission denied: hint: let this user write to "+dir) || l != nil):
				t.Errorf("got %v, want it to name the directory, with a hint", err)
			case got == aside && state.SetAside == "":
				t.Errorf("got %+v, want it set aside", state)
			case got == aside:
				stands = state.SetAside
			}
			if after, _ := os.ReadFile(stands); got != kept && string(after) != string(before) {
				t.Errorf("%s is not what stood there before", stands)
			}
		})
	}
}

func same(b []byte) []byte    { return b }
func damaged(b []byte) []byte { return b[:len(b)-1] }

// intactFile is the content of an intact ledger.
func intactFile(t *testing.T) []byte {
	t.Helper()
	l := heapLedger(t, emptyLedger(testLedgerKey), nil)
	if err := l.Mark(7); err != nil {
		t.Fatal(err)
	}
	return ledgerFileBytes(l.words)
}

func writeAs(t *testing.T, path string, content []byte, mode os.FileMode) {
	t.Helper()
	err := os.WriteFile(path, content, 0o600)
	if err == nil && os.Getuid() == 0 {
		err = os.Chown(path, nobody, nobody)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
