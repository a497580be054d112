package runtime

import (
	"strconv"
	"time"

	"github.com/siding-dev/siding/streams"
)

// An event whose handler ended, and whose mark a kill kept from being written, is handled once more. Nobody can know whether that handler had ended, so
// such an event may have been handled twice; where it can be known, it was. Both are counted, apart, when the later attempt succeeds,
// and the audit says which event it was.

// doubt is why an event may have been handled before.
type doubt string

const (
	// doubtCrash: the process died while an attempt of this cycle ran.
	doubtCrash doubt = "crash"
	// doubtLedger: the event had been delivered to an earlier life, whose marks are lost.
	doubtLedger doubt = "ledger"
)

// Actions of the audit about it.
const (
	auditPossiblyTwice = "possibly_delivered_twice"
	auditAgain         = "delivered_again"
)

// twice says what the audit is to know about an attempt that has just succeeded, and counts it; nil for almost all of them.
func (o *owner) twice(it *item, e ended) *streams.AuditEntry {
	h := &it.history
	late, again := o.hung.succeeded(it.ref)
	marked := it.retry == 0 && o.ledger.Settled(it.ref.Sequence)
	lost := it.retry == 0 && !it.recorded && it.ref.Sequence <= o.doubted
	if !again && !marked && !lost && h.LastCrash.At.IsZero() {
		return nil
	}
	entry := &streams.AuditEntry{
		Function: it.ref.Function, Sequence: it.ref.Sequence, Cycle: it.cycle, By: it.ref.Function, At: e.at,
		Detail: map[string]string{
			"attempt": strconv.Itoa(e.number), "succeeded_at": e.at.UTC().Format(time.RFC3339Nano), "life": strconv.FormatUint(uint64(e.boot), 10),
		},
	}
	switch {
	case again:
		entry.Action, entry.Reason = auditAgain, "a handler that had been given up for not returning succeeded after all"
		entry.Detail["earlier_attempt"], entry.Detail["earlier_cycle"] = strconv.Itoa(late.attempt.Number), strconv.Itoa(late.attempt.Cycle)
		entry.Detail["earlier_succeeded_at"] = late.at.UTC().Format(time.RFC3339Nano)
	case marked:
		entry.Action, entry.Reason = auditAgain, "it was marked as settled before this attempt ended"
	case !h.LastCrash.At.IsZero():
		entry.Action, entry.Reason = auditPossiblyTwice, "the process died while an attempt ran, which may have succeeded"
		entry.Detail["why"] = string(doubtCrash)
		entry.Detail["earlier_attempt"], entry.Detail["earlier_life"] = strconv.Itoa(h.LastCrash.Attempt), strconv.FormatUint(uint64(h.LastCrash.Boot), 10)
		entry.Detail["death_noticed_at"] = h.LastCrash.At.UTC().Format(time.RFC3339Nano)
	default:
		entry.Action, entry.Reason = auditPossiblyTwice, "it had been delivered to an earlier life, whose marks are lost with its ledger"
		entry.Detail["why"] = string(doubtLedger)
	}
	if entry.Action == auditAgain {
		o.metrics.deliveredAgain(o.fn.Name)
		o.log.Error("an event was handled twice", "event", it.ref.ID(), "why", entry.Reason)
	} else {
		o.metrics.possiblyTwice(o.fn.Name, doubt(entry.Detail["why"]))
	}
	return entry
}
