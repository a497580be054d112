package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// callTimeout bounds every call but Tail and Export. A node answers from its own disk, so
// that a slower answer means that something is wrong.
const callTimeout = 30 * time.Second

// maxAnswer bounds what is read of one answer: a full page of dead letters
// whose texts have their largest size stays far below it.
const maxAnswer = 64 << 20

// Client calls one node.
type Client struct {
	server string
	token  string
	http   *http.Client
}

// New returns a client of the node at server, a URL such as
// http://127.0.0.1:4280; a bare host:port is taken as http. An empty token
// sends none. The error says what is wrong with server, or is ErrNoCertificate.
func New(server, token string, opts ...Option) (*Client, error) {
	full := server
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("server %q: not an http URL", server)
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	transport, err := o.transport()
	if err != nil {
		return nil, err
	}
	c := &Client{server: strings.TrimRight(full, "/"), token: token}
	c.http = &http.Client{
		Transport: transport,
		// A redirect would carry the token to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Server returns the URL that c calls.
func (c *Client) Server() string { return c.server }

// Functions lists the functions that the node knows.
func (c *Client) Functions(ctx context.Context) ([]Function, error) {
	return call[[]Function](ctx, c, http.MethodGet, "/api/v1/functions", nil)
}

// Function returns one function.
func (c *Client) Function(ctx context.Context, name string) (Function, error) {
	return call[Function](ctx, c, http.MethodGet, "/api/v1/functions/"+url.PathEscape(name), nil)
}

// DeadLetters lists one page of dead letters, by function and sequence.
func (c *Client) DeadLetters(ctx context.Context, q DeadLetterQuery) ([]DeadLetter, error) {
	return call[[]DeadLetter](ctx, c, http.MethodGet, "/api/v1/dlq?"+q.values().Encode(), nil)
}

// DeadLetter returns one dead letter with its history.
func (c *Client) DeadLetter(ctx context.Context, function string, sequence uint64) (DeadLetterDetail, error) {
	return call[DeadLetterDetail](ctx, c, http.MethodGet, deadLetterPath(function, sequence), nil)
}

// Decide states a decision about a dead letter.
func (c *Client) Decide(ctx context.Context, d Decision) (Decided, error) {
	if !slices.Contains([]string{Redrive, Edit, Discard, Release}, d.Action) {
		return Decided{}, fmt.Errorf("decision %q: none of %s, %s, %s and %s", d.Action, Redrive, Edit, Discard, Release)
	}
	if d.Tail && d.Action != Discard {
		return Decided{}, fmt.Errorf("decision %s: only a %s takes the tail along", d.Action, Discard)
	}
	if d.ForgetSteps && d.Action != Edit {
		return Decided{}, fmt.Errorf("decision %s: only an %s forgets steps", d.Action, Edit)
	}
	return call[Decided](ctx, c, http.MethodPost, deadLetterPath(d.Function, d.Sequence)+"/"+d.Action, d)
}

// Account returns the account of all functions.
func (c *Client) Account(ctx context.Context) (Account, error) {
	return call[Account](ctx, c, http.MethodGet, "/api/v1/account", nil)
}

// EventBySequence returns the life of the event at a sequence of the stream.
func (c *Client) EventBySequence(ctx context.Context, sequence uint64) (EventLife, error) {
	return call[EventLife](ctx, c, http.MethodGet, "/api/v1/events?sequence="+strconv.FormatUint(sequence, 10), nil)
}

// EventByID returns the life of an event by its id. Two sources may use the
// same id; an empty source finds the newest.
func (c *Client) EventByID(ctx context.Context, id, source string) (EventLife, error) {
	q := url.Values{"id": {id}}
	if source != "" {
		q.Set("source", source)
	}
	return call[EventLife](ctx, c, http.MethodGet, "/api/v1/events?"+q.Encode(), nil)
}

// Version returns what the node is built from.
func (c *Client) Version(ctx context.Context) (Version, error) {
	return call[Version](ctx, c, http.MethodGet, "/api/v1/version", nil)
}

func deadLetterPath(function string, sequence uint64) string {
	return "/api/v1/dlq/" + url.PathEscape(function) + "/" + strconv.FormatUint(sequence, 10)
}

func (q DeadLetterQuery) values() url.Values {
	v := url.Values{}
	for _, p := range [][2]string{
		{"function", q.Function}, {"cause", q.Cause}, {"class", q.Class},
		{"source", q.Source}, {"type", q.Type}, {"key", q.Key}, {"outage", q.Outage}, {"since", instant(q.Since)}, {"after", q.After},
	} {
		if p[1] != "" {
			v.Set(p[0], p[1])
		}
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

// call makes one call whose body and answer are JSON.
func call[T any](ctx context.Context, c *Client, method, path string, in any) (T, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			var zero T
			return zero, err
		}
	}
	return post[T](ctx, c, method, path, "application/json", body)
}

// post makes one call whose answer is JSON.
func post[T any](ctx context.Context, c *Client, method, path, contentType string, body []byte) (T, error) {
	var out T
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.do(bounded, method, path, contentType, body)
	if err != nil {
		return out, c.failure(ctx, err)
	}
	defer resp.Body.Close()
	if err := problemIn(resp); err != nil {
		return out, err
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&out); err != nil {
		return out, c.failure(ctx, fmt.Errorf("the answer is cut or not JSON: %w", err))
	}
	return out, nil
}

func (c *Client) do(ctx context.Context, method, path, contentType string, body []byte) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, reader)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.http.Do(req)
}

// failure turns what ended a call into the caller's own context error or into
// an UnreachableError. The URL that net/http puts around it says nothing new.
func (c *Client) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", callTimeout)
	}
	return &UnreachableError{Server: c.server, Err: err}
}

// problemIn returns the problem of an answer that is none of 2xx.
func problemIn(resp *http.Response) error {
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	var p Problem
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media == "application/problem+json" {
		if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&p); err == nil && p.Detail != "" {
			return &p
		}
	}
	// What Go's servers say in plain text to who does not speak TLS to them.
	if begin, _ := io.ReadAll(io.LimitReader(resp.Body, 256)); resp.StatusCode == http.StatusBadRequest && resp.TLS == nil && strings.Contains(string(begin), "HTTPS server") {
		return NewProblem(Usage, fmt.Sprintf("server %s: speaks https only", resp.Request.URL.Host)).WithHint("use https://%s", resp.Request.URL.Host)
	}
	// The status is a stranger's: its number must not look like our codes.
	other := NewProblem(Internal, fmt.Sprintf("server answered %s without saying why", resp.Status))
	return other.WithHint("is %s a siding node?", resp.Request.URL.Host)
}
