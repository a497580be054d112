package streams_test

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
)

// fillHeld writes copies of the sequences 1 … n into HELD, with bodies.
func fillHeld(t *testing.T, s *streams.Store, n int) {
	t.Helper()
	acks := make([]jetstream.PubAckFuture, 0, n)
	for seq := 1; seq <= n; seq++ {
		ref := streams.Ref{Function: "f", Lane: "k" + strconv.Itoa(seq%7), Sequence: uint64(seq)}
		ack, err := s.JetStream().PublishMsgAsync(&nats.Msg{Subject: streams.InHeld.Subject(ref), Data: make([]byte, 100), Header: nats.Header{
			"Siding-Source": {"EVENTS"}, "Siding-Key": {strconv.Itoa(seq)},
		}})
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

func TestHeadersOfAPlaceAreReadOldestFirstWithoutBodies(t *testing.T) {
	for _, tc := range []struct {
		stored, deleted int // of the stored ones, every deleted-th is deleted; 0 = none
	}{{0, 0}, {1, 0}, {1, 1}, {999, 0}, {1000, 0}, {1001, 0}, {5000, 0}, {5000, 3}, {3000, 1}} {
		t.Run(fmt.Sprintf("%d stored, each %d. deleted", tc.stored, tc.deleted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openStore(t)
				fillHeld(t, s, tc.stored)
				var want []uint64
				for seq := 1; seq <= tc.stored; seq++ {
					if tc.deleted != 0 && seq%tc.deleted == 0 {
						if err := s.Delete(t.Context(), streams.HeldStream, uint64(seq)); err != nil {
							t.Fatal(err)
						}
						continue
					}
					want = append(want, uint64(seq))
				}
				began := time.Now()
				var got []uint64
				err := s.Headers(t.Context(), streams.InHeld, "f", func(ref streams.Ref, h nats.Header) {
					got = append(got, ref.Sequence)
					if c := streams.ReadCopy(h, nil); c.Key != strconv.FormatUint(ref.Sequence, 10) || !c.Ours() {
						t.Errorf("%s: got key %q from %q, want its own", ref.ID(), c.Key, c.Source)
					}
				})
				if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("got %d of %d in another order or number, %v", len(got), len(want), err)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("got them after %s, want it without waiting for anything", took)
				}
				wantNoScanner(t, s)
			})
		})
	}
}

func TestHeadersOfAStreamThatDoesNotExistAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		if err := s.Headers(t.Context(), streams.InDeadLetters, "f", func(ref streams.Ref, _ nats.Header) { t.Errorf("got %s", ref.ID()) }); err != nil {
			t.Errorf("got %v, want nothing found", err)
		}
	})
}

// TestHeadersComeToAnEndWhateverHappensMeanwhile: somebody deletes, purges or writes while the headers are read.
func TestHeadersComeToAnEndWhateverHappensMeanwhile(t *testing.T) {
	const stored = 2500
	for name, during := range map[string]func(*testing.T, *streams.Store){
		"the last ones are deleted": func(t *testing.T, s *streams.Store) {
			t.Helper()
			for seq := uint64(stored - 5); seq <= stored; seq++ {
				if err := s.Delete(t.Context(), streams.HeldStream, seq); err != nil {
					t.Fatal(err)
				}
			}
		},
		"all are purged": func(t *testing.T, s *streams.Store) {
			t.Helper()
			st, err := s.JetStream().Stream(t.Context(), streams.HeldStream)
			if err == nil {
				err = st.Purge(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"some are written": func(t *testing.T, s *streams.Store) {
			t.Helper()
			for seq := uint64(stored + 1); seq <= stored+10; seq++ {
				if _, err := s.Place(t.Context(), streams.InHeld, streams.Ref{Function: "f", Lane: "k", Sequence: seq}, streams.Copy{Source: "EVENTS"}); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openStore(t)
				fillHeld(t, s, stored)
				began, read := time.Now(), map[uint64]bool{}
				err := s.Headers(t.Context(), streams.InHeld, "f", func(ref streams.Ref, _ nats.Header) {
					if len(read) == 0 {
						during(t, s)
					}
					if read[ref.Sequence] {
						t.Errorf("got %s twice", ref.ID())
					}
					read[ref.Sequence] = true
				})
				if least := stored - 6; err != nil || len(read) < least && name != "all are purged" {
					t.Errorf("got %d read, %v, want at least %d", len(read), err, least)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("got them after %s, want it within seconds", took)
				}
				wantNoScanner(t, s)
			})
		})
	}
}

// wantNoScanner checks that no consumer is left over.
func wantNoScanner(t *testing.T, s *streams.Store) {
	t.Helper()
	st, err := s.JetStream().Stream(t.Context(), streams.HeldStream)
	if err != nil {
		t.Fatal(err)
	}
	names := st.ConsumerNames(t.Context())
	for name := range names.Name() {
		t.Errorf("got consumer %s left over", name)
	}
}
