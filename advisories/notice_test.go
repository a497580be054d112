package advisories

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// As nats-server 2.15 writes them.
const (
	maxDeliverSample = `{"type":"io.nats.jetstream.advisory.v1.max_deliver","id":"BVBMZxtPZQpzX3oX2PCVqZ","timestamp":"2026-03-01T12:00:00.123456789Z","stream":"SIDING_RETRY","consumer":"file-claim","stream_seq":42,"deliveries":3}`
	terminatedSample = `{"type":"io.nats.jetstream.advisory.v1.terminated","id":"BVBMZxtPZQpzX3oX2PCVrA","timestamp":"2026-03-01T12:00:00Z","stream":"EVENTS","consumer":"file-claim","consumer_seq":7,"stream_seq":43,"deliveries":1,"reason":"Unacknowledged message was deleted","domain":"hub"}`
)

func TestBothAdvisoriesAreRead(t *testing.T) {
	for data, want := range map[string]Notice{
		maxDeliverSample: {Kind: MaxDeliveries, Stream: "SIDING_RETRY", Consumer: "file-claim", Sequence: 42, Deliveries: 3, At: base.Add(123456789 * time.Nanosecond)},
		terminatedSample: {Kind: Terminated, Stream: "EVENTS", Consumer: "file-claim", Sequence: 43, Deliveries: 1, Reason: "Unacknowledged message was deleted", At: base},
	} {
		got, err := Parse([]byte(data))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("error %v, notice (-want +got):\n%s", err, diff)
		}
	}
}

func TestWhatDoesNotNameAMessageOfAConsumerIsNoAdvisory(t *testing.T) {
	for _, data := range []string{
		"", "null", "[]", "{}", `"x"`, "\x00", maxDeliverSample[:50], "[" + maxDeliverSample + "]",
		strings.Replace(maxDeliverSample, "max_deliver", "nak", 1),
		strings.Replace(maxDeliverSample, "SIDING_RETRY", "", 1),
		strings.Replace(maxDeliverSample, "file-claim", "", 1),
		strings.Replace(maxDeliverSample, ":42", ":0", 1),
		strings.Replace(maxDeliverSample, ":42", ":-1", 1),
		strings.Replace(maxDeliverSample, ":42", `:"42"`, 1),
		strings.Replace(maxDeliverSample, "2026-03-01", "yesterday", 1),
	} {
		if got, err := Parse([]byte(data)); err == nil || got != (Notice{}) || !strings.HasPrefix(err.Error(), "advisory: ") {
			t.Errorf("%q: got %+v, %v, want an error", data, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{maxDeliverSample, terminatedSample, "{}", "", `{"type":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := Parse(data)
		if whole := n.Kind != "" && n.Stream != "" && n.Consumer != "" && n.Sequence > 0; whole != (err == nil) {
			t.Errorf("got %+v, %v, want either a whole notice or an error", n, err)
		}
	})
}
