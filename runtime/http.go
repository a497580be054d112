package runtime

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/runtime/client"
)

// backend is what the HTTP API needs of a node. Its errors are problems
// (newProblem), refusals of the store, or internal. All methods may be called
// concurrently and end soon after ctx does.
type backend interface {
	functionList(ctx context.Context) ([]client.Function, error)
	functionShow(ctx context.Context, name string) (client.Function, error)
	// deadLetters returns at most q.Limit dead letters after q.After, ordered
	// by function and sequence.
	deadLetters(ctx context.Context, q deadLetterQuery) ([]client.DeadLetter, error)
	deadLetter(ctx context.Context, function string, sequence uint64) (client.DeadLetterDetail, error)
	// tail calls yield on its own goroutine for what stands (unless fromNow)
	// and then for each new dead letter, until ctx ends or yield fails.
	tail(ctx context.Context, q deadLetterQuery, fromNow bool, yield func(client.DeadLetter) error) error
	decide(ctx context.Context, d client.Decision) (client.Decided, error)
	// lanes returns at most q.Limit lanes after q.After, ordered by function
	// and lane. The keys of the other three are never empty.
	lanes(ctx context.Context, q client.LaneQuery) ([]client.Lane, error)
	lane(ctx context.Context, function, key string) (client.LaneDetail, error)
	pauseLane(ctx context.Context, p client.PauseRequest) (client.Lane, error)
	resumeLane(ctx context.Context, p client.PauseRequest) (client.Lane, error)
	account(ctx context.Context) (client.Account, error)
	doctor(ctx context.Context) (client.Doctor, error)
	forget(ctx context.Context, f client.ForgetRequest) (client.Forgotten, error)
	// backup copies all that the node keeps; the caller closes the copy. Only
	// one is taken at a time.
	backup(ctx context.Context) (backupCopy, error)
	// eventShow finds an event: a ref of digits without a source is a
	// sequence, any other one an event's id.
	eventShow(ctx context.Context, ref, source string) (client.EventLife, error)
	// accept stores events in order and answers for each. header is the
	// request's, for the caller's trace context.
	accept(ctx context.Context, header http.Header, events []event.Event) ([]client.Accepted, error)
	// ready is nil, or says why the node does not take events.
	ready() error
	version() client.Version
	metrics() http.Handler
}

// deadLetterQuery selects dead letters; Limit is set, from 1 to client.MaxLimit.
type deadLetterQuery = client.DeadLetterQuery

// httpOptions says how the API behaves.
type httpOptions struct {
	token string       // what callers must present; empty is open access
	log   *slog.Logger // nil discards
	// maxEvent is the largest event in bytes; 0 means what fits into the
	// default payload of 1 MiB with the room that copies need.
	maxEvent int64
}

// defaultMaxEvent is 1 MiB less the 128 KiB that a copy's headers may take.
const defaultMaxEvent = 1<<20 - 128<<10

// shutdownKey is the context key of the channel that a server's Shutdown closes.
type shutdownKey struct{}

// newHTTPServer returns a server of h with the limits that protect a node from
// slow and abusive callers. Bodies have their deadlines where they are read and
// a tail has one for each line, since a server-wide one would cut it. Shutdown
// ends the tails at once and lets every other request finish.
func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	stopping := make(chan struct{})
	base := context.WithValue(context.Background(), shutdownKey{}, (<-chan struct{})(stopping))
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(log.With("component", "http").Handler(), slog.LevelWarn),
	}
	s.RegisterOnShutdown(sync.OnceFunc(func() { close(stopping) }))
	return s
}

// newHTTPHandler returns the whole HTTP surface of a node.
func newHTTPHandler(b backend, opts httpOptions) http.Handler {
	if opts.log == nil {
		opts.log = slog.New(slog.DiscardHandler)
	}
	if opts.maxEvent == 0 {
		opts.maxEvent = defaultMaxEvent
	}
	a := &api{backend: b, log: opts.log}
	in := newIntake(b, opts)
	mux := http.NewServeMux()
	route := func(pattern string, m methods) {
		m.log = opts.log
		mux.Handle(pattern, m)
	}
	secured := func(pattern string, m methods) {
		m.guard = newGuard(opts.token)
		route(pattern, m)
	}
	route("/healthz", methods{get: health})
	route("/readyz", methods{get: a.ready})
	// A validation request carries no token: it asks for consent, not access.
	secured("/events", methods{post: in.post, options: in.consent})
	secured("/metrics", methods{get: plain(b.metrics())})
	secured("/{$}", methods{get: index})
	secured("/api/v1/functions", methods{get: a.functions})
	secured("/api/v1/functions/{name}", methods{get: a.function})
	secured("/api/v1/functions/{name}/forget", methods{post: a.forget})
	secured("/api/v1/dlq", methods{get: a.deadLetters})
	secured("/api/v1/dlq/tail", methods{get: a.tail})
	secured("/api/v1/dlq/{function}/{sequence}", methods{get: a.deadLetter})
	secured("/api/v1/dlq/{function}/{sequence}/redrive", methods{post: a.decide(client.Redrive)})
	secured("/api/v1/dlq/{function}/{sequence}/edit", methods{post: a.decide(client.Edit)})
	secured("/api/v1/dlq/{function}/{sequence}/discard", methods{post: a.decide(client.Discard)})
	secured("/api/v1/dlq/{function}/{sequence}/release", methods{post: a.decide(client.Release)})
	secured("/api/v1/lanes", methods{get: a.lanes})
	secured("/api/v1/lanes/{function}", methods{get: a.lane})
	secured("/api/v1/lanes/{function}/pause", methods{post: a.pauseLane})
	secured("/api/v1/lanes/{function}/resume", methods{post: a.resumeLane})
	secured("/api/v1/events", methods{get: a.event})
	secured("/api/v1/account", methods{get: a.account})
	secured("/api/v1/doctor", methods{get: a.doctor})
	secured("/api/v1/backup", methods{get: a.backup})
	secured("/api/v1/version", methods{get: a.version})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, r, opts.log, newProblem(client.NotFound, "path %s: not found", r.URL.Path).
			WithHint("GET / names what there is"))
	})
	return headers(mux)
}

// headers sets what every answer carries: nothing of a node may be cached or
// be taken for another content type.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// endpoint answers a request, or returns the error to answer with. It must not
// return one after it has begun to write.
type endpoint func(http.ResponseWriter, *http.Request) error

// methods is one path's endpoints.
type methods struct {
	get, post, options endpoint
	guard              guard
	log                *slog.Logger
}

func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var serve endpoint
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		serve = m.get
	case http.MethodPost:
		serve = m.post
	case http.MethodOptions:
		serve = m.options
	}
	if r.Method != http.MethodOptions || serve == nil {
		if err := m.guard.check(r); err != nil {
			writeError(w, r, m.log, err)
			return
		}
	}
	if serve == nil {
		allow := m.allowed()
		w.Header().Set("Allow", allow)
		writeError(w, r, m.log, newProblem(client.Method, "%s %s: method not allowed", r.Method, r.URL.Path).
			WithHint("use %s", allow))
		return
	}
	if err := serve(w, r); err != nil {
		writeError(w, r, m.log, err)
	}
}

func (m methods) allowed() string {
	var names []string
	for name, e := range map[string]endpoint{"GET": m.get, "HEAD": m.get, "POST": m.post, "OPTIONS": m.options} {
		if e != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// guard checks the bearer token. Only its hash is kept, so that the comparison
// takes the same time whatever the length of what was presented.
type guard struct {
	on   bool
	hash [sha256.Size]byte
}

func newGuard(token string) guard {
	return guard{on: token != "", hash: sha256.Sum256([]byte(token))}
}

func (g guard) check(r *http.Request) error {
	if !g.on {
		return nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return newProblem(client.Unauthorized, "no token").WithHint("send it as Authorization: Bearer <token>")
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(hash[:], g.hash[:]) != 1 {
		return newProblem(client.Unauthorized, "wrong token").WithHint("it is the content of the node's --token-file")
	}
	return nil
}

// plain makes an endpoint of a handler.
func plain(h http.Handler) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}

// health says that the process answers; ready says whether it should get work.
func health(w http.ResponseWriter, _ *http.Request) error {
	return text(w, "ok\n")
}

func index(w http.ResponseWriter, _ *http.Request) error {
	return text(w, `siding

POST /events                      store CloudEvents (binary, structured, batch)
GET  /api/v1/functions            functions; /{name} for one
POST /api/v1/functions/{name}/forget
GET  /api/v1/dlq                  dead letters; /tail follows, /{function}/{sequence} shows one
POST /api/v1/dlq/{function}/{sequence}/redrive, …/discard, …/release
GET  /api/v1/lanes                lanes; /{function}?key= shows one
POST /api/v1/lanes/{function}/pause, …/resume
GET  /api/v1/events?id=&source=   the life of an event; or ?sequence=
GET  /api/v1/account              the sum that must hold
GET  /api/v1/doctor               what is wrong with the node
GET  /api/v1/backup               everything that is stored, as one file
GET  /api/v1/version
GET  /healthz  /readyz  /metrics
`)
}

func text(w http.ResponseWriter, s string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprint(w, s)
	return nil
}
