package runtime

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/demo"
)

// showDemo is the command demo: a story on a temporary node that is one like any other program's.
func showDemo(ctx context.Context, keep bool) error {
	// Whoever pages through the story and leaves would end the process before it has removed its directory.
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	return demo.Run(ctx, demo.Options{
		Out: os.Stdout, Live: isCharDevice(os.Stdout), Bold: isTerminal(os.Stdout), Keep: keep,
		Node: func(dir string, fn functions.Function) (demo.Node, error) {
			return New(Config{DataDir: dir, HTTP: "127.0.0.1:0", Grace: time.Second}, fn)
		},
	})
}
