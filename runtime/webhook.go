package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siding-dev/siding/streams"
)

// Times of the webhook.
const (
	webhookTimeout = 10 * time.Second // of one post
	webhookFirst   = time.Second      // wait after the first failed post of a notice; it doubles from then on
	webhookLongest = 5 * time.Minute
	webhookGiveUp  = 24 * time.Hour // after which a notice that is not taken stands in the way of the others no longer
	webhookTries   = time.Hour      // for which a process tries at least, however old a notice is
)

// webhook posts notices to one URL, in order and one at a time. It outlives the sessions of a node; a nil one posts nothing.
type webhook struct {
	url     string
	secret  []byte
	client  *http.Client
	log     *slog.Logger
	metrics *metrics
	pulling pulling

	gone    atomic.Bool // the receiver has said that it wants no more
	settled uint64      // the newest notice that needs no post any more, whether the server has heard of it or not
	tried   uint64      // the notice that is being tried, and since when
	since   time.Time
}

// newWebhook returns the webhook that n asks for, nil for none.
func newWebhook(n Notify, transport http.RoundTripper, log *slog.Logger, m *metrics, p pulling) *webhook {
	if n.Webhook == "" {
		return nil
	}
	return &webhook{
		url: n.Webhook, secret: n.Secret, log: log, metrics: m, pulling: p,
		client: &http.Client{
			Transport: transport, Timeout: webhookTimeout,
			// What is signed is for the host that was configured, and for no other one.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// webhookTransport is the standard one, with connections of its own.
func webhookTransport() http.RoundTripper {
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		return standard.Clone()
	}
	return http.DefaultTransport
}

// errGone is the answer of a receiver that wants no more.
var errGone = errors.New("410 Gone")

// run posts until ctx ends. Without a webhook, what an earlier one has been told is forgotten.
func (w *webhook) run(ctx context.Context, store *streams.Store, fault func(error)) error {
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, time.Minute) {
		var err error
		switch {
		case w == nil:
			err = store.DropNoticeConsumer(ctx)
		case !w.gone.Load():
			err = w.follow(ctx, store)
		}
		if err == nil || ctx.Err() != nil {
			return nil //nolint:nilerr // an orderly stop
		}
		fault(err)
		if w != nil {
			w.log.Warn("notices for the webhook cannot be read", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

func (w *webhook) follow(ctx context.Context, store *streams.Store) error {
	defer w.client.CloseIdleConnections()
	consumer, err := store.NoticeConsumer(ctx)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := w.pull(ctx, store, consumer)
		if errors.Is(err, errGone) {
			w.gone.Store(true)
			w.log.Error("the webhook's receiver wants no more notices; they are told on siding.ops.> and in the log until the node is started again",
				"host", w.host(), "hint", "set another notify.webhook, or none")
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *webhook) pull(ctx context.Context, store *streams.Store, consumer jetstream.Consumer) error {
	wait, cancel := context.WithTimeout(ctx, w.pulling.expires)
	defer cancel()
	batch, err := consumer.Fetch(1, jetstream.FetchContext(wait), jetstream.FetchHeartbeat(w.pulling.heartbeat))
	if err != nil {
		return err
	}
	m, some := <-batch.Messages()
	if some {
		if err := w.deliver(ctx, store, m); err != nil {
			return err
		}
		return store.AckNotice(ctx, m)
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, jetstream.ErrNoMessages) {
		return err
	}
	return nil
}

// deliver posts one notice as often as it takes. It returns nil when nothing more is to be done about it.
func (w *webhook) deliver(ctx context.Context, store *streams.Store, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	notice, ours := streams.ReadNotice(m.Subject(), m.Headers(), m.Data())
	sequence := meta.Sequence.Stream
	if !ours || sequence <= w.settled {
		return nil
	}
	body, err := notice.Structured()
	if err != nil {
		w.log.Error("a notice cannot be rendered, and is not posted", "notice", notice.ID, "err", err)
		return nil
	}
	if w.tried != sequence {
		// What was told before this process began has been tried by another one already.
		begun := time.Now()
		if w.tried == 0 && meta.Timestamp.Before(begun) {
			begun = meta.Timestamp
			if least := time.Now().Add(webhookTries - webhookGiveUp); begun.Before(least) {
				begun = least
			}
		}
		w.tried, w.since = sequence, begun
	}
	for backoff := webhookFirst; ; backoff = min(2*backoff, webhookLongest) {
		asked, err := w.post(ctx, notice.ID, body)
		switch {
		case err == nil:
			w.settled = sequence
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		w.metrics.webhookFailures.Inc()
		if errors.Is(err, errGone) {
			return err
		}
		if time.Since(w.since) >= webhookGiveUp {
			w.metrics.webhookDropped.Inc()
			w.log.Error("the webhook has not taken a notice for a day; it is not posted any more", "notice", notice.ID, "host", w.host(), "err", err,
				"hint", "read it on siding.ops.>, stream SIDING_OPS")
			w.settled = sequence
			return nil
		}
		wait := max(backoff, min(asked, webhookLongest))
		w.log.Warn("a notice was not taken by the webhook; it is posted again", "notice", notice.ID, "host", w.host(), "err", err, "wait", wait)
		if err := w.pause(ctx, store, m, wait); err != nil {
			return err
		}
	}
}

// pause waits, and tells the server meanwhile that the delivery is in hand.
func (w *webhook) pause(ctx context.Context, store *streams.Store, m jetstream.Msg, wait time.Duration) error {
	for end := time.Now().Add(wait); ; {
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		_ = m.InProgress()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(left, store.AckWait()/3)):
		}
	}
}

// maxAnswer bounds what is read of an answer, so that its connection can be used again.
const maxAnswer = 4 << 10

// post sends a notice once. asked is how long the receiver wants to be left alone.
func (w *webhook) post(ctx context.Context, id string, body []byte) (asked time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return 0, withoutURL(err)
	}
	request.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	request.Header.Set("User-Agent", "siding")
	sign(request.Header, w.secret, id, time.Now(), body)
	answer, err := w.client.Do(request)
	if err != nil {
		return 0, withoutURL(err)
	}
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	_ = answer.Body.Close()
	switch {
	case answer.StatusCode/100 == 2:
		return 0, nil
	case answer.StatusCode == http.StatusGone:
		return 0, errGone
	}
	return retryAfter(answer.Header.Get("Retry-After"), time.Now()), fmt.Errorf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
}

// withoutURL is the error of a request without its URL, in which a secret may stand.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// retryAfter reads the header, which is a number of seconds or a date; 0 is no wish.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// host is what may be logged of the URL.
func (w *webhook) host() string { return hostOf(w.url) }
