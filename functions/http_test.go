package functions_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/functionstest"
)

// carrier answers requests without a network, so that it can be used in a bubble.
type carrier func(*http.Request) (*http.Response, error)

func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }

func (c carrier) option() functions.HTTPOption {
	return functions.HTTPClient(&http.Client{Transport: c})
}

// answering serves one answer to everything, and counts.
func answering(t *testing.T, h http.HandlerFunc) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		h(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, calls
}

func post(t *testing.T, url string, opts ...functions.HTTPOption) functions.Result {
	t.Helper()
	return functions.Invoke(t.Context(), handler(functions.HTTP(url, opts...)), reported())
}

func TestTheStatusIsTheOutcome(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		status  int
		after   string
		want    functions.Result // without the error
		message string
	}{
		{200, "", functions.Result{Outcome: functions.Done}, ""},
		{202, "9", functions.Result{Outcome: functions.Done}, ""},
		{204, "", functions.Result{Outcome: functions.Done}, ""},
		{301, "", functions.Result{Outcome: functions.Retried, Class: functions.ClassUnavailable, Code: "http_301"}, "sends the event to http://elsewhere/x, and redirects are not followed: hint: "},
		{308, "", functions.Result{Outcome: functions.Retried, Class: functions.ClassUnavailable, Code: "http_308"}, "308 Permanent Redirect: no such policy"},
		{400, "", functions.Result{Outcome: functions.Parked, Class: functions.ClassPermanent, Code: "http_400"}, "400 Bad Request: no such policy"},
		{401, "", functions.Result{Outcome: functions.Parked, Class: functions.ClassPermanent, Code: "http_401"}, "401 Unauthorized"},
		{408, "", functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient, Code: "http_408"}, "408 Request Timeout"},
		{410, "", functions.Result{Outcome: functions.Retried, Class: functions.ClassUnavailable, Code: "http_410", Suspend: true}, "410 Gone"},
		{422, "9", functions.Result{Outcome: functions.Parked, Class: functions.ClassPermanent, Code: "http_422"}, "422 Unprocessable Entity: no such policy: 7"},
		{425, "", functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient, Code: "http_425"}, "425 Too Early"},
		{429, "7", functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient, Code: "http_429", After: 7 * s}, "429 Too Many Requests"},
		{500, "", functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient, Code: "http_500"}, "500 Internal Server Error"},
		{503, "9", functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient, Code: "http_503", After: 9 * s}, "503 Service Unavailable"},
		{599, "", functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient, Code: "http_599"}, ": 599: no such policy: 7"},
		{700, "", functions.Result{Outcome: functions.Retried, Class: functions.ClassTransient, Code: "http_700"}, ": 700: "},
	} {
		url, calls := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://elsewhere/x?token=s3cret")
			if tc.after != "" {
				w.Header().Set("Retry-After", tc.after)
			}
			w.WriteHeader(tc.status)
			if tc.status != http.StatusNoContent {
				_, _ = io.WriteString(w, "no such\r\n  policy: 7\x00\n")
			}
		})
		got := post(t, url+"/claims?key=s3cret")
		if got.Err != nil {
			if text := got.Err.Error(); !strings.HasPrefix(text, "POST "+url+"/claims: ") || !strings.Contains(text, tc.message) || strings.Contains(text, "s3cret") {
				t.Errorf("%d: got error %q, want one about the URL, without its query, that says %q", tc.status, text, tc.message)
			}
			if answer, ok := errors.AsType[*functions.StatusError](got.Err); !ok || answer.Status != tc.status {
				t.Errorf("%d: got error %#v, want a StatusError within", tc.status, got.Err)
			}
			got.Err = nil
		}
		if got != tc.want {
			t.Errorf("%d: got %+v, want %+v", tc.status, got, tc.want)
		}
		if calls.Load() != 1 {
			t.Errorf("%d: got %d calls, want 1", tc.status, calls.Load())
		}
	}
}

func TestRetryAfterIsSecondsOrADateAndNoMoreThanADay(t *testing.T) {
	const day = 24 * time.Hour
	date := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0": 0, "-3": 0, "1.5": 0, "soon": 0, "": 0, " 12 ": 12 * time.Second,
		"86400": day, "86401": day, "99999999999999999999999": day, "-99999999999999999999999": 0,
		date.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		date.Add(-time.Hour).Format(http.TimeFormat):       0,
		date.AddDate(3000, 0, 0).Format(http.TimeFormat):   day,
	} {
		// The answer's clock is years ahead of ours: only its own Date says what its dates mean.
		answer := carrier(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Body: http.NoBody, Request: r, Header: http.Header{
				"Retry-After": {value}, "Date": {date.Format(http.TimeFormat)},
			}}, nil
		})
		if got := post(t, "http://x", answer.option()); got.After != want {
			t.Errorf("%q: got %v, want %v", value, got.After, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		without := carrier(func(r *http.Request) (*http.Response, error) {
			at := time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat)
			return &http.Response{StatusCode: 429, Body: http.NoBody, Request: r, Header: http.Header{"Retry-After": {at}}}, nil
		})
		if got := post(t, "http://x", without.option()); got.After != 30*time.Second {
			t.Errorf("without a Date: got %v, want 30s", got.After)
		}
	})
}

func TestWithoutAConnectionTheReceiverIsAway(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	untrusted.StartTLS()
	defer untrusted.Close()
	unknown := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "nobody.invalid", IsNotFound: true}
	}}
	for name, tc := range map[string]struct {
		url, want string
		opts      []functions.HTTPOption
	}{
		"refused": {closed.URL, "connection refused", nil},
		"tls":     {untrusted.URL, "certificate", nil},
		"dns":     {"http://user:s3cret@nobody.invalid/x?s3cret", "no such host", []functions.HTTPOption{functions.HTTPClient(&http.Client{Transport: unknown})}},
	} {
		got := post(t, tc.url, tc.opts...)
		if got.Outcome != functions.Retried || got.Class != functions.ClassUnavailable || !strings.Contains(got.Err.Error(), tc.want) || strings.Contains(got.Err.Error(), "s3cret") {
			t.Errorf("%s: got %+v, want it unavailable and %q", name, got, tc.want)
		}
	}
}

// An event that kills its receiver breaks the connection, too: it must not count as an outage, in which attempts are given back.
func TestABrokenConnectionIsAPlainFailure(t *testing.T) {
	url, calls := answering(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if got := post(t, url); got.Outcome != functions.Retried || got.Class != functions.ClassTransient || calls.Load() != 1 {
		t.Errorf("got %+v after %d calls, want one transient failure", got, calls.Load())
	}
}

func TestACallEndsWithItsAttempt(t *testing.T) {
	released := make(chan struct{}, 2)
	url, _ := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the caller has gone
		<-r.Context().Done()
		released <- struct{}{}
	})
	f := handler(functions.HTTP(url))
	f.Timeout = 50 * time.Millisecond
	if r := functionstest.Run(t, f, reported()); r.Class() != functions.ClassTimeout || !errors.Is(r.Err(), functions.ErrTimeout) {
		t.Errorf("got %v, want a timeout", r)
	}
	<-released
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(functions.ErrStopping) })
	if r := functions.Invoke(ctx, f, reported()); r.Class != functions.ClassStopping {
		t.Errorf("got %+v, want it stopping", r)
	}
	<-released
}

// endless is a body of which nothing more comes until the request ends.
type endless struct{ ctx context.Context }

func (e endless) Read([]byte) (int, error) { <-e.ctx.Done(); return 0, e.ctx.Err() }
func (endless) Close() error               { return nil }

func TestNobodyWaitsForTheRestOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for status, want := range map[int]functions.Outcome{200: functions.Done, 422: functions.Parked} {
			began := time.Now()
			slow := carrier(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: status, Body: endless{r.Context()}, Request: r}, nil
			})
			if got := post(t, "http://x", slow.option()); got.Outcome != want || time.Since(began) != 2*time.Second {
				t.Errorf("%d: got %+v after %v, want %s after 2s", status, got, time.Since(began), want)
			}
		}
	})
}

func TestAnAnswersTextIsBounded(t *testing.T) {
	url, _ := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		for range 1000 {
			_, _ = io.WriteString(w, strings.Repeat("€", 1000))
		}
	})
	got := post(t, url)
	if text := got.Err.Error(); len(text) > 400 || !strings.HasSuffix(text, "€…") {
		t.Errorf("got %d bytes %q, want them cut and marked", len(text), text)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Id") == "1" {
			http.Error(w, "no", http.StatusServiceUnavailable)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	f := handler(functions.HTTP(server.URL))
	for range 20 {
		functions.Invoke(t.Context(), f, reported())
	}
	if opened.Load() != 1 {
		t.Errorf("got %d connections for 20 attempts, want 1", opened.Load())
	}
}

func TestHTTPTakesOnlyURLsThatItCanPostTo(t *testing.T) {
	for url, ok := range map[string]bool{
		"http://localhost:8080": true, "https://example.com/a?b=c": true, "HTTP://x": true, "http://[::1]:80/": true,
		"": false, "localhost:8080": false, "/claims": false, "ftp://x": false, "http://": false, "http:///x": false, "http://a b": false, "http://:80": false, "http://x\n": false,
	} {
		err := functions.CheckURL(url)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), ": hint: ") {
			t.Errorf("%q: got %v, want ok %v, or a hint", url, err, ok)
		}
	}
	defer func() {
		if r, _ := recover().(string); !strings.Contains(r, `url "/claims"`) {
			t.Errorf("got panic %q, want one that names the url", r)
		}
	}()
	functions.HTTP("/claims")
}
