package streamstest

import (
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
)

// Main runs the tests of a package that opens nodes in bubbles; its TestMain is nothing else:
//
//	func TestMain(m *testing.M) { streamstest.Main(m) }
//
// The embedded server keeps one coarse clock a process, whose goroutine is started by the first stream and waits on a channel
// that was made when the program started. Waiting in a bubble on a channel from outside is not durable, so that the bubble's time
// would stand still for ever. Main starts that clock outside every bubble and never stops it.
func Main(m *testing.M) {
	ats.Register()
	os.Exit(m.Run()) //nolint:revive // it is the end of the caller's TestMain
}

// Present moves the clock of a bubble from the year 2000, in which it begins, to the time of the server's coarse clock, which
// tells the real one; outside a bubble it does nothing. New calls it; a test that opens its nodes by other means calls it first,
// while no server runs, because then the years take no time.
//
// Without it every message in the bubble would be older than any age limit, and a restarted server would begin by emptying the
// audit. With it nothing grows too old while a server runs, however long the bubble sleeps: the coarse clock does not follow.
// What has grown too old goes when the next server starts, by the bubble's own time.
func Present() {
	// A little behind is where a bubble stands that was moved before, and it must not move by chance.
	if behind := time.Until(time.Unix(0, ats.AccessTime())); behind > 24*time.Hour {
		time.Sleep(behind) //nolint:forbidigo // only in a bubble, where it takes no time
	}
}
