package runtime

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// receiver is the other end of a URL function. It needs no socket, which a bubble could not wait for.
type receiver struct {
	mu     sync.Mutex
	answer func(*http.Request, int) (status int, retryAfter string) // to the n-th post of an event, from 1
	posts  map[string][]http.Header                                 // by the event's id
}

func newReceiver(answer func(*http.Request, int) (int, string)) *receiver {
	return &receiver{answer: answer, posts: map[string][]http.Header{}}
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil, err
	}
	r.mu.Lock()
	id := req.Header.Get("ce-id")
	r.posts[id] = append(r.posts[id], req.Header)
	n := len(r.posts[id])
	r.mu.Unlock()
	status, retryAfter := r.answer(req, n)
	w := httptest.NewRecorder()
	if retryAfter != "" {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.WriteHeader(status)
	return w.Result(), nil
}

func (r *receiver) count(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.posts[id])
}

// script has a function of the world post to r.
func (r *receiver) script() script {
	h := functions.HTTP("http://receiver/claims", functions.HTTPClient(&http.Client{Transport: r}))
	return func(ctx context.Context, _ string, _ functions.Attempt) error {
		return h(ctx, functions.EventFrom(ctx))
	}
}

// TestTheReceiversAnswerIsTheEventsFate: elsewhere a refusal for good was retried like any failure, and a request to come back later was
// not heard (dapr/dapr#7697, openfaas/nats-queue-worker#80).
func TestTheReceiversAnswerIsTheEventsFate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(func(req *http.Request, n int) (int, string) {
			switch id := req.Header.Get("ce-id"); {
			case id == "bad":
				return 422, ""
			case id == "flaky" && n <= 2:
				return 503, ""
			case id == "busy" && n == 1:
				return 429, "7"
			case id == "down":
				return 500, ""
			}
			return 204, ""
		})
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{Retry: functions.Retry{Attempts: 4, Backoff: functions.Delays(time.Second)}}, forever, r.script())})
		<-l.host.started
		for _, id := range []string{"bad", "flaky", "busy", "down", "good"} {
			l.sendEvent(newEvent(id))
		}
		if a := l.settle("f"); a.Delivered != 3 || a.Parked != 2 {
			t.Errorf("got %+v, want 3 delivered and 2 parked", a)
		}
		for id, want := range map[string]int{"bad": 1, "flaky": 3, "busy": 2, "down": 4, "good": 1} {
			if got := r.count(id); got != want {
				t.Errorf("%s: got %d posts, want %d", id, got, want)
			}
		}
		for i, h := range r.posts["down"] {
			if h.Get("Siding-Attempt") != strconv.Itoa(i+1) || h.Get("Siding-Cycle") != "0" {
				t.Errorf("post %d: got attempt %s of cycle %s", i+1, h.Get("Siding-Attempt"), h.Get("Siding-Cycle"))
			}
		}
		w.wantTimes(t, "flaky", 0, time.Second, 2*time.Second)
		w.wantTimes(t, "busy", 0, 7*time.Second)
		if d := l.detailOf("f", 1); d.Cause != string(advisories.Permanent) || d.Class != string(functions.ClassPermanent) || d.Code != "http_422" || d.Attempts != 1 {
			t.Errorf("bad: got %+v, want it parked as permanent after one attempt", d.DeadLetter)
		}
		if d := l.detailOf("f", 4); d.Cause != string(advisories.Exhausted) || d.Code != "http_500" || d.Attempts != 4 {
			t.Errorf("down: got %+v, want it exhausted after 4 attempts", d.DeadLetter)
		}
		l.redrive("f", 4)
		l.settle("f")
		if got := r.posts["down"][4]; got.Get("Siding-Cycle") != "1" || got.Get("Siding-Attempt") != "1" {
			t.Errorf("after a redrive: got %v, want attempt 1 of cycle 1", got)
		}
	})
}

// TestAReceiverThatIsGoneSuspendsItsFunction, which another function does not notice; the next process tries again, with the same attempt.
func TestAReceiverThatIsGoneSuspendsItsFunction(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run("killed "+strconv.FormatBool(killed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				gone := true
				r := newReceiver(func(req *http.Request, n int) (int, string) {
					switch {
					case n == 1 && req.Header.Get("ce-id") == "1":
						return 503, "" // so that one of them stands in RETRY when it meets the 410
					case gone:
						time.Sleep(10 * time.Second) // several are on their way at once
						return 410, ""
					}
					return 200, ""
				})
				w := newWorld(t)
				m := newMortal(w, 0, true)
				fns := func(alive func() bool) []functions.Function {
					return []functions.Function{
						w.function(functions.Function{Concurrency: 3, Retry: functions.Retry{Attempts: 2, Backoff: functions.Delays(time.Second)}}, alive, r.script()),
						w.function(functions.Function{Name: "g"}, alive, func(context.Context, string, functions.Attempt) error { return nil }),
					}
				}
				l := w.start(testTiming(), fns(m.alive), streams.WithGate(m.gate))
				<-l.host.started
				outside := &life{w: w, node: l.node, store: l.store.Ungated(), host: l.host, done: l.done}
				outside.send(1)
				time.Sleep(1500 * time.Millisecond)
				for i := range 19 {
					outside.sendEvent(newEvent(strconv.Itoa(i + 2)))
				}
				time.Sleep(time.Hour)
				posts := 0
				for i := range 20 {
					posts += r.count(strconv.Itoa(i + 1))
				}
				if posts != 4 || r.count("1") != 2 {
					t.Errorf("got %d posts, %d of event 1; want its first, and 3 at once", posts, r.count("1"))
				}
				if !l.host.owner("f").isSuspended() || l.host.owner("g").isSuspended() {
					t.Error("got f running, or g suspended; want f suspended alone")
				}
				if a := outside.account("f"); a.Parked != 0 || a.Delivered != 0 || !a.Holds {
					t.Errorf("f: got %+v, want nothing parked and nothing lost", a)
				}
				if a := outside.account("g"); a.Delivered != 20 {
					t.Errorf("g: got %+v, want 20 delivered", a)
				}
				entries, err := outside.store.Subjects(t.Context(), streams.AuditStream, streams.AuditSubject("f"))
				if err != nil || entries[streams.AuditSubject("f")] != 1 {
					t.Errorf("got %v audit entries, %v; want the suspension told once", entries, err)
				}
				if killed {
					m.kill()
					l.bury(m)
				} else {
					l.end()
				}
				gone = false
				l = w.start(testTiming(), fns(forever))
				time.Sleep(time.Hour)
				if a := l.account("f"); a.Delivered != 0 || !l.host.owner("f").isSuspended() {
					t.Errorf("after a start: got %+v, want it suspended until a person resumes it", a)
				}
				if err := l.host.owner("f").resumeFunction(t.Context(), client.SuspendRequest{Function: "f", Reason: "back", By: "anna"}); err != nil {
					t.Error(err)
				}
				if a := l.settle("f"); a.Delivered != 20 {
					t.Errorf("after a start: got %+v, want 20 delivered", a)
				}
				var attempts []string
				for _, h := range r.posts["1"] {
					attempts = append(attempts, h.Get("Siding-Attempt"))
				}
				if want := []string{"1", "2", "2"}; !slices.Equal(attempts, want) {
					t.Errorf("event 1: got the attempts %v, want %v: a suspension charges none", attempts, want)
				}
			})
		})
	}
}

// TestHandlersThatReturnDoNotResumeWhatAHandlerSuspended: the two reasons for a suspension are apart.
func TestHandlersThatReturnDoNotResumeWhatAHandlerSuspended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, back := newWorld(t), make(chan struct{})
		fn := w.function(functions.Function{Timeout: time.Second}, forever, func(_ context.Context, id string, _ functions.Attempt) error {
			if id == "1" {
				<-back
				return nil
			}
			return functions.Suspend(errNo)
		})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.send(1)
		time.Sleep(time.Minute)
		l.sendEvent(newEvent("2"))
		time.Sleep(time.Minute)
		close(back)
		time.Sleep(time.Minute)
		if !l.host.owner("f").isSuspended() || len(w.calls("2")) != 1 {
			t.Errorf("got a function that goes on, and %d calls; want it suspended after 1", len(w.calls("2")))
		}
	})
}

// TestThePostCarriesTheTraceOfItsAttempt: the span of each attempt where one is recorded, else what the publisher said, else nothing.
func TestThePostCarriesTheTraceOfItsAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(func(_ *http.Request, n int) (int, string) { return map[bool]int{true: 503, false: 200}[n == 1], "" })
		w, rec := newWorld(t), newRecording()
		fn := w.function(functions.Function{Retry: every(time.Second)}, forever, r.script())
		l := w.startTraced(rec.tracer, []functions.Function{fn})
		<-l.host.started
		l.acceptTraced(rec.tracer, http.Header{"Traceparent": {sampledParent}, "Tracestate": {"a=b"}}, "traced")
		l.settle("f")
		for i, span := range rec.named(t, "process f", 2) {
			want := fmt.Sprintf("00-%s-%s-01", span.SpanContext.TraceID(), span.SpanContext.SpanID())
			got := r.posts["traced"][i]
			if got.Get("traceparent") != want || got.Get("tracestate") != "a=b" || got.Get("ce-traceparent") != sampledParent {
				t.Errorf("post %d: got %v, want traceparent %s and ce-traceparent %s", i, got, want, sampledParent)
			}
		}
		l.end()
		l = w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		l.acceptTraced(nil, http.Header{"Traceparent": {sampledParent}}, "passed")
		l.sendEvent(newEvent("bare"))
		l.settle("f")
		if got := r.posts["passed"][0].Get("traceparent"); got != sampledParent {
			t.Errorf("untraced node: got traceparent %q, want the publisher's %s", got, sampledParent)
		}
		if got := r.posts["bare"][0].Get("traceparent"); got != "" {
			t.Errorf("untraced node, bare event: got traceparent %q, want none", got)
		}
	})
}

// TestAPostReadsBackAsTheEvent: whatever an event has in its attributes arrives (cloudevents/sdk-go#1331, cloudevents/spec#1397).
func TestAPostReadsBackAsTheEvent(t *testing.T) {
	texts := rapid.StringOfN(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune(" \"%\\aZ9€😀"))), 1, 12, -1)
	var wire bytes.Buffer
	keep := httptest.NewRecorder().Result()
	h := functions.HTTP("http://receiver/", functions.HTTPClient(&http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		return keep, req.Write(&wire)
	})}))
	posted := 0
	rapid.Check(t, func(t *rapid.T) {
		e := event.New()
		e.SetID(texts.Draw(t, "id"))
		e.SetType(texts.Draw(t, "type"))
		e.SetSource(rapid.SampledFrom([]string{"/s", "urn:x:y", "https://example.com/a%20b?c#d"}).Draw(t, "source"))
		e.SetSubject(texts.Draw(t, "subject"))
		e.SetDataSchema(rapid.SampledFrom([]string{"https://example.com/s", "urn:schema:1"}).Draw(t, "schema"))
		e.SetTime(time.Unix(rapid.Int64Range(-62135596799, 253402300799-86400).Draw(t, "seconds"), 7).In(time.FixedZone("", rapid.IntRange(-50000, 50000).Draw(t, "offset"))))
		e.SetExtension("partitionkey", texts.Draw(t, "key"))
		e.SetExtension("number", rapid.Int32().Draw(t, "number"))
		e.SetDataContentType(rapid.SampledFrom([]string{"application/json", `text/plain; charset="utf-8"`, "image/png"}).Draw(t, "content type"))
		e.DataEncoded = rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		header, body, err := streams.Encode(e)
		if err != nil {
			return // such an event is never stored
		}
		posted++
		wire.Reset()
		if err := h(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		req, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(req.Body)
		if err != nil {
			t.Fatal(err)
		}
		back, err := streams.FromHTTP(req.Header, got)
		if err != nil {
			t.Fatal(err)
		}
		again, data, err := streams.Encode(back[0])
		if err != nil || !bytes.Equal(data, body) {
			t.Fatalf("got data %q, %v; want %q", data, err, body)
		}
		if diff := cmp.Diff(header, again); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
	if posted < 10 {
		t.Errorf("got %d events posted, want more: the rest was refused by our own codec", posted)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }
