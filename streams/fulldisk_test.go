package streams_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

// fullDiskVariable makes this test binary tell the story of the full disk on the small disk it names.
const fullDiskVariable = "SIDING_TEST_FULL_DISK"

// surviveFullDisk is the story: fill makes writes fail, free makes room again. In between everything that was
// acknowledged must stay, and be there and writable after a restart of the server within the node.
func surviveFullDisk(t *testing.T, dir string, fill, free func() error) {
	t.Helper()
	node := streamstest.New(t, streamstest.Dir(dir))
	createEvents(t, node)
	payload := []byte(strings.Repeat("x", 32<<10))
	publishOne := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := node.JetStream().Publish(ctx, "events.x", payload, jetstream.WithRetryAttempts(0))
		return err
	}
	var acked uint64
	for ; acked < 10; acked++ {
		if err := publishOne(); err != nil {
			t.Fatalf("event %d on a disk with room: %v", acked, err)
		}
	}
	if err := fill(); err != nil {
		t.Fatal(err)
	}
	var err error
	for ; acked < 1000; acked++ {
		if err = publishOne(); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatalf("got no error in %d events, want the disk to be full", acked)
	}
	t.Logf("full after %d events: %v", acked, err)
	var unwritable *streams.UnwritableError
	if err := node.Health(); !errors.As(err, &unwritable) || !strings.Contains(unwritable.Reason, "EVENTS") {
		t.Fatalf("got %v from Health, want an UnwritableError that names the stream", err)
	}

	if err := free(); err != nil {
		t.Fatal(err)
	}
	if err := publishOne(); err == nil {
		t.Log("the server now recovers by itself; Restart may have become superfluous")
		acked++
	}
	if err := node.AwaitRoom(t.Context(), 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := node.Health(); err != nil {
		t.Errorf("got %v after the restart, want a healthy node", err)
	}
	// A publish that was never acknowledged may still have been stored.
	after := stored(t, node)
	if after < acked || after > acked+2 {
		t.Errorf("got %d events after the restart, want the %d that were acknowledged", after, acked)
	}
	stream, err := node.JetStream().Stream(t.Context(), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= acked; seq++ {
		if m, err := stream.GetMsg(t.Context(), seq); err != nil || len(m.Data) != len(payload) {
			t.Fatalf("event %d: got %v, want it whole", seq, err)
		}
	}
	if err := publishOne(); err != nil {
		t.Errorf("got %v for an event after the restart, want it stored", err)
	}
}
