package streams_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

// stands reads the copy that stands somewhere, and the number of messages on its subject.
func stands(t *testing.T, s *streams.Store, where streams.Place, r streams.Ref) (streams.Copy, streams.Message) {
	t.Helper()
	m, err := s.Last(t.Context(), where.Stream(r.Function), where.Subject(r))
	if err != nil {
		t.Fatal(err)
	}
	counts, err := s.Subjects(t.Context(), where.Stream(r.Function), where.Subject(r))
	if err != nil || counts[where.Subject(r)] != 1 {
		t.Errorf("%s in %s: got %v, %v, want one message", r.ID(), where, counts, err)
	}
	return streams.ReadCopy(m.Header, m.Data), m
}

// sameCopy leaves out what a message and not the copy has.
func sameCopy(want, got streams.Copy) string {
	return cmp.Diff(want, got, cmpopts.IgnoreFields(streams.Copy{}, "Extra"), cmpopts.EquateEmpty())
}

func TestACopyIsCreatedReplacedByHigherCyclesAndNeverByLowerOnes(t *testing.T) {
	s := openStore(t)
	for _, where := range []streams.Place{streams.InRetry, streams.InHeld, streams.InDeadLetters} {
		r := ref("f", "claim 1", 9)
		wantSequence := uint64(0)
		for _, step := range []struct {
			cycle   int
			attempt int
			want    streams.Placed
			stands  int // attempts of the copy that stands afterwards
		}{
			{0, 1, streams.Placed{Sequence: 1}, 1},
			{0, 2, streams.Placed{Sequence: 1, Already: true}, 1},
			{2, 3, streams.Placed{Sequence: 2}, 3},
			{1, 4, streams.Placed{Sequence: 2, Stale: true}, 3},
			{2, 5, streams.Placed{Sequence: 2, Already: true}, 3},
			{3, 6, streams.Placed{Sequence: 3}, 6},
		} {
			c := streams.Copy{
				Cycle: step.cycle, Attempts: step.attempt, Key: "claim 1", Source: "EVENTS",
				Header: nats.Header{"ce-id": {"1"}, "traceparent": {"00-a"}}, Data: []byte{0, 255, '\r', '\n'},
			}
			placed, err := s.Place(t.Context(), where, r, c)
			if diff := cmp.Diff(step.want, placed); diff != "" || err != nil {
				t.Errorf("%s, cycle %d: error %v (-want +got):\n%s", where, step.cycle, err, diff)
			}
			got, m := stands(t, s, where, r)
			if c.Attempts = step.stands; got.Attempts != step.stands {
				t.Errorf("%s, cycle %d: got the copy after %d attempts, want that after %d", where, step.cycle, got.Attempts, step.stands)
			}
			if m.Sequence == placed.Sequence && !placed.Stale {
				if diff := sameCopy(c, got); diff != "" {
					t.Errorf("%s, cycle %d: copy (-want +got):\n%s", where, step.cycle, diff)
				}
			}
			wantSequence = max(wantSequence, placed.Sequence)
		}
		if got, err := s.Replace(t.Context(), where, r, streams.Copy{Cycle: 3, Attempts: 7}, wantSequence); err != nil || got != 4 {
			t.Errorf("%s: got %d, %v, want it replaced", where, got, err)
		}
		if _, err := s.Replace(t.Context(), where, r, streams.Copy{Cycle: 9}, wantSequence); !errors.Is(err, streams.ErrOccupied) {
			t.Errorf("%s: got %v for what is not there any more, want ErrOccupied", where, err)
		}
		if err := s.Delete(t.Context(), where.Stream("f"), 4); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Replace(t.Context(), where, r, streams.Copy{Cycle: 9}, 4); !errors.Is(err, streams.ErrOccupied) {
			t.Errorf("%s: got %v for what has vanished, want ErrOccupied", where, err)
		}
		wantNothing(t, s, where, "f")
		place(t, s, where, r, streams.Copy{}) // a register that was left is free again
	}
}

func TestOfManyWritersTheHighestCycleStands(t *testing.T) {
	s := openStore(t)
	r := ref("f", "", 1)
	const cycles, writers = 8, 3 // each cycle is written three times
	var created [cycles]int
	var mu sync.Mutex
	var wait sync.WaitGroup
	for i := range cycles * writers {
		wait.Go(func() {
			c := streams.Copy{Cycle: i % cycles, Source: "EVENTS"}
			placed, err := s.Place(t.Context(), streams.InRetry, r, c)
			for range cycles { // an error means that it was not written, and each one that others went on
				if err != nil {
					placed, err = s.Place(t.Context(), streams.InRetry, r, c)
				}
			}
			if err != nil {
				t.Errorf("cycle %d: %v", c.Cycle, err)
			}
			if !placed.Stale && !placed.Already {
				mu.Lock()
				defer mu.Unlock()
				created[c.Cycle]++
			}
		})
	}
	wait.Wait()
	if got, _ := stands(t, s, streams.InRetry, r); got.Cycle != cycles-1 {
		t.Errorf("got cycle %d, want the highest one, %d", got.Cycle, cycles-1)
	}
	for cycle, n := range created {
		if n > 1 || (cycle == cycles-1 && n != 1) {
			t.Errorf("cycle %d: got it written %d times, want at most once and the highest exactly once", cycle, n)
		}
	}
}

func TestARefusedWriteIsAnErrorAndChangesNothing(t *testing.T) {
	s := openStore(t)
	r := ref("f", "", 1)
	before := place(t, s, streams.InRetry, r, streams.Copy{Cycle: 1, Source: "EVENTS"})
	full := func(t *testing.T) {
		t.Helper()
		stream, err := s.JetStream().Stream(t.Context(), streams.RetryStream)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.MaxBytes = int64(stream.CachedInfo().State.Bytes)
		if _, err := s.JetStream().UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		copy streams.Copy
		want error
	}{
		// Our own headers alone exceed the payload, so that not even a reference fits.
		{"too large", t.Context(), streams.Copy{Cycle: 2, Extra: map[string]string{"Siding-X": strings.Repeat("x", 1<<20)}}, streams.ErrTooLarge},
		{"not wanted any more", ended, streams.Copy{Cycle: 2}, context.Canceled},
		{"full", t.Context(), streams.Copy{Cycle: 2, Data: make([]byte, 1000)}, streams.ErrFull},
	} {
		if tc.name == "full" {
			full(t)
		}
		for _, r := range []streams.Ref{r, ref("f", "other", 2)} {
			if placed, err := s.Place(tc.ctx, streams.InRetry, r, tc.copy); !errors.Is(err, tc.want) || placed != (streams.Placed{}) {
				t.Errorf("%s: got %+v, %v, want %v", tc.name, placed, err, tc.want)
			}
		}
		if _, m := stands(t, s, streams.InRetry, r); m.Sequence != before {
			t.Errorf("%s: got sequence %d, want that of before, %d", tc.name, m.Sequence, before)
		}
		if refs, err := s.Standing(t.Context(), streams.InRetry, "f"); err != nil || len(refs) != 1 {
			t.Errorf("%s: got %+v, %v, want nothing new", tc.name, refs, err)
		}
	}
}

func TestDeletingWhatIsGoneIsFine(t *testing.T) {
	s := openStore(t)
	seq := place(t, s, streams.InHeld, ref("f", "", 1), streams.Copy{})
	place(t, s, streams.InHeld, ref("f", "", 2), streams.Copy{})
	for range 2 {
		if err := s.Delete(t.Context(), streams.HeldStream, seq); err != nil {
			t.Errorf("got %v", err)
		}
	}
	if err := s.Delete(t.Context(), streams.HeldStream, 99); err != nil {
		t.Errorf("got %v for a sequence that was never there", err)
	}
	if err := s.Delete(t.Context(), "DLQ_nobody", 1); err != nil {
		t.Errorf("got %v for a stream that does not exist", err)
	}
	if refs, err := s.Standing(t.Context(), streams.InHeld, "f"); err != nil || len(refs) != 1 {
		t.Errorf("got %+v, %v, want the other one", refs, err)
	}
}

func TestDeadLetterStreamsAreMadeWhenTheyAreNeeded(t *testing.T) {
	s := openStore(t)
	for _, function := range []string{"f", "a" + strings.Repeat("-9", 31)} { // the longest name has 63 characters
		if _, err := s.Source(t.Context(), streams.DeadLetterStream(function)); !errors.Is(err, streams.ErrNotFound) {
			t.Errorf("%s: got %v before it is needed, want none", function, err)
		}
		for range 2 { // and again after somebody has deleted it by hand
			place(t, s, streams.InDeadLetters, ref(function, "k", 3), streams.Copy{Source: "EVENTS"})
			place(t, s, streams.InDeadLetters, ref(function, "k", 4), streams.Copy{Source: "EVENTS"})
			stream, err := s.JetStream().Stream(t.Context(), streams.DeadLetterStream(function))
			if err != nil {
				t.Fatal(err)
			}
			cfg := stream.CachedInfo().Config
			if cfg.MaxAge != 0 || cfg.MaxMsgsPerSubject != 1 || cfg.Discard != jetstream.DiscardNew || cfg.Retention != jetstream.LimitsPolicy {
				t.Errorf("%s: got %+v, want one message a subject, kept for ever", function, cfg)
			}
			cfg.MaxAge = time.Hour // changed by hand, it goes on taking dead letters
			if _, err := s.JetStream().UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			place(t, s, streams.InDeadLetters, ref(function, "k", 5), streams.Copy{Source: "EVENTS"})
			if err := s.JetStream().DeleteStream(t.Context(), streams.DeadLetterStream(function)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestACopyThatIsTooLargeStandsByReferenceAndIsResolved(t *testing.T) {
	s := openStore(t)
	if _, err := s.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "FOREIGN", Subjects: []string{"foreign.>"}}); err != nil {
		t.Fatal(err)
	}
	// Nobody but the server bounds what comes into a stream of others.
	m := &nats.Msg{Subject: "foreign.x", Header: nats.Header{"ce-id": {"1"}}, Data: make([]byte, 1<<20-100)}
	m.Data[0], m.Data[len(m.Data)-1] = 'a', 'z'
	ack, err := s.JetStream().PublishMsg(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	r := ref("f", "k", ack.Sequence)
	want := streams.Copy{Cycle: 1, Attempts: 2, Key: "k", Source: "FOREIGN", Referenced: true}
	for _, where := range []streams.Place{streams.InRetry, streams.InHeld, streams.InDeadLetters} {
		// The second place is written from what was read in the first: a reference stays one.
		c := streams.Copy{Cycle: 1, Attempts: 2, Key: "k", Source: "FOREIGN", Header: m.Header, Data: m.Data}
		if where == streams.InHeld {
			c, _ = stands(t, s, streams.InRetry, r)
		}
		c.Extra = map[string]string{"Siding-Cause": "permanent"}
		place(t, s, where, r, c)
		got, stored := stands(t, s, where, r)
		if diff := sameCopy(want, got); diff != "" || stored.Header.Get("Siding-Cause") != "permanent" {
			t.Errorf("%s: header %v, copy (-want +got):\n%s", where, stored.Header, diff)
		}
		header, data, err := s.Resolve(t.Context(), r, got)
		if err != nil || header.Get("ce-id") != "1" || !slices.Equal(data, m.Data) {
			t.Errorf("%s: got %v, %v, %d bytes, want header and body of the source", where, err, header, len(data))
		}
	}
	if err := s.Delete(t.Context(), "FOREIGN", ack.Sequence); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Resolve(t.Context(), r, want); !errors.Is(err, streams.ErrNotFound) || !strings.Contains(err.Error(), "FOREIGN") {
		t.Errorf("got %v after the source has gone, want not found that names it", err)
	}
	small := streams.Copy{Header: nats.Header{"ce-id": {"2"}}, Data: []byte("x")}
	if header, data, err := s.Resolve(t.Context(), r, small); err != nil || header.Get("ce-id") != "2" || string(data) != "x" {
		t.Errorf("got %v, %q, %v, want the copy's own", header, data, err)
	}
}

func TestCopiesOfTheLargestAcceptedEventStandWhole(t *testing.T) {
	s := openStore(t)
	e := newEvent("1")
	e.SetExtension("partitionkey", strings.Repeat("é", 4000))
	e.DataEncoded = make([]byte, streams.MaxEventSize(s.Node().MaxPayload())-27<<10)
	m, err := s.Get(t.Context(), streams.EventsStream, accept(t, s, e).Sequence)
	if err != nil {
		t.Fatal(err)
	}
	r := ref("f", strings.Repeat("é", 4000), 1)
	report := map[string]string{"Siding-Dead-Letter": strings.Repeat("x", 15<<10)}
	place(t, s, streams.InDeadLetters, r, streams.Copy{Key: strings.Repeat("é", 4000), Source: "EVENTS", Header: m.Header, Data: m.Data, Extra: report})
	if got, _ := stands(t, s, streams.InDeadLetters, r); got.Referenced || len(got.Data) != len(m.Data) {
		t.Errorf("got a reference %v with %d bytes, want the whole event", got.Referenced, len(got.Data))
	}
}

func TestKeysOfAnyBytesComeBackFromTheirHeader(t *testing.T) {
	s := openStore(t)
	for i, key := range []string{
		"plain", "Müller", " leading", "trailing ", "\t", `"quoted"`, `"`, `a"b\"c`, "%41", "100%", "%", "a\r\nNats-Msg-Id: x\r\n\r\n", "\x00", "\x7f",
		"\xff\xfe", "日本", "😀", "_", "a: b", strings.Repeat("ü", 10_000),
	} {
		r := ref("f", key, uint64(i+1))
		place(t, s, streams.InHeld, r, streams.Copy{Key: key})
		if got, _ := stands(t, s, streams.InHeld, r); got.Key != key {
			t.Errorf("got the key %q, want %q", got.Key, key)
		}
	}
	// A key beyond every bound (a rule of a handler's author made it) is only hashed into the lane.
	r := ref("f", strings.Repeat("k", streams.MaxEventHeader+1), 99)
	place(t, s, streams.InHeld, r, streams.Copy{Key: strings.Repeat("k", streams.MaxEventHeader+1), Data: []byte("x")})
	if got, _ := stands(t, s, streams.InHeld, r); got.Key != "" || got.Referenced || string(got.Data) != "x" {
		t.Errorf("got a key of %d bytes, reference %v, want the copy without it", len(got.Key), got.Referenced)
	}
}

// A copied message id would make the copy vanish as a duplicate, with a good PubAck.
func TestACopyOfADeduplicatedEventIsNoDuplicate(t *testing.T) {
	s := openStore(t)
	accept(t, s, newEvent("1"))
	m, err := s.Get(t.Context(), streams.EventsStream, 1)
	if err != nil || m.Header.Get("Nats-Msg-Id") == "" {
		t.Fatalf("got %v, %v, want a message id", m.Header, err)
	}
	for _, r := range []streams.Ref{ref("f", "", 1), ref("g", "", 1)} { // two copies with one id in one stream
		place(t, s, streams.InRetry, r, streams.Copy{Source: "EVENTS", Header: m.Header, Data: m.Data})
		_, stored := stands(t, s, streams.InRetry, r)
		if id := stored.Header.Get("Nats-Msg-Id"); id != "" {
			t.Errorf("%s: got the message id %s", r.ID(), id)
		}
	}
}

func TestAckGoneDeletesEvenIfNobodyAnswersTheHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		fetch := func() jetstream.Msg {
			t.Helper()
			c, err := s.RetryConsumer(t.Context(), "f", 3)
			if err != nil {
				t.Fatal(err)
			}
			return next(t, c)
		}
		for name, kill := range map[string]func(jetstream.Msg) jetstream.Msg{
			"alive":        func(m jetstream.Msg) jetstream.Msg { return m },
			"none":         func(jetstream.Msg) jetstream.Msg { return nil },
			"acked before": func(m jetstream.Msg) jetstream.Msg { _ = m.DoubleAck(t.Context()); return m },
			"of a connection that has gone": func(m jetstream.Msg) jetstream.Msg {
				if err := s.Node().Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				return m
			},
			"of a consumer that has gone": func(m jetstream.Msg) jetstream.Msg {
				if err := s.JetStream().DeleteConsumer(t.Context(), streams.RetryStream, "f"); err != nil {
					t.Fatal(err)
				}
				return m
			},
		} {
			seq := place(t, s, streams.InRetry, ref("f", "", 1), streams.Copy{})
			m := kill(fetch())
			begun := time.Now()
			if err := s.AckGone(t.Context(), streams.RetryStream, seq, m); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("%s: got it after %s, want at most 2s", name, took)
			}
			wantNothing(t, s, streams.InRetry, "f")
		}
	})
}

// next takes one delivery, which has to come.
func next(t *testing.T, c jetstream.Consumer) jetstream.Msg {
	t.Helper()
	return take(t, c, 1)[0]
}

// take takes exactly n deliveries.
func take(t *testing.T, c jetstream.Consumer, n int) []jetstream.Msg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	batch, err := c.Fetch(n, jetstream.FetchContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	var ms []jetstream.Msg
	for m := range batch.Messages() {
		ms = append(ms, m)
	}
	if len(ms) != n {
		t.Fatalf("got %d deliveries, %v, want %d", len(ms), batch.Error(), n)
	}
	return ms
}

func TestNakGivesADeliveryBackForItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storeOn(t, streamstest.New(t), streams.WithAckWait(time.Hour))
		place(t, s, streams.InRetry, ref("f", "", 1), streams.Copy{})
		c, err := s.RetryConsumer(t.Context(), "f", 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, delay := range []time.Duration{0, 10 * time.Second, -1, time.Second} {
			m := next(t, c)
			begun := time.Now()
			s.Nak(m, delay)
			m = next(t, c)
			if took := time.Since(begun); took != max(delay, 0) {
				t.Errorf("got it back after %s, want %s", took, max(delay, 0))
			}
			s.Nak(m, 0)
		}
	})
}
