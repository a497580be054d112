package streams_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

// layout reads the configuration of every stream on a node, and the order in which they were created.
func layout(t *testing.T, node *streams.Node) (map[string]jetstream.StreamConfig, []string) {
	t.Helper()
	configs := map[string]jetstream.StreamConfig{}
	var infos []*jetstream.StreamInfo
	list := node.JetStream().ListStreams(t.Context())
	for info := range list.Info() {
		at := 0
		for at < len(infos) && infos[at].Created.Before(info.Created) {
			at++
		}
		infos = append(infos[:at], append([]*jetstream.StreamInfo{info}, infos[at:]...)...)
		configs[info.Config.Name] = info.Config
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(infos))
	for i, info := range infos {
		names[i] = info.Config.Name
	}
	return configs, names
}

// An advisory that is published while nobody captures it is not even encoded.
func TestTheStreamOfAdvisoriesIsMadeFirst(t *testing.T) {
	s := openStore(t)
	configs, order := layout(t, s.Node())
	if len(order) == 0 || order[0] != streams.AdvisoriesStream {
		t.Errorf("got %q, want %s first", order, streams.AdvisoriesStream)
	}
	for _, name := range []string{
		streams.EventsStream, streams.RetryStream, streams.DecisionsStream, streams.HeldStream, streams.AttemptsStream, streams.AuditStream, streams.OpsStream, streams.OutboxStream, "KV_" + streams.FunctionsBucket, "KV_" + streams.OnceBucket,
	} {
		if cfg, ok := configs[name]; !ok || cfg.Storage != jetstream.FileStorage {
			t.Errorf("stream %s: got %v, %v, want it on disk", name, ok, cfg.Storage)
		}
	}
	if len(configs) != 11 {
		t.Errorf("got %q, want 11 streams", order)
	}
}

func TestNothingThatIsNotFinishedIsRemovedByALimit(t *testing.T) {
	configs, _ := layout(t, openStore(t).Node())
	for _, name := range []string{streams.EventsStream, streams.RetryStream, streams.DecisionsStream, streams.HeldStream, streams.AttemptsStream} {
		cfg := configs[name]
		if cfg.MaxAge != 0 || cfg.Discard != jetstream.DiscardNew || cfg.MaxMsgs > 0 || (cfg.MaxBytes > 0) != (name == streams.EventsStream) {
			t.Errorf("stream %s: got %+v, want that it refuses what is new and removes nothing", name, cfg)
		}
	}
	for _, name := range []string{streams.RetryStream, streams.DecisionsStream, streams.HeldStream} {
		if cfg := configs[name]; cfg.MaxMsgsPerSubject != 1 {
			t.Errorf("stream %s: got %d messages a subject, want registers", name, cfg.MaxMsgsPerSubject)
		}
	}
}

// Notices are only for telling: they take no room from what has to be kept.
func TestNoticesAreKeptForAWhileAndTheOldestGoFirst(t *testing.T) {
	configs, _ := layout(t, openStore(t).Node())
	cfg := configs[streams.OpsStream]
	if cfg.Discard != jetstream.DiscardOld || cfg.MaxBytes != 16<<20 || cfg.MaxAge != 30*24*time.Hour {
		t.Errorf("got %+v, want a 64th of the store for 30 days", cfg)
	}
}

func TestOpeningAgainChangesNothingAndBringsBackWhatWasChanged(t *testing.T) {
	s := openStore(t)
	accept(t, s, newEvent("1"))
	want, order := layout(t, s.Node())
	s = reopen(t, s)
	got, after := layout(t, s.Node())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("opened again (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(order, after); diff != "" {
		t.Errorf("order of creation (-want +got):\n%s", diff)
	}
	for name, change := range map[string]func(*jetstream.StreamConfig){
		streams.EventsStream: func(c *jetstream.StreamConfig) {
			c.MaxAge, c.Discard, c.MaxBytes, c.Duplicates = 3600e9, jetstream.DiscardOld, 1<<20, 60e9
		},
		streams.RetryStream:      func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject, c.MaxMsgs = 5, 10 },
		streams.AdvisoriesStream: func(c *jetstream.StreamConfig) { c.Subjects = []string{"nothing"} },
		streams.AttemptsStream:   func(c *jetstream.StreamConfig) { c.MaxAge = 3600e9 },
	} {
		cfg := want[name]
		change(&cfg)
		if _, err := s.JetStream().UpdateStream(t.Context(), cfg); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := s.JetStream().DeleteStream(t.Context(), streams.HeldStream); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s)
	got, _ = layout(t, s.Node())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changed by hand (-want +got):\n%s", diff)
	}
	if got := stored(t, s.Node()); got != 1 {
		t.Errorf("got %d events, want the one of before", got)
	}
}

func TestAStreamThatCannotBecomeOursIsRefusedByName(t *testing.T) {
	for _, tc := range []struct {
		want string
		made jetstream.StreamConfig
	}{
		{"stream SIDING_RETRY: ", jetstream.StreamConfig{Name: streams.RetryStream, Subjects: []string{"siding.retry.>"}, Retention: jetstream.LimitsPolicy}},
		{"stream EVENTS: ", jetstream.StreamConfig{Name: streams.EventsStream, Subjects: []string{"events.>"}, Storage: jetstream.MemoryStorage}},
		{"stream SIDING_HELD: ", jetstream.StreamConfig{Name: "MINE", Subjects: []string{"siding.held.mine"}}},
	} {
		node := streamstest.New(t)
		if _, err := node.JetStream().CreateStream(t.Context(), tc.made); err != nil {
			t.Fatal(err)
		}
		if _, err := streams.OpenStore(t.Context(), node); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error that begins with %q", tc.made.Name, err, tc.want)
		}
	}
}
