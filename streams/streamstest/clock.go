package streamstest

import (
	"sync/atomic"
	"testing"
	_ "unsafe" // for go:linkname

	_ "github.com/nats-io/nats-server/v2/server/ats" // whose variables are linked below
)

// The embedded server keeps one coarse clock a process, which runs while any stream is open. Its goroutine waits on a
// channel that is made when the program starts. Waiting in a bubble on a channel from outside is not durable, so with
// the first stream the bubble's time would stand still for ever. A clock kept running outside would be no way out: it
// tells the real time, and by that every age limit in the bubble, which begins in the year 2000, is over.
//
//go:linkname clockDone github.com/nats-io/nats-server/v2/server/ats.done
var clockDone chan struct{}

// clockUsers counts the open streams of all servers in the process.
//
//go:linkname clockUsers github.com/nats-io/nats-server/v2/server/ats.refs
var clockUsers atomic.Int64

// outsideDone is the channel that the program started with.
var outsideDone = clockDone

// Clock lets the server's clock follow the caller's bubble until the test ends. New calls it; a test that opens its
// node by other means calls it first. It does nothing while a stream is open, so that a second node in one bubble shares
// the first one's clock. Tests that use it must not run in parallel with each other: there is one clock.
func Clock(t testing.TB) {
	t.Helper()
	replaceClock(make(chan struct{}, 1))
	// Nobody outside may ever wait on a bubble's channel; the runtime ends the process for that.
	t.Cleanup(func() { replaceClock(outsideDone) })
}

func replaceClock(done chan struct{}) {
	if clockUsers.Load() != 0 {
		return
	}
	// The last stream that closed has left a token for the clock's goroutine. This send waits until it is taken, after
	// which that goroutine does not look at clockDone again.
	clockDone <- struct{}{}
	<-clockDone
	clockDone = done
}
