package streams_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

func createEvents(t *testing.T, node *streams.Node) {
	t.Helper()
	_, err := node.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	if err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, node *streams.Node, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := node.JetStream().Publish(t.Context(), "events.x", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

func stored(t *testing.T, node *streams.Node) uint64 {
	t.Helper()
	stream, err := node.JetStream().Stream(t.Context(), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs
}

func TestEventsOutliveHoursAndANewNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := streamstest.New(t)
		createEvents(t, node)
		publish(t, node, "a", "b")
		begun := time.Now()
		time.Sleep(3 * time.Hour)
		publish(t, node, "c")
		if err := node.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun) - 3*time.Hour; took > time.Second {
			t.Errorf("got %v of fake time for a publish and a close, want hardly any", took)
		}

		again := streamstest.New(t, streamstest.Dir(node.Dir()))
		time.Sleep(3 * time.Hour)
		publish(t, again, "d")
		if got := stored(t, again); got != 4 {
			t.Errorf("got %d events, want 4", got)
		}
		if err := again.Health(); err != nil {
			t.Errorf("got %v, want a healthy node", err)
		}
	})
}

// The bubble's own clock rules what a starting server finds too old. That of a running one stands still (streamstest.Present).
func TestWhatIsTooOldGoesAtTheNextStartAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := streamstest.New(t)
		_, err := node.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, MaxAge: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		publish(t, node, "a")
		for _, step := range []struct {
			sleep time.Duration
			want  uint64
		}{{59 * time.Minute, 1}, {2 * time.Minute, 0}} {
			if err := node.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(step.sleep)
			node = streamstest.New(t, streamstest.Dir(node.Dir()))
			if got := stored(t, node); got != step.want {
				t.Errorf("got %d events after %v more, want %d", got, step.sleep, step.want)
			}
		}
	})
}

func TestRestartKeepsLockAndEventsAndRenewsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := streamstest.New(t)
		createEvents(t, node)
		publish(t, node, "a")
		conn, server := node.Conn(), node.Server()
		extra, err := node.Connect("extra")
		if err != nil {
			t.Fatal(err)
		}
		if err := node.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !conn.IsClosed() || !extra.IsClosed() || server.Running() {
			t.Errorf("got closed %v, %v and running %v, want the old connections closed and the old server down",
				conn.IsClosed(), extra.IsClosed(), server.Running())
		}
		if _, err := streams.Open(t.Context(), streams.Config{Dir: node.Dir()}); !errors.As(err, new(*streams.LockedError)) {
			t.Errorf("got %v after the restart, want that the directory is still locked", err)
		}
		publish(t, node, "b")
		if got := stored(t, node); got != 2 {
			t.Errorf("got %d events, want 2", got)
		}
	})
}

func TestCloseIsIdempotentConcurrentAndFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := streamstest.New(t)
		var closing sync.WaitGroup
		for range 4 {
			closing.Go(func() {
				if err := node.Close(); err != nil {
					t.Errorf("got %v, want nil", err)
				}
			})
			closing.Go(func() {
				if err := node.Restart(t.Context()); err != nil && !errors.Is(err, streams.ErrNodeClosed) {
					t.Errorf("got %v, want nil or ErrNodeClosed", err)
				}
			})
		}
		closing.Wait()
		if err := node.Health(); !errors.Is(err, streams.ErrNodeClosed) {
			t.Errorf("got %v from Health, want ErrNodeClosed", err)
		}
		if _, err := node.Connect("late"); !errors.Is(err, streams.ErrNodeClosed) {
			t.Errorf("got %v from Connect, want ErrNodeClosed", err)
		}
		if err := node.Restart(t.Context()); !errors.Is(err, streams.ErrNodeClosed) {
			t.Errorf("got %v from Restart, want ErrNodeClosed", err)
		}
		if node.Server().Running() {
			t.Error("got a running server, want it down")
		}
	})
}

func TestOpenThatIsNotWantedLeavesNothingLocked(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := streams.Open(ctx, streams.Config{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	streamstest.New(t, streamstest.Dir(dir))
}

// TestNodeKilledWithKill9FreesItsDirectoryAndKeepsEveryAck runs itself as a second process that holds the directory.
func TestNodeKilledWithKill9FreesItsDirectoryAndKeepsEveryAck(t *testing.T) {
	const holdVariable, acked = "SIDING_TEST_HOLD", 200
	if dir := os.Getenv(holdVariable); dir != "" {
		node := streamstest.New(t, streamstest.Dir(dir))
		createEvents(t, node)
		for range acked {
			publish(t, node, "event")
		}
		fmt.Println("holding")
		select {} // until killed
	}

	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), holdVariable+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "holding\n" {
		t.Fatalf("got %q, %v from the holder, want that it holds", line, err)
	}

	_, err = streams.Open(t.Context(), streams.Config{Dir: dir})
	var locked *streams.LockedError
	if !errors.As(err, &locked) || locked.PID != child.Process.Pid || locked.Since.IsZero() {
		t.Errorf("got %v, want a LockedError of process %d", err, child.Process.Pid)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Error("got a clean end of the holder, want it killed")
	}

	node := streamstest.New(t, streamstest.Dir(dir))
	if got := stored(t, node); got != acked {
		t.Errorf("got %d events after the kill, want all %d that were acknowledged", got, acked)
	}
}

func TestStreamWhoseChangeWasCutOffComesBackWhole(t *testing.T) {
	for _, tc := range []struct {
		name string
		cut  func(dir string) error
	}{
		{"checksum of the configuration before", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "meta.sum"), []byte("0123456789abcdef"), 0o600)
		}},
		{"no checksum yet", func(dir string) error { return os.Remove(filepath.Join(dir, "meta.sum")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := streamstest.New(t)
			createEvents(t, node)
			publish(t, node, "a", "b")
			if err := node.Close(); err != nil {
				t.Fatal(err)
			}
			if err := tc.cut(streamFolder(node.Dir(), "EVENTS")); err != nil {
				t.Fatal(err)
			}
			again := streamstest.New(t, streamstest.Dir(node.Dir()))
			if got := stored(t, again); got != 2 {
				t.Errorf("got %d events, want 2", got)
			}
		})
	}
}

func TestStreamThatWasBeingCreatedOrDeletedIsForgottenButMessagesNever(t *testing.T) {
	node := streamstest.New(t)
	createEvents(t, node)
	publish(t, node, "a")
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	half := streamFolder(node.Dir(), "HALF")
	if err := os.MkdirAll(filepath.Join(half, "msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	again := streamstest.New(t, streamstest.Dir(node.Dir()))
	if err := again.Health(); err != nil {
		t.Errorf("got %v, want a healthy node", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(streamFolder(node.Dir(), "EVENTS"), "meta.inf")); err != nil {
		t.Fatal(err)
	}
	_, err := streams.Open(t.Context(), streams.Config{Dir: node.Dir()})
	if !errors.Is(err, streams.ErrStoreStart) || !strings.Contains(err.Error(), "stream EVENTS") {
		t.Errorf("got %v, want ErrStoreStart that names the stream", err)
	}
	if _, err := os.Stat(streamFolder(node.Dir(), "EVENTS")); err != nil {
		t.Errorf("got %v for the stream's folder, want it untouched", err)
	}
}

func streamFolder(dir, stream string) string {
	return filepath.Join(dir, "store", "jetstream", "$G", "streams", stream)
}

// A file stands where JetStream's folder should be, which is the server's fatal line and not ours.
func TestStoreThatDoesNotStartSaysWhyAtOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "format"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "store"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	_, err := streams.Open(t.Context(), streams.Config{Dir: dir})
	if !errors.Is(err, streams.ErrStoreStart) || !strings.Contains(err.Error(), "Can't start JetStream") {
		t.Errorf("got %v, want ErrStoreStart with the server's own line", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("got the error after %v, want it at once", took)
	}
	if err := os.Remove(filepath.Join(dir, "store")); err != nil {
		t.Fatal(err)
	}
	streamstest.New(t, streamstest.Dir(dir))
}

func TestPortInUseIsNamedAndLeavesNothingLocked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	_, err = streams.Open(t.Context(), streams.Config{Dir: dir, Listen: l.Addr().String()})
	if !errors.Is(err, streams.ErrPortInUse) || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), "hint: ") {
		t.Errorf("got %v, want ErrPortInUse with the address and a hint", err)
	}
	streamstest.New(t, streamstest.Dir(dir))
}

func TestConfigurationErrorsComeTogether(t *testing.T) {
	_, err := streams.Open(t.Context(), streams.Config{Dir: t.TempDir(), Listen: "nowhere", Sync: "maybe", MaxPayload: -1, MaxStore: -1})
	for _, want := range []string{`listen "nowhere"`, `sync "maybe"`, "max payload -1", "max store -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestSyncIsPassedToTheServer(t *testing.T) {
	for sync, want := range map[streams.Sync]bool{"": false, streams.SyncInterval: false, streams.SyncAlways: true} {
		node := streamstest.New(t, func(cfg *streams.Config) { cfg.Sync = sync })
		if got := node.Server().JetStreamConfig().SyncAlways; got != want {
			t.Errorf("sync %q: got SyncAlways %v, want %v", sync, got, want)
		}
	}
}

func TestClientsOnTheListenerPublishAndBrowseAndChangeNothing(t *testing.T) {
	secret, token, err := streams.NewToken("guest")
	if err != nil {
		t.Fatal(err)
	}
	node := streamstest.New(t, func(cfg *streams.Config) {
		cfg.Listen, cfg.Tokens, cfg.Consumers = "127.0.0.1:0", streams.Tokens{token}, []string{"file-claim"}
	})
	createEvents(t, node)
	if _, err := nats.Connect(node.Addr()); !errors.Is(err, nats.ErrAuthorization) {
		t.Fatalf("got %v without the token, want ErrAuthorization", err)
	}
	refused := make(chan error, 16) // one for every refusal below
	guest, err := nats.Connect(node.Addr(), nats.Token(secret),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	js, err := jetstream.New(guest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "events.x", []byte("a")); err != nil {
		t.Errorf("got %v for an event, want it stored", err)
	}
	consumer, err := js.OrderedConsumer(t.Context(), "EVENTS", jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatalf("got %v, want a consumer to browse with", err)
	}
	if m, err := consumer.Next(); err != nil || string(m.Data()) != "a" {
		t.Errorf("got %v, %v, want the event", m, err)
	}
	for _, subject := range []string{
		"siding.retry.file-claim._.1", "orders.x",
		"$JS.API.STREAM.CREATE.MINE", "$JS.API.STREAM.UPDATE.EVENTS", "$JS.API.STREAM.PURGE.EVENTS", "$JS.API.STREAM.DELETE.EVENTS",
		"$JS.API.STREAM.MSG.DELETE.EVENTS", "$JS.API.CONSUMER.DELETE.EVENTS.file-claim",
		"$JS.API.CONSUMER.CREATE.EVENTS.file-claim", "$JS.API.CONSUMER.CREATE.EVENTS.file-claim.events.x",
		"$JS.API.CONSUMER.MSG.NEXT.EVENTS.file-claim", "$JS.API.CONSUMER.CREATE.SIDING_RETRY.mine",
		"$JS.ACK.EVENTS.file-claim.1.1.1.1.1",
	} {
		if err := guest.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := guest.FlushTimeout(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: got %v, want a permission violation", subject, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: got no refusal, want a permission violation", subject)
		}
	}
	if got := stored(t, node); got != 1 {
		t.Errorf("got %d events, want 1", got)
	}
}

func TestListenerKeepsItsPortOverARestart(t *testing.T) {
	node := streamstest.New(t, func(cfg *streams.Config) { cfg.Listen = "127.0.0.1:0" })
	before := node.Addr()
	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := node.Addr(); got != before || strings.HasSuffix(got, ":0") {
		t.Errorf("got %s after the restart, want %s", got, before)
	}
	guest, err := nats.Connect(node.Addr())
	if err != nil {
		t.Fatalf("got %v, want a connection without a token", err)
	}
	guest.Close()
}

func TestServerLinesReachTheLogWithTheirLevel(t *testing.T) {
	var lines strings.Builder
	var mu sync.Mutex
	handler := slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return lines.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelDebug})
	node := streamstest.New(t, func(cfg *streams.Config) { cfg.Logger = slog.New(handler) })
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := lines.String(); !strings.Contains(got, `level=DEBUG msg="Server is ready" component=nats`) {
		t.Errorf("got %s, want the server's notices as debug lines", got)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
