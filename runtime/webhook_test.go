package runtime

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

const hookSecret = "0123456789abcdef0123456789abcdef"

// hookReceiver stands for the other side of a webhook: a transport that needs no socket.
type hookReceiver struct {
	t      *testing.T
	mu     sync.Mutex
	answer func(id string, posts int) (*http.Response, error) // nil = 204
	posts  map[string]int
	taken  []string // ids that were answered with 2xx, in order
	times  []time.Time
	at     []time.Time // when each of taken was
	events []event.Event
	hosts  []string
}

func newHookReceiver(t *testing.T) *hookReceiver { return &hookReceiver{t: t, posts: map[string]int{}} }

func status(code int, header ...string) (*http.Response, error) {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(strings.Repeat("x", 100_000)))}, nil
}

func (r *hookReceiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	id, timestamp := request.Header.Get("webhook-id"), request.Header.Get("webhook-timestamp")
	// The scheme, computed from its text: base64(HMAC-SHA256(secret, "id.timestamp.body")).
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write([]byte(id + "." + timestamp + "." + string(body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); request.Header.Get("webhook-signature") != want {
		r.t.Errorf("post of %s: got signature %q, want %q", id, request.Header.Get("webhook-signature"), want)
	}
	if at, err := strconv.ParseInt(timestamp, 10, 64); err != nil || at != time.Now().Unix() {
		r.t.Errorf("post of %s: got timestamp %q, want now", id, timestamp)
	}
	if got := request.Header.Get("Content-Type"); request.Method != http.MethodPost || !strings.HasPrefix(got, "application/cloudevents+json") {
		r.t.Errorf("got %s of %q", request.Method, got)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hosts = append(r.hosts, request.URL.Host)
	r.posts[id]++
	answer, err := status(http.StatusNoContent)
	if r.answer != nil {
		answer, err = r.answer(id, r.posts[id])
	}
	r.times = append(r.times, time.Now())
	if err == nil && answer.StatusCode/100 == 2 {
		var e event.Event
		if err := json.Unmarshal(body, &e); err != nil || e.Validate() != nil || e.ID() != id {
			r.t.Errorf("got %s, %v, want a CloudEvent with the id %s", body, err, id)
		}
		r.taken, r.at, r.events = append(r.taken, id), append(r.at, time.Now()), append(r.events, e)
	}
	if answer != nil {
		answer.Request = request
	}
	return answer, err
}

func (r *hookReceiver) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.taken)
}

func (r *hookReceiver) postedAt() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.times)
}

func (r *hookReceiver) postedTo() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.hosts)
}

func (r *hookReceiver) hook(l *life) *webhook {
	return newWebhook(Notify{Webhook: "https://user:pw@hooks.example/siding?token=T", Secret: []byte(hookSecret)}, r, testLog(), l.host.metrics, l.host.timing.pulling)
}

func (l *life) suspend(function string) {
	l.w.t.Helper()
	if err := l.store.Audit(l.w.t.(*testing.T).Context(), streams.AuditEntry{Action: "suspended", Function: function, At: time.Now(), Reason: "r"}); err != nil {
		l.w.t.Fatal(err)
	}
}

// TestDigestWebhookIsToldEverythingOnceAndInOrderWhenItIsBack: it is away for an hour and more, with a restart of the node in the middle.
func TestDigestWebhookIsToldEverythingOnceAndInOrderWhenItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := newWorld(t), newHookReceiver(t)
		begun, back := time.Now(), time.Now().Add(150*time.Minute)
		r.answer = func(string, int) (*http.Response, error) {
			if time.Now().Before(back) {
				return nil, errors.New("connection refused")
			}
			return status(200)
		}
		l := parkAll(w)
		stop := l.tellFrom(r.hook(l))
		l.settle("f")
		for hour := range 4 {
			l.suspend("f")
			l.sendFrom("/s", numbered(10*hour, 10*hour+4)...)
			l.settle("f")
			time.Sleep(30 * time.Minute)
			if hour == 1 {
				stop()
				l.end()
				l = parkAll(w)
				stop = l.tellFrom(r.hook(l))
				l.settle("f")
			}
			l.sendFrom("/s", numbered(10*hour+5, 10*hour+9)...)
			l.settle("f")
			time.Sleep(30 * time.Minute)
		}
		time.Sleep(3 * time.Hour)
		stop()
		var want []string
		var last time.Time
		parked := 0
		for _, n := range l.notices() {
			want = append(want, n.ID)
			if n.Kind == noticeDigest {
				if gap := n.At.Sub(last); gap < time.Hour {
					t.Errorf("got two digests within %s", gap)
				}
				last = n.At
			}
		}
		for _, d := range l.digests() {
			parked += d.Parked
			if late := d.Until.Sub(d.Since); late > 61*time.Minute {
				t.Errorf("got a digest %s after the first event of it was parked", late)
			}
		}
		if parked != 40 || len(want) < 8 {
			t.Errorf("got %d events in %d notices, want 40 in at least 8", parked, len(want))
		}
		if got := r.ids(); !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if r.times[0].Sub(begun) > time.Minute || len(r.times) < 30 {
			t.Errorf("got the first of %d posts after %s", len(r.times), r.times[0].Sub(begun))
		}
	})
}

func TestTheWebhookBacksOffAndHearsRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := parkAll(newWorld(t)), newHookReceiver(t)
		r.answer = func(_ string, posts int) (*http.Response, error) {
			switch posts {
			case 1:
				return status(503)
			case 2:
				return nil, errors.New("reset")
			case 3:
				return status(429, "Retry-After", "60")
			case 4:
				return status(429, "Retry-After", "99999")
			case 5:
				return status(404)
			}
			return status(200)
		}
		defer l.tellFrom(r.hook(l))()
		l.settle("f")
		l.suspend("f")
		time.Sleep(time.Hour)
		var waits []time.Duration
		times := r.postedAt()
		for i := range times[1:] {
			waits = append(waits, times[i+1].Sub(times[i]).Round(time.Second))
		}
		want := []time.Duration{time.Second, 2 * time.Second, time.Minute, 5 * time.Minute, 16 * time.Second}
		if !slices.Equal(waits, want) || len(r.ids()) != 1 {
			t.Errorf("got waits %s and %d taken, want %s and 1", waits, len(r.ids()), want)
		}
		if got := counterValue(t, l.host.metrics, "siding_webhook_failures_total"); got != 5 {
			t.Errorf("got %v failures counted, want 5", got)
		}
	})
}

// TestANoticeThatIsNeverTakenDoesNotStopTheOthersForEver, and a redirect is followed to nobody.
func TestANoticeThatIsNeverTakenDoesNotStopTheOthersForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := parkAll(newWorld(t)), newHookReceiver(t)
		r.answer = func(id string, _ int) (*http.Response, error) {
			if strings.HasPrefix(id, "poison/") {
				return status(307, "Location", "https://elsewhere.example/")
			}
			return status(200)
		}
		defer l.tellFrom(r.hook(l))()
		l.settle("f")
		l.suspend("poison")
		time.Sleep(time.Minute)
		l.suspend("f")
		time.Sleep(23 * time.Hour)
		if got := r.ids(); len(got) != 0 {
			t.Errorf("got %q taken within the day, want none", got)
		}
		time.Sleep(70 * time.Minute)
		if got := r.ids(); len(got) != 1 || !strings.HasPrefix(got[0], "f/suspended/") {
			t.Errorf("got %q taken after the day, want the notice behind", got)
		}
		if got := counterValue(t, l.host.metrics, "siding_webhook_dropped_total"); got != 1 {
			t.Errorf("got %v dropped counted, want 1", got)
		}
		for _, host := range r.postedTo() {
			if host != "hooks.example" {
				t.Fatalf("got a post to %s", host)
			}
		}
	})
}

func TestAReceiverThatIsGoneIsNotAskedAgainUntilARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := parkAll(newWorld(t)), newHookReceiver(t)
		r.answer = func(string, int) (*http.Response, error) { return status(http.StatusGone) }
		hook := r.hook(l)
		stop := l.tellFrom(hook)
		l.settle("f")
		l.suspend("f")
		time.Sleep(time.Hour)
		l.suspend("f")
		time.Sleep(time.Hour)
		stop()
		stop = l.tellFrom(hook) // a session of the same process
		time.Sleep(time.Hour)
		if got := len(r.postedAt()); got != 1 {
			t.Errorf("got %d posts, want one", got)
		}
		stop()
		r.answer = nil
		defer l.tellFrom(r.hook(l))()
		time.Sleep(time.Minute)
		if got := r.ids(); len(got) != 2 {
			t.Errorf("got %q after the restart, want both", got)
		}
	})
}

// TestAWebhookThatIsSetAgainIsNotToldWhatIsOld: without one, what it had been told is forgotten.
func TestAWebhookThatIsSetAgainIsNotToldWhatIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := parkAll(newWorld(t)), newHookReceiver(t)
		l.settle("f")
		for i, hook := range []*webhook{r.hook(l), nil, r.hook(l)} {
			stop := l.tellFrom(hook)
			time.Sleep(time.Minute)
			l.suspend("f")
			time.Sleep(time.Minute)
			stop()
			if got, want := len(r.ids()), []int{1, 1, 2}[i]; got != want {
				t.Errorf("step %d: got %d posts, want %d", i, got, want)
			}
		}
	})
}

// TestAWebhookThatHangsHoldsNoEventUp: what it does is no function's business.
func TestAWebhookThatHangsHoldsNoEventUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := parkAll(newWorld(t))
		hook := newWebhook(Notify{Webhook: "http://hooks.example", Secret: []byte(hookSecret)}, deafReceiver{}, testLog(), l.host.metrics, l.host.timing.pulling)
		defer l.tellFrom(hook)()
		l.settle("f")
		for range 20 {
			l.suspend("f")
		}
		begun := time.Now()
		l.sendFrom("/s", numbered(1, 50)...)
		synctest.Wait()
		if got := len(l.letters("f")); got != 50 || time.Since(begun) > 0 {
			t.Errorf("got %d parked after %s, want 50 at once", got, time.Since(begun))
		}
		time.Sleep(11 * time.Second)
		if got := counterValue(t, l.host.metrics, "siding_webhook_failures_total"); got != 1 {
			t.Errorf("got %v failures after the time of a post, want 1", got)
		}
	})
}

// deafReceiver is a receiver that never answers.
type deafReceiver struct{}

func (deafReceiver) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestWebhookSecretsAreReadAsServicesHandThemOut(t *testing.T) {
	for text, want := range map[string]string{
		hookSecret: hookSecret, " " + hookSecret + "\n": hookSecret, "whsec_" + base64.StdEncoding.EncodeToString([]byte(hookSecret)): hookSecret,
		"": "", "short": "", "whsec_": "", "whsec_!!!": "", strings.Repeat("x", 513): "",
	} {
		got, err := ParseWebhookSecret(text)
		if string(got) != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestTheSignatureIsTheOneOfTheScheme compares it with the example that the scheme's own libraries test with.
func TestTheSignatureIsTheOneOfTheScheme(t *testing.T) {
	secret, err := ParseWebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	sign(h, secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got, want := h.Get("webhook-signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAWebhookThatCannotBeIsRefused(t *testing.T) {
	secret := []byte(hookSecret)
	for _, tc := range []struct {
		n    Notify
		want string
	}{
		{Notify{}, ""}, {Notify{Interval: time.Minute}, ""}, {Notify{Webhook: "https://h/x", Secret: secret}, ""},
		{Notify{Interval: -1}, "negative"}, {Notify{Webhook: "h/x", Secret: secret}, "no absolute"}, {Notify{Webhook: "https:///x", Secret: secret}, "no absolute"},
		{Notify{Webhook: "https://h/x", Secret: []byte("short")}, "5 bytes"}, {Notify{Webhook: "https://h/x"}, "0 bytes"},
	} {
		_, err := New(Config{Notify: tc.n})
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "hint: ")) {
			t.Errorf("%+v: got %v, want %q", tc.n, err, tc.want)
		}
	}
}

// TestANodePostsToItsWebhook is the whole way, over a real socket: a handler asks for the suspension, and somebody else hears of it.
func TestANodePostsToItsWebhook(t *testing.T) {
	r := newHookReceiver(t)
	posted := make(chan string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		answer, err := r.RoundTrip(request)
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		posted <- request.Header.Get("webhook-id")
		w.WriteHeader(answer.StatusCode)
	}))
	defer server.Close()
	node, err := New(Config{DataDir: t.TempDir(), HTTP: "127.0.0.1:0", Notify: Notify{Webhook: server.URL, Secret: []byte(hookSecret)}}, functions.Function{
		Name: "f", Types: []string{"t"}, Handle: func(context.Context, functions.Event) error { return functions.Suspend(errNo) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	select {
	case <-node.Ready():
	case err := <-done:
		t.Fatalf("run: %v", err)
	}
	api, err := client.New("http://"+node.HTTPAddr(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.Send(t.Context(), newEvent("1")); err != nil {
		t.Fatal(err)
	}
	select {
	case id := <-posted:
		if !strings.HasPrefix(id, "f/suspended/") {
			t.Errorf("got %s, want the suspension", id)
		}
	case <-time.After(20 * time.Second):
		t.Error("got no post")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

// counterValue reads one series without labels.
func counterValue(t *testing.T, m *metrics, name string) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
