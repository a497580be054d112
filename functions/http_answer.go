package functions

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	maxAnswerText = 300            // bytes of an answer's text in an error
	maxRetryAfter = 24 * time.Hour // of what a receiver may ask for
)

// StatusError is an answer to an event that [HTTP] has posted, of any other
// status than 2xx.
type StatusError struct {
	URL    string // without user and query, which may be secret
	Status int
	Text   string // the beginning of the answer's body, on one line
}

// Error says which URL answered what.
func (e *StatusError) Error() string {
	s := fmt.Sprintf("POST %s: %d", e.URL, e.Status)
	if name := http.StatusText(e.Status); name != "" {
		s += " " + name
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Code returns a code such as http_422, by which dead letters are grouped.
func (e *StatusError) Code() string { return "http_" + strconv.Itoa(e.Status) }

// answered reads the outcome of an attempt from the answer. The text of the
// package's function HTTP is the table.
func (p *poster) answered(resp *http.Response, text []byte) error {
	status := resp.StatusCode
	err := &StatusError{URL: p.shown, Status: status, Text: excerpt(text)}
	switch {
	case status >= 200 && status < 300:
		return nil
	case status >= 300 && status < 400:
		return Unavailable(redirected(err, resp))
	case status == http.StatusGone:
		return Suspend(err)
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return RetryAfter(retryAfter(resp.Header, time.Now()), err)
	case status >= 400 && status < 500:
		return Park(err)
	default:
		return RetryAfter(retryAfter(resp.Header, time.Now()), err)
	}
}

func redirected(err *StatusError, resp *http.Response) error {
	where := "elsewhere"
	if u, bad := resp.Location(); bad == nil {
		where = shownURL(u)
	}
	return fmt.Errorf("%w: it sends the event to %s, and redirects are not followed: hint: give the function the URL that answers", err, where)
}

// retryAfter reads the header as a delay, 0 if it asks for none. A date is
// compared with the answer's own Date, so that a difference between two clocks
// changes nothing.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err == nil {
		return time.Duration(min(max(0, seconds), int64(maxRetryAfter/time.Second))) * time.Second
	}
	if errors.Is(err, strconv.ErrRange) && value[0] != '-' {
		return maxRetryAfter
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return min(max(0, at.Sub(now)), maxRetryAfter)
}

// excerpt is the beginning of a text as one line of valid UTF-8.
func excerpt(text []byte) string {
	cut := len(text) > 4*maxAnswerText
	if cut {
		text = text[:4*maxAnswerText]
	}
	line := strings.Map(func(r rune) rune {
		if blank(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(text), "\uFFFD"))
	line = strings.Join(strings.Fields(line), " ")
	if len(line) > maxAnswerText {
		line, cut = strings.ToValidUTF8(line[:maxAnswerText], ""), true
	}
	if cut {
		line += "…"
	}
	return line
}
