package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	stdruntime "runtime"
	"testing"

	"go.uber.org/goleak"
)

// binaries are the two programs under test.
type binaries struct {
	siding string // the stock one
	node   string // a user's, with functions that do what a test asks for
}

// built is set once, by TestMain, which has no other way to hand something to tests.
var built binaries

// TestMain builds the programs as a user would: without the race detector and without anything that is made for tests.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if smallDisk() { // this process is to become a node on a small disk
		return 1
	}
	dir, err := os.MkdirTemp("", "siding-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir, "../runtime/cmd/siding", "./node")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the programs: %v\n%s", err, out)
		return 1
	}
	suffix := ""
	if stdruntime.GOOS == "windows" {
		suffix = ".exe"
	}
	built = binaries{siding: filepath.Join(dir, "siding"+suffix), node: filepath.Join(dir, "node"+suffix)}
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
