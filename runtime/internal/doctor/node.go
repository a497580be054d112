package doctor

import "time"

// Shares of a limit from which a stream is called filling and full.
const (
	filling = 0.80
	full    = 0.97
)

func checkStore(r *report, n *Node) {
	before := len(r.findings)
	if n.Unhealthy != "" {
		r.fail("store", "see that its disk has room; the store is restarted then", "cannot be written: %s", n.Unhealthy)
	}
	var used int64
	for _, s := range n.Streams {
		used += s.Bytes
		if s.MaxBytes > 0 {
			limit(r, "stream "+s.Name, s.Bytes, s.MaxBytes, "new events are refused with 503 when it is full, and none is dropped: give the store more room")
		}
	}
	if n.MaxStore > 0 {
		limit(r, "the store", used, n.MaxStore, "when it is full nothing can be parked: give it more room")
	}
	r.unless(before, "store", "%s of %s used", size(used), size(n.MaxStore))
}

func limit(r *report, what string, used, most int64, hint string) {
	switch share := float64(used) / float64(most); {
	case share >= full:
		r.fail("store", hint, "%s: full, %s of %s", what, size(used), size(most))
	case share >= filling:
		r.warn("store", hint, "%s: %.0f %% used, %s of %s", what, 100*share, size(used), size(most))
	}
}

func checkStreams(r *report, n *Node) {
	for _, kind := range []struct {
		check    string
		consumer bool
		hint     string
	}{
		{"streams", false, "somebody changed it; a restart of the node puts it right, except a dead-letter stream: change that back"},
		{"consumers", true, "somebody changed it; a restart of the node makes it anew where the function was"},
	} {
		before := len(r.findings)
		for _, d := range n.Drift {
			switch {
			case d.Consumer != kind.consumer:
			case d.Field == "":
				r.fail(kind.check, kind.hint, "%s: missing", d.What)
			default:
				r.fail(kind.check, kind.hint, "%s: %s is %s, should be %s", d.What, d.Field, d.Got, d.Want)
			}
		}
		r.unless(before, kind.check, "as Siding made them")
	}
}

func checkFunctions(r *report, n *Node) {
	hosts := false
	for _, f := range n.Functions {
		if !f.Hosted {
			continue
		}
		hosts = true
		before := len(r.findings)
		if f.Suspended != "" {
			r.fail("policies", "`siding function show "+f.Name+"` says more; `siding function resume "+f.Name+"` lets it go on, a restart ends handlers that hang",
				"function %s: suspended, %s", f.Name, f.Suspended)
		}
		for _, warning := range f.Patience.Warnings {
			r.warn("policies", "switch the breaker on, or allow more attempts or longer delays, unless a person looks at dead letters that soon",
				"function %s: %s", f.Name, warning)
		}
		if f.Timeout > time.Hour {
			r.warn("policies", "let long work be started by the handler and end elsewhere", "function %s: an attempt may take %s", f.Name, f.Timeout)
		}
		r.unless(before, "policies", "function %s: %s", f.Name, f.Patience)
	}
	if !hosts {
		r.ok("policies", "no function is hosted")
	}
	before := len(r.findings)
	for _, f := range n.Functions {
		if f.Hosted && f.Owner == "" {
			r.warn("owners", "set Owner to the team that looks at its dead letters", "function %s: has no owner", f.Name)
		}
	}
	r.unless(before, "owners", "every function has one")
	before = len(r.findings)
	for _, f := range n.Functions {
		if !f.Hosted && f.Retrying+f.Held+f.Parked+f.Decisions > 0 {
			r.warn("leftovers", "host it again, or end them: siding function forget "+f.Name,
				"function %s is not hosted, and of it stand %d dead letters, %d retrying, %d held, %d decisions", f.Name, f.Parked, f.Retrying, f.Held, f.Decisions)
		}
	}
	r.unless(before, "leftovers", "nothing stands of functions that are not hosted")
}

func checkDoubles(r *report, n *Node) {
	before := len(r.findings)
	for _, d := range n.Doubles {
		r.fail("doubles", "siding event show tells its life; a restart of the node settles it", "event %s: stands in %s and in %s", d.ID, d.First, d.Second)
	}
	r.unless(before, "doubles", "no event stands twice")
}

func checkTracing(r *report, n *Node) {
	switch t := n.Tracing; {
	case t.Endpoint == "":
		r.ok("tracing", "spans are not exported: no OTLP endpoint is configured")
	case t.Err != "":
		r.warn("tracing", "see that a collector listens there; handlers are not affected", "%s: not reachable: %s", t.Endpoint, t.Err)
	default:
		r.ok("tracing", "%s: reachable", t.Endpoint)
	}
}

func checkAccess(r *report, n *Node) {
	before := len(r.findings)
	for _, l := range n.Listeners {
		switch {
		case !n.Token && !l.Loopback:
			r.fail("access", "serve with --token-file, or listen on loopback", "%s on %s: open to everybody who reaches it", l.What, l.Address)
		case !n.Token:
			r.warn("access", "serve with --token-file where others use this machine", "%s on %s: open to everybody on this machine", l.What, l.Address)
		case !l.Loopback && !l.TLS:
			r.warn("access", "use TLS, here or in a proxy before it", "%s on %s: tokens and events travel unencrypted", l.What, l.Address)
		}
	}
	r.unless(before, "access", "a token is asked for")
}
