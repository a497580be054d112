// Package streamstest runs the real embedded server in tests. There is no fake broker: inside testing/synctest the
// server's timers follow the bubble's clock, so that hours of backoff pass in a moment and times can be asserted exactly.
//
//	synctest.Test(t, func(t *testing.T) {
//		node := streamstest.New(t)
//		…
//		time.Sleep(3 * time.Hour)
//	})
//
// A node in a bubble has no listener, because waiting for a real socket keeps the bubble's clock from moving.
package streamstest

import (
	"testing"

	"github.com/siding-dev/siding/streams"
)

// New opens a node in a directory of its own and closes it when the test ends, which in a bubble is just before the
// bubble does. Closing it earlier is fine, and a second node on its Dir then finds what it stored:
//
//	again := streamstest.New(t, streamstest.Dir(node.Dir()))
func New(t testing.TB, opts ...func(*streams.Config)) *streams.Node {
	t.Helper()
	Present()
	var cfg streams.Config
	for _, opt := range opts {
		opt(&cfg)
	}
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.MaxStore == 0 {
		// Tests on one machine must not depend on how full its disk is.
		cfg.MaxStore = 1 << 30
	}
	node, err := streams.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open node: %v", err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
	})
	return node
}

// Dir makes New use this directory instead of a new one.
func Dir(dir string) func(*streams.Config) {
	return func(cfg *streams.Config) { cfg.Dir = dir }
}
