package functions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

// Bounds of what is read of an answer. What is read leaves the connection fit
// for the next attempt; of what is longer or slower the rest is not waited for.
const (
	maxAnswer  = 64 << 10
	answerTime = 2 * time.Second
)

// idleTime is how long a connection is kept for the next attempt: shorter than
// the 5 s after which servers on Node.js close theirs, because an event that is
// sent at that very moment is a failed attempt.
const idleTime = 4 * time.Second

// HTTP makes a handler that posts the event to a URL, as a CloudEvent in HTTP
// binary mode: the data is the body, datacontenttype is Content-Type, and every
// other attribute is a header ce-<name>, percent-encoded as the CloudEvents
// binding asks. So the work can be done in any language. The status that is
// answered is the outcome:
//
//	2xx                 done; the body of the answer is ignored
//	408, 425, 429, 5xx  retry, not before Retry-After where one is given
//	410                 [Suspend]: the function is not called any more
//	other 4xx           [Park]: the receiver has looked at the event and refused it
//	3xx                 [Unavailable]: a redirect is not followed
//
// What goes wrong before there is a connection (a name that does not resolve, a
// refused connection, TLS) is [Unavailable] too. A connection that breaks after
// that is a plain failure, and so are 502 and 503: an event that kills its receiver
// looks like this, and must not be tried for ever. A redirect is a fault of
// the URL and not of the event, and following one could turn the post into a
// GET. Each error of an answered attempt is or wraps a [*StatusError], with
// which a handler around this one can decide differently.
//
// Beside the event the request carries, where they are known:
//
//	Siding-Attempt   [Attempt].Number, from 1
//	Siding-Cycle     [Attempt].Cycle, 0 in the event's first life
//	traceparent      and tracestate: the attempt's own span, see [TraceFrom];
//	                 ce-traceparent stays what it was when the event was made
//
// A receiver undoes the percent-encoding by itself where its library does not:
// the CloudEvents SDK for JavaScript (10.0.0) leaves it to a decodeURIComponent.
//
// Retry-After is taken as seconds or as a date, and as a day at most. An event
// whose datacontenttype begins with application/cloudevents is parked: in binary
// mode the receiver would take its data for the event itself.
//
// HTTP panics on what [CheckURL] refuses, as it is called while a program
// begins. The handler has connections of its own, unless [HTTPClient] says
// otherwise; they end by themselves when they are not used.
func HTTP(target string, opts ...HTTPOption) Handler {
	if err := CheckURL(target); err != nil {
		panic("functions.HTTP: " + err.Error())
	}
	u, _ := url.Parse(target) // CheckURL has parsed it
	p := &poster{url: target, shown: shownURL(u), header: http.Header{}, client: newHTTPClient()}
	for _, opt := range opts {
		opt(p)
	}
	return p.handle
}

// HTTPOption changes how the handler of [HTTP] calls.
type HTTPOption func(*poster)

// HTTPHeader adds a header to every request, such as Authorization. It does not
// replace those that HTTP sets by itself.
func HTTPHeader(name, value string) HTTPOption {
	return func(p *poster) { p.header.Add(name, value) }
}

// HTTPClient has requests made by c, for certificates or a proxy of one's own.
// Its timeout holds beside the function's; a timeout of its own is no failure
// of class timeout. Its CheckRedirect is not used.
func HTTPClient(c *http.Client) HTTPOption {
	return func(p *poster) {
		own := *c
		own.CheckRedirect = keepRedirect
		p.client = &own
	}
}

// CheckURL returns an error if HTTP cannot post to target: it must be an http
// or https URL with a host.
func CheckURL(target string) error {
	u, err := url.Parse(target)
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err
	}
	switch {
	case err != nil:
		return fmt.Errorf("url %q: %w: hint: write one such as https://example.com/claims", target, err)
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return fmt.Errorf("url %q: has no http or https with a host: hint: write one such as https://example.com/claims", target)
	}
	return nil
}

// shownURL leaves out what may be secret: user, query and fragment.
func shownURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func newHTTPClient() *http.Client {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		t = standard.Clone()
	}
	// As many as there are attempts at once; the function's Concurrency bounds them.
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, maxConcurrency
	t.IdleConnTimeout = idleTime
	t.DisableCompression = true // the text of a refusal is read as it comes
	return &http.Client{Transport: t, CheckRedirect: keepRedirect}
}

func keepRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// poster posts events to one URL. It does not change once it is made.
type poster struct {
	url    string
	shown  string // in errors
	header http.Header
	client *http.Client
}

func (p *poster) handle(ctx context.Context, e Event) error {
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	var connected atomic.Bool
	req, err := p.request(httptrace.WithClientTrace(sending, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}), e)
	if err != nil {
		return Park(fmt.Errorf("POST %s: %w", p.shown, err))
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return p.unanswered(ctx, err, connected.Load())
	}
	defer resp.Body.Close()
	late := time.AfterFunc(answerTime, cancel)
	defer late.Stop()
	// However little of the text comes: the status has been said.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return p.answered(resp, text)
}

// unanswered is a request that got no answer.
func (p *poster) unanswered(ctx context.Context, err error, connected bool) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // its text has the whole URL
	}
	err = fmt.Errorf("POST %s: %w", p.shown, err)
	// An attempt that was ended is not the receiver's failure: Invoke says what it is.
	if connected || ctx.Err() != nil {
		return err
	}
	return Unavailable(err)
}
