package streams

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// errRestarting is what the node answers between the old server and the new one.
var errRestarting = errors.New("server is restarting")

// Health returns nil if the store can be written. Otherwise it returns an *UnwritableError with the server's own words:
// a stream that once met a full disk stays unwritable until Restart, also when there is room again. The same holds for
// the node's connection once the server has ended it: a subject of more than 4096 bytes does that.
func (n *Node) Health() error {
	n.mu.RLock()
	s, conn, down := n.server, n.conn, n.down
	n.mu.RUnlock()
	reason := ""
	switch {
	case errors.Is(down, ErrNodeClosed):
		return down
	case down != nil:
		reason = down.Error()
	case conn.IsClosed():
		reason = fmt.Sprintf("connection ended by the server: %v", conn.LastError())
	default:
		reason = unhealthy(s)
	}
	if reason == "" {
		return nil
	}
	return &UnwritableError{Dir: n.dir.path, Reason: reason, Err: down, Hint: "see that its disk has room; the store is restarted then"}
}

// unhealthy returns the server's own words about what is wrong with it, "" if nothing is. Some of them count only if they stay, up to five seconds:
// Healthz grants the server a millisecond to say that it is ready, which a busy machine does not, and it takes each folder of a stream that the
// account does not know for a stream that cannot be recovered, also the one of a stream that is being created right then, or what a removed stream
// has left, which goes away in the background.
func unhealthy(s *server.Server) (reason string) {
	for range 50 {
		reason = s.Healthz(nil).Error
		switch {
		case strings.HasPrefix(reason, "failed to be ready for connections"):
			s.ReadyForConnections(100 * time.Millisecond)
		case strings.HasSuffix(reason, "could not be recovered"):
			<-time.After(100 * time.Millisecond)
		default:
			return reason
		}
	}
	return reason
}

// Restart shuts the server down and starts it again on the same directory, without giving up the lock. That is what
// makes streams writable again after a full disk. All connections are closed; Conn and JetStream return new ones
// afterwards. After an error the node has no server: Conn returns the closed connection, Health the reason, and Restart
// may be called again.
func (n *Node) Restart(ctx context.Context) error {
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.closed {
		return ErrNodeClosed
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("directory %s: restart: %w", n.dir.path, context.Cause(ctx))
	}
	n.stop(errRestarting) //nolint:contextcheck // stopping is never cut short
	if err := n.start(ctx); err != nil {
		n.mu.Lock()
		n.down = err
		n.mu.Unlock()
		return err
	}
	return nil
}
