package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/siding-dev/siding/runtime/internal/digest"
	"github.com/siding-dev/siding/streams"
)

// Notify says how people are told what has happened. Its zero value tells by the log and on siding.ops.> alone.
type Notify struct {
	Interval time.Duration // between two digests of newly parked events; 0 = 1 h
	Webhook  string        // URL that every notice is posted to; "" = none
	Secret   []byte        // of the webhook, which signs what is posted; see ParseWebhookSecret
}

// defaultDigestInterval is how long newly parked events are collected.
const defaultDigestInterval = time.Hour

// The kinds of notices. All but the digest are told at once.
const (
	noticeSuspended = "suspended"
	noticeResumed   = "resumed"
	noticeGaveUp    = "gave-up"
	noticeStuck     = "stuck"
	noticeDigest    = "digest"
)

func noticeKinds() []string {
	return []string{noticeSuspended, noticeResumed, noticeGaveUp, noticeStuck, noticeDigest}
}

// notifier reads the audit and stores what people are to be told. It is one goroutine beside the owners, whom it never holds up.
type notifier struct {
	store    *streams.Store
	log      *slog.Logger
	metrics  *metrics
	pulling  pulling
	interval time.Duration
	fault    func(error)

	position uint64      // of the audit: everything up to it has been read
	told     uint64      // up to here everything that is told at once has been stored
	floor    uint64      // up to here digests have told
	fold     digest.Fold // what was parked above the floor
	first    time.Time   // when the first of these was; zero while there is none
	decided  bool        // somebody has decided about a dead letter above the floor
	last     time.Time   // when the newest digest was made
	saved    uint64      // what the store remembers of the position
	savedAt  time.Time
}

// notify tells people until ctx ends: the notifier and, where there is one, the webhook.
func (h *host) notify(ctx context.Context, interval time.Duration, hook *webhook) error {
	n := &notifier{
		store: h.store, log: h.log, metrics: h.metrics, pulling: h.timing.pulling, interval: cmp.Or(interval, defaultDigestInterval), fault: h.report,
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.run(ctx) })
	g.Go(func() error { return hook.run(ctx, h.store, h.report) })
	return g.Wait()
}

// run tells until ctx ends. After an error it begins anew with what is stored: nothing in memory is needed.
func (n *notifier) run(ctx context.Context) error {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		begun := time.Now()
		err := n.follow(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // an orderly stop
		}
		n.log.Warn("notices wait, because the audit cannot be read or they cannot be stored", "err", err)
		n.fault(err)
		if time.Since(begun) > time.Minute {
			wait = time.Second
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// follow reads the audit from where it has been told to, until something fails.
func (n *notifier) follow(ctx context.Context) error {
	if err := n.begin(ctx); err != nil {
		return err
	}
	consumer, err := n.store.AuditConsumer(ctx, n.position+1, 2*n.pulling.expires+time.Minute)
	if err != nil {
		return err
	}
	for next := uint64(1); ctx.Err() == nil; {
		if err := n.pull(ctx, consumer, &next); err != nil {
			return err
		}
		if err := n.save(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin finds out how far has been told. The newest notices know better than what was saved last: a process may have died in between.
func (n *notifier) begin(ctx context.Context) error {
	saved, err := beginTelling(ctx, n.store)
	if err != nil {
		return err
	}
	audit, err := n.store.Source(ctx, streams.AuditStream)
	if err != nil {
		return err
	}
	function, node, err := n.store.LastTold(ctx)
	if err != nil {
		return err
	}
	// Where the audit is shorter, somebody has made it anew, or a power loss has taken its end.
	n.floor = min(max(saved, node.Audit), audit.Last)
	n.position, n.told = n.floor, min(max(function.Audit, n.floor), audit.Last)
	n.fold, n.first, n.decided, n.last = digest.Fold{}, time.Time{}, false, node.At
	n.saved, n.savedAt = saved, time.Now()
	return nil
}

// beginTelling returns up to where the audit has been told. The first time that is its end: what happened before there was somebody to tell is old. A
// node does this before its functions run, so that nothing of what they do is.
func beginTelling(ctx context.Context, store *streams.Store) (told uint64, err error) {
	told, begun, err := store.Told(ctx)
	if err != nil || begun {
		return told, err
	}
	audit, err := store.Source(ctx, streams.AuditStream)
	if err != nil {
		return 0, err
	}
	return audit.Last, store.SetTold(ctx, audit.Last)
}

// readAhead is how many entries are asked for at once.
const readAhead = 256

var errLostDelivery = errors.New("a delivery of the audit was lost")

func (n *notifier) pull(ctx context.Context, consumer jetstream.Consumer, next *uint64) error {
	wait, cancel := context.WithTimeout(ctx, n.pulling.expires)
	defer cancel()
	batch, err := consumer.Fetch(readAhead, jetstream.FetchContext(wait), jetstream.FetchHeartbeat(n.pulling.heartbeat))
	if err != nil {
		return err
	}
	due := time.NewTimer(n.untilDigest())
	defer due.Stop()
	for {
		select {
		case m, more := <-batch.Messages():
			if !more {
				if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, jetstream.ErrNoMessages) {
					return err
				}
				return nil
			}
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			if meta.Sequence.Consumer != *next {
				return fmt.Errorf("sequence %d: %w", meta.Sequence.Stream, errLostDelivery)
			}
			*next++
			if err := n.read(ctx, streams.Message{
				Subject: m.Subject(), Sequence: meta.Sequence.Stream, Header: m.Headers(), Data: m.Data(), Time: meta.Timestamp,
			}); err != nil {
				return err
			}
			due.Reset(n.untilDigest())
		case <-due.C:
			if err := n.digest(ctx); err != nil {
				return err
			}
			due.Reset(n.untilDigest())
		}
	}
}

// read takes one entry of the audit.
func (n *notifier) read(ctx context.Context, m streams.Message) error {
	a := streams.ReadAudit(m)
	if !streams.FunctionName(a.Function) {
		a.Action = "" // somebody else wrote it
	}
	if notice, ok := noticeOf(m.Sequence, a); ok && m.Sequence > n.told {
		if err := n.tell(ctx, notice.stored(), func() { n.logNotice(notice) }); err != nil {
			return err
		}
		n.told = m.Sequence
	}
	switch a.Action {
	case "parked":
		if n.first.IsZero() {
			n.first = m.Time
		}
		n.fold.Add(parkingOf(a))
	case "redriven", "edited", "discarded", "forgotten":
		n.decided = true
	}
	n.position = m.Sequence
	return nil
}

// tell stores a notice, as often as it takes: what comes after it in the audit is not told before it. Only the session's end ends that.
func (n *notifier) tell(ctx context.Context, notice streams.Notice, told func()) error {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		err := n.store.Tell(ctx, notice)
		if err == nil {
			n.metrics.told(notice.Kind)
			told()
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n.log.Warn("a notice cannot be stored; it is tried again", "notice", notice.ID, "err", err)
		n.fault(err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// save remembers the position now and then where there is nothing to tell, so that the next start need not read all that was.
func (n *notifier) save(ctx context.Context) error {
	if !n.first.IsZero() || n.position == n.saved || time.Since(n.savedAt) < n.interval {
		return nil
	}
	n.floor = n.position
	return n.remember(ctx)
}

func (n *notifier) remember(ctx context.Context) error {
	if err := n.store.SetTold(ctx, n.floor); err != nil {
		return err
	}
	n.saved, n.savedAt = n.floor, time.Now()
	return nil
}
