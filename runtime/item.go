package runtime

import (
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/streams"
)

// phase is where an event is in the owner's hands.
type phase int

// The phases. Only lined, delayed, queued and running keep a delivery alive by heartbeats.
const (
	moving    phase = iota // its steps are being applied, or one of them is to be repeated
	waiting                // stands in RETRY; JetStream delivers it when its delay is over
	delayed                // delivered a moment too early: the owner waits for the rest, because a nak would use up a delivery
	lined                  // waits in its lane for the end of what is before it
	queued                 // waits for a worker
	running                // its handler runs
	exhausted              // its last nak is out; JetStream's advisory is to say so
)

// item is one event of the function that is neither done nor parked: its way from a delivery to settled.
type item struct {
	ref     streams.Ref
	key     string
	cycle   int
	phase   phase
	retry   uint64 // sequence of its copy in RETRY, 0 while it is handled from its source stream
	history advisories.History

	msg         jetstream.Msg // the newest ack handle
	deliveries  int           // of the copy in RETRY, as JetStream counts
	dead        bool          // JetStream has said that it will not deliver this copy again
	redelivered bool
	recorded    bool // attempt records of it exist: its end must be recorded too
	sole        bool // history.Last is the only record of it

	header  nats.Header
	data    []byte
	event   event.Event
	broken  error  // why it is no event
	subject string // on the source stream
	stored  time.Time

	ready   time.Time // since when a worker could have taken it
	due     time.Time // before which no attempt may start
	since   time.Time // when its phase began, where a deadline hangs on that
	slot    int       // of the ledger, while running
	job     *job
	span    spanRef // of the last attempt or decision
	credits *credits
}

// suspect reports whether the process died while the item was attempted, in this cycle.
func (it *item) suspect() bool { return it.history.Crashes > 0 }

// attempts are those made in this cycle and charged.
func (it *item) attempts() int { return it.history.Attempts }

// inMemory reports whether the item holds a delivery that heartbeats must keep alive.
func (it *item) inMemory() bool {
	return it.phase == queued || it.phase == running || it.phase == delayed || it.phase == lined
}

// release gives up the body, and the place that it took in the window.
func (it *item) release() {
	it.header, it.data, it.event = nil, nil, event.Event{}
	if it.credits != nil {
		it.credits.put(1)
		it.credits = nil
	}
}

// copy is the item as it is written to another place. attempts are those made in this cycle.
func (it *item) copy(source string) streams.Copy {
	return streams.Copy{
		Cycle: it.cycle, Attempts: it.attempts(), Key: it.key, Source: source, Header: it.header, Data: it.data,
	}
}
