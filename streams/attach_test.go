package streams_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
)

func TestWhatAStreamGivesIsReadFromItsConfiguration(t *testing.T) {
	s := openStore(t)
	for name, tc := range map[string]struct {
		cfg     jetstream.StreamConfig
		types   []string
		refused string // "" = it can be read
		removes []string
		inside  bool
		whole   bool
	}{
		"keeps everything":      {jetstream.StreamConfig{Subjects: []string{"a.>"}}, []string{"a.>"}, "", nil, false, true},
		"refuses when full":     {jetstream.StreamConfig{Subjects: []string{"a.>"}, MaxMsgs: 7, Discard: jetstream.DiscardNew}, []string{"a.*"}, "", nil, false, false},
		"refuses by subject":    {jetstream.StreamConfig{Subjects: []string{"a", "b"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true}, []string{"a"}, "", nil, false, false},
		"keeps the newest":      {jetstream.StreamConfig{Subjects: []string{"a", "b"}, MaxMsgs: 7, MaxBytes: 1 << 20}, []string{"a", "b"}, "", []string{"the oldest beyond 1048576 bytes", "the oldest beyond 7 events"}, false, true},
		"keeps them for a time": {jetstream.StreamConfig{Subjects: []string{"a"}, MaxAge: time.Minute, Duplicates: time.Second}, []string{"*"}, "", []string{"older than 1m0s"}, false, true},
		"keeps one a subject":   {jetstream.StreamConfig{Subjects: []string{"a.*"}, MaxMsgsPerSubject: 1}, []string{"a.>"}, "", []string{"the oldest beyond 1 of one subject"}, true, true},
		"publishers remove":     {jetstream.StreamConfig{Subjects: []string{"a.*"}, AllowMsgTTL: true, AllowRollup: true}, []string{"a.b"}, "", []string{"when the time to live that their publisher gave is over", "when a publisher rolls them up"}, true, false},
		"in memory":             {jetstream.StreamConfig{Subjects: []string{"a"}, Storage: jetstream.MemoryStorage}, []string{"a"}, "in memory", nil, false, true},
		"work queue":            {jetstream.StreamConfig{Subjects: []string{"a"}, Retention: jetstream.WorkQueuePolicy}, []string{"a"}, "workqueue retention", nil, false, true},
		"other subjects":        {jetstream.StreamConfig{Subjects: []string{"a.b", "c"}}, []string{"a.b", "a.b.>"}, `match "a.b.>"`, nil, false, false},
		"transformed":           {jetstream.StreamConfig{Subjects: []string{"a.>"}, SubjectTransform: &jetstream.SubjectTransformConfig{Source: "a.>", Destination: "z.>"}}, []string{"z.x"}, "", nil, false, false},
	} {
		tc.cfg.Name = "ORDERS"
		if _, err := s.JetStream().CreateStream(t.Context(), tc.cfg); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		source, err := s.Source(t.Context(), "ORDERS")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err = source.Attachable(tc.types)
		if (err == nil) != (tc.refused == "") || err != nil && (!strings.Contains(err.Error(), tc.refused) || !strings.Contains(err.Error(), ": hint: ")) {
			t.Errorf("%s: got %v, want it refused with %q and a hint", name, err, tc.refused)
		}
		if got := source.Removes(); !slices.Equal(got, tc.removes) || source.RemovesInside() != tc.inside {
			t.Errorf("%s: got %q, inside %v, want %q, %v", name, got, source.RemovesInside(), tc.removes, tc.inside)
		}
		if got := source.Whole(tc.types); got != tc.whole {
			t.Errorf("%s: got whole %v, want %v", name, got, tc.whole)
		}
		if err := s.JetStream().DeleteStream(t.Context(), "ORDERS"); err != nil {
			t.Fatal(err)
		}
	}
}

// What somebody has set on a stream of his own stays, whatever the configuration of a node says about its subjects.
func TestAStreamThatExistsGetsItsSubjectsAndKeepsItsLimits(t *testing.T) {
	s := openStore(t)
	if _, err := s.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"a"}, MaxMsgs: 7}); err != nil {
		t.Fatal(err)
	}
	sources := []streams.SourceStream{{Name: "ORDERS", Subjects: []string{"a", "b"}, MaxBytes: 1}, {Name: "NEW", Subjects: []string{"c.>"}, MaxBytes: 1 << 20}}
	for range 2 {
		if err := s.EnsureSources(t.Context(), sources); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]jetstream.StreamConfig{
		"ORDERS": {Subjects: []string{"a", "b"}, MaxMsgs: 7, MaxBytes: -1, Discard: jetstream.DiscardOld},
		"NEW":    {Subjects: []string{"c.>"}, MaxMsgs: -1, MaxBytes: 1 << 20, Discard: jetstream.DiscardNew},
	} {
		st, err := s.JetStream().Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got := st.CachedInfo().Config; !slices.Equal(got.Subjects, want.Subjects) || got.MaxMsgs != want.MaxMsgs || got.MaxBytes != want.MaxBytes || got.Discard != want.Discard {
			t.Errorf("stream %s: got %+v, want %+v", name, got, want)
		}
	}
	names, err := s.SourceNames(t.Context())
	if want := []string{"EVENTS", "NEW", "ORDERS"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("got %v, %v, want %v", names, err, want)
	}
}
