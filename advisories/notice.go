package advisories

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/siding-dev/siding/streams"
)

// Kind tells the two captured advisories apart.
type Kind string

// The kinds of advisory.
const (
	MaxDeliveries Kind = "max_deliveries"
	Terminated    Kind = "terminated"
)

// Notice is one captured advisory: JetStream's word about one message of one consumer. It carries no payload.
type Notice struct {
	Kind       Kind
	Stream     string
	Consumer   string
	Sequence   uint64 // in Stream
	Deliveries uint64
	Reason     string
	At         time.Time
}

// kindOf reads the schema type of an advisory; "" is one that is not captured on purpose.
func kindOf(schema string) Kind {
	switch schema {
	case "io.nats.jetstream.advisory.v1.max_deliver":
		return MaxDeliveries
	case "io.nats.jetstream.advisory.v1.terminated":
		return Terminated
	}
	return ""
}

// Parse reads a captured advisory. Anybody who may publish to the server can write something else there.
func Parse(data []byte) (Notice, error) {
	var a struct {
		Type       string    `json:"type"`
		Time       time.Time `json:"timestamp"`
		Stream     string    `json:"stream"`
		Consumer   string    `json:"consumer"`
		StreamSeq  uint64    `json:"stream_seq"`
		Deliveries uint64    `json:"deliveries"`
		Reason     string    `json:"reason"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return Notice{}, fmt.Errorf("advisory: %w", err)
	}
	kind := kindOf(a.Type)
	if kind == "" || a.Stream == "" || a.Consumer == "" || a.StreamSeq == 0 {
		return Notice{}, fmt.Errorf("advisory: type %q does not name a message of a consumer", a.Type)
	}
	return Notice{Kind: kind, Stream: a.Stream, Consumer: a.Consumer, Sequence: a.StreamSeq, Deliveries: a.Deliveries, Reason: a.Reason, At: a.Time}, nil
}

func isAbsent(err error) bool { return errors.Is(err, streams.ErrNotFound) }
