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

// tail writes one JSON line a dead letter and an empty one when there was none
// for a while, so that both sides notice a connection that is dead. What ends
// it, other than the reader, is told in a last line.
func (a *api) tail(w http.ResponseWriter, r *http.Request) error {
	q, v, err := readDeadLetterQuery(r, "from")
	if err != nil {
		return err
	}
	if from := v.Get("from"); from != "" && from != "now" {
		return newProblem(client.Usage, "from %s: only now is known", strconv.Quote(from))
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out := &tailWriter{w: w, conn: http.NewResponseController(w)}
	if err := out.line(nil); err != nil {
		return nil
	}
	stopping, _ := ctx.Value(shutdownKey{}).(<-chan struct{})
	var heart sync.WaitGroup
	defer heart.Wait()
	defer cancel()
	heart.Go(func() { out.beat(ctx, stopping, cancel) })
	err = a.backend.tail(ctx, q, v.Get("from") == "now", func(d client.DeadLetter) error {
		return out.line(d.UTC())
	})
	if err == nil || ctx.Err() != nil {
		return nil
	}
	p, known := problemOf(err)
	if !known {
		a.log.ErrorContext(ctx, "tail failed", "err", err)
	}
	_ = out.line(client.TailEnd{Problem: p})
	return nil
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
