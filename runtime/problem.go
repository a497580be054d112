package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// problem is an error that a caller of the API or the command line may see as
// it is. Codes, statuses and exit codes stand in one table, client.Code.
type problem = client.Problem

// newProblem returns a problem whose detail says what and which, in one line:
// `dead letter file-claim/42: not found`. A hint is added by WithHint.
func newProblem(code client.Code, format string, args ...any) *problem {
	return client.NewProblem(code, fmt.Sprintf(format, args...))
}

// problemOf returns the problem that err is or wraps, or the one that stands for
// a refusal of the store. Any other error is internal: its text is for the log
// and not for the caller, and known is false.
func problemOf(err error) (p *problem, known bool) {
	var invalid *streams.InvalidError
	var backup *streams.BackupError
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p, true
	case errors.As(err, &invalid):
		p = newProblem(client.Invalid, "%s", invalid.Error())
		p.Attribute, p.Path = invalid.Attribute, invalid.Path
		if invalid.Index >= 0 {
			p.Index = &invalid.Index
		}
		return p, true
	case errors.As(err, &backup):
		return newProblem(client.Refused, "%s: %s", backup.What, backup.Reason).WithHint("%s", backup.Hint), true
	case errors.Is(err, streams.ErrUnsupportedMedia):
		return newProblem(client.UnsupportedMedia, "%s", err.Error()).
			WithHint("send application/cloudevents+json, application/cloudevents-batch+json, or ce- headers"), true
	case errors.As(err, &tooLong):
		return newProblem(client.TooLarge, "body: longer than %d bytes", tooLong.Limit), true
	case errors.Is(err, streams.ErrTooLarge):
		return newProblem(client.TooLarge, "%s", err.Error()).
			WithHint("store the data elsewhere and send a reference to it"), true
	case errors.Is(err, streams.ErrData), errors.Is(err, streams.ErrNotEvent):
		return newProblem(client.Invalid, "%s", err.Error()), true
	case errors.Is(err, streams.ErrFull):
		return newProblem(client.StreamFull, "%s", err.Error()).
			WithHint("nothing is dropped: events are accepted again when older ones are finished"), true
	case errors.Is(err, streams.ErrDifferent):
		return newProblem(client.Conflict, "%s", err.Error()).
			WithHint("a new event needs a new id"), true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return newProblem(client.Unavailable, "no answer from the store in time").
			WithHint("repeat the call: an event is stored once, however often it is sent"), true
	}
	return newProblem(client.Internal, "internal error").WithHint("the node's log says more"), false
}

// writeError answers with the problem of err. An unknown error is logged, here
// and nowhere else. It always answers, also where the caller seems to have gone:
// a handler that returns in silence has said 200.
func writeError(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	p, known := problemOf(err)
	if !known {
		log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	switch p.Code {
	case client.Unavailable:
		w.Header().Set("Retry-After", "1")
	case client.StreamFull:
		w.Header().Set("Retry-After", "30")
	case client.Unauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="siding"`)
	}
	writeBody(w, p.Status, "application/problem+json", p)
}

// writeJSON answers with a value of the API.
func writeJSON(w http.ResponseWriter, status int, v any) {
	writeBody(w, status, "application/json", v)
}

// writeBody writes v. An error of the encoder is one of the connection: the
// types of the API always encode.
func writeBody(w http.ResponseWriter, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	_ = out.Encode(v)
}
