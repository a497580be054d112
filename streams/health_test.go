package streams_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

// A kill leaves some of what the server removes in the background. The stream was removed before, and what is left of it holds nobody up.
func TestStreamWhoseRemovalWasCutOffHoldsNobodyUp(t *testing.T) {
	node := streamstest.New(t)
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	removed := streamFolder(node.Dir(), ".DLQ_f")
	for n := range 500 { // so that removing it beside the start takes longer than the start
		if err := os.MkdirAll(filepath.Join(removed, "msgs", strconv.Itoa(n), "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	again := streamstest.New(t, streamstest.Dir(node.Dir()))
	if err := again.Health(); err != nil {
		t.Errorf("got %v, want a healthy node", err)
	}
	if _, err := os.Stat(removed); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want it gone", err)
	}
}

// The server has a stream's folder before it knows the stream, and for a while after it has forgotten it.
func TestStreamThatIsJustBeingCreatedOrDeletedHoldsNobodyUp(t *testing.T) {
	node := streamstest.New(t)
	createEvents(t, node) // the server removes an account's folder with its last stream, and a stream that is created beside that fails
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for round := range 50 {
				name := fmt.Sprintf("S%d-%d", n, round)
				if _, err := node.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}}); err != nil {
					t.Error(err)
				}
				if err := node.JetStream().DeleteStream(t.Context(), name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	asked := 0
	for ended := false; !ended; asked++ {
		select {
		case <-done:
			ended = true
		default:
		}
		if err := node.Health(); err != nil {
			t.Errorf("got %v, want a healthy node", err)
		}
	}
	t.Logf("asked %d times", asked)
}

// What nobody is creating or deleting is told, with its name.
func TestStreamThatTheServerDoesNotKnowMakesTheNodeUnhealthy(t *testing.T) {
	node := streamstest.New(t)
	if err := os.MkdirAll(filepath.Join(streamFolder(node.Dir(), "LOST"), "msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	var unwritable *streams.UnwritableError
	if err := node.Health(); !errors.As(err, &unwritable) || !strings.Contains(unwritable.Reason, "LOST") {
		t.Errorf("got %v, want an UnwritableError that names the stream", err)
	}
}

func TestConnectionThatTheServerEndedIsReportedAndRepairedByRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := streamstest.New(t)
		createEvents(t, node)
		// The whole protocol line may have 4096 bytes; the server drops who exceeds it.
		if err := node.Conn().Publish("events."+strings.Repeat("x", 5000), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		err := node.Health()
		if !errors.As(err, new(*streams.UnwritableError)) || !strings.Contains(err.Error(), "connection ended by the server") {
			t.Errorf("got %v, want an UnwritableError about the connection", err)
		}
		if err := node.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := node.Health(); err != nil {
			t.Errorf("got %v after the restart, want a healthy node", err)
		}
		publish(t, node, "a")
	})
}
