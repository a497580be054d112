package streams

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// BackupError says why a backup is not taken or not restored. It has changed nothing.
type BackupError struct {
	What   string // what is refused
	Reason string
	Hint   string
	Err    error // the cause, nil if there is no other one
}

func (e *BackupError) Error() string {
	return fmt.Sprintf("%s: %s: hint: %s", e.What, e.Reason, e.Hint)
}

func (e *BackupError) Unwrap() error { return e.Err }

// BackupStream is one stream of a backup; what it had when the backup began.
type BackupStream struct {
	Name         string `json:"name"`
	Messages     uint64 `json:"messages"`
	LastSequence uint64 `json:"last_sequence"`
}

// Backup is a copy of a data directory, complete and at rest in a folder of that directory, until it is closed.
type Backup struct {
	dir     string
	files   []string // relative to dir, with slashes, sorted
	TakenAt time.Time
	Held    time.Duration // how long the functions could store nothing
	Streams []BackupStream
	// Functions that were declared, sorted.
	Functions []string
}

// Names of the folders that a data directory has beside its store.
const (
	ledgerDir    = "ledger"
	spoolPrefix  = "backup-"
	ledgerSuffix = ".ledger"
)

// maxHold bounds how long a backup keeps the functions from storing. A third of it passes between two heartbeats of a delivery.
const maxHold = 30 * time.Second

// LedgerPath is where the ledger of a function stands in a data directory.
func LedgerPath(dir, function string) string {
	return filepath.Join(dir, ledgerDir, function+ledgerSuffix)
}

// Backup copies everything that this node keeps, while it runs, into a folder of its data directory; see the package comment for why a copy
// made in this order is one that a kill -9 could have left. ledgers are those that are open, by function. Only one backup may be taken at
// a time. The caller closes it.
func (s *Store) Backup(ctx context.Context, ledgers map[string]*Ledger) (*Backup, error) {
	root := s.node.dir.path
	if err := removeSpools(root); err != nil {
		return nil, err
	}
	if err := s.roomForBackup(root); err != nil {
		return nil, err
	}
	spool, err := os.MkdirTemp(root, spoolPrefix)
	if err != nil {
		return nil, unwritable(root, err)
	}
	b := &Backup{dir: spool, TakenAt: time.Now().UTC()}
	err = s.copyAll(ctx, b, ledgers)
	if err == nil {
		err = replaceFile(spool, formatFile, fmt.Appendf(nil, "%d\n", formatVersion))
	}
	if err == nil {
		b.files, err = listFiles(spool)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// copyAll copies first what functions write, and then what they read. What they emit from the hold on waits in their outbox until EVENTS has been
// copied: its cause is not delivered in the copy, and would emit it again.
func (s *Store) copyAll(ctx context.Context, b *Backup, ledgers map[string]*Ledger) error {
	end, err := s.stowing.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := s.copyHeld(ctx, b, ledgers); err != nil {
		return err
	}
	return s.copySources(ctx, b)
}

// Close removes the copy.
func (b *Backup) Close() error { return os.RemoveAll(b.dir) }

// removeSpools removes what an earlier process left that was killed during a backup.
func removeSpools(root string) error {
	left, err := filepath.Glob(filepath.Join(root, spoolPrefix+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// roomForBackup refuses a backup that would eat into what the store needs for itself.
func (s *Store) roomForBackup(root string) error {
	need := int64(0)
	for _, dir := range []string{storeDir, ledgerDir} {
		n, err := usage(filepath.Join(root, dir))
		if err != nil {
			return err
		}
		need += n
	}
	free, reserve, err := s.node.Room()
	if err != nil || free-need >= reserve/2 {
		return err
	}
	return &BackupError{
		What: "backup", Reason: fmt.Sprintf("a copy needs %d bytes beside the store, and of %d free ones %d stay reserved", need, free, reserve/2),
		Hint: "make room on the disk of the data directory, or stop the node and copy the directory itself",
	}
}

// copyHeld copies, while no function can store anything, the ledgers and all that functions write, and of the source streams what
// says how far they have been read.
func (s *Store) copyHeld(ctx context.Context, b *Backup, ledgers map[string]*Ledger) error {
	bound := min(maxHold, s.ackWait/4)
	ctx, cancel := context.WithTimeoutCause(ctx, bound, &BackupError{
		What: "backup", Reason: fmt.Sprintf("what has to stand still could not be copied within %s", bound),
		Hint: "repeat it when the disk is less busy; the functions go on meanwhile",
	})
	defer cancel()
	end, err := s.hold.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	began := time.Now()
	defer func() { b.Held = time.Since(began) }()
	if err := s.copyLedgers(ctx, b, ledgers); err != nil {
		return err
	}
	lister := s.node.JetStream().ListStreams(ctx)
	for info := range lister.Info() {
		b.Streams = append(b.Streams, BackupStream{Name: info.Config.Name, Messages: info.State.Msgs, LastSequence: info.State.LastSeq})
	}
	if err := lister.Err(); err != nil {
		return fmt.Errorf("backup: list of streams: %w", err)
	}
	slices.SortFunc(b.Streams, func(x, y BackupStream) int { return strings.Compare(x.Name, y.Name) })
	for _, stream := range b.Streams {
		from, to := s.streamFolders(b, stream.Name)
		if err := copyStreamHead(ctx, to, from); err != nil {
			return fmt.Errorf("backup: stream %s: %w", stream.Name, err)
		}
		if !ownStream(stream.Name) {
			continue
		}
		if err := copyMessages(ctx, to, from); err != nil {
			return fmt.Errorf("backup: stream %s: %w", stream.Name, err)
		}
	}
	return nil
}

// copySources copies the messages of the streams that functions only read. They go on, and so do those who publish.
func (s *Store) copySources(ctx context.Context, b *Backup) error {
	for _, stream := range b.Streams {
		if ownStream(stream.Name) {
			continue
		}
		from, to := s.streamFolders(b, stream.Name)
		if err := copyMessages(ctx, to, from); err != nil {
			return fmt.Errorf("backup: stream %s: %w", stream.Name, err)
		}
	}
	return nil
}

func (s *Store) streamFolders(b *Backup, name string) (from, to string) {
	rel := filepath.Join(storeDir, "jetstream", s.node.Server().GlobalAccount().GetName(), "streams", name)
	return filepath.Join(s.node.dir.path, rel), filepath.Join(b.dir, rel)
}

// copyLedgers copies the ledgers of all functions that are declared: the open ones as they are between two changes, the others from their files.
func (s *Store) copyLedgers(ctx context.Context, b *Backup, ledgers map[string]*Ledger) error {
	names, err := s.DeclaredNames(ctx)
	if err != nil {
		return err
	}
	slices.Sort(names)
	b.Functions = names
	if err := os.MkdirAll(filepath.Join(b.dir, ledgerDir), 0o700); err != nil {
		return err
	}
	for _, name := range names {
		var content []byte
		if open := ledgers[name]; open != nil {
			content, err = open.Snapshot()
		} else {
			content, err = readIntactLedger(LedgerPath(s.node.dir.path, name))
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("backup: function %s: ledger: %w", name, err)
		}
		if err := os.WriteFile(LedgerPath(b.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// readIntactLedger reads the file of a ledger that no owner has open. Somebody who adopts the function may write it for a moment: a copy that does not fit together is read again. A file that never does is damaged, and is copied as it is.
func readIntactLedger(path string) (content []byte, err error) {
	for range 5 {
		if content, err = os.ReadFile(path); err != nil || CheckLedger(content) == nil {
			break
		}
	}
	return content, err
}

// CheckLedger says in which way the content of a file is no intact ledger, of whatever function.
func CheckLedger(content []byte) error {
	if len(content) != ledgerBytes {
		return fmt.Errorf("has %d bytes, want %d", len(content), ledgerBytes)
	}
	words := make([]uint64, ledgerWords)
	copy(ledgerFileBytes(words), content)
	_, err := intactLedger(words)
	return err
}
