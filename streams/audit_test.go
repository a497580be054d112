package streams_test

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
)

// fillAudit writes n entries, of which every rare-th is of function g and the others are of f.
func fillAudit(t testing.TB, s *streams.Store, n, rare int) {
	t.Helper()
	acks := make([]jetstream.PubAckFuture, 0, n)
	for i := 1; i <= n; i++ {
		function := "f"
		if i%rare == 0 {
			function = "g"
		}
		ack, err := s.JetStream().PublishMsgAsync(&nats.Msg{
			Subject: streams.AuditSubject(function), Header: nats.Header{"ce-type": {"siding.parked"}}, Data: []byte(`{"sequence":` + strconv.Itoa(i) + `}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			t.Fatal(err)
		}
	}
}

func TestAnAuditEntryIsReadAsItWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		want := streams.AuditEntry{
			Action: "discarded", Function: "f", Sequence: 42, Cycle: 2, By: "anna", Reason: "a test", Detail: map[string]string{"with": "f/41"},
			At: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC),
		}
		if err := s.Audit(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		m, err := s.Get(t.Context(), streams.AuditStream, 1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, streams.ReadAudit(m)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for _, foreign := range []streams.Message{
			{Subject: "siding.audit.f", Time: want.At, Data: []byte("{}")},
			{Subject: "siding.audit.f", Time: want.At, Header: nats.Header{"ce-type": {"siding.parked"}}, Data: []byte(`{"cut`)},
		} {
			if diff := cmp.Diff(streams.AuditEntry{Function: "f", At: want.At}, streams.ReadAudit(foreign)); diff != "" {
				t.Errorf("foreign %s (-want +got):\n%s", foreign.Data, diff)
			}
		}
	})
}

func TestTheAuditIsReadBackwardsAndOnlyAsFarAsItIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		const n, rare = 5000, 1250
		fillAudit(t, s, n, rare)
		if err := s.Delete(t.Context(), streams.AuditStream, n-3); err != nil {
			t.Fatal(err)
		}
		below := func(before uint64, function string) (want []uint64) {
			for seq := before - 1; seq >= 1; seq-- {
				if seq != n-3 && (function == "" || (function == "g") == (seq%rare == 0)) {
					want = append(want, seq)
				}
			}
			return want
		}
		for _, c := range []struct {
			name, function string
			before         uint64
			limit          int // 0 = all
			want           []uint64
			requests       uint64 // at most
		}{
			{"newest", "", 0, 20, below(n+1, "")[:20], 70},
			{"a page further down", "", 1000, 20, below(1000, "")[:20], 70},
			{"all", "", 0, 0, below(n+1, ""), n + 100},
			{"all of one", "f", 0, 0, below(n+1, "f"), 2 * n},
			{"of a rare one", "g", 0, 0, below(n+1, "g"), 40},
			{"of a rare one, below", "g", 2500, 1, []uint64{1250}, 40},
			{"of nobody", "h", 0, 0, nil, 2},
			{"behind the end", "", n + 100, 2, below(n+1, "")[:2], 70},
			{"below the first", "", 1, 0, nil, 4},
		} {
			var got []uint64
			sent := s.Node().Conn().Stats().OutMsgs
			err := s.AuditBackwards(t.Context(), c.function, c.before, func(m streams.Message) bool {
				got = append(got, m.Sequence)
				return len(got) != c.limit
			})
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%s: got %d of them from %v on and %v, want %d", c.name, len(got), got[:min(3, len(got))], err, len(c.want))
			}
			if requests := s.Node().Conn().Stats().OutMsgs - sent; requests > c.requests {
				t.Errorf("%s: got %d requests, want at most %d", c.name, requests, c.requests)
			}
		}
	})
}
