package runtime

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// backupCopy is a backup that has been taken and is not written yet.
type backupCopy interface {
	Write(w io.Writer) (streams.Manifest, error)
	Close() error
}

// backupWriteTimeout is how long the reader of a backup may take for one piece of it.
const backupWriteTimeout = time.Minute

// backup answers with the whole backup. It is complete on the node's disk before the first byte is sent: a reader that stalls keeps
// nobody but itself. What goes wrong after that ends the connection, and the file that was written of it has no end.
func (a *api) backup(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	if r.Method == http.MethodHead {
		h.Set("Content-Type", "application/x-tar")
		return nil
	}
	taken, err := a.backend.backup(r.Context())
	if err != nil {
		return err
	}
	defer func() { //nolint:contextcheck // what is logged has the request's context
		if err := taken.Close(); err != nil {
			a.log.ErrorContext(r.Context(), "the copy of a backup was not removed", "err", err)
		}
	}()
	h.Set("Content-Type", "application/x-tar")
	h.Set("Content-Disposition", `attachment; filename="siding-backup.tar"`)
	m, err := taken.Write(&patientWriter{w: w, conn: http.NewResponseController(w)})
	if err != nil {
		a.log.WarnContext(r.Context(), "a backup was not sent to its end", "err", err)
		panic(http.ErrAbortHandler)
	}
	a.log.InfoContext(r.Context(), "backup sent", "bytes", m.Bytes, "held", m.Held)
	return nil
}

// patientWriter gives its reader a time for each write, and not for them all.
type patientWriter struct {
	w    io.Writer
	conn *http.ResponseController
}

func (p *patientWriter) Write(b []byte) (int, error) {
	if err := p.conn.SetWriteDeadline(time.Now().Add(backupWriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return p.w.Write(b)
}

// backup takes a copy of all that the node keeps.
func (r *Runtime) backup(ctx context.Context) (backupCopy, error) {
	h, err := r.current()
	if err != nil {
		return nil, err
	}
	if !r.backing.CompareAndSwap(false, true) {
		return nil, newProblem(client.Conflict, "backup: another one is being taken").WithHint("wait until it has ended")
	}
	taken, err := h.backup(ctx)
	if err != nil {
		r.backing.Store(false)
		return nil, err
	}
	return &onlyBackup{taken, r}, nil
}

// onlyBackup is the one backup of a node at a time.
type onlyBackup struct {
	*streams.Backup
	of *Runtime
}

func (b *onlyBackup) Close() error {
	defer b.of.backing.Store(false)
	return b.Backup.Close()
}

// backup copies the store, with the ledgers of the functions that are hosted.
func (h *host) backup(ctx context.Context) (*streams.Backup, error) {
	ledgers := map[string]*streams.Ledger{}
	for _, fn := range h.fns {
		o := h.owner(fn.Name)
		select {
		case <-o.begun:
			ledgers[fn.Name] = o.ledger
		default:
			return nil, newProblem(client.Unavailable, "function %s has not begun yet", fn.Name)
		}
	}
	taken, err := h.store.Backup(ctx, ledgers)
	if err != nil {
		return nil, err
	}
	h.log.Info("backup taken", "held", taken.Held, "streams", len(taken.Streams))
	return taken, nil
}

// verifyBackup and restore are what the commands do with the file of a backup.
func verifyBackup(path string) (client.Backup, error) {
	m, err := streams.VerifyBackup(path)
	return backupOf(m), problemFor(err)
}

func restore(path, dir string) (client.Backup, error) {
	m, err := streams.Restore(path, dir)
	return backupOf(m), problemFor(err)
}

// problemFor keeps what an error says about a file of the caller's own.
func problemFor(err error) error {
	if p, known := problemOf(err); err != nil && known {
		return p
	}
	return err
}

func backupOf(m streams.Manifest) client.Backup {
	b := client.Backup{TakenAt: m.TakenAt, Held: m.Held.String(), Bytes: m.Bytes, DataFormat: m.DataFormat, Functions: each(m.Functions, func(s string) string { return s })}
	for _, s := range m.Streams {
		b.Streams = append(b.Streams, client.BackupStream(s))
	}
	return b
}
