// Package doctor says what is wrong with a node or its data directory.
//
// Its checks are pure functions over facts that others gathered, so that each finding can be tested without the fault. A fact that could not be
// gathered is nil, and its checks are left out: nothing is called fine that nobody has looked at. A finding is a failure where events are not
// handled or accepted, or soon will not be; a warning where a person should know something; and otherwise fine.
package doctor

import (
	"fmt"
	"time"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/patience"
)

// Facts are what the checks look at.
type Facts struct {
	Now       time.Time
	Directory *Directory
	Node      *Node
}

// Directory is a data directory as it shows from outside.
type Directory struct {
	Path          string
	Absent        bool
	Locked        string // who holds it, "" for nobody
	Format        string // why it cannot be read, "" if it can
	FormatHint    string
	Free, Reserve int64
	Used          int64
	Damaged       map[string]string // ledgers by function, and what is wrong with them
	Ledgers       int
	Aside         []string // ledgers that a start did not trust
	Newest        time.Time
}

// Node is what only a running node can tell.
type Node struct {
	PID       int
	Unhealthy string // the store's own words, "" if it can be written
	MaxStore  int64
	Streams   []Stream
	Drift     []Drift
	Functions []Function
	Doubles   []Double
	Tracing   Tracing
	Listeners []Listener
	Token     bool
}

// Stream is how full a stream is.
type Stream struct {
	Name     string
	Bytes    int64
	MaxBytes int64 // 0 = no limit of its own
	Last     time.Time
}

// Drift is one setting that is not as it was made.
type Drift struct {
	What, Field, Got, Want string // Field "" means that it is missing
	Consumer               bool
}

// Function is one that the node knows, hosted or not.
type Function struct {
	Name                              string
	Hosted                            bool
	Owner                             string
	Timeout                           time.Duration
	Patience                          patience.Report // of one that is hosted
	Suspended                         string          // why, "" if it is not
	Retrying, Held, Parked, Decisions int
}

// Double is an event that stands in two places.
type Double struct{ ID, First, Second string }

// Tracing is where spans are sent; Endpoint "" is nowhere.
type Tracing struct {
	Endpoint string
	Err      string // why nobody was reached there
}

// Listener is an address that others can reach.
type Listener struct {
	What, Address string
	Loopback      bool
	TLS           bool
}

// Check looks at the facts, always in the same order.
func Check(f Facts) client.Doctor {
	r := &report{}
	if d := f.Directory; d != nil {
		checkDirectory(r, f, d)
	}
	if n := f.Node; n != nil {
		checkStore(r, n)
		checkStreams(r, n)
		checkFunctions(r, n)
		checkDoubles(r, n)
		checkTracing(r, n)
		checkAccess(r, n)
	}
	checkClock(r, f)
	out := client.Doctor{OK: true, Checks: r.findings}
	for _, c := range r.findings {
		out.OK = out.OK && c.Status != client.DoctorFail
	}
	return out
}

// report collects findings.
type report struct{ findings []client.DoctorCheck }

func (r *report) add(check, status, hint, format string, args ...any) {
	r.findings = append(r.findings, client.DoctorCheck{Check: check, Status: status, Detail: fmt.Sprintf(format, args...), Hint: hint})
}

func (r *report) ok(check, format string, args ...any) {
	r.add(check, client.DoctorOK, "", format, args...)
}

func (r *report) warn(check, hint, format string, args ...any) {
	r.add(check, client.DoctorWarn, hint, format, args...)
}

func (r *report) fail(check, hint, format string, args ...any) {
	r.add(check, client.DoctorFail, hint, format, args...)
}

// unless adds that all is fine if nothing was found since before.
func (r *report) unless(before int, check, format string, args ...any) {
	if len(r.findings) == before {
		r.ok(check, format, args...)
	}
}

// size writes bytes for a person.
func size(n int64) string {
	const unit = 1 << 10
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, names := float64(n)/unit, "KMGTPE"
	for value >= unit && len(names) > 1 {
		value, names = value/unit, names[1:]
	}
	return fmt.Sprintf("%.1f %ciB", value, names[0])
}
