package runtime

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/runtime/internal/digest"
	"github.com/siding-dev/siding/streams"
)

// Bounds of what a notice says in bytes. Much of it comes from handlers.
const (
	maxNoticeWord   = 128
	maxNoticeText   = 1 << 10
	maxNoticeDetail = 32 // entries
)

// toldNow is the data of a notice about one function.
type toldNow struct {
	Text     string            `json:"text"` // one sentence
	Function string            `json:"function"`
	Since    time.Time         `json:"since"`
	Cause    string            `json:"cause,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	Outage   string            `json:"outage,omitempty"`
	Evidence string            `json:"evidence,omitempty"`
	By       string            `json:"by,omitempty"`
	Event    string            `json:"event,omitempty"` // id of the event that it is about
	Group    string            `json:"group,omitempty"`
	Detail   map[string]string `json:"detail,omitempty"` // what else the audit says

	kind  string
	at    time.Time
	audit uint64
}

// noticeOf is what people are told at once about an entry of the audit; ok is false where there is nothing.
func noticeOf(sequence uint64, a streams.AuditEntry) (n toldNow, ok bool) {
	switch {
	case a.Action == noticeSuspended, a.Action == noticeResumed, a.Action == noticeGaveUp:
		n.kind = a.Action
	case a.Action == "parked" && a.Reason == string(advisories.Stuck):
		n.kind = noticeStuck
	default:
		return n, false
	}
	detail := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(a.Detail)) {
		if len(detail) < maxNoticeDetail {
			detail[digest.Clean(name, maxNoticeWord)] = digest.Clean(a.Detail[name], maxNoticeText)
		}
	}
	take := func(name string) string {
		text := detail[name]
		delete(detail, name)
		return text
	}
	n.audit, n.at, n.Function, n.Since = sequence, a.At.UTC(), a.Function, a.At.UTC()
	if since, err := time.Parse(time.RFC3339Nano, detail["since"]); err == nil {
		n.Since = since.UTC()
		delete(detail, "since")
	}
	n.Reason, n.By = digest.Clean(a.Reason, maxNoticeText), digest.Clean(a.By, maxNoticeWord)
	n.Cause, n.Outage, n.Evidence, n.Group = take("cause"), take("outage"), take("evidence"), take("group")
	if a.Sequence != 0 {
		n.Event = streams.Ref{Function: a.Function, Sequence: a.Sequence}.ID()
	}
	if n.kind == noticeStuck {
		n.Cause, n.Reason = string(advisories.Stuck), digest.Normalise(parkingOf(a).Why)
		delete(detail, "why")
		delete(detail, "error")
	}
	n.Detail = detail
	n.Text = n.sentence()
	return n, true
}

// sentence says it in one.
func (n toldNow) sentence() string {
	since := digest.At(n.Since, n.at)
	text := ""
	switch n.kind {
	case noticeSuspended:
		text = fmt.Sprintf("%s is suspended since %s", n.Function, since)
	case noticeResumed:
		text = fmt.Sprintf("%s goes on since %s", n.Function, digest.At(n.at, n.at))
	case noticeGaveUp:
		text = fmt.Sprintf("%s stays suspended until somebody resumes it: no probe has succeeded since %s", n.Function, since)
	default:
		text = fmt.Sprintf("%s: the handler of event %s does not return, and the event is parked as stuck since %s", n.Function, n.Event, since)
	}
	for _, more := range []struct{ lead, text string }{{", because ", n.Reason}, {"; seen were ", n.Evidence}} {
		if more.text != "" {
			text += more.lead + more.text
		}
	}
	return text
}

// stored is the notice as it is kept. Its id hangs on the entry alone, and is no other node's.
func (n toldNow) stored() streams.Notice {
	data, err := json.Marshal(n)
	if err != nil { // only a time beyond year 9999 can do that
		data = []byte(`{}`)
	}
	return streams.Notice{
		ID: fmt.Sprintf("%s/%s/%d/%d", n.Function, n.kind, n.audit, n.at.UnixNano()), Kind: n.kind, Function: n.Function, At: n.at, Audit: n.audit, Data: data,
	}
}

func (n *notifier) logNotice(t toldNow) {
	say := n.log.Warn
	if t.kind == noticeResumed {
		say = n.log.Info
	}
	say("notice", "kind", t.kind, "function", t.Function, "text", t.Text)
}
