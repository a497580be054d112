package runtime

import (
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"
)

// TestMain starts the server's access-time service outside every bubble: its goroutine waits on a channel of its package, and inside
// a bubble that would keep fake time from moving.
func TestMain(m *testing.M) {
	ats.Register()
	code := m.Run()
	ats.Unregister()
	os.Exit(code)
}
