package streams_test

import (
	"errors"
	"testing"

	"github.com/siding-dev/siding/streams"
)

// A full stream says so and changes nothing, whichever place it is: the mover keeps the source and tries again.
func TestAFullStreamTakesNothingAndSaysSoWhereverItIs(t *testing.T) {
	for _, at := range []streams.Place{streams.InRetry, streams.InHeld, streams.InDeadLetters} {
		t.Run(at.String(), func(t *testing.T) {
			s := openStore(t)
			place(t, s, at, ref("f", "", 1), streams.Copy{})
			stream, err := s.JetStream().Stream(t.Context(), at.Stream("f"))
			if err != nil {
				t.Fatal(err)
			}
			cfg := stream.CachedInfo().Config
			cfg.MaxMsgs = 1
			if _, err := s.JetStream().UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if placed, err := s.Place(t.Context(), at, ref("f", "", 2), streams.Copy{}); !errors.Is(err, streams.ErrFull) {
				t.Errorf("got %+v, %v, want %v", placed, err, streams.ErrFull)
			}
			if refs, err := s.Standing(t.Context(), at, "f"); err != nil || len(refs) != 1 || refs[0].Sequence != 1 {
				t.Errorf("got %+v, %v, want the first one alone", refs, err)
			}
			cfg.MaxMsgs = -1
			if _, err := s.JetStream().UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			place(t, s, at, ref("f", "", 2), streams.Copy{})
		})
	}
}
