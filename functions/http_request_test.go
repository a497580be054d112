package functions_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/functions"
)

// sent returns the request that an event is posted with.
func sent(t *testing.T, e functions.Event, attempt functions.Attempt, trace functions.Trace, opts ...functions.HTTPOption) (got *http.Request, body string, r functions.Result) {
	t.Helper()
	keep := carrier(func(req *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(req.Body)
		got, body = req, string(b)
		return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, err
	})
	ctx := functions.WithTrace(functions.WithAttempt(t.Context(), attempt), func() functions.Trace { return trace })
	r = functions.Invoke(ctx, handler(functions.HTTP("http://user:pass@x/y", append(opts, keep.option())...)), e)
	return got, body, r
}

func TestAnEventIsPostedInBinaryMode(t *testing.T) {
	e := reported()
	e.SetSubject("Grüße an \"alle\" 100%")
	e.SetTime(time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600)))
	e.SetDataSchema("https://example.com/schema?a=b%20c")
	e.SetExtension("traceparent", "00-aa")
	e.SetExtension("number", 7)
	got, body, r := sent(t, e, functions.Attempt{Number: 2, Cycle: 1}, functions.Trace{Parent: "00-bb", State: "a=b"},
		functions.HTTPHeader("Authorization", "Bearer x"), functions.HTTPHeader("Ce-Id", "forged"), functions.HTTPHeader("Traceparent", "forged"), functions.HTTPHeader("Siding-Attempt", "9"))
	if r.Outcome != functions.Done || body != `{"n":7}` || got.ContentLength != 7 || got.Method != http.MethodPost {
		t.Fatalf("got %+v, %s with %q", r, got.Method, body)
	}
	want := http.Header{
		"Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"/claims"}, "Ce-Type": {"com.insurer.claim.reported"},
		"Ce-Subject": {"Gr%C3%BC%C3%9Fe%20an%20%22alle%22%20100%25"}, "Ce-Time": {"2026-01-02T03:04:05.000000678+01:00"},
		"Ce-Dataschema": {"https://example.com/schema?a=b%2520c"}, "Ce-Tenant": {"t1"}, "Ce-Number": {"7"}, "Ce-Traceparent": {"00-aa"},
		"Content-Type": {"application/json"}, "Traceparent": {"00-bb"}, "Tracestate": {"a=b"},
		"Siding-Attempt": {"2"}, "Siding-Cycle": {"1"}, "User-Agent": {"siding"},
		"Authorization": {"Bearer x"},
	}
	if diff := cmp.Diff(want, got.Header); diff != "" {
		t.Errorf("headers: (-want +got)\n%s", diff)
	}
}

func TestWhatIsNotKnownIsNotSent(t *testing.T) {
	e := reported()
	e.SetDataContentType("")
	e.DataEncoded = nil
	got, body, r := sent(t, e, functions.Attempt{}, functions.Trace{})
	if r.Outcome != functions.Done || body != "" || got.ContentLength != 0 {
		t.Errorf("got %+v with %q of %d bytes, want done and nothing", r, body, got.ContentLength)
	}
	for _, name := range []string{"Content-Type", "Ce-Subject", "Ce-Time", "Traceparent", "Tracestate", "Siding-Attempt", "Siding-Cycle"} {
		if v, ok := got.Header[name]; ok {
			t.Errorf("got header %s: %q, want none", name, v)
		}
	}
}

// These would be read as something else, or not at all: no retry helps.
func TestWhatCannotBeSentIsParked(t *testing.T) {
	for _, kind := range []string{"application/cloudevents+json", "Application/CloudEvents-batch+json; charset=utf-8", "text/plain\r\nX-Injected: 1", "text/\x7f"} {
		e := reported()
		e.SetDataContentType(kind)
		got, _, r := sent(t, e, functions.Attempt{}, functions.Trace{})
		if got != nil || r.Outcome != functions.Parked || r.Class != functions.ClassPermanent {
			t.Errorf("%q: got %+v, want it parked without a call", kind, r)
		}
	}
	if got, _, r := sent(t, functions.Event{}, functions.Attempt{}, functions.Trace{}); got != nil || r.Outcome != functions.Parked {
		t.Errorf("an empty event: got %+v, want it parked without a call", r)
	}
}
