package runtime

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// metrics are the numbers of one process, in a registry of their own. All
// methods are safe for concurrent use. No key and no id is ever a label, and
// each label has a closed set of values: what is not in it counts as "other",
// so that no input can grow the number of series.
type metrics struct {
	registry *prometheus.Registry

	accepted, decisions, advisories, storeErrors, noticesTold *prometheus.CounterVec
	sweeps, spansDropped, webhookFailures, webhookDropped     prometheus.Counter
	dependencies                                              *prometheus.GaugeVec

	functions map[string]*functionMetrics // never written after newMetrics
}

// functionMetrics are the series of one function, looked up once because a
// look-up by labels hashes and locks.
type functionMetrics struct {
	inFlight, parked, oldest, stuck   prometheus.Gauge
	blocked, held, oldestHold, paused prometheus.Gauge
	suspended                         prometheus.Gauge
	wait, handler                     prometheus.Observer
	done, holds, releases             prometheus.Counter
	crashes, again                    prometheus.Counter
	possiblyTwice                     *prometheus.CounterVec // by why
	failures                          *prometheus.CounterVec // by outcome and class
	parkings                          *prometheus.CounterVec // by cause and by
	breaches                          *prometheus.CounterVec // by limit
}

// otherLabel stands for every label value outside of its set.
const otherLabel = "other"

// The limits of functions.HoldLimit, as labels.
const (
	limitAge   = "age"
	limitDepth = "depth"
)

// closedLabel folds a value into its closed set.
func closedLabel[S ~string](value S, allowed ...S) string {
	if slices.Contains(allowed, value) {
		return string(value)
	}
	return otherLabel
}

// newMetrics makes the metrics of a process. names are the functions that it
// hosts and those that still have events standing somewhere.
func newMetrics(names ...string) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), functions: map[string]*functionMetrics{}}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append([]string{"function"}, labels...))
		m.registry.MustRegister(g)
		return g
	}
	seconds := func(name, help string, buckets ...float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"function"})
		m.registry.MustRegister(h)
		return h
	}
	m.accepted = counter("siding_accepted_total", "Events offered to the store, by what it answered.", "result")
	m.decisions = counter("siding_decisions_total", "Decisions about dead letters, by what became of them.", "function", "action", "result")
	m.advisories = counter("siding_advisories_total", "JetStream advisories that were read, by the verdict reached.", "kind", "verdict")
	m.storeErrors = counter("siding_store_errors_total", "Operations of the store that failed.", "op")
	m.sweeps = counter("siding_sweeps_total", "Sweeps for work that lost its trigger.").WithLabelValues()
	m.spansDropped = counter("siding_spans_dropped_total", "Spans that never reached the collector.").WithLabelValues()
	m.noticesTold = counter("siding_notices_total", "Notices that were stored for people, by kind.", "kind")
	m.webhookFailures = counter("siding_webhook_failures_total", "Posts of a notice to the webhook that failed.").WithLabelValues()
	m.webhookDropped = counter("siding_webhook_dropped_total", "Notices that the webhook did not take within a day, and was not told.").WithLabelValues()
	for _, kind := range noticeKinds() { // a series that begins with its first notice shows no increase
		m.noticesTold.WithLabelValues(kind)
	}
	attempts := counter("siding_attempts_total", "Attempts that ended, by outcome and class of failure.", "function", "outcome", "class")
	parkings := counter("siding_parked_total", "Events that became dead letters, by cause and by who parked them.", "function", "cause", "by")
	holds := counter("siding_held_total", "Events that were held.", "function")
	releases := counter("siding_released_total", "Held events that were let go on.", "function")
	crashes := counter("siding_crashed_attempts_total", "Attempts during which the process died, as the next one found out.", "function")
	breaches := counter("siding_hold_limit_breaches_total", "Lanes that came to hold more, or longer, than their function's limit.", "function", "limit")
	again := counter("siding_delivered_again_total", "Events that were handled twice: an attempt succeeded after another one had.", "function")
	possibly := counter("siding_possibly_delivered_twice_total",
		"Events that may have been handled twice: nobody knows how an earlier attempt ended, because of a crash or with the ledger lost.", "function", "why")
	inFlight := gauge("siding_in_flight", "Attempts running now.")
	parked := gauge("siding_parked", "Dead letters standing now.")
	oldest := gauge("siding_oldest_dead_letter_timestamp_seconds", "When the oldest dead letter was parked; 0 if there is none.")
	stuck := gauge("siding_stuck", "Attempts that run on past their deadline.")
	blocked := gauge("siding_blocked_lanes", "Lanes that wait for an event of theirs to be retried or decided about.")
	held := gauge("siding_held", "Events held now.")
	oldestHold := gauge("siding_oldest_hold_timestamp_seconds", "Since when the lane that has held longest holds without a break; 0 if none does.")
	suspended := gauge("siding_suspended", "Whether the function is suspended: nothing of it is attempted but single probes.")
	paused := gauge("siding_paused_lanes", "Lanes that an operator has paused.")
	m.dependencies = gauge("siding_dependency_up", "Whether the last check of what a function depends on found it there; 0 before the first one too.", "dependency")
	// An event waits for a free worker or, behind an outage, for a day.
	wait := seconds("siding_queue_wait_seconds", "From an event being due until its attempt started.", .001, .01, .1, 1, 10, 60, 600, 3600, 6*3600, 24*3600)
	handler := seconds("siding_handler_seconds", "How long handlers ran.", .001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300)
	for _, name := range append([]string{otherLabel}, names...) {
		f := &functionMetrics{
			inFlight: inFlight.WithLabelValues(name), parked: parked.WithLabelValues(name),
			oldest: oldest.WithLabelValues(name), stuck: stuck.WithLabelValues(name),
			wait: wait.WithLabelValues(name), handler: handler.WithLabelValues(name),
			blocked: blocked.WithLabelValues(name), held: held.WithLabelValues(name),
			oldestHold: oldestHold.WithLabelValues(name), paused: paused.WithLabelValues(name),
			suspended: suspended.WithLabelValues(name),
			holds:     holds.WithLabelValues(name), releases: releases.WithLabelValues(name), crashes: crashes.WithLabelValues(name),
			again: again.WithLabelValues(name), possiblyTwice: possibly.MustCurryWith(prometheus.Labels{"function": name}),
			done:     attempts.WithLabelValues(name, string(functions.Done), ""),
			failures: attempts.MustCurryWith(prometheus.Labels{"function": name}),
			parkings: parkings.MustCurryWith(prometheus.Labels{"function": name}),
			breaches: breaches.MustCurryWith(prometheus.Labels{"function": name}),
		}
		// A breach is rare, and a series that begins with its first one shows no
		// increase to whoever is to be alarmed.
		for _, limit := range []string{limitAge, limitDepth} {
			f.breaches.WithLabelValues(limit)
		}
		for _, why := range []doubt{doubtCrash, doubtLedger} {
			f.possiblyTwice.WithLabelValues(string(why))
		}
		m.functions[name] = f
	}
	return m
}

// handler serves /metrics.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// function finds the series of a function; unknown ones share theirs.
func (m *metrics) function(name string) *functionMetrics {
	if f := m.functions[name]; f != nil {
		return f
	}
	return m.functions[otherLabel]
}

// stored counts an event offered to the store: stored, duplicate or refused.
func (m *metrics) stored(result string) {
	m.accepted.WithLabelValues(closedLabel(result, "stored", "duplicate", "refused")).Inc()
}

// started counts an attempt as running, until attempt is called for it.
func (m *metrics) started(function string) { m.function(function).inFlight.Inc() }

// attempt counts an attempt that has ended. wait is the time from its event
// being due until it started, took that of the handler. It is called for each
// attempt of the hot path and allocates nothing, unless the attempt failed.
func (m *metrics) attempt(function string, res functions.Result, wait, took time.Duration) {
	f := m.function(function)
	f.inFlight.Dec()
	f.wait.Observe(max(0, wait).Seconds())
	f.handler.Observe(took.Seconds())
	if res.Outcome == functions.Done {
		f.done.Inc()
		return
	}
	outcome := closedLabel(res.Outcome, functions.Retried, functions.Parked, functions.Discarded)
	f.failures.WithLabelValues(outcome, closedLabel(res.Class, functions.Classes()...)).Inc()
}

// crashed counts an attempt during which the process died.
func (m *metrics) crashed(function string) { m.function(function).crashes.Inc() }

// dead counts an event that became a dead letter; by is one of advisories.By….
func (m *metrics) dead(function string, cause advisories.Cause, by string) {
	m.function(function).parkings.WithLabelValues(
		closedLabel(cause, advisories.Exhausted, advisories.Permanent, advisories.Undecodable, advisories.Crashed,
			advisories.Stuck, advisories.Expired, advisories.SetAside),
		closedLabel(by, advisories.ByAdvisory, advisories.ByOwner, advisories.BySweep, advisories.ByAttempt)).Inc()
}

// standing states how many dead letters a function has and since when the
// oldest stands.
func (m *metrics) standing(function string, parked int, oldest time.Time) {
	if parked == 0 {
		oldest = time.Time{}
	}
	f := m.function(function)
	f.parked.Set(float64(parked))
	f.oldest.Set(timestamp(oldest))
}

// timestamp is t in seconds since 1970, to the millisecond; 0 for no time.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// dependency states whether what a function depends on is there. Both names are
// those of a function that this process hosts.
func (m *metrics) dependency(function, dependency string, up bool) {
	value := 0.0
	if up {
		value = 1
	}
	m.dependencies.WithLabelValues(function, dependency).Set(value)
}

// overdue states how many attempts of a function run on past their deadline.
func (m *metrics) overdue(function string, attempts int) {
	m.function(function).stuck.Set(float64(attempts))
}

// suspended states whether a function is.
func (m *metrics) suspended(function string, is bool) {
	value := 0.0
	if is {
		value = 1
	}
	m.function(function).suspended.Set(value)
}

// lanes states how many lanes of a function are blocked, how many events they
// all hold, and how many lanes are paused.
func (m *metrics) lanes(function string, blocked, held, paused int) {
	f := m.function(function)
	f.blocked.Set(float64(blocked))
	f.held.Set(float64(held))
	f.paused.Set(float64(paused))
}

// oldestHold states since when the lane that has held longest holds without a
// break; the zero time means that none holds.
func (m *metrics) oldestHold(function string, since time.Time) {
	m.function(function).oldestHold.Set(timestamp(since))
}

// hold counts an event that was held.
func (m *metrics) hold(function string) { m.function(function).holds.Inc() }

// release counts a held event that was let go on.
func (m *metrics) release(function string) { m.function(function).releases.Inc() }

// deliveredAgain counts an event that was handled twice.
func (m *metrics) deliveredAgain(function string) { m.function(function).again.Inc() }

// possiblyTwice counts an event that may have been.
func (m *metrics) possiblyTwice(function string, why doubt) {
	m.function(function).possiblyTwice.WithLabelValues(closedLabel(why, doubtCrash, doubtLedger)).Inc()
}

// holdLimit counts a lane that came past a limit: limitAge or limitDepth.
func (m *metrics) holdLimit(function, limit string) {
	m.function(function).breaches.WithLabelValues(closedLabel(limit, limitAge, limitDepth)).Inc()
}

// decision counts a decision about a dead letter. result is applied, conflict
// (it named an earlier cycle, or another one was first), refused or error.
func (m *metrics) decision(function, action, result string) {
	if m.functions[function] == nil {
		function = otherLabel
	}
	m.decisions.WithLabelValues(function,
		closedLabel(action, streams.ActionRedrive, streams.ActionEdit, streams.ActionDiscard, streams.ActionRelease),
		closedLabel(result, "applied", "conflict", "refused", "error")).Inc()
}

// advisory counts an advisory that was read: max_deliveries or terminated. The
// verdict is foreign about a consumer that is not ours, and invalid, of no
// known kind, where it could not be read.
func (m *metrics) advisory(kind string, verdict advisories.Verdict) {
	m.advisories.WithLabelValues(
		closedLabel(advisories.Kind(kind), advisories.MaxDeliveries, advisories.Terminated),
		closedLabel(verdict, advisories.Park, advisories.GiveBack, advisories.MarkDead, advisories.Nothing, "foreign", "invalid")).Inc()
}

// swept counts a sweep.
func (m *metrics) swept() { m.sweeps.Inc() }

// storeError counts a failed operation of the store. What follows the first
// word of op names a stream or a kind, and is not counted apart.
func (m *metrics) storeError(op string) {
	op, _, _ = strings.Cut(op, " ")
	m.storeErrors.WithLabelValues(closedLabel(op, "accept", "place", "delete", "ack", "nak", "record", "audit", "decide", "declare", "read", "fetch", "ledger")).Inc()
}

// spansLost counts spans that never reached the collector; it is what
// newTracerProvider reports to.
func (m *metrics) spansLost(spans int, _ error) { m.spansDropped.Add(float64(spans)) }

// told counts a notice that was stored.
func (m *metrics) told(kind string) {
	m.noticesTold.WithLabelValues(closedLabel(kind, noticeKinds()...)).Inc()
}
