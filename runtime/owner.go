package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/diagnosis"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// Times of the owner. They are variables of it, so that a test can switch a recovery path off.
type timing struct {
	pulling pulling
	// advisory is how long JetStream may say nothing after the last nak before the owner parks by itself; 0 = for ever. When many
	// events are exhausted at once, their advisories come in one after the other: while they do, nobody else needs to act.
	advisory time.Duration
	sweep    time.Duration // between two sweeps; 0 = none, not even at the start
	grace    time.Duration // what a stop gives to running attempts before it cancels them
	stuck    time.Duration // what a handler gets after its timeout to notice that
	deaf     bool          // advisories are not read
	line     int           // how many events of one key wait in memory; 0 = lane.DefaultBound
	span     uint64        // how far beyond the ledger's floor an event may be begun; 0 = streams.LedgerWindow
	unmarked marking       // is told what the ledger would be, which is told nothing; nil for the ledger
}

func defaultTiming() timing {
	return timing{
		pulling: defaultPulling, advisory: 2 * time.Second, sweep: time.Minute,
		grace: 20 * time.Second, stuck: 10 * time.Second,
	}
}

// window is how many events of one function may be in memory from each of its streams.
const window = 1024

// owner runs one function. Its run is the only goroutine that touches its items, its lanes and its ledger's marks, and that decides what is
// written for the function; workers, fetch loops, the advisory reader and what is stored beside it talk to it through channels.
type owner struct {
	fn       functions.Function
	declared streams.Declared
	store    *streams.Store
	ledger   *streams.Ledger
	marks    marking // the ledger, where events on their way are noted in it
	survived bool    // what ran when the process died has been looked at
	log      *slog.Logger
	tracer   *tracer
	metrics  *metrics
	timing   timing
	fault    func(error)                 // told of each store error that may mean an unwritable store
	check    func(functions.Event) error // says why a function of the node would refuse an event
	hung     *hung
	checks   *checks
	alone    *alone
	death    *death
	wanting  bool  // alone knows of a suspect of ours whose turn it is
	quiet    quiet // behind a suspect
	nudged   chan struct{}
	gate     gated
	waiting  atomic.Pointer[string] // what keeps attempts from beginning, for others to read

	source, retry, decisions jetstream.Consumer

	events     chan delivered
	retries    chan delivered
	decided    chan delivered
	notices    chan notice
	calls      chan func()
	jobs       chan *job
	results    chan *job
	items      map[uint64]*item // by source sequence
	inRetry    map[uint64]*item // by sequence of the copy in RETRY
	queue      []*item          // for a worker: those that have just arrived
	waited     []*item          // for a worker: those that waited for something else before, in their lane or in RETRY
	suspects   []*item          // for a worker, and for nothing else to run
	favored    bool             // the last one that got a worker was of waited
	attempting map[uint64]*item // running ones
	held       map[uint64]*item // delayed and exhausted ones: a deadline hangs on each
	stalled    []*work
	asides     map[uint64]*aside
	landings   chan landing
	departed   int
	syncs      syncs
	lanes      lanes
	abandoned  int
	jammed     atomic.Bool // too many handlers hang; also read by others
	diagnosis  *diagnosis.Machine
	suspension atomic.Pointer[streams.Suspension] // for others: what the function is suspended by, nil if it is not
	declaring  *work                              // writes the suspension down; nothing begins before it has
	outdated   bool                               // what declaring writes
	setAside   []setAside                         // as declared
	told       []chan<- struct{}                  // closed when the suspension has been written down
	stopping   bool

	bounds   streams.Source  // of the source stream at the start
	fresh    bool            // there was no ledger
	forgot   bool            // the marks of earlier lives are lost
	replayed uint64          // highest source sequence that an earlier process may have begun
	doubted  uint64          // highest one that an earlier process may have handled without a mark that is left; 0 = none
	standing map[uint64]bool // sequences found in a place at the start that the ledger could not mark
	order    []uint64        // source sequences seen and above the floor, ascending
	cursor   uint64
	beyond   *delivered // an event that cannot be marked before the floor has moved; no further one is taken
	looked   time.Time  // ahead, for a lane that waits for the cursor
	skipped  uint64     // first sequence that was passed over since the last look at the source stream; 0 = none
	holes    holes
	expected uint64 // next consumer sequence of the source consumer; 1 after a reset
	// Of the last reset because of a gap: the delivery that showed it, and when.
	overtaken uint64
	asked     time.Time
	attempts  context.Context //nolint:containedctx // the parent of every attempt; workers come and go
	timer     *time.Timer
	wakeAt    time.Time
	lost      chan error      // a consumer is not there any more
	begun     chan struct{}   // closed when begin is through
	ended     chan struct{}   // closed when run is over
	deciding  map[uint64]bool // source sequences whose decision is being applied
	waiters   map[decisionKey]chan<- decisionResult
	longest   time.Duration // longest delay that the policy asks for
	heard     time.Time     // when the last advisory came
	fetchers  sync.WaitGroup
}

// notice is an advisory for the owner; done is called once the verdict has been applied.
type notice struct {
	advisories.Notice
	done func()
}

// newOwner makes the owner of a function. Channel sizes: deliveries are bounded by credits, and the channels only smooth the hand-over;
// results has room for every slot of the ledger, so that a worker never waits for an owner that has ended.
func newOwner(fn functions.Function, store *streams.Store, s services) *owner {
	o := &owner{
		fn: fn, store: store, log: s.log.With("function", fn.Name), tracer: s.tracer, metrics: s.metrics, timing: s.timing, fault: s.fault, hung: s.hung,
		checks: s.checks, check: s.check, alone: s.alone, death: s.death, nudged: make(chan struct{}, 1), gate: newGated(fn),
		events: make(chan delivered, 64), retries: make(chan delivered, 64), decided: make(chan delivered, 8),
		notices: make(chan notice, 256), calls: make(chan func()), jobs: make(chan *job, fn.Concurrency),
		results: make(chan *job, streams.LedgerSlots),
		items:   map[uint64]*item{}, inRetry: map[uint64]*item{}, attempting: map[uint64]*item{}, held: map[uint64]*item{},
		standing: map[uint64]bool{}, deciding: map[uint64]bool{}, asides: map[uint64]*aside{}, landings: make(chan landing, maxAside), waiters: map[decisionKey]chan<- decisionResult{},
		syncs: syncs{always: store.Node().SyncsAlways(), done: make(chan error, 1)},
		lanes: newLanes(fn, s.timing.line), longest: fn.Retry.Backoff.Longest(fn.Retry.Attempts), lost: make(chan error, 1), begun: make(chan struct{}), ended: make(chan struct{}),
	}
	o.tellWaiting()
	return o
}

// services are what the owners of a node share.
type services struct {
	log     *slog.Logger
	tracer  *tracer
	metrics *metrics
	timing  timing
	fault   func(error)
	check   func(functions.Event) error
	hung    *hung   // of the whole process
	checks  *checks // of the whole process
	alone   *alone  // of the whole process
	death   *death  // of the process before
}

// run owns the function until ctx ends, then stops in order. It returns an error only if it could not begin.
func (o *owner) run(ctx context.Context) error {
	defer close(o.ended)
	defer o.closeLedger()
	o.alone.join(o)
	defer o.leaveAll()
	o.timer = time.NewTimer(time.Hour)
	defer o.timer.Stop()
	if err := o.begin(ctx); err != nil {
		return err
	}
	close(o.begun)

	var cancel context.CancelCauseFunc
	o.attempts, cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(functions.ErrStopping)
	defer close(o.jobs)
	for range o.fn.Concurrency {
		go o.work() //nolint:contextcheck // it ends with o.jobs, or after its handler was given up
	}
	fetching, stopFetching := context.WithCancel(ctx)
	defer stopFetching()
	o.fetch(fetching, o.source, o.events, window)
	o.fetch(fetching, o.retry, o.retries, window)
	o.fetch(fetching, o.decisions, o.decided, 64)
	o.watchDependencies(fetching)

	// A plan that has begun is applied to its end: each of its steps has a time limit of its own. A store that takes no writes ends that
	// too, since every step would only wait for its limit, and the store is started again no sooner than we are through.
	whole, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	unwatch := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, errUnwritable) {
			giveUp(cause)
		}
	})
	defer unwatch()
	heartbeat := time.NewTicker(o.store.AckWait() / 3)
	defer heartbeat.Stop()
	sweep := make(<-chan time.Time)
	if o.timing.sweep > 0 {
		ticker := time.NewTicker(o.timing.sweep)
		defer ticker.Stop()
		sweep = ticker.C
		o.sweep(whole)
	}
	o.lookFor(whole)
	o.perform(whole)
	o.tend(whole)
	o.tellWaiting()
	var lost error
	for ctx.Err() == nil && lost == nil {
		events := o.events
		if o.departed >= busyAside || o.beyond != nil {
			events = nil
		}
		select {
		case <-ctx.Done():
		case lost = <-o.lost:
		case d := <-events:
			o.onEvent(whole, d)
		case d := <-o.retries:
			o.onRetry(whole, d)
		case d := <-o.decided:
			o.onDecision(whole, d)
		case n := <-o.notices:
			o.onNotice(whole, n)
		case j := <-o.results:
			o.onResult(whole, j)
		case l := <-o.landings:
			o.land(whole, l)
		case err := <-o.syncs.done:
			o.onSynced(whole, err)
		case f := <-o.calls:
			f()
		case <-o.timer.C:
			o.onTimer(whole)
		case <-o.nudged:
		case <-heartbeat.C:
			o.heartbeat()
		case <-sweep:
			o.sweep(whole)
		}
		o.letIn(whole)
		o.perform(whole)
		o.tend(whole)
		o.dispatch(whole)
		o.tellWaiting()
	}
	stopFetching()
	o.fetchers.Wait()
	o.stop(whole, cancel)
	return lost
}

// stop lets running attempts finish, cancels the rest, and applies what they came to. What is only queued stays where it stands.
func (o *owner) stop(ctx context.Context, cancel context.CancelCauseFunc) {
	o.stopping = true
	limit := o.timing.grace + o.timing.stuck
	ctx, end := context.WithTimeout(ctx, limit) // also for a store that does not answer any more
	defer end()
	soft := time.NewTimer(o.timing.grace)
	defer soft.Stop()
	hard := time.NewTimer(limit)
	defer hard.Stop()
	for len(o.attempting) > 0 {
		select {
		case j := <-o.results:
			o.onResult(ctx, j)
		case l := <-o.landings:
			o.land(ctx, l)
		case <-soft.C:
			o.log.Warn("cancelling attempts that outlast the grace time", "running", len(o.attempting))
			cancel(functions.ErrStopping)
		case <-hard.C:
			for _, it := range o.attempting {
				it.job.abandoned.Store(true)
				o.hung.giveUp(o.fn.Name, it.job)
				o.log.Error("a handler does not return; its event will be attempted again", "event", it.ref.ID())
			}
			o.landAll(ctx)
			return
		}
	}
	o.landAll(ctx)
	for _, w := range o.stalled {
		o.carry(ctx, w) // once more; what fails now stands where it is, and the next start goes on with it
	}
}

// errConsumerLost ends an owner whose consumer was deleted behind its back; the host starts it again, which makes a new one.
var errConsumerLost = errors.New("a consumer was deleted")

func (o *owner) fetch(ctx context.Context, consumer jetstream.Consumer, out chan delivered, size int) {
	c := newCredits(size, min(256, size))
	o.fetchers.Go(func() {
		o.timing.pulling.fetch(ctx, consumer, c, out, func(err error) {
			o.metrics.storeError("fetch")
			o.log.Warn("fetching failed", "consumer", consumer.CachedInfo().Stream, "err", err)
			if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoHeartbeat) {
				o.checkConsumer(ctx, consumer)
			}
			o.fault(err)
		})
	})
}

// checkConsumer ends the owner if a consumer does not exist any more.
func (o *owner) checkConsumer(ctx context.Context, consumer jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(ctx, streams.OpTimeout)
	defer cancel()
	if _, err := consumer.Info(ctx); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return
	}
	select {
	case o.lost <- fmt.Errorf("%w: %s on %s", errConsumerLost, o.fn.Name, consumer.CachedInfo().Stream):
	default:
	}
}

// do applies a plan at once; what fails is kept and repeated. it is out of everybody's hands until then.
func (o *owner) do(ctx context.Context, it *item, steps []step, then func()) {
	it.phase = moving
	o.carry(ctx, &work{ref: it.ref, it: it, steps: steps, then: then})
}

// carry applies a work, or keeps it for later, or applies it beside everything else. The works of one event are applied one after the other.
func (o *owner) carry(ctx context.Context, w *work) {
	a := o.asides[w.ref.Sequence]
	if a != nil && a.w != w {
		a.behind = append(a.behind, w)
		return
	}
	if o.apply(ctx, w) != applied || a == nil {
		return
	}
	delete(o.asides, w.ref.Sequence)
	for _, next := range a.behind {
		o.carry(ctx, next)
	}
}

func (o *owner) stepFailed(w *work, err error) {
	o.metrics.storeError("place")
	if w.failed == 1 || w.failed%20 == 0 {
		o.log.Warn("a change could not be stored and is repeated; the event stays where it is", "event", w.ref.ID(), "tries", w.failed, "err", err)
	}
	o.fault(err)
}

// wake asks for onTimer at or before t.
func (o *owner) wake(t time.Time) {
	if o.wakeAt.IsZero() || t.Before(o.wakeAt) {
		o.wakeAt = t
		o.timer.Reset(time.Until(t))
	}
}

// onTimer looks at everything that a deadline hangs on. These sets are small: what waits in RETRY has its timer in JetStream.
func (o *owner) onTimer(ctx context.Context) {
	o.wakeAt = time.Time{}
	now := time.Now()
	stalled := o.stalled
	o.stalled = nil
	for _, w := range stalled {
		if w.next.After(now) {
			o.stalled = append(o.stalled, w)
			o.wake(w.next)
			continue
		}
		o.carry(ctx, w)
	}
	for _, it := range o.held {
		switch {
		case it.phase == delayed && !it.due.After(now):
			o.due(ctx, it)
		case it.phase == delayed:
			o.wake(it.due)
		case it.phase == exhausted && o.timing.advisory > 0:
			if at := later(it.since, o.heard).Add(o.timing.advisory); at.After(now) {
				o.wake(at)
			} else {
				o.park(ctx, it, advisories.Exhausted, advisories.ByOwner)
			}
		}
	}
	o.lookFor(ctx)
	o.endQuiet(now)
	limit := o.fn.Timeout + o.timing.stuck
	for _, it := range o.attempting {
		if at := it.since.Add(limit); at.After(now) {
			o.wake(at)
		} else {
			o.onStuck(ctx, it)
		}
	}
}

// finish takes an item out of memory: it is settled or stands elsewhere, as its lane is told by end.
func (o *owner) finish(it *item, end func(uint64) lane.Input) {
	delete(o.items, it.ref.Sequence)
	delete(o.held, it.ref.Sequence)
	o.leftRetry(it)
	it.release()
	o.freedBy(it.ref, it.span)
	o.tell(it.ref, end)
}

func (o *owner) standsInRetry(it *item, sequence uint64) {
	o.leftRetry(it)
	it.retry, it.deliveries, it.dead = sequence, 0, false
	o.inRetry[sequence] = it
}

func (o *owner) leftRetry(it *item) {
	if it.retry != 0 {
		delete(o.inRetry, it.retry)
		it.retry = 0
	}
}

// heartbeat keeps alive what waits in memory, for a worker or for a change that cannot be stored yet: an expiry would use up a
// delivery that no attempt was made for.
func (o *owner) heartbeat() {
	for _, it := range o.items {
		if (it.inMemory() || it.phase == moving) && it.msg != nil {
			_ = it.msg.InProgress()
		}
	}
	if o.beyond != nil {
		_ = o.beyond.msg.InProgress()
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// random drives the jitter of the backoff.
func (o *owner) random() float64 { return rand.Float64() } //nolint:gosec // jitter needs no secrecy

// isNotFound reports whether a read found nothing.
func isNotFound(err error) bool { return errors.Is(err, streams.ErrNotFound) }
