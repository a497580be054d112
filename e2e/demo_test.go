package e2e_test

import (
	"net"
	"os"
	"strings"
	"testing"
)

// The demo is what a visitor runs first: it needs nothing, not even the usual ports, and leaves nothing.
func TestDemoTellsItsStoryAndEnds(t *testing.T) {
	for _, usual := range []string{"127.0.0.1:4280", "127.0.0.1:4222"} {
		var busy net.ListenConfig
		if l, err := busy.Listen(t.Context(), "tcp", usual); err == nil { // else somebody else keeps it busy
			t.Cleanup(func() { l.Close() })
		}
	}
	tmp := t.TempDir()
	got := command(t, built.siding, []string{"TMPDIR=" + tmp, "TEMP=" + tmp, "TMP=" + tmp}, "demo")
	if got.code != 0 || got.stderr != "" {
		t.Errorf("got exit code %d and %q, want 0 and nothing to talk about", got.code, got.stderr)
	}
	for _, want := range []string{
		"sends 400 claim reports", "wrote 37 events\n", "has all 487 events once, and not the 1 discarded", "were handled in order;",
		"\naccount: 488 accepted = 487 delivered + 0 parked + 1 discarded\n",
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("got no %q in\n%s", want, got.stdout)
		}
	}
	if strings.ContainsAny(got.stdout, "\r\x1b") {
		t.Errorf("got control characters in %q, want none in a pipe", got.stdout)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("got %v (%v) left behind, want nothing", left, err)
	}
}
