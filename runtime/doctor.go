package runtime

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/doctor"
	"github.com/siding-dev/siding/runtime/internal/patience"
	"github.com/siding-dev/siding/streams"
)

// reachTimeout is how long a collector of spans gets to answer the doctor.
const reachTimeout = 2 * time.Second

// inspect is the doctor for a data directory, whether a node runs on it or not.
func inspect(dir string) (client.Doctor, error) {
	found, err := streams.Inspect(dir)
	if err != nil {
		return client.Doctor{}, err
	}
	return doctor.Check(doctor.Facts{Now: time.Now(), Directory: directoryFacts(found)}), nil
}

func directoryFacts(i streams.Inspection) *doctor.Directory {
	d := &doctor.Directory{
		Path: i.Dir, Absent: i.Absent, Free: i.Free, Reserve: i.Reserve, Used: i.Used, Damaged: map[string]string{}, Ledgers: len(i.Ledgers),
		Aside: i.Aside, Newest: i.Newest,
	}
	if i.Lock != nil {
		d.Locked = i.Lock.Holder()
	}
	if i.Format != nil {
		d.Format, d.FormatHint = i.Format.Reason, i.Format.Hint
	}
	for _, l := range i.Ledgers {
		if l.Damage != nil {
			d.Damaged[l.Function] = l.Damage.Error()
		}
	}
	return d
}

// doctor is the same for a running node, which can tell more.
func (r *Runtime) doctor(ctx context.Context) (client.Doctor, error) {
	h, err := r.current()
	if err != nil {
		return client.Doctor{}, err
	}
	found, err := streams.Inspect(h.store.Node().Dir())
	if err != nil {
		return client.Doctor{}, err
	}
	facts := doctor.Facts{Now: time.Now(), Directory: directoryFacts(found)}
	if facts.Node, err = h.doctorFacts(ctx); err != nil {
		return client.Doctor{}, err
	}
	facts.Node.Tracing = reach(ctx, r.cfg.Getenv)
	facts.Node.Token = len(r.cfg.Tokens) > 0
	for _, l := range []struct{ what, address string }{{"the HTTP API", r.HTTPAddr()}, {"NATS", hostOf(r.NATSAddr())}} {
		if l.address != "" {
			facts.Node.Listeners = append(facts.Node.Listeners, doctor.Listener{What: l.what, Address: l.address, Loopback: isLoopback(l.address), TLS: r.cfg.TLS != nil})
		}
	}
	return doctor.Check(facts), nil
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// doctorFacts are what the store and the functions show.
func (h *host) doctorFacts(ctx context.Context) (*doctor.Node, error) {
	n := &doctor.Node{PID: os.Getpid(), MaxStore: h.store.Node().MaxStore()}
	if err := h.store.Node().Health(); err != nil {
		n.Unhealthy = err.Error()
	}
	uses, err := h.store.Uses(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range uses {
		n.Streams = append(n.Streams, doctor.Stream{Name: u.Name, Bytes: int64(u.Bytes), MaxBytes: u.MaxBytes, Last: u.Last})
	}
	names, err := h.store.DeclaredNames(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	drifts, err := h.store.StreamDrift(ctx, names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		d, err := h.store.Declared(ctx, name)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f, doubles, err := h.functionFacts(ctx, d)
		if err != nil {
			return nil, err
		}
		n.Functions, n.Doubles = append(n.Functions, f), append(n.Doubles, doubles...)
		if f.Hosted {
			consumers, err := h.store.ConsumerDrift(ctx, d)
			if err != nil {
				return nil, err
			}
			drifts = append(drifts, consumers...)
		}
	}
	for _, d := range drifts {
		what := "stream " + d.Stream
		if d.Consumer != "" {
			what += ", consumer " + d.Consumer
		}
		n.Drift = append(n.Drift, doctor.Drift{What: what, Consumer: d.Consumer != "", Field: d.Field, Got: d.Got, Want: d.Want})
	}
	return n, nil
}

func (h *host) functionFacts(ctx context.Context, d streams.Declared) (doctor.Function, []doctor.Double, error) {
	f := doctor.Function{Name: d.Name, Owner: d.Owner, Timeout: d.Timeout}
	for _, fn := range h.fns {
		if fn.Name == d.Name {
			f.Hosted, f.Patience = true, patience.Of(fn)
		}
	}
	if o := h.owner(d.Name); o != nil {
		f.Suspended = o.suspendedBecause()
	}
	places, err := standingPlaces(ctx, h.store, d.Name)
	if err != nil {
		return f, nil, err
	}
	decisions, err := h.store.Standing(ctx, streams.InDecisions, d.Name)
	if err != nil {
		return f, nil, err
	}
	f.Decisions = len(decisions)
	twice := false
	for _, at := range places {
		switch at[0] {
		case streams.InRetry:
			f.Retrying++
		case streams.InHeld:
			f.Held++
		default:
			f.Parked++
		}
		twice = twice || len(at) > 1
	}
	if !twice {
		return f, nil, nil
	}
	doubles, err := h.doubles(ctx, d.Name, places)
	return f, doubles, err
}

// doubles looks again at what stood twice: an event that is being moved does so for an instant.
func (h *host) doubles(ctx context.Context, function string, before map[uint64][]streams.Place) (found []doctor.Double, err error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(200 * time.Millisecond):
	}
	places, err := standingPlaces(ctx, h.store, function)
	if err != nil {
		return nil, err
	}
	for seq, at := range places {
		if len(at) > 1 && slices.Equal(at, before[seq]) {
			ref := streams.Ref{Function: function, Sequence: seq}
			found = append(found, doctor.Double{ID: ref.ID(), First: at[0].Stream(function), Second: at[1].Stream(function)})
		}
	}
	slices.SortFunc(found, func(a, b doctor.Double) int { return strings.Compare(a.ID, b.ID) })
	return found, nil
}

// reach finds out whether somebody listens where spans are sent to.
func reach(ctx context.Context, getenv func(string) string) doctor.Tracing {
	endpoint, err := otlpEndpoint(getenv)
	if err != nil || endpoint == "" {
		return doctor.Tracing{}
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return doctor.Tracing{}
	}
	t := doctor.Tracing{Endpoint: u.Redacted()}
	port := u.Port()
	if port == "" {
		port = u.Scheme // net knows http and https by name
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		t.Err = err.Error()
		return t
	}
	_ = conn.Close()
	return t
}

// doctor answers with what is wrong with the node.
func (a *api) doctor(w http.ResponseWriter, r *http.Request) error {
	found, err := a.backend.doctor(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, found)
	return nil
}
