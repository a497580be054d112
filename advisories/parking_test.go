package advisories

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/streams"
)

func nobody(string) bool { return false }

func TestOnlyWhatTheRecordsCallExhaustedIsParkedForAnOrphan(t *testing.T) {
	s := openStore(t)
	ref, c := store1(t, s)
	o := &Orphans{Store: s, Hosted: nobody}
	must(t, s.Declare(t.Context(), streams.Declared{Name: "f", Attempts: 2}))
	attempt := func(cycle, n int, cause string) streams.Record {
		return streams.Record{Function: "f", Sequence: 1, Kind: streams.RecordAttempt, Cycle: cycle, Attempt: n, Charged: true, Cause: cause, Ended: base.Add(time.Duration(cycle*10 + n))}
	}
	var sequence uint64
	for _, step := range []struct {
		name   string
		record streams.Record
		cycle  int // of the copy that stands
		made   int // attempts that the copy says were made
		want   Verdict
		parked string
	}{
		{"no record", streams.Record{}, 0, 0, Nothing, ""},
		{"one attempt", attempt(0, 1, ""), 0, 0, Nothing, ""},
		{"the records of an earlier cycle", attempt(0, 2, ""), 1, 0, Nothing, ""},
		{"decided to park", attempt(1, 1, string(Permanent)), 1, 0, Park, "permanent"},
		{"all attempts", attempt(2, 2, ""), 2, 0, Park, "exhausted"},
		{"the copy knows of more attempts than the records", streams.Record{}, 3, 2, Park, "exhausted"},
	} {
		if step.record.Kind != "" {
			must(t, s.Append(t.Context(), step.record))
		}
		c.Cycle, c.Attempts = step.cycle, step.made
		placed, err := s.Place(t.Context(), streams.InRetry, ref, c)
		must(t, err)
		sequence = placed.Sequence
		got, err := o.Exhausted(t.Context(), "f", sequence)
		if err != nil || got != step.want {
			t.Errorf("%s: got %s, %v, want %s", step.name, got, err, step.want)
		}
		_, err = s.Find(t.Context(), streams.InRetry, "f", 1)
		if stays := err == nil; stays == (step.want == Park) {
			t.Errorf("%s: got it in RETRY %v", step.name, stays)
		}
		if step.want == Park {
			letter, err := s.Last(t.Context(), "DLQ_f", streams.InDeadLetters.Subject(ref))
			must(t, err)
			r, err := ReadReport(letter)
			if err != nil || string(r.Cause) != step.parked || r.Cycle != step.cycle {
				t.Errorf("%s: got %+v, %v, want %s at cycle %d", step.name, r, err, step.parked, step.cycle)
			}
		}
	}
	for name, tc := range map[string]struct {
		function string
		sequence uint64
	}{
		"parked already": {"f", sequence}, "never there": {"f", 999},
	} {
		if got, err := o.Exhausted(t.Context(), tc.function, tc.sequence); err != nil || got != Nothing {
			t.Errorf("%s: got %s, %v, want nothing", name, got, err)
		}
	}
	// One that nobody ever declared has no policy by which it could be judged.
	stranger := streams.Ref{Function: "g", Lane: "_", Sequence: 1}
	placed, err := s.Place(t.Context(), streams.InRetry, stranger, c)
	must(t, err)
	if got, err := o.Exhausted(t.Context(), "g", placed.Sequence); err != nil || got != Nothing {
		t.Errorf("not declared: got %s, %v, want nothing", got, err)
	}
	// Nor is it another's because a consumer of that name was told about it.
	must(t, s.Declare(t.Context(), streams.Declared{Name: "g", Attempts: 1}))
	if got, err := o.Exhausted(t.Context(), "f", placed.Sequence); err != nil || got != Nothing {
		t.Errorf("another function's: got %s, %v, want nothing", got, err)
	}
	if _, err := s.Find(t.Context(), streams.InRetry, "g", 1); err != nil {
		t.Errorf("got %v, want it where it was", err)
	}
}

// everyCut runs f in a process that dies at the first, the second … call of the gate, and then again to the end, until f has no more
// calls.
func everyCut(t *testing.T, prepare func(*testing.T, *streams.Store), f func(context.Context, *streams.Store) error, check func(*testing.T, *streams.Store)) {
	t.Helper()
	for at := 1; ; at++ {
		hit := false
		synctest.Test(t, func(t *testing.T) {
			s := openStore(t)
			prepare(t, s)
			c := &cut{at: at}
			dying, err := streams.OpenStore(t.Context(), s.Node(), streams.WithGate(c.gate))
			must(t, err)
			life(func() {
				if err := f(t.Context(), dying); err != nil {
					t.Errorf("cut at %d: %v", at, err)
				}
			})
			hit = c.hit
			time.Sleep(10 * time.Second)
			for range 2 { // and once more, as an advisory that is offered twice
				if err := f(t.Context(), s); err != nil {
					t.Errorf("cut at %d: after the restart: %v", at, err)
				}
				time.Sleep(time.Second)
			}
			check(t, s)
		})
		if t.Failed() {
			t.Fatalf("cut at %d", at)
		}
		if !hit {
			t.Attr("cuts", strconv.Itoa(at-1))
			if at < 5 {
				t.Errorf("got %d cuts, want more", at-1)
			}
			return
		}
	}
}

func TestParkingForAnOrphanIsCutAnywhereAndToldOnce(t *testing.T) {
	ref := streams.Ref{Function: "f", Lane: streams.Lane("k"), Sequence: 1}
	everyCut(t, func(t *testing.T, s *streams.Store) {
		t.Helper()
		_, c := store1(t, s)
		exhaust(t, s, ref, c, 2, 2)
	}, func(ctx context.Context, s *streams.Store) error {
		_, err := (&Orphans{Store: s, Hosted: nobody}).Exhausted(ctx, "f", 1)
		return err
	}, func(t *testing.T, s *streams.Store) {
		t.Helper()
		wantStanding(t, s, map[string]int{"dlq": 1})
		wantKinds(t, s, ref, []string{"attempt 0/1", "attempt 0/2", "parked 0/2"}, []string{"siding.parked f/1"})
	})
}

// letter makes the event a dead letter of a cycle.
func letter(t *testing.T, s *streams.Store, cycle int) streams.Ref {
	t.Helper()
	ref, c := store1(t, s)
	must(t, s.Declare(t.Context(), streams.Declared{Name: "f", Attempts: 2}))
	_, err := s.Place(t.Context(), streams.InDeadLetters, ref, Letter(c, Report{Cause: Permanent, Cycle: cycle, ParkedAt: base}))
	must(t, err)
	return ref
}

func TestADiscardForAnOrphanIsCutAnywhereAndToldOnce(t *testing.T) {
	ref := streams.Ref{Function: "f", Lane: streams.Lane("k"), Sequence: 1}
	everyCut(t, func(t *testing.T, s *streams.Store) {
		t.Helper()
		letter(t, s, 1)
		_, err := s.Decide(t.Context(), ref, streams.Decision{Action: streams.ActionDiscard, Cycle: 1, Reason: "no claim", By: "Ada", At: time.Now()})
		must(t, err)
	}, func(ctx context.Context, s *streams.Store) error {
		return (&Orphans{Store: s, Hosted: nobody}).Decisions(ctx)
	}, func(t *testing.T, s *streams.Store) {
		t.Helper()
		wantStanding(t, s, map[string]int{})
		wantKinds(t, s, ref, []string{"discarded 1/0"}, []string{"siding.discarded f/1"})
	})
}

func TestOnlyDiscardsAreAppliedForOrphansAndStaleOnesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		decision streams.Decision
		hosted   bool
		stands   map[string]int
		audit    []string
	}{
		"redrive":            {streams.Decision{Action: streams.ActionRedrive, Cycle: 1}, false, map[string]int{"dlq": 1, "decision": 1}, nil},
		"discard":            {streams.Decision{Action: streams.ActionDiscard, Cycle: 1}, false, map[string]int{}, []string{"siding.discarded f/1"}},
		"of a hosted one":    {streams.Decision{Action: streams.ActionDiscard, Cycle: 1}, true, map[string]int{"dlq": 1, "decision": 1}, nil},
		"of another cycle":   {streams.Decision{Action: streams.ActionDiscard, Cycle: 0}, false, map[string]int{"dlq": 1}, []string{"siding.refused f/1"}},
		"of an unknown kind": {streams.Decision{Action: "forgive", Cycle: 1}, false, map[string]int{"dlq": 1}, []string{"siding.refused f/1"}},
	} {
		s := openStore(t)
		ref := letter(t, s, 1)
		tc.decision.At, tc.decision.By = base, "Ada"
		_, err := s.Decide(t.Context(), ref, tc.decision)
		must(t, err)
		for range 2 {
			if err := (&Orphans{Store: s, Hosted: func(string) bool { return tc.hosted }}).Decisions(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		wantStanding(t, s, tc.stands)
		_, audit := kinds(t, s, ref)
		if len(audit) != len(tc.audit) || len(audit) == 1 && audit[0] != tc.audit[0] {
			t.Errorf("%s: got the audit %q, want %q", name, audit, tc.audit)
		}
	}
}

func TestADiscardOfWhatIsNoLongerThereIsRefused(t *testing.T) {
	s := openStore(t)
	ref := letter(t, s, 0)
	must(t, s.JetStream().DeleteStream(t.Context(), "DLQ_f"))
	_, err := s.Decide(t.Context(), ref, streams.Decision{Action: streams.ActionDiscard, By: "Ada", At: base})
	must(t, err)
	must(t, (&Orphans{Store: s, Hosted: nobody}).Decisions(t.Context()))
	wantStanding(t, s, map[string]int{})
	wantKinds(t, s, ref, nil, []string{"siding.refused f/1"})
}

// The audit is read by who tells people, and outlives the dead letter.
func TestTheAuditOfAnOrphansDeadLetterSaysFromWhomAndWhy(t *testing.T) {
	s := openStore(t)
	ref, c := store1(t, s)
	must(t, s.Declare(t.Context(), streams.Declared{Name: "f", Attempts: 1}))
	must(t, s.Append(t.Context(), streams.Record{
		Function: "f", Sequence: 1, Kind: streams.RecordAttempt, Attempt: 1, Charged: true, Class: "transient", Error: "the error", Ended: base,
	}))
	placed, err := s.Place(t.Context(), streams.InRetry, ref, c)
	must(t, err)
	o := &Orphans{Store: s, Hosted: nobody, Explain: func(class, text string) (string, string) { return "common to " + text, class + "-id" }}
	if verdict, err := o.Exhausted(t.Context(), "f", placed.Sequence); verdict != Park || err != nil {
		t.Fatalf("got %s, %v", verdict, err)
	}
	m, err := s.Last(t.Context(), streams.AuditStream, streams.AuditSubject("f"))
	must(t, err)
	event, err := s.Get(t.Context(), streams.EventsStream, 1)
	must(t, err)
	source := SourceOf(event.Header, event.Data)
	want := map[string]string{"class": "transient", "trace_id": "", "source": source, "why": "common to the error", "group": "transient-id"}
	if diff := cmp.Diff(want, streams.ReadAudit(m).Detail); diff != "" || source == "" {
		t.Errorf("source %q, detail (-want +got):\n%s", source, diff)
	}
}
