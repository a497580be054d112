package streams_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

// guest is a client of the embedded server as anybody could be, and what it was refused.
type guest struct {
	*nats.Conn
	refused chan error
}

func connectGuest(t *testing.T, node *streams.Node, opts ...nats.Option) guest {
	t.Helper()
	g := guest{refused: make(chan error, 1)}
	conn, err := nats.Connect(node.Addr(), append(opts, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { g.refused <- err }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	g.Conn = conn
	return g
}

// refusal flushes and returns what the server refused since the last call, nil if nothing: it refuses before it answers the flush.
func (g guest) refusal(t *testing.T) error {
	t.Helper()
	if err := g.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-g.refused:
		return err
	case <-time.After(20 * time.Millisecond): // the client tells of an error on a goroutine of its own
		return nil
	}
}

// guestNode is a node with a listener, a store and a function named f with its consumers.
func guestNode(t *testing.T) (*streams.Node, *streams.Store) {
	t.Helper()
	node := streamstest.New(t, func(cfg *streams.Config) {
		cfg.Listen, cfg.Consumers, cfg.Publish = "127.0.0.1:0", []string{"f"}, []string{"orders.>"}
	})
	s, err := streams.OpenStore(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := s.SourceConsumer(t.Context(), streams.Declared{Name: "f", Stream: streams.EventsStream, Types: []string{">"}}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RetryConsumer(t.Context(), "f", 3); err != nil {
		t.Fatal(err)
	}
	return node, s
}

// TestAGuestMayPublishEventsAndBrowseAndNothingElse takes every request that JetStream knows, and the subjects that mean something to us.
func TestAGuestMayPublishEventsAndBrowseAndNothingElse(t *testing.T) {
	node, _ := guestNode(t)
	g := connectGuest(t, node)
	of := func(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }
	verbs := map[string]struct {
		subjects []string
		allowed  bool
	}{
		"account info":              {of(server.JSApiAccountInfo), true},
		"stream create":             {of(server.JSApiStreamCreateT, "MINE"), false},
		"stream update":             {of(server.JSApiStreamUpdateT, "EVENTS"), false},
		"stream delete":             {of(server.JSApiStreamDeleteT, "EVENTS"), false},
		"stream purge":              {of(server.JSApiStreamPurgeT, "DLQ_f"), false},
		"stream snapshot":           {of(server.JSApiStreamSnapshotT, "EVENTS"), false},
		"stream restore":            {of(server.JSApiStreamRestoreT, "MINE"), false},
		"stream info":               {of(server.JSApiStreamInfoT, "EVENTS"), true},
		"stream names":              {of(server.JSApiStreams), true},
		"stream list":               {of(server.JSApiStreamList), true},
		"stream remove peer":        {of(server.JSApiStreamRemovePeerT, "EVENTS"), false},
		"stream evacuate peer":      {of(server.JSApiStreamEvacuatePeerT, "EVENTS"), false},
		"stream cancel move":        {of(server.JSApiStreamCancelMoveT, "EVENTS"), false},
		"stream leader step down":   {of(server.JSApiStreamLeaderStepDownT, "EVENTS"), false},
		"message delete":            {of(server.JSApiMsgDeleteT, "EVENTS"), false},
		"message get":               {of(server.JSApiMsgGetT, "EVENTS"), true},
		"direct get":                {append(of(server.JSDirectMsgGetT, "EVENTS"), fmt.Sprintf(server.JSDirectGetLastBySubjectT, "EVENTS", "events.x")), true},
		"consumer create":           {append(of(server.JSApiConsumerCreateT, "EVENTS"), fmt.Sprintf(server.JSApiConsumerCreateExT, "EVENTS", "mine", "events.x")), true},
		"consumer create, durable":  {of(server.JSApiDurableCreateT, "EVENTS", "mine"), false},
		"consumer create, ours":     {append(of(server.JSApiConsumerCreateExT, "EVENTS", "f", "events.x"), "$JS.API.CONSUMER.CREATE.EVENTS.f", "$JS.API.CONSUMER.CREATE.SIDING_OPS.siding-webhook.siding.ops.>"), false},
		"consumer create, queues":   {[]string{"$JS.API.CONSUMER.CREATE.SIDING_RETRY", "$JS.API.CONSUMER.CREATE.SIDING_RETRY.mine", "$JS.API.CONSUMER.CREATE.SIDING_DECISIONS.mine", "$JS.API.CONSUMER.CREATE.SIDING_ADVISORIES.mine.x"}, false},
		"consumer names":            {of(server.JSApiConsumersT, "EVENTS"), true},
		"consumer list":             {of(server.JSApiConsumerListT, "EVENTS"), true},
		"consumer info":             {of(server.JSApiConsumerInfoT, "EVENTS", "f"), true},
		"consumer delete":           {append(of(server.JSApiConsumerDeleteT, "EVENTS", "f"), fmt.Sprintf(server.JSApiConsumerDeleteT, "EVENTS", "mine")), false},
		"consumer pause":            {of(server.JSApiConsumerPauseT, "EVENTS", "f"), false},
		"consumer reset":            {of(server.JSApiConsumerResetT, "EVENTS", "f"), false},
		"consumer unpin":            {of(server.JSApiConsumerUnpinT, "EVENTS", "f"), false},
		"consumer next, mine":       {of(server.JSApiRequestNextT, "EVENTS", "mine"), true},
		"consumer next, ours":       {append(of(server.JSApiRequestNextT, "EVENTS", "f"), "$JS.API.CONSUMER.MSG.NEXT.SIDING_RETRY.f", "$JS.API.CONSUMER.MSG.NEXT.SIDING_ADVISORIES.siding", "$JS.API.CONSUMER.MSG.NEXT.SIDING_OPS.siding-webhook"), false},
		"consumer step down":        {of(server.JSApiConsumerLeaderStepDownT, "EVENTS", "f"), false},
		"consumer remove peer":      {of(server.JSApiConsumerRemovePeerT, "EVENTS", "f"), false},
		"consumer evacuate peer":    {of(server.JSApiConsumerEvacuatePeerT, "EVENTS", "f"), false},
		"meta":                      {[]string{server.JSApiLeaderStepDown, server.JSApiRemoveServer, server.JSApiEvacuateServer, server.JSApiMetaRescue}, false},
		"account":                   {[]string{"$JS.API.ACCOUNT.PURGE.$G", "$JS.API.ACCOUNT.STREAM.MOVE.$G.EVENTS"}, false},
		"acknowledgement of ours":   {[]string{"$JS.ACK.EVENTS.f.1.1.1.1.1", "$JS.ACK.SIDING_RETRY.f.1.1.1.1.1", "$JS.ACK._._.EVENTS.f.1.1.1.1.1"}, false},
		"another domain's API":      {[]string{"$JS.hub.API.STREAM.DELETE.EVENTS"}, false},
		"our subjects":              {[]string{"siding.retry.f._.1", "siding.held.f.k.1", "siding.dlq.f.k.1", "siding.decision.f.k.1", "siding.attempt.f.1", "siding.audit.f", "siding.ops.f", "siding.ops._node.digest", "siding"}, false},
		"advisories":                {[]string{"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.SIDING_RETRY.f", "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.SIDING_RETRY.f", "$JS.EVENT.METRIC.x"}, false},
		"buckets":                   {[]string{"$KV.SIDING_FUNCTIONS.f", "$KV.OTHER.x", "$O.x"}, false},
		"the system":                {[]string{"$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.$G.JSZ", "$SYS.ACCOUNT.x"}, false},
		"somebody's answers":        {[]string{"_INBOX.x", "_INBOX.x.y", "_SIDING.x.y"}, false},
		"events and what is opened": {[]string{"events.x", "events.x.y", "orders.7"}, true},
		"anything else":             {[]string{"orders", "x", "Events.x"}, false},
	}
	for name, verb := range verbs {
		for _, subject := range verb.subjects {
			if err := g.PublishRequest(subject, g.NewInbox(), nil); err != nil {
				t.Fatal(err)
			}
			if err := g.refusal(t); verb.allowed && err != nil || !verb.allowed && !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: publish to %s: got %v, want it allowed: %v", name, subject, err, verb.allowed)
			}
		}
	}
	for subject, allowed := range map[string]bool{
		"events.>": true, "siding.>": true, "siding.dlq.f.>": true, "siding.ops.>": true, "orders.>": true, "$JS.EVENT.ADVISORY.>": true, "_INBOX.>": true, ">": true,
		"$JS.API.>": false, "$JS.API.STREAM.CREATE.*": false, "$JS.ACK.>": false, "$SYS.>": false, "_SIDING.>": false, "_SIDING.*.*": false,
	} {
		sub, err := g.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.refusal(t); allowed && err != nil || !allowed && !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("subscribe to %s: got %v, want it allowed: %v", subject, err, allowed)
		}
		if allowed {
			if err := sub.Unsubscribe(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAGuestThatHearsEverythingHearsNoAnswerOfTheNode: who knows where the node waits for a PubAck can have the server send it another one.
func TestAGuestThatHearsEverythingHearsNoAnswerOfTheNode(t *testing.T) {
	node, s := guestNode(t)
	g := connectGuest(t, node)
	var subs []*nats.Subscription
	for _, subject := range []string{">", "_INBOX.>", "*.*", "*.*.*", "*.>"} {
		sub, err := g.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, sub)
	}
	if err := g.refusal(t); err != nil {
		t.Fatal(err)
	}
	extra, err := node.Connect("extra")
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(extra)
	if err != nil {
		t.Fatal(err)
	}
	for _, js := range []jetstream.JetStream{s.JetStream(), js} {
		if _, err := js.Publish(t.Context(), "events.x", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Stream(t.Context(), "EVENTS"); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	heard := 0
	for _, sub := range subs {
		for pending, _, _ := sub.Pending(); pending > 0; pending-- {
			m, err := sub.NextMsg(time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if m.Subject == "events.x" {
				heard++
			} else if strings.HasPrefix(m.Subject, "_") || strings.HasPrefix(m.Subject, "$JS.A") {
				t.Errorf("subscription %s: heard %s: %s", sub.Subject, m.Subject, m.Data)
			}
		}
	}
	if heard != 3*2 {
		t.Errorf("got %d events heard, want 2 by each of the 3 patterns that match them", heard)
	}
}

// TestAGuestCannotTouchAFunctionsConsumerByAnotherName: the subject of a request names a consumer, and so does its body.
func TestAGuestCannotTouchAFunctionsConsumerByAnotherName(t *testing.T) {
	node, s := guestNode(t)
	g := connectGuest(t, node)
	before, err := s.JetStream().Consumer(t.Context(), "EVENTS", "f")
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"$JS.API.CONSUMER.CREATE.EVENTS", "$JS.API.CONSUMER.CREATE.EVENTS.g", "$JS.API.CONSUMER.CREATE.EVENTS.g.events.x"} {
		for _, field := range []string{"durable_name", "name"} {
			body, err := json.Marshal(map[string]any{"stream_name": "EVENTS", "config": map[string]any{
				field: "f", "ack_policy": "explicit", "ack_wait": int64(time.Second), "filter_subject": "events.x", "deliver_policy": "all",
			}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Request(subject, body, 5*time.Second); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"SIDING_RETRY", "SIDING_DECISIONS", "SIDING_ADVISORIES"} {
		body := fmt.Sprintf(`{"stream_name":%q,"config":{"ack_policy":"explicit","durable_name":"mine"}}`, name)
		if _, err := g.Request("$JS.API.CONSUMER.CREATE.EVENTS.mine", []byte(body), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := s.JetStream().Consumer(t.Context(), name, "mine"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Errorf("stream %s: got %v, want no consumer of a guest", name, err)
		}
	}
	after, err := s.JetStream().Consumer(t.Context(), "EVENTS", "f")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", after.CachedInfo().Config), fmt.Sprintf("%+v", before.CachedInfo().Config); got != want || !after.CachedInfo().Created.Equal(before.CachedInfo().Created) {
		t.Errorf("got consumer %s, want it as it was: %s", got, want)
	}
}
