package runtime

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// The bounds of POST /events. Together they bound the memory that bodies take:
// 64 single events and 4 batches are about 180 MiB at the default payload.
const (
	maxBatchBody   = 16 << 20
	maxBatchEvents = 1000
	singleSlots    = 64
	batchSlots     = 4
	// slotWait is how long a request waits for its turn before it is told to
	// come back: shorter than the patience of usual webhook senders.
	slotWait = 5 * time.Second
	// bodyTimeout is how long a sender may take for one body.
	bodyTimeout = 30 * time.Second
)

// intake serves POST /events. Each request is handled on its own goroutine from
// its body to its answer; none hands anything to a shared one, so that a
// request that is cancelled leaves nothing behind that others wait for.
type intake struct {
	backend  backend
	maxEvent int64
	single   chan struct{} // holds one token for each body being handled
	batch    chan struct{}
}

func newIntake(b backend, opts httpOptions) *intake {
	return &intake{
		backend: b, maxEvent: opts.maxEvent,
		single: make(chan struct{}, singleSlots), batch: make(chan struct{}, batchSlots),
	}
}

// consent answers the validation request of the CloudEvents webhook protocol:
// any sender may deliver, at any rate. It is no grant of access; a delivery
// still needs the token.
func (in *intake) consent(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Allow", "OPTIONS, POST")
	if origin := r.Header.Get("WebHook-Request-Origin"); origin != "" {
		h.Set("WebHook-Allowed-Origin", origin)
		h.Set("WebHook-Allowed-Rate", "*")
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// post stores the events of one request. 202: all are stored; 200: all had been
// stored before. A batch is checked as a whole before anything is stored.
func (in *intake) post(w http.ResponseWriter, r *http.Request) error {
	mode := modeOf(r.Header)
	slots := in.single
	if mode == modeBatch {
		slots = in.batch
	}
	release, err := take(r.Context(), slots)
	if err != nil {
		return err
	}
	defer release()
	events, err := in.read(w, r, mode)
	if err != nil {
		return err
	}
	accepted := []client.Accepted{}
	if len(events) > 0 {
		if accepted, err = in.backend.accept(r.Context(), r.Header, events); err != nil {
			return err
		}
	}
	status := http.StatusOK
	for _, a := range accepted {
		if !a.Duplicate {
			status = http.StatusAccepted
		}
	}
	if mode != modeBatch && len(accepted) == 1 {
		writeJSON(w, status, accepted[0])
		return nil
	}
	writeJSON(w, status, accepted)
	return nil
}

// read returns the events of the request's body, none of them too large.
func (in *intake) read(w http.ResponseWriter, r *http.Request, mode eventMode) ([]event.Event, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, newProblem(client.UnsupportedMedia, "content encoding %s: not understood", strconv.Quote(coding)).
			WithHint("send the body as it is")
	}
	body, err := readBody(w, r, in.bodyLimit(mode))
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, newProblem(client.TooLarge, "body: longer than %d bytes", tooLong.Limit).WithHint("%s", in.sizeHint(mode))
	}
	if err != nil {
		return nil, err
	}
	events, err := streams.FromHTTP(r.Header, body)
	if err != nil {
		return nil, err
	}
	if len(events) > maxBatchEvents {
		return nil, newProblem(client.TooLarge, "batch of %d events: at most %d", len(events), maxBatchEvents).
			WithHint("%s", in.sizeHint(mode))
	}
	for i, e := range events {
		if size := int64(len(e.Data())); size > in.maxEvent {
			p := newProblem(client.TooLarge, "event %s: data of %d bytes: at most %d", strconv.Quote(e.ID()), size, in.maxEvent).
				WithHint("store the data elsewhere and send a reference to it")
			if mode == modeBatch {
				p.Index = &i
			}
			return nil, p
		}
	}
	return events, nil
}

// readBody reads a whole body of at most limit bytes within bodyTimeout. The
// deadline is taken back so that it does not cut the next request of the
// connection; where the connection knows none, there is none to keep.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLong *http.MaxBytesError
	switch {
	case err == nil:
		_ = conn.SetReadDeadline(time.Time{})
		return body, nil
	case errors.As(err, &tooLong):
		return nil, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, newProblem(client.Invalid, "body: not complete after %s", bodyTimeout)
	default:
		return nil, newProblem(client.Invalid, "body: cut off: %v", err)
	}
}

// bodyLimit leaves room in a structured body for base64 and for the attributes;
// the data itself is measured when it is decoded.
func (in *intake) bodyLimit(mode eventMode) int64 {
	switch mode {
	case modeBatch:
		return maxBatchBody
	case modeStructured:
		return 2 * in.maxEvent
	default:
		return in.maxEvent
	}
}

func (in *intake) sizeHint(mode eventMode) string {
	if mode == modeBatch {
		return "send batches of at most " + strconv.Itoa(maxBatchEvents) + " events and " + strconv.Itoa(maxBatchBody) + " bytes"
	}
	return "store the data elsewhere and send a reference to it: an event has at most " +
		strconv.FormatInt(in.maxEvent, 10) + " bytes"
}

// eventMode is how a request carries its events.
type eventMode int

const (
	modeBinary eventMode = iota
	modeStructured
	modeBatch
)

// modeOf tells the mode by the content type, only to choose bounds and the
// shape of the answer; what the body is, the codec decides.
func modeOf(h http.Header) eventMode {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		// A parameter that cannot be parsed does not change the media type.
		media, _, _ = strings.Cut(h.Get("Content-Type"), ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	switch {
	case strings.HasPrefix(media, "application/cloudevents-batch"):
		return modeBatch
	case strings.HasPrefix(media, "application/cloudevents"):
		return modeStructured
	default:
		return modeBinary
	}
}

// take waits for a slot, for slotWait at most, and returns what frees it.
func take(ctx context.Context, slots chan struct{}) (func(), error) {
	release := func() { <-slots }
	select {
	case slots <- struct{}{}:
		return release, nil
	default:
	}
	patience := time.NewTimer(slotWait)
	defer patience.Stop()
	select {
	case slots <- struct{}{}:
		return release, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-patience.C:
		return nil, newProblem(client.Unavailable, "too many requests at once: no turn within %s", slotWait).
			WithHint("repeat the call later, or send batches")
	}
}
