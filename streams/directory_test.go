package streams

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDirectoryIsMadePrivateAndMarked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := openDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(path, formatFile)); err != nil || string(got) != "1\n" {
		t.Errorf("got format %q, %v, want %q", got, err, "1\n")
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		t.Errorf("got %v, %v, want a directory", info, err)
	} else if os.PathSeparator == '/' && info.Mode().Perm() != 0o700 {
		t.Errorf("got mode %v, want 0700", info.Mode().Perm())
	}
	if err := d.release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, holderFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for the holder's file after release, want that it does not exist", err)
	}
}

func TestDirectoryIsRefusedWhileHeldAndFreeAfterwards(t *testing.T) {
	path := t.TempDir()
	first, err := openDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = openDirectory(path)
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("got %v, want a LockedError", err)
	}
	if locked.PID != os.Getpid() || locked.Since.IsZero() {
		t.Errorf("got holder %d since %v, want %d and a time", locked.PID, locked.Since, os.Getpid())
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	second, err := openDirectory(path)
	if err != nil {
		t.Fatalf("got %v after release, want the directory", err)
	}
	if err := second.release(); err != nil {
		t.Fatal(err)
	}
}

// A machine that lost power leaves both files; neither locks anything.
func TestStaleLockFilesDoNotBlock(t *testing.T) {
	path := t.TempDir()
	write(t, filepath.Join(path, lockFile), "")
	write(t, filepath.Join(path, holderFile), `{"pid":1,"since":"2026-01-02T03:04:05Z"}`)
	d, err := openDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	if pid, _ := readHolder(path); pid != os.Getpid() {
		t.Errorf("got holder %d, want %d", pid, os.Getpid())
	}
	if err := d.release(); err != nil {
		t.Fatal(err)
	}
}

func TestHolderThatDidNotSayWhoItIsIsStillNamed(t *testing.T) {
	got := (&LockedError{Dir: "/d"}).Error()
	want := "directory /d: locked by another process: hint: stop it or choose another --data-dir"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFormatIsRefusedUnlessItIsOurs(t *testing.T) {
	for _, tc := range []struct {
		name    string
		format  string // "" = no file
		other   string // another file in the directory
		version int
		want    string // in the error; "" = accepted
	}{
		{name: "ours", format: "1\n"},
		{name: "ours with a store", format: "1\n", other: "store"},
		{name: "empty directory"},
		{name: "fresh file system", other: "lost+found"},
		{name: "first start that died", other: "format.tmp"},
		{name: "newer", format: "2\n", version: 2, want: "format 2 is newer than 1"},
		{name: "much newer", format: "41\n", version: 41, want: "format 41 is newer"},
		{name: "garbage", format: "\x00\x00", want: "which is no version"},
		{name: "nothing in it", format: "\n", want: "which is no version"},
		{name: "zero", format: "0\n", want: "which is no version"},
		{name: "negative", format: "-1\n", want: "which is no version"},
		{name: "a page", format: "1" + strings.Repeat(" ", 4096), want: "which is no version"},
		{name: "somebody else's files", other: "photos", want: `holds "photos"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := t.TempDir()
			if tc.format != "" {
				write(t, filepath.Join(path, formatFile), tc.format)
			}
			if tc.other != "" {
				write(t, filepath.Join(path, tc.other), "")
			}
			d, err := openDirectory(path)
			if tc.want == "" {
				if err != nil {
					t.Fatalf("got %v, want the directory", err)
				}
				if err := d.release(); err != nil {
					t.Fatal(err)
				}
				return
			}
			var format *FormatError
			if !errors.As(err, &format) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "hint: ") {
				t.Fatalf("got %v, want a FormatError with %q and a hint", err, tc.want)
			}
			if format.Version != tc.version {
				t.Errorf("got version %d, want %d", format.Version, tc.version)
			}
			// The refusal has let the lock go: the same error again, and not a LockedError.
			if _, err := openDirectory(path); !errors.As(err, &format) {
				t.Errorf("got %v the second time, want a FormatError", err)
			}
			if _, err := os.Stat(filepath.Join(path, storeDir)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("got %v for the store, want that it was not touched", err)
			}
		})
	}
}

// Permissions do not bind root, so a file stands where the directory should be.
func TestUnwritableDirectoryIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "")
	for _, path := range []string{path, filepath.Join(path, "below")} {
		_, err := openDirectory(path)
		var unwritable *UnwritableError
		if !errors.As(err, &unwritable) || unwritable.Dir != path || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("got %v, want an UnwritableError of %s with a hint", err, path)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
