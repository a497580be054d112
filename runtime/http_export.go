package runtime

import (
	"context"
	"net/http"
	"sync"

	"github.com/siding-dev/siding/runtime/client"
)

// export writes one JSON line a dead letter, with its event, and a last one that says how many there were: an answer without it is cut. Between
// the lines there are empty ones, as in a tail.
func (a *api) export(w http.ResponseWriter, r *http.Request) error {
	q, _, err := readDeadLetterQuery(r)
	if err != nil {
		return err
	}
	return a.lines(w, r, func(ctx context.Context, out *tailWriter) error {
		total := 0
		err := a.backend.export(ctx, q, func(e client.Exported) error {
			e.DeadLetter = e.UTC()
			line, err := e.Line()
			if err != nil {
				return err
			}
			total++
			return out.raw(line)
		})
		if err != nil {
			return err
		}
		return out.line(client.ExportEnd{Total: &total})
	})
}

// lines answers with JSON lines that write makes, and with an empty one when there was none for a while, so that both sides notice a connection
// that is dead. What ends it early, other than the reader, is told in a last line.
func (a *api) lines(w http.ResponseWriter, r *http.Request, write func(ctx context.Context, out *tailWriter) error) error {
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
	err := write(ctx, out)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	p, known := problemOf(err)
	if !known {
		a.log.ErrorContext(ctx, "an answer in lines failed", "path", r.URL.Path, "err", err)
	}
	_ = out.line(client.TailEnd{Problem: p})
	return nil
}
