package streams

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNodeClosed is what a closed node answers.
var ErrNodeClosed = errors.New("node is closed")

// ErrStoreStart says that the embedded server or its store did not start; the text carries the server's own reason.
var ErrStoreStart = errors.New("store did not start")

// Bounds of Config.MaxPayload in bytes.
const (
	defaultMaxPayload = 1 << 20
	maxMaxPayload     = 64 << 20
)

// tlsTimeout is how long a client may take for its handshake.
const tlsTimeout = 5 * time.Second

// Config describes a node. Only Dir is needed.
type Config struct {
	Dir        string       // data directory; made if it is missing
	Name       string       // of the server in its logs; "" = siding
	Listen     string       // host:port for NATS clients; "" or "off" = no listener, port 0 = any free one
	Tokens     Tokens       // clients on Listen must present one; none = everybody may connect
	TLS        *tls.Config  // what Listen speaks; nil = plain text
	Publish    []string     // subjects beside events.> that those clients may publish to
	Consumers  []string     // durable consumers that those clients may neither change nor pull from
	Sync       Sync         // when the disk is forced; "" = SyncInterval
	MaxStore   int64        // bytes that all streams together may take; 0 = derived from the free disk space and logged
	MaxPayload int32        // bytes of one message, headers included; 0 = 1 MiB, at most 64 MiB
	Logger     *slog.Logger // nil = discard
}

// Node is an embedded NATS server with JetStream on a data directory that no other process can use meanwhile. Its
// methods may be called from any goroutine.
type Node struct {
	cfg     Config
	log     *slog.Logger
	dir     *directory
	gate    *gate
	closing chan struct{} // closed when Close begins

	turn   sync.Mutex // serialises Close and Restart
	closed bool       // under turn: Close has run, with closeErr
	err    error      // under turn: what Close returns

	mu     sync.RWMutex // guards what follows
	listen *address
	server *server.Server
	conn   *nats.Conn
	js     jetstream.JetStream
	down   error                   // why there is no server right now, nil while it runs
	extra  map[*nats.Conn]struct{} // given out by Connect and not yet closed
	once   sync.Once               // closes closing
}

// Open locks the directory, starts the server on it and connects to it. It blocks while JetStream recovers its streams;
// a ctx that ends meanwhile takes effect afterwards, because the server cannot be stopped halfway without leaving open
// files behind. On an error everything taken has been released.
//
// Errors: *LockedError, *FormatError, *UnwritableError, ErrPortInUse, ErrStoreStart, or what is wrong with cfg.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	n := &Node{cfg: cfg, log: cfg.Logger, closing: make(chan struct{}), extra: make(map[*nats.Conn]struct{})}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	if err := n.complete(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	var err error
	if n.dir, err = openDirectory(cfg.Dir); err != nil {
		return nil, err
	}
	err = removeSpools(n.dir.path)
	if err == nil && n.cfg.MaxStore == 0 {
		n.cfg.MaxStore, err = deriveMaxStore(n.dir.path, n.log) //nolint:contextcheck // it only asks the file system
	}
	if err == nil {
		err = n.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, n.dir.release())
	}
	return n, nil
}

// complete checks the configuration and fills in its defaults.
func (n *Node) complete() error {
	c := &n.cfg
	var errs []error
	var err error
	if n.listen, err = parseListen(c.Listen); err != nil {
		errs = append(errs, err)
	}
	if c.Sync, err = ParseSync(string(c.Sync)); err != nil {
		errs = append(errs, err)
	}
	if c.MaxPayload < 0 || c.MaxPayload > maxMaxPayload {
		errs = append(errs, fmt.Errorf("max payload %d: out of range: hint: 1 to %d bytes, or 0 for the default", c.MaxPayload, maxMaxPayload))
	}
	if c.MaxStore < 0 {
		errs = append(errs, fmt.Errorf("max store %d: negative: hint: a number of bytes, or 0 to derive it from the free disk space", c.MaxStore))
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = defaultMaxPayload
	}
	if c.Name == "" {
		c.Name = "siding"
	}
	n.gate = newGate(c.Tokens, c.Publish, c.Consumers)
	return errors.Join(errs...)
}

// start brings up a server and the node's connection to it. On an error nothing runs. The caller holds the directory
// and, after Open, turn.
func (n *Node) start(ctx context.Context) error {
	if n.listen != nil {
		if err := n.listen.probe(); err != nil {
			return err
		}
	}
	store := filepath.Join(n.dir.path, storeDir)
	err := repairStore(store, n.log)
	if err == nil {
		err = shrinkReserved(store, Limits{MaxStore: n.cfg.MaxStore}, n.log)
	}
	if err != nil {
		return fmt.Errorf("directory %s: %w: %w", n.dir.path, ErrStoreStart, err)
	}
	opts := &server.Options{
		ServerName: n.cfg.Name, NoSigs: true,
		JetStream: true, StoreDir: store, JetStreamMaxStore: n.cfg.MaxStore,
		// Nothing of ours is kept in memory; the server's own default would be three quarters of the machine's.
		JetStreamMaxMemory: 64 << 20,
		SyncAlways:         n.cfg.Sync == SyncAlways, MaxPayload: n.cfg.MaxPayload,
		CustomClientAuthentication: n.gate,
	}
	n.listen.apply(opts)
	if n.listen != nil && n.cfg.TLS != nil {
		opts.TLS, opts.TLSConfig, opts.TLSTimeout = true, n.cfg.TLS.Clone(), tlsTimeout.Seconds()
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("directory %s: %w: %w", n.dir.path, ErrStoreStart, err)
	}
	log := newServerLog(n.log)
	s.SetLoggerV2(log, false, false, false)
	// Start returns when the streams are recovered and the listener listens, or after a fatal line.
	s.Start()
	conn, js, err := n.greet(ctx, s, log)
	if err != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server, n.conn, n.js, n.down = s, conn, js, nil
	if n.listen != nil {
		// A port that the system chose stays the same over a restart.
		n.listen.port = opts.Port
	}
	return nil
}

// greet makes sure that a started server is whole and connects to it. A stream that is on disk but was not recovered is
// a refusal: whoever created it anew would take its place.
func (n *Node) greet(ctx context.Context, s *server.Server, log *serverLog) (*nats.Conn, jetstream.JetStream, error) {
	refuse := func(reason string) error {
		return fmt.Errorf("directory %s: %w: %s: hint: see the lines before this one in the log", n.dir.path, ErrStoreStart, reason)
	}
	select {
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	case <-n.closing:
		return nil, nil, ErrNodeClosed
	default:
	}
	if fatal := log.lastFatal(); fatal != "" {
		return nil, nil, refuse(fatal)
	}
	if !s.ReadyForConnections(time.Second) {
		return nil, nil, refuse("server not ready")
	}
	if reason := unhealthy(s); reason != "" {
		return nil, nil, refuse(reason)
	}
	conn, err := n.dial(s, "siding")
	if err != nil {
		return nil, nil, refuse(err.Error())
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, refuse(err.Error())
	}
	return conn, js, nil
}

// dial opens an in-process connection. If it breaks (the process was stopped in the middle of a write, say) it connects
// again by itself, after a fixed delay so that tests in fake time always see the same times. Only an error that the
// server states ends it for good; see Health.
func (n *Node) dial(s *server.Server, name string, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append([]nats.Option{
		nats.InProcessServer(s), nats.Name(name), nats.Token(n.gate.secret), nats.CustomInboxPrefix(n.gate.inbox),
		nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectJitter(0, 0),
	}, opts...)...)
}

// Connect opens a further in-process connection, for a client whose load must not stand in the way of others. Close and
// Restart end it.
func (n *Node) Connect(name string) (*nats.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down != nil {
		return nil, n.down
	}
	conn, err := n.dial(n.server, name, nats.ClosedHandler(func(c *nats.Conn) {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.extra, c)
	}))
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", name, err)
	}
	n.extra[conn] = struct{}{}
	return conn, nil
}

// Conn returns the node's connection; after a Restart that is another one.
func (n *Node) Conn() *nats.Conn {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.conn
}

// JetStream returns JetStream on Conn.
func (n *Node) JetStream() jetstream.JetStream {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.js
}

// Server returns the embedded server; after a Restart that is another one.
func (n *Node) Server() *server.Server {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.server
}

// Dir returns the data directory's absolute path.
func (n *Node) Dir() string { return n.dir.path }

// MaxPayload returns how many bytes one message may have, headers included.
func (n *Node) MaxPayload() int32 { return n.cfg.MaxPayload }

// SyncsAlways reports whether the node forces the disk before it acknowledges anything.
func (n *Node) SyncsAlways() bool { return n.cfg.Sync == SyncAlways }

// MaxStore returns how many bytes all streams together may take.
func (n *Node) MaxStore() int64 { return n.cfg.MaxStore }

// Addr returns the URL for NATS clients, "" without a listener.
func (n *Node) Addr() string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.listen == nil {
		return ""
	}
	if n.cfg.TLS != nil {
		return "tls://" + n.listen.String()
	}
	return "nats://" + n.listen.String()
}

// Close ends all connections, shuts the server down, waits for it and gives the directory back. Every call returns when
// that is done, with the same error. It does not wait for handlers: who uses the node stops first.
func (n *Node) Close() error {
	n.once.Do(func() { close(n.closing) })
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.closed {
		return n.err
	}
	n.closed = true
	n.stop(ErrNodeClosed)
	n.err = n.dir.release()
	return n.err
}

// stop ends connections and server and leaves the reason behind. A lame-duck shutdown would hand over to other servers
// and is a silent no-op without a listener. The caller holds turn.
func (n *Node) stop(reason error) {
	n.mu.Lock()
	n.down = reason
	conns := []*nats.Conn{n.conn}
	for c := range n.extra {
		conns = append(conns, c)
	}
	s := n.server
	n.mu.Unlock()
	for _, c := range conns {
		flush(c)
		c.Close()
	}
	s.Shutdown()
	s.WaitForShutdown()
}

// flush lets what was published without waiting for an answer still reach the server; a second is plenty in-process.
// It takes a context because the client's own timeouts share timers over the whole process, which a test in fake time
// may only use once.
func flush(c *nats.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.FlushWithContext(ctx)
}
