package cli

import (
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/siding-dev/siding/runtime/client"
)

// TestBackupLeavesItsFileOrNothing looks at the directory after a backup that worked, one that the node refused, and one that came damaged.
func TestBackupLeavesItsFileOrNothing(t *testing.T) {
	for name, c := range map[string]struct {
		holds   bool
		damaged bool
		exit    int
		left    string
	}{
		"written": {true, false, client.ExitOK, "b.tar"},
		"refused": {false, false, client.ExitRefused, ""},
		"damaged": {true, true, client.ExitRefused, ""},
	} {
		server := httptest.NewServer(fakeNode(c.holds, ""))
		dir := t.TempDir()
		env := fakeEnv(strings.NewReader(""), io.Discard, io.Discard, func(string) string { return "" })
		if c.damaged {
			env.VerifyBackup = func(string) (client.Backup, error) {
				return client.Backup{}, client.NewProblem(client.Refused, "backup: damaged")
			}
		}
		code := run(t.Context(), []string{"backup", "--out", filepath.Join(dir, "b.tar"), "--server", server.URL}, env)
		server.Close()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if got := strings.Join(left, " "); code != c.exit || got != c.left {
			t.Errorf("%s: got exit %d and %q left, want %d and %q", name, code, got, c.exit, c.left)
		}
	}
}
