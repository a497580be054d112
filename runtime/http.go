package runtime

import (
	"context"
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
	"github.com/siding-dev/siding/streams"
)

// backend is what the HTTP API needs of a node. Its errors are problems
// (newProblem), refusals of the store, or internal. All methods may be called
// concurrently and end soon after ctx does.
type backend interface {
	functionList(ctx context.Context) ([]client.Function, error)
	functionShow(ctx context.Context, name string) (client.Function, error)
	setAside(ctx context.Context, s client.SetAsideRequest) (client.Function, error)
	suspendFunction(ctx context.Context, s client.SuspendRequest) (client.Function, error)
	resumeFunction(ctx context.Context, s client.SuspendRequest) (client.Function, error)
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
	// eventStates tells where the event at a sequence is for each function that
	// takes it, by name.
	eventStates(ctx context.Context, sequence uint64) ([]client.EventState, error)
	// eventTrace finds an event as eventShow does.
	eventTrace(ctx context.Context, ref, source string) (client.EventTrace, error)
	// audit returns at most q.Limit entries below q.After, newest first.
	audit(ctx context.Context, q client.AuditQuery) (client.AuditPage, error)
	auditEntry(ctx context.Context, sequence uint64) (client.AuditEntry, error)
	// export calls yield on its own goroutine for every dead letter, in the
	// order of deadLetters, until yield fails.
	export(ctx context.Context, q deadLetterQuery, yield func(client.Exported) error) error
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
	tokens streams.Tokens // callers must present one; none is open access
	log    *slog.Logger   // nil discards
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
	h, _ := newRoutes(b, opts)
	return h
}

// newRoutes returns the HTTP surface and the pattern of each of its routes, for
// what must hold of all of them.
func newRoutes(b backend, opts httpOptions) (http.Handler, map[string]methods) {
	routes := map[string]methods{}
	if opts.log == nil {
		opts.log = slog.New(slog.DiscardHandler)
	}
	if opts.maxEvent == 0 {
		opts.maxEvent = defaultMaxEvent
	}
	a := &api{backend: b, log: opts.log}
	mux := http.NewServeMux()
	for _, route := range a.routes(newIntake(b, opts)) {
		m := route.methods
		m.log = opts.log
		if !route.open {
			m.guard = guard{opts.tokens}
		}
		routes[route.pattern] = m
		mux.Handle(route.pattern, m)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, r, opts.log, newProblem(client.NotFound, "path %s: not found", r.URL.Path).
			WithHint("GET / names what there is"))
	})
	return headers(mux), routes
}

// route is one path of the HTTP surface.
type route struct {
	pattern string
	methods methods
	open    bool // no token is asked for
}

// routes is the whole HTTP surface. openapi.json describes it, and a test holds the two together.
func (a *api) routes(in *intake) []route {
	return []route{
		{pattern: "/healthz", methods: methods{get: health}, open: true},
		{pattern: "/readyz", methods: methods{get: a.ready}, open: true},
		// A validation request carries no token: it asks for consent, not access.
		{pattern: "/events", methods: methods{post: in.post, options: in.consent}},
		{pattern: "/metrics", methods: methods{get: plain(a.backend.metrics())}},
		{pattern: "/{$}", methods: methods{get: index}},
		{pattern: "/api/v1/functions", methods: methods{get: a.functions}},
		{pattern: "/api/v1/functions/{name}", methods: methods{get: a.function}},
		{pattern: "/api/v1/functions/{name}/forget", methods: methods{post: a.forget}},
		{pattern: "/api/v1/functions/{name}/set-aside", methods: methods{post: a.setAside}},
		{pattern: "/api/v1/functions/{name}/suspend", methods: methods{post: a.suspendFunction}},
		{pattern: "/api/v1/functions/{name}/resume", methods: methods{post: a.resumeFunction}},
		{pattern: "/api/v1/dlq", methods: methods{get: a.deadLetters}},
		{pattern: "/api/v1/dlq/tail", methods: methods{get: a.tail}},
		{pattern: "/api/v1/dlq/export", methods: methods{get: a.export}},
		{pattern: "/api/v1/dlq/{function}/{sequence}", methods: methods{get: a.deadLetter}},
		{pattern: "/api/v1/dlq/{function}/{sequence}/redrive", methods: methods{post: a.decide(client.Redrive)}},
		{pattern: "/api/v1/dlq/{function}/{sequence}/edit", methods: methods{post: a.decide(client.Edit)}},
		{pattern: "/api/v1/dlq/{function}/{sequence}/discard", methods: methods{post: a.decide(client.Discard)}},
		{pattern: "/api/v1/dlq/{function}/{sequence}/release", methods: methods{post: a.decide(client.Release)}},
		{pattern: "/api/v1/lanes", methods: methods{get: a.lanes}},
		{pattern: "/api/v1/lanes/{function}", methods: methods{get: a.lane}},
		{pattern: "/api/v1/lanes/{function}/pause", methods: methods{post: a.pauseLane}},
		{pattern: "/api/v1/lanes/{function}/resume", methods: methods{post: a.resumeLane}},
		{pattern: "/api/v1/events", methods: methods{get: a.event}},
		{pattern: "/api/v1/events/trace", methods: methods{get: a.trace}},
		{pattern: "/api/v1/events/wait", methods: methods{get: a.wait}},
		{pattern: "/api/v1/audit", methods: methods{get: a.audit}},
		{pattern: "/api/v1/audit/{sequence}", methods: methods{get: a.auditEntry}},
		{pattern: "/api/v1/account", methods: methods{get: a.account}},
		{pattern: "/api/v1/doctor", methods: methods{get: a.doctor}},
		{pattern: "/api/v1/backup", methods: methods{get: a.backup}},
		{pattern: "/api/v1/version", methods: methods{get: a.version}},
		{pattern: "/api/v1/openapi.json", methods: methods{get: description}},
	}
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
		known, err := m.guard.check(r)
		if err != nil {
			writeError(w, r, m.log, err)
			return
		}
		r = known
	}
	if serve == nil {
		allow := m.allowed()
		w.Header().Set("Allow", allow)
		writeError(w, r, m.log, newProblem(client.Method, "%s %s: method not allowed", r.Method, r.URL.Path).
			WithHint("use %s", allow))
		return
	}
	err := functionNames(r.PathValue("name"), r.PathValue("function"))
	if err == nil {
		err = serve(w, r)
	}
	if err != nil {
		writeError(w, r, m.log, err)
	}
}

// functionNames refuses what no function can be called, before it becomes a
// part of something in the store. An empty one was not given.
func functionNames(names ...string) error {
	for _, name := range names {
		if name != "" && !streams.FunctionName(name) {
			return newProblem(client.NotFound, "function %.100q: not found", name).WithHint("`siding function ls` lists those that this node knows")
		}
	}
	return nil
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
POST /api/v1/functions/{name}/forget, …/suspend, …/resume, …/set-aside
GET  /api/v1/dlq                  dead letters; /tail follows, /export has their events, /{function}/{sequence} shows one
POST /api/v1/dlq/{function}/{sequence}/redrive, …/edit, …/discard, …/release
GET  /api/v1/lanes                lanes; /{function}?key= shows one
POST /api/v1/lanes/{function}/pause, …/resume
GET  /api/v1/events?id=&source=   the life of an event; or ?sequence=; /trace as a list, /wait for its end
GET  /api/v1/audit                what happened and who decided, newest first; /{sequence} shows one
GET  /api/v1/account              the sum that must hold
GET  /api/v1/doctor               what is wrong with the node
GET  /api/v1/backup               everything that is stored, as one file
GET  /api/v1/version
GET  /api/v1/openapi.json         all of this for programs
GET  /healthz  /readyz  /metrics
`)
}

func text(w http.ResponseWriter, s string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprint(w, s)
	return nil
}
