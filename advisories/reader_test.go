package advisories

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
)

// offers is what a Reader offered to an owner.
type offers struct {
	notices chan Notice // has room for all that a test lets happen
	done    chan func()
	take    func(Notice) bool
}

func newOffers(take func(Notice) bool) *offers {
	return &offers{notices: make(chan Notice, 100), done: make(chan func(), 100), take: take}
}

func (o *offers) route(n Notice, done func()) bool {
	o.notices <- n
	if o.take(n) {
		o.done <- done
		return true
	}
	return false
}

func always(Notice) bool { return true }

// read runs a Reader for functions of which only those named are hosted, until the test stops it.
func read(t *testing.T, s *streams.Store, o *offers, log *slog.Logger, hosted ...string) (*counted, func()) {
	t.Helper()
	c := &counted{}
	orphans := &Orphans{Store: s, Hosted: func(function string) bool {
		return slices.Contains(hosted, function)
	}}
	r := &Reader{Store: s, Orphans: orphans, Route: o.route, Count: c.count, Log: log}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return c, func() {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("got %v at the end, want nil", err)
			}
		case <-time.After(time.Second):
			t.Fatal("got no end of the reader a second after its context")
		}
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestAnAdvisoryOfAHostedFunctionGoesAwayWhenItsOwnerIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		ref, c := store1(t, s)
		sequence := exhaust(t, s, ref, c, 0, 2)
		o := newOffers(always)
		counts, stop := read(t, s, o, quiet(), "f")
		got := <-o.notices
		want := Notice{Kind: MaxDeliveries, Stream: streams.RetryStream, Consumer: "f", Sequence: sequence, Deliveries: 2, At: got.At}
		if diff := cmp.Diff(want, got); diff != "" || time.Since(got.At) > time.Minute {
			t.Errorf("notice of %s (-want +got):\n%s", got.At, diff)
		}
		lost := <-o.done // an owner that dies before it has applied the verdict
		time.Sleep(29 * time.Second)
		if len(o.notices) != 0 || captured(t, s) != 1 {
			t.Errorf("got %d more offers and %d captured, want it kept and not offered again yet", len(o.notices), captured(t, s))
		}
		<-o.notices
		(<-o.done)()
		time.Sleep(time.Second)
		if captured(t, s) != 0 {
			t.Errorf("got %d captured after the owner was done, want 0", captured(t, s))
		}
		lost() // too late, and harmless
		time.Sleep(time.Minute)
		if len(o.notices) != 0 {
			t.Errorf("got %d more offers, want none", len(o.notices))
		}
		wantStanding(t, s, map[string]int{"retry": 1}) // the reader writes nothing of a hosted function
		stop()
		counts.want(t, nil) // the owner counts what it decides
	})
}

func TestAnOwnerThatIsBusyIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		ref, c := store1(t, s)
		exhaust(t, s, ref, c, 0, 2)
		refusals := 3
		o := newOffers(func(Notice) bool { refusals--; return refusals < 0 })
		_, stop := read(t, s, o, quiet(), "f")
		begun := time.Now()
		(<-o.done)()
		if took := time.Since(begun); len(o.notices) != 4 || took < 3*offerAgain || took > 10*time.Second {
			t.Errorf("got %d offers in %s, want 4 with a pause between them", len(o.notices), took)
		}
		time.Sleep(time.Minute)
		if captured(t, s) != 0 || len(o.notices) != 4 {
			t.Errorf("got %d captured and %d offers in the end, want it handled", captured(t, s), len(o.notices))
		}
		stop()
	})
}

func TestWhatIsNotAboutAFunctionOfOursIsCountedAndGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		ref, c := store1(t, s)
		// Somebody else's consumer on somebody else's stream, and on one of ours; a message deleted under a function of earlier days.
		theirs, err := s.JetStream().CreateConsumer(t.Context(), streams.EventsStream, jetstream.ConsumerConfig{Durable: "theirs", AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 2})
		must(t, err)
		useUp(t, theirs, 2)
		placed, err := s.Place(t.Context(), streams.InRetry, ref, c)
		must(t, err)
		consumer, err := s.RetryConsumer(t.Context(), "f", 2)
		must(t, err)
		_, err = consumer.Next()
		must(t, err)
		must(t, s.Delete(t.Context(), streams.RetryStream, placed.Sequence))
		// Anybody who may publish can write there.
		must(t, s.Node().Conn().Publish("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.SIDING_RETRY.f", []byte("{}")))
		must(t, s.Node().Conn().Publish("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.X.Y", nil))
		time.Sleep(time.Second)
		if got := captured(t, s); got != 4 {
			t.Fatalf("got %d captured, want 4", got)
		}
		counts, stop := read(t, s, newOffers(always), quiet())
		time.Sleep(time.Minute)
		stop()
		counts.want(t, map[string]int{"max_deliveries foreign": 1, "terminated foreign": 1, " invalid": 2})
		if got := captured(t, s); got != 0 {
			t.Errorf("got %d left, want 0", got)
		}
	})
}

func TestAnAdvisoryOfAFunctionThatIsNotHostedParksWhatIsExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		ref, c := store1(t, s)
		exhaust(t, s, ref, c, 2, 2)
		stored, err := s.Get(t.Context(), streams.EventsStream, 1)
		must(t, err)
		counts, stop := read(t, s, newOffers(always), quiet(), "another")
		time.Sleep(time.Second)
		stop()
		counts.want(t, map[string]int{"max_deliveries park": 1})
		wantStanding(t, s, map[string]int{"dlq": 1})
		wantKinds(t, s, ref, []string{"attempt 0/1", "attempt 0/2", "parked 0/2"}, []string{"siding.parked f/1"})
		if got := captured(t, s); got != 0 {
			t.Errorf("got %d advisories left, want 0", got)
		}
		letter, err := s.Last(t.Context(), "DLQ_f", streams.InDeadLetters.Subject(ref))
		must(t, err)
		got, err := ReadReport(letter)
		want := Report{
			Function: "f", Stream: "EVENTS", Subject: "events.t", Sequence: 1, StoredAt: stored.Time, Cause: Exhausted, Class: "transient", Error: "no 2", Attempts: 2,
			ParkedAt: got.ParkedAt, ParkedBy: ByAdvisory, FirstFailed: got.FirstFailed, LastFailed: got.LastFailed, TraceID: "trace", History: got.History,
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || len(got.History) != 2 {
			t.Errorf("error %v, %d entries, report (-want +got):\n%s", err, len(got.History), diff)
		}
		if copied := streams.ReadCopy(letter.Header, letter.Data); string(copied.Data) != "body" || copied.Header.Get("ce-id") != "1" || copied.Key != "k" {
			t.Errorf("got %+v, want the event and its key", copied)
		}
	})
}

func TestAnAdvisoryThatCannotBeHandledComesAgainUntilItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		ref, c := store1(t, s)
		exhaust(t, s, ref, c, 2, 2)
		d, err := s.Declared(t.Context(), "f")
		must(t, err)
		kv, err := s.JetStream().KeyValue(t.Context(), streams.FunctionsBucket)
		must(t, err)
		_, err = kv.Put(t.Context(), "f", []byte("{"))
		must(t, err)
		var lines bytes.Buffer
		counts, stop := read(t, s, newOffers(always), slog.New(slog.NewTextHandler(&lines, nil)))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		wantStanding(t, s, map[string]int{"retry": 1})
		if n := captured(t, s); n != 1 {
			t.Errorf("got %d advisories, want it kept", n)
		}
		must(t, s.Declare(t.Context(), d))
		time.Sleep(10 * time.Second)
		stop()
		wantStanding(t, s, map[string]int{"dlq": 1})
		counts.want(t, map[string]int{"max_deliveries park": 1})
		if n := strings.Count(lines.String(), "function=f"); n < 5 || n > 15 {
			t.Errorf("got %d lines about it in 10 seconds, want about one a second:\n%s", n, &lines)
		}
	})
}

func TestAReaderWhoseConsumerWasDeletedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		ref, c := store1(t, s)
		o := newOffers(always)
		_, stop := read(t, s, o, quiet(), "f")
		time.Sleep(time.Second)
		must(t, s.JetStream().DeleteConsumer(t.Context(), streams.AdvisoriesStream, streams.AdvisoriesConsumer))
		exhaust(t, s, ref, c, 0, 2)
		time.Sleep(time.Minute)
		stop()
		if len(o.notices) == 0 {
			t.Error("got no offer, want the advisory of after the deletion")
		}
	})
}
