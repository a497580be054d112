package runtime

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
)

// failer is a test or a property.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// scrape returns the lines of /metrics that begin with siding_.
func scrape(t failer, m *metrics) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("got status %d: %s", w.Code, w.Body)
	}
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "siding_") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

func wantLines(t failer, m *metrics, want ...string) {
	t.Helper()
	all := "\n" + strings.Join(scrape(t, m), "\n") + "\n"
	for _, line := range want {
		if !strings.Contains(all, "\n"+line+"\n") {
			t.Errorf("missing %s in:%s", line, all)
		}
	}
}

func TestMetricsTellTheStory(t *testing.T) {
	t.Parallel()
	m := newMetrics("file-claim", "notify")
	m.stored("stored")
	m.stored("duplicate")
	m.started("file-claim")
	m.started("file-claim")
	m.attempt("file-claim", functions.Result{Outcome: functions.Done}, 2*time.Second, 20*time.Millisecond)
	m.started("notify")
	m.attempt("notify", functions.Result{Outcome: functions.Retried, Class: functions.ClassTimeout, Err: errors.New("x")}, -time.Second, time.Minute)
	m.dead("notify", advisories.Exhausted, advisories.ByAdvisory)
	m.standing("notify", 1, time.Unix(1700000000, 0))
	m.standing("file-claim", 0, time.Unix(1700000000, 0))
	m.overdue("notify", 2)
	m.dependency("notify", "mail-relay", true)
	m.dependency("notify", "contract-system", false)
	m.decision("notify", "redrive", "applied")
	m.decision("notify", "release", "conflict")
	m.hold("notify")
	m.hold("notify")
	m.release("notify")
	m.lanes("notify", 3, 40, 1)
	m.oldestHold("notify", time.Unix(1700000000, 0))
	m.oldestHold("file-claim", time.Unix(1700000000, 0))
	m.oldestHold("file-claim", time.Time{})
	m.holdLimit("notify", "depth")
	m.advisory("max_deliveries", advisories.GiveBack)
	m.advisory("terminated", "foreign")
	m.advisory("", "invalid")
	m.swept()
	m.storeError("place DLQ")
	m.spansLost(3, nil)
	wantLines(t, m,
		`siding_accepted_total{result="stored"} 1`,
		`siding_accepted_total{result="duplicate"} 1`,
		`siding_attempts_total{class="",function="file-claim",outcome="done"} 1`,
		`siding_attempts_total{class="",function="notify",outcome="done"} 0`,
		`siding_attempts_total{class="timeout",function="notify",outcome="retry"} 1`,
		`siding_in_flight{function="file-claim"} 1`,
		`siding_in_flight{function="notify"} 0`,
		`siding_queue_wait_seconds_bucket{function="file-claim",le="10"} 1`,
		`siding_queue_wait_seconds_bucket{function="file-claim",le="1"} 0`,
		`siding_queue_wait_seconds_sum{function="notify"} 0`,
		`siding_handler_seconds_sum{function="notify"} 60`,
		`siding_parked_total{by="advisory",cause="exhausted",function="notify"} 1`,
		`siding_parked{function="notify"} 1`,
		`siding_oldest_dead_letter_timestamp_seconds{function="notify"} 1.7e+09`,
		`siding_oldest_dead_letter_timestamp_seconds{function="file-claim"} 0`,
		`siding_stuck{function="notify"} 2`,
		`siding_dependency_up{dependency="mail-relay",function="notify"} 1`,
		`siding_dependency_up{dependency="contract-system",function="notify"} 0`,
		`siding_decisions_total{action="redrive",function="notify",result="applied"} 1`,
		`siding_decisions_total{action="release",function="notify",result="conflict"} 1`,
		`siding_held_total{function="notify"} 2`,
		`siding_held_total{function="file-claim"} 0`,
		`siding_released_total{function="notify"} 1`,
		`siding_blocked_lanes{function="notify"} 3`,
		`siding_held{function="notify"} 40`,
		`siding_paused_lanes{function="notify"} 1`,
		`siding_oldest_hold_timestamp_seconds{function="notify"} 1.7e+09`,
		`siding_oldest_hold_timestamp_seconds{function="file-claim"} 0`,
		`siding_hold_limit_breaches_total{function="notify",limit="depth"} 1`,
		`siding_hold_limit_breaches_total{function="notify",limit="age"} 0`,
		`siding_advisories_total{kind="max_deliveries",verdict="give_back"} 1`,
		`siding_advisories_total{kind="terminated",verdict="foreign"} 1`,
		`siding_advisories_total{kind="other",verdict="invalid"} 1`,
		`siding_sweeps_total 1`,
		`siding_store_errors_total{op="place"} 1`,
		`siding_spans_dropped_total 3`,
	)
}

func TestOddLabelValuesAreFoldedToOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := newMetrics("file-claim")
		odd := func() string { return "odd-" + rapid.String().Draw(rt, "value") }
		m.stored(odd())
		m.started(odd())
		m.attempt(odd(), functions.Result{Outcome: functions.Outcome(odd()), Class: functions.Class(odd())}, 0, 0)
		m.attempt(odd(), functions.Result{Outcome: functions.Retried}, 0, 0) // a failure without a class
		m.dead(odd(), advisories.Cause(odd()), odd())
		m.standing(odd(), 1, time.Unix(1, 0))
		m.overdue(odd(), 1)
		m.lanes(odd(), 1, 2, 3)
		m.oldestHold(odd(), time.Unix(1, 0))
		m.hold(odd())
		m.release(odd())
		m.holdLimit(odd(), odd())
		m.decision(odd(), odd(), odd())
		m.advisory(odd(), advisories.Verdict(odd()))
		m.storeError(odd())
		for _, line := range scrape(rt, m) {
			if strings.Contains(line, "odd-") {
				rt.Fatalf("got %s, want its labels folded", line)
			}
		}
		wantLines(rt, m,
			`siding_attempts_total{class="other",function="other",outcome="other"} 1`,
			`siding_attempts_total{class="other",function="other",outcome="retry"} 1`,
			`siding_decisions_total{action="other",function="other",result="other"} 1`,
			`siding_held{function="other"} 2`,
			`siding_held_total{function="other"} 1`,
			`siding_released_total{function="other"} 1`,
			`siding_hold_limit_breaches_total{function="other",limit="other"} 1`,
			`siding_parked_total{by="other",cause="other",function="other"} 1`,
			`siding_advisories_total{kind="other",verdict="other"} 1`,
			`siding_store_errors_total{op="other"} 1`)
	})
}

func TestMetricsOfTheHotPathAllocateNothing(t *testing.T) {
	m, done := newMetrics("file-claim"), functions.Result{Outcome: functions.Done}
	if n := testing.AllocsPerRun(100, func() {
		m.started("file-claim")
		m.attempt("file-claim", done, time.Millisecond, time.Millisecond)
		m.hold("file-claim") // while a lane is blocked, this is where its arrivals go
		m.release("file-claim")
	}); n != 0 {
		t.Errorf("got %v allocations an attempt, want 0", n)
	}
}

func BenchmarkMetricsAttempt(b *testing.B) {
	m, done := newMetrics("file-claim"), functions.Result{Outcome: functions.Done}
	b.ReportAllocs()
	for b.Loop() {
		m.started("file-claim")
		m.attempt("file-claim", done, time.Millisecond, time.Millisecond)
	}
}
