package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/siding-dev/siding/runtime/client"
)

// tailWriteTimeout is how long a reader of a tail may take for one line.
const tailWriteTimeout = 30 * time.Second

// tail writes one JSON line a dead letter, until the reader has seen enough.
func (a *api) tail(w http.ResponseWriter, r *http.Request) error {
	q, v, err := readDeadLetterQuery(r, "from")
	if err != nil {
		return err
	}
	if q.Outage != "" {
		return newProblem(client.Usage, "tail of an outage: it parks nothing any more").WithHint("`siding dlq ls --outage %s` lists what it parked", q.Outage)
	}
	if from := v.Get("from"); from != "" && from != "now" {
		return newProblem(client.Usage, "from %s: only now is known", strconv.Quote(from))
	}
	return a.lines(w, r, func(ctx context.Context, out *tailWriter) error {
		return a.backend.tail(ctx, q, v.Get("from") == "now", func(d client.DeadLetter) error {
			return out.line(d.UTC())
		})
	})
}

// tailWriter writes whole lines; the heartbeat writes beside the tail.
type tailWriter struct {
	mu   sync.Mutex
	w    io.Writer
	conn *http.ResponseController
}

// line writes v as one line, or an empty one for nil, and flushes it.
func (t *tailWriter) line(v any) error {
	b := []byte{}
	if v != nil {
		var err error
		if b, err = json.Marshal(v); err != nil {
			return err
		}
	}
	return t.raw(b)
}

// raw writes a line that is rendered already.
func (t *tailWriter) raw(b []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.conn.SetWriteDeadline(time.Now().Add(tailWriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := t.w.Write(append(b, '\n')); err != nil {
		return err
	}
	return t.conn.Flush()
}

// beat writes empty lines until ctx ends. It ends the tail when the reader takes
// none, and when the server stops.
func (t *tailWriter) beat(ctx context.Context, stopping <-chan struct{}, end context.CancelFunc) {
	ticker := time.NewTicker(client.HeartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			end()
			return
		case <-ticker.C:
			if t.line(nil) != nil {
				end()
				return
			}
		}
	}
}
