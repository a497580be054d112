package streams

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
)

// TestEmitWaitsForABackupOfEVENTS: what is stored in the outbox behind the hold would be in the copy of EVENTS, and its cause would not be delivered in the
// copy. Nobody waits for the backup for long: the step is repeated.
func TestEmitWaitsForABackupOfEVENTS(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		node, err := Open(t.Context(), Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := node.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}()
		s, err := OpenStore(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		e := event.New()
		e.SetID("1")
		e.SetSource("s")
		e.SetType("t")
		earlier := &Outbox{Function: "f", Cause: 1, ID: "x", Events: []event.Event{e}}
		if err := s.Stow(t.Context(), earlier); err != nil {
			t.Fatal(err)
		}
		end, err := s.stowing.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out := &Outbox{Function: "f", Cause: 2, ID: "y", Events: []event.Event{e}}
		began := time.Now()
		if err := s.Stow(t.Context(), out); err == nil || !strings.Contains(err.Error(), "a backup copies stream EVENTS") || time.Since(began) > OpTimeout {
			t.Errorf("got %v after %s, want it refused for the backup", err, time.Since(began))
		}
		if err := s.Emit(t.Context(), earlier); err != nil {
			t.Errorf("got %v, want what the copy has in its outbox to go on", err)
		}
		end()
		if err := s.Stow(t.Context(), out); err != nil {
			t.Errorf("after the backup: %v", err)
		}
	})
}
