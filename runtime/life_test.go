package runtime

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	stdruntime "runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

// world is what outlives a process in a test: the directory, and a log of what handlers saw and did.
type world struct {
	t     testing.TB
	dir   string
	mu    sync.Mutex
	log   []call
	lives int
	sync  streams.Sync // of the nodes
}

// call is one invocation of a handler.
type call struct {
	function string
	event    string // the event's id
	attempt  functions.Attempt
	at       time.Time
	err      error
	ended    bool
	endedAt  int    // how long the log was then
	life     int    // which of the world's processes it was
	decision string // what was asked for about the event; such a line is no call
}

func newWorld(t testing.TB) *world {
	streamstest.Present()
	return &world{t: t, dir: scratch(t)}
}

// scratch is a directory in memory where the system has one. A kill is a copy of the directory here, so nothing hangs on the disk but
// the time that its syncs take.
func scratch(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "siding-test-") //nolint:usetesting // t.TempDir is on the disk
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove: %v", err)
		}
	})
	return dir
}

// script says what a handler returns for an event at an attempt.
type script func(ctx context.Context, id string, a functions.Attempt) error

// function makes a function that follows a script and logs each call while alive says so: what a handler does after the process
// has died does not happen.
func (w *world) function(f functions.Function, alive func() bool, s script) functions.Function {
	if f.Name == "" {
		f.Name = "f"
	}
	if f.Types == nil {
		f.Types = []string{"t"}
	}
	f.Start = functions.FromBeginning
	w.mu.Lock()
	w.lives++
	life := w.lives
	w.mu.Unlock()
	f.Handle = func(ctx context.Context, e functions.Event) error {
		if !alive() {
			return errors.New("dead")
		}
		c := call{function: f.Name, event: e.ID(), attempt: functions.AttemptFrom(ctx), at: time.Now()}
		w.mu.Lock()
		c.life = life
		at := len(w.log)
		w.log = append(w.log, c)
		w.mu.Unlock()
		err := s(ctx, e.ID(), c.attempt)
		if !alive() {
			return err
		}
		w.mu.Lock()
		w.log[at].err, w.log[at].ended, w.log[at].endedAt = err, true, len(w.log)
		w.mu.Unlock()
		return err
	}
	return f.WithDefaults()
}

func (w *world) calls(id string) []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	var calls []call
	for _, c := range w.log {
		if c.decision == "" && (id == "" || c.event == id) {
			calls = append(calls, c)
		}
	}
	return calls
}

// life is one process: a node, a store and a host on the world's directory.
type life struct {
	w     *world
	node  *streams.Node
	store *streams.Store
	host  *host
	stop  context.CancelFunc
	done  chan struct{}
	err   error
	over  bool
}

// testTiming pulls seldom: in fake time every pull that expires costs real time.
func testTiming() timing {
	t := defaultTiming()
	t.pulling = pulling{expires: 5 * time.Minute, heartbeat: time.Minute}
	return t
}

func testLog() *slog.Logger {
	if os.Getenv("SIDING_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// start begins a process. Functions are made anew for each, because their handlers belong to it.
func (w *world) start(timing timing, fns []functions.Function, opts ...streams.StoreOption) *life {
	w.t.Helper()
	l := w.open(opts...)
	l.host = newHost(l.store, fns, services{log: testLog(), metrics: newMetrics(names(fns)...), timing: timing})
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	go func() {
		defer close(l.done)
		l.err = l.host.run(ctx)
	}()
	return l
}

func (w *world) open(opts ...streams.StoreOption) *life {
	w.t.Helper()
	node, err := streams.Open(context.Background(), streams.Config{Dir: w.dir, Sync: w.sync, MaxStore: 1 << 30, Logger: testLog()})
	if err != nil {
		w.t.Fatalf("open node: %v", err)
	}
	store, err := streams.OpenStore(context.Background(), node, opts...)
	if err != nil {
		w.t.Fatalf("open store: %v", err)
	}
	l := &life{w: w, node: node, store: store, done: make(chan struct{})}
	w.t.Cleanup(l.end)
	return l
}

// end stops the process in order; a test that does not call it has it called.
func (l *life) end() {
	l.w.t.Helper()
	if l.over {
		return
	}
	l.over = true
	if l.stop != nil {
		l.stop()
		<-l.done
		if l.err != nil {
			l.w.t.Errorf("host: %v", l.err)
		}
	}
	if err := l.node.Close(); err != nil {
		l.w.t.Errorf("close node: %v", err)
	}
}

// send stores events of type t with ids 1 … n, after those that stand already.
func (l *life) send(n int) {
	l.w.t.Helper()
	for i := 1; i <= n; i++ {
		l.sendEvent(newEvent(strconv.Itoa(i)))
	}
}

func newEvent(id string) event.Event {
	e := event.New()
	e.SetID(id)
	e.SetSource("test")
	e.SetType("t")
	_ = e.SetData("application/json", map[string]string{"id": id})
	return e
}

func (l *life) sendEvent(e event.Event) streams.Accepted {
	l.w.t.Helper()
	a, err := l.store.Accept(context.Background(), e, nil)
	if err != nil {
		l.w.t.Fatalf("send %s: %v", e.ID(), err)
	}
	return a
}

// account of function f, read until it holds and nothing is on its way, nor moves on in the next fake second, or until a fake hour is over.
func (l *life) settle(function string) client.FunctionAccount {
	l.w.t.Helper()
	var a client.FunctionAccount
	for range 3600 {
		before := a
		if a = l.account(function); a.Holds && a.Pending+a.Delivering+a.Retrying == 0 && cmp.Equal(a, before) {
			return a
		}
		select {
		case <-l.done:
			l.w.t.Fatalf("host ended: %v", l.err)
		case <-time.After(time.Second):
		}
	}
	l.w.t.Fatalf("function %s does not come to rest: %+v", function, a)
	return a
}

func (l *life) account(function string) client.FunctionAccount {
	l.w.t.Helper()
	d, err := l.store.Declared(context.Background(), function)
	if errors.Is(err, streams.ErrNotFound) {
		return client.FunctionAccount{}
	}
	if err != nil {
		l.w.t.Fatalf("declared: %v", err)
	}
	select {
	case <-l.host.started:
	case <-l.done:
		l.w.t.Fatalf("host ended: %v", l.err)
	case <-time.After(time.Minute):
		l.w.t.Fatalf("host does not start")
	}
	a, err := l.host.accountOf(context.Background(), d)
	if err != nil {
		l.w.t.Fatalf("account: %v", err)
	}
	return a
}

// letters lists the dead letters of a function by event id.
func (l *life) letters(function string) map[string]streams.Message {
	l.w.t.Helper()
	all := map[string]streams.Message{}
	refs, err := l.store.Standing(context.Background(), streams.InDeadLetters, function)
	if err != nil {
		l.w.t.Fatalf("dead letters: %v", err)
	}
	for _, ref := range refs {
		m, err := l.store.Last(context.Background(), streams.DeadLetterStream(function), streams.InDeadLetters.Subject(ref))
		if err != nil {
			l.w.t.Fatalf("dead letter %s: %v", ref.ID(), err)
		}
		all[m.Header.Get("ce-id")] = m
	}
	return all
}

// mortal is a gate that kills the process at its n-th call: the directory is copied as it is on disk at that instant, and whoever comes to
// the gate from then on is gone. That is what kill -9 leaves, because everything that Siding relies on has been written by then.
type mortal struct {
	w      *world
	at     int  // 0: never
	keep   bool // let acks of the last moments reach the disk
	mu     sync.Mutex
	calls  int
	ops    []string
	dead   bool
	copied string
	killed chan struct{}
}

func newMortal(w *world, at int, keep bool) *mortal {
	return &mortal{w: w, at: at, keep: keep, killed: make(chan struct{})}
}

func (m *mortal) gate(op string) {
	m.mu.Lock()
	if m.dead {
		m.mu.Unlock()
		<-m.killed // what a goroutine does on its way out must not be in the copy
		stdruntime.Goexit()
	}
	m.calls++
	m.ops = append(m.ops, op)
	if m.calls != m.at {
		m.mu.Unlock()
		return
	}
	m.dead = true
	m.mu.Unlock()
	if m.keep {
		time.Sleep(300 * time.Millisecond)
	}
	m.copied = scratch(m.w.t)
	if err := copyDirectory(m.copied, m.w.dir); err != nil {
		m.w.t.Errorf("copy: %v", err)
	}
	close(m.killed)
	stdruntime.Goexit()
}

// copyDirectory copies a directory whose files come and go meanwhile: the server renames its temporary ones.
func copyDirectory(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o600)
	})
}

func (m *mortal) alive() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.dead
}

// bury takes down what is left of a killed process, and puts the copy in the place of the directory.
func (l *life) bury(m *mortal) {
	l.over = true
	l.stop()
	<-l.done
	// The server sleeps under a lock while it shuts down. A request of the dead that waits for that lock would keep the bubble's time from moving.
	synctest.Wait()
	_ = l.node.Close()
	l.w.dir = m.copied
}
