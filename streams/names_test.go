package streams

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"pgregory.net/rapid"
)

// drawRef draws the identity of an event of any function that may exist, with any key.
func drawRef(t *rapid.T) Ref {
	return Ref{
		Function: rapid.StringMatching(`[a-z][a-z0-9-]{0,62}`).Draw(t, "function"),
		Lane:     Lane(drawKey(t)),
		Sequence: rapid.Uint64Min(1).Draw(t, "sequence"),
	}
}

func TestSubjectsAreReadBackAsTheyWereBuilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		place := rapid.SampledFrom([]Place{InRetry, InHeld, InDeadLetters, InDecisions}).Draw(t, "place")
		ref := drawRef(t)
		subject := place.Subject(ref)
		gotPlace, gotRef, err := ParseSubject(subject)
		if err != nil || gotPlace != place || gotRef != ref {
			t.Errorf("%s: got %s, %+v, %v, want %s, %+v", subject, gotPlace, gotRef, err, place, ref)
		}
		if !server.IsValidLiteralSubject(subject) {
			t.Errorf("got %q, which no server takes as a literal subject", subject)
		}
		for filter, want := range map[string]bool{
			place.Filter(ref.Function):                           true,
			place.LaneFilter(ref.Function, ref.Lane):             true,
			place.LaneFilter(ref.Function, ref.Lane+"x"):         false,
			place.LaneFilter(ref.Function+"x", ref.Lane):         false,
			place.SequenceFilter(ref.Function, ref.Sequence):     true,
			place.SequenceFilter(ref.Function, ref.Sequence-1):   false,
			place.Filter(ref.Function + "x"):                     false,
			place.SequenceFilter(ref.Function+"x", ref.Sequence): false,
		} {
			if got := server.SubjectMatchesFilter(subject, filter); got != want {
				t.Errorf("%s in %s: got %v, want %v", subject, filter, got, want)
			}
		}
		if got, want := ref.ID(), ref.Function+"/"+strconv.FormatUint(ref.Sequence, 10); got != want {
			t.Errorf("id: got %s, want %s", got, want)
		}
	})
}

func TestSubjectsThatAreNotOursAreRefused(t *testing.T) {
	for _, subject := range []string{
		"", ".", "....", "siding", "siding.retry.f._", "siding.retry.f._.1.2", "events.a.b.c.1",
		"siding.lost.f._.1", "siding..f._.1", "siding.Retry.f._.1", "Siding.retry.f._.1", " siding.retry.f._.1",
		"siding.retry..a.1", "siding.retry.f..1", "siding.retry.f._.",
		"siding.retry.f._.0", "siding.retry.f._.01", "siding.retry.f._.+1", "siding.retry.f._.-1", "siding.retry.f._.1e3",
		"siding.retry.f._.0x1", "siding.retry.f._.1_0", "siding.retry.f._.18446744073709551616", "siding.retry.f._.>",
	} {
		if place, ref, err := ParseSubject(subject); err == nil || place != 0 || ref != (Ref{}) || !strings.Contains(err.Error(), strconv.Quote(subject)) {
			t.Errorf("%q: got %d, %+v, %v, want an error that names it", subject, place, ref, err)
		}
	}
}

func FuzzParseSubject(f *testing.F) {
	for _, seed := range []string{"siding.retry.f._.1", "siding.dlq.a-1.%5F.18446744073709551615", "siding.held.f.#.0", "siding.decision.f.x.01", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		place, ref, err := ParseSubject(subject)
		if err == nil && place.Subject(ref) != subject {
			t.Errorf("got %s, %+v from %q, which is the subject %q", place, ref, subject, place.Subject(ref))
		}
	})
}

func TestAttemptSubjectsAreReadBackAsTheyWereBuilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ref := drawRef(t)
		subject := AttemptSubject(ref.Function, ref.Sequence)
		function, sequence, ok := ParseAttemptSubject(subject)
		if !ok || function != ref.Function || sequence != ref.Sequence {
			t.Errorf("%s: got %s, %d, %v, want %s, %d", subject, function, sequence, ok, ref.Function, ref.Sequence)
		}
		if !server.SubjectMatchesFilter(subject, AttemptFilter(ref.Function)) {
			t.Errorf("got %s outside of %s", subject, AttemptFilter(ref.Function))
		}
	})
	for _, subject := range []string{
		"", "siding.attempt.", "siding.attempt.f", "siding.attempt.f.", "siding.attempt..1", "siding.attempt.f.0", "siding.attempt.f.01",
		"siding.attempt.f.-1", "siding.attempt.f.g.1", "siding.audit.f.1", "siding.attempt.f.18446744073709551616",
	} {
		if function, sequence, ok := ParseAttemptSubject(subject); ok {
			t.Errorf("%q: got %s, %d, want a refusal", subject, function, sequence)
		}
	}
}

// The longest function name included. JetStream takes no blank, dot, wildcard or path separator in a stream's name, and 255 bytes.
func TestEveryFunctionsDeadLetterStreamHasAValidNameOfItsOwn(t *testing.T) {
	valid := regexp.MustCompile(`^DLQ_[^\s.*>/\\]+$`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawRef(t).Function, drawRef(t).Function
		if name := DeadLetterStream(a); !valid.MatchString(name) || len(name) > 255 {
			t.Errorf("%s: got %q", a, name)
		}
		if (a == b) != (DeadLetterStream(a) == DeadLetterStream(b)) {
			t.Errorf("got the stream %s for %s and for %s", DeadLetterStream(a), a, b)
		}
		if got, want := InDeadLetters.Stream(a), DeadLetterStream(a); got != want {
			t.Errorf("got %s as the place, want %s", got, want)
		}
	})
}
