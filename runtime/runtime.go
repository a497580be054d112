package runtime

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/chaos"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// Config describes a node. Its zero value keeps the data in ./siding-data and listens nowhere.
type Config struct {
	DataDir string              // "" = siding-data
	HTTP    string              // host:port of the HTTP API; "" or "off" = none
	NATS    string              // host:port for NATS clients; "" or "off" = none
	Sync    streams.Sync        // "" = interval
	Tokens  streams.Tokens      // callers must present one; none = open access
	TLS     *tls.Config         // of both listeners; nil = plain text
	Logger  *slog.Logger        // nil = discard
	Getenv  func(string) string // of the OTEL_* variables; nil = os.Getenv
	Grace   time.Duration       // what a stop gives to running attempts; 0 = 20 s
	AckWait time.Duration       // how long JetStream waits for a heartbeat of a delivery; 0 = 2 min
	// Streams are further streams for functions to read: made where they are missing, and open to what clients publish.
	Streams []streams.SourceStream
	// Chaos makes functions fail on purpose, to rehearse what follows; its windows count from New. Nothing of it belongs into production.
	Chaos chaos.Plan
	// Insecure allows open access from other machines: without it, listening beyond loopback without tokens is refused.
	Insecure bool
	// Notify says who is told of what parks and of what stops, and how often.
	Notify Notify
}

// Runtime is a node that hosts functions. Make one with New and run it with Run, once.
type Runtime struct {
	cfg     Config
	fns     []functions.Function
	log     *slog.Logger
	counted *metrics
	timing  timing
	hung    *hung
	checks  *checks
	alone   *alone
	death   *death // of the process before
	process bool   // this node is what the process is for: a panic that ends it is kept for the next one
	tracer  *tracer
	host    atomic.Pointer[host] // nil while there is none: before the start, and while a store recovers
	begun   chan struct{}        // closed when the functions run for the first time
	address atomic.Value         // string: where the HTTP API listens
	clients atomic.Value         // string: where NATS clients may connect
	backing atomic.Bool          // a backup is being taken
	webhook *webhook             // nil = none
}

// New checks the functions and returns a node that hosts them. It touches nothing yet. The error joins everything that is wrong
// with the functions.
func New(cfg Config, fns ...functions.Function) (*Runtime, error) {
	all := make([]functions.Function, len(fns))
	for i, fn := range fns {
		all[i] = fn.WithDefaults()
	}
	if err := functions.ValidateAll(all); err != nil {
		return nil, err
	}
	all, err := rehearse(cfg.Chaos, all)
	if err != nil {
		return nil, err
	}
	if err := cfg.checkAccess(); err != nil {
		return nil, err
	}
	if err := cfg.Notify.check(); err != nil {
		return nil, err
	}
	for _, source := range cfg.Streams {
		if err := source.Validate(); err != nil {
			return nil, err
		}
	}
	if cfg.DataDir == "" {
		cfg.DataDir = "siding-data"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	r := &Runtime{cfg: cfg, fns: all, log: cfg.Logger, timing: defaultTiming(), hung: newHung(), checks: newChecks(), alone: newAlone(), death: &death{}, begun: make(chan struct{})}
	if cfg.Grace > 0 {
		r.timing.grace = cfg.Grace
	}
	r.counted = newMetrics(names(all)...)
	r.webhook = newWebhook(cfg.Notify, webhookTransport(), r.log, r.counted, r.timing.pulling)
	return r, nil
}

func names(fns []functions.Function) []string {
	all := make([]string, len(fns))
	for i, fn := range fns {
		all[i] = fn.Name
	}
	return all
}

// subjects of streams.
func subjects(sources []streams.SourceStream) []string {
	var all []string
	for _, source := range sources {
		all = append(all, source.Subjects...)
	}
	return all
}

// Ready is closed when every function runs.
func (r *Runtime) Ready() <-chan struct{} { return r.begun }

// HTTPAddr is where the HTTP API listens, "" before it does.
func (r *Runtime) HTTPAddr() string {
	address, _ := r.address.Load().(string)
	return address
}

// NATSAddr is the URL for NATS clients, "" before there is one and on a node without a listener.
func (r *Runtime) NATSAddr() string {
	url, _ := r.clients.Load().(string)
	return url
}

// Run runs the node until ctx ends, and then stops it in order: no new attempts, running ones finish within the grace time, the
// store is closed. It returns nil after that.
func (r *Runtime) Run(ctx context.Context) error {
	provider, flush, err := newTracerProvider(ctx, r.cfg.Getenv, buildVersion().Version, r.counted.spansLost)
	if err != nil {
		return err
	}
	defer func() {
		if err := flush(context.WithoutCancel(ctx)); err != nil {
			r.log.Warn("the last spans were not exported", "err", err)
		}
	}()
	if provider != nil {
		r.tracer = newTracer(provider)
	}
	r.cfg.warnAccess(r.log)
	if rules := len(r.cfg.Chaos.Rules); rules > 0 {
		r.log.Warn("functions fail on purpose: this node rehearses by the rules of chaos", "rules", rules)
	}
	node, err := streams.Open(ctx, streams.Config{
		Dir: r.cfg.DataDir, Listen: r.cfg.NATS, Sync: r.cfg.Sync, Tokens: r.cfg.Tokens, TLS: r.cfg.TLS, Logger: r.log, Consumers: names(r.fns),
		Publish: subjects(r.cfg.Streams),
	})
	if err != nil {
		return err
	}
	defer func() { //nolint:contextcheck // ctx has ended by then
		if err := node.Close(); err != nil {
			r.log.Warn("closing the store", "err", err)
		}
	}()
	stop := r.watchLife(node)
	defer stop()
	r.clients.Store(node.Addr())
	var listener net.Listener
	if r.cfg.HTTP != "" && r.cfg.HTTP != "off" {
		if listener, err = listenHTTP(ctx, r.cfg.HTTP); err != nil {
			return err
		}
		r.address.Store(listener.Addr().String())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.sessions(ctx, node) })
	if listener != nil {
		g.Go(func() error { return r.serve(ctx, listener, node) })
	}
	return g.Wait()
}

// sessions hosts the functions on the node, again after each recovery of its store.
func (r *Runtime) sessions(ctx context.Context, node *streams.Node) error {
	for first := true; ; first = false {
		err := r.session(ctx, node, first)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errUnwritable) {
			return err
		}
		r.log.Error("the store cannot be written; functions wait until there is room again", "err", err)
		if err := node.AwaitRoom(ctx, time.Second); err != nil {
			return nil //nolint:nilerr // ctx has ended: that is an orderly stop
		}
		if err := node.Restart(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("restart of the store: %w", err)
		}
		r.log.Info("the store is back")
	}
}

func (r *Runtime) session(ctx context.Context, node *streams.Node, first bool) error {
	store, err := streams.OpenStore(ctx, node, streams.WithAckWait(cmp.Or(r.cfg.AckWait, streams.DefaultAckWait)))
	if err != nil {
		return err
	}
	if err := store.EnsureSources(ctx, r.cfg.Streams); err != nil {
		return err
	}
	if _, err := beginTelling(ctx, store); err != nil {
		return err
	}
	if r.webhook != nil { // it gets what is told from now on
		if _, err := store.NoticeConsumer(ctx); err != nil {
			return err
		}
	}
	h := newHost(store, r.fns, services{log: r.log, tracer: r.tracer, metrics: r.counted, timing: r.timing, hung: r.hung, checks: r.checks, alone: r.alone, death: r.death})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return h.run(ctx) })
	g.Go(func() error { return h.notify(ctx, r.cfg.Notify.Interval, r.webhook) })
	g.Go(func() error {
		select {
		case <-h.started:
			r.host.Store(h)
			if first {
				close(r.begun)
			}
			r.log.Info("functions run", "functions", len(r.fns))
		case <-ctx.Done():
		}
		return nil
	})
	err = g.Wait()
	r.host.Store(nil)
	return err
}

func listenHTTP(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("http: %w: hint: choose another address with --http", err)
	}
	return listener, nil
}

// serve answers HTTP until ctx ends, and lets requests finish.
func (r *Runtime) serve(ctx context.Context, listener net.Listener, node *streams.Node) error {
	handler := newHTTPHandler(r, httpOptions{tokens: r.cfg.Tokens, log: r.log, maxEvent: int64(streams.MaxEventSize(node.MaxPayload()))})
	server := newHTTPServer(handler, r.log) //nolint:contextcheck // requests outlive ctx by the time that Shutdown gives them
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(limit)
	}()
	if err := serveOn(server, listener, r.cfg.TLS); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("http: %w", err)
	}
	if err := <-stopped; err != nil {
		return server.Close()
	}
	return nil
}

// current is the host, or the problem that there is none.
func (r *Runtime) current() (*host, error) {
	if h := r.host.Load(); h != nil {
		return h, nil
	}
	return nil, newProblem(client.Unavailable, "the node is starting, stopping or recovering its store")
}
