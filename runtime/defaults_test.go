package runtime

import (
	"testing"
	"time"

	"github.com/siding-dev/siding/runtime/internal/config"
	"github.com/siding-dev/siding/streams"
)

// A node that is told nothing runs alike, whether it is embedded or served.
func TestServeHasTheDefaultsOfARuntime(t *testing.T) {
	c, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][2]time.Duration{
		"grace":    {c.Node.Grace, r.timing.grace},
		"ack_wait": {c.Node.AckWait, streams.DefaultAckWait},
		"interval": {c.Node.NotifyInterval, defaultDigestInterval},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: got %s served and %s embedded, want the same", name, got[0], got[1])
		}
	}
	if c.Node.DataDir != r.cfg.DataDir {
		t.Errorf("data_dir: got %q served and %q embedded, want the same", c.Node.DataDir, r.cfg.DataDir)
	}
}
