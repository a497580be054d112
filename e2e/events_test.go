package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

// sample is an event as these tests write it to the wire, with an encoder of their own.
type sample struct {
	attributes map[string]string // without specversion
	data       []byte
}

func newSample(id, kind, data string, more ...string) sample {
	s := sample{attributes: map[string]string{"id": id, "source": "/e2e", "type": kind, "datacontenttype": "application/json"}, data: []byte(data)}
	for i := 0; i < len(more); i += 2 {
		s.attributes[more[i]] = more[i+1]
	}
	return s
}

// with returns the same event under another id.
func (s sample) with(id string) sample {
	s.attributes = maps.Clone(s.attributes)
	s.attributes["id"] = id
	return s
}

// hash is what the node program writes down of the data.
func (s sample) hash() string {
	sum := sha256.Sum256(s.data)
	return hex.EncodeToString(sum[:])
}

// structured renders it in the JSON format; JSON data byte for byte.
func (s sample) structured(t *testing.T) []byte {
	t.Helper()
	envelope := maps.Clone(s.attributes)
	envelope["specversion"] = "1.0"
	head, err := json.Marshal(envelope)
	if err != nil {
		t.Fatal(err)
	}
	return append(append(append(head[:len(head)-1], `,"data":`...), s.data...), '}')
}

// headers renders it in binary mode: for HTTP the content type has a header of its own.
func (s sample) headers(http bool) map[string][]string {
	h := map[string][]string{"ce-specversion": {"1.0"}}
	for name, value := range s.attributes {
		if name == "datacontenttype" && http {
			h["Content-Type"] = []string{value}
			continue
		}
		h["ce-"+name] = []string{percent(value)}
	}
	return h
}

// percent encodes what the HTTP binding asks for: all but printable ASCII, and of that space, quote and percent.
func percent(value string) string {
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// answer is a response, read to its end.
type answer struct {
	status int
	media  string
	body   []byte
}

// problem is the body of a refusal.
type problem struct {
	Status                              int
	Detail, Code, Hint, Attribute, Path string
	Index                               *int
}

func (a answer) problem(t *testing.T) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(a.body, &p); err != nil || a.media != "application/problem+json" {
		t.Fatalf("got %d with %s %q, want problem+json", a.status, a.media, a.body)
	}
	return p
}

// post sends one request to /events. Header names are sent as they are given.
func post(ctx context.Context, client *http.Client, url string, header map[string][]string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/events", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	maps.Copy(req.Header, header)
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), read}, err
}

// newHTTPClient returns a client whose connections end with the test.
func newHTTPClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 10 * time.Second}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// send stores an event in binary mode over HTTP, which must succeed.
func send(t *testing.T, client *http.Client, p *process, events ...sample) {
	t.Helper()
	for _, s := range events {
		got, err := post(t.Context(), client, p.url, s.headers(true), s.data)
		if err != nil {
			t.Fatal(err)
		}
		if got.status != http.StatusAccepted {
			t.Fatalf("event %s: got %d %s, want 202", s.attributes["id"], got.status, got.body)
		}
	}
}

// account is what `siding account --json` prints.
type account struct {
	Holds     bool
	Functions []functionAccount
}

type functionAccount struct {
	Function                                                                          string
	Accepted, Delivered, Pending, Delivering, Retrying, Held, Parked, Discarded, Gone int
	Holds                                                                             bool
}

// of returns the line of one function.
func (a account) of(name string) functionAccount {
	for _, f := range a.Functions {
		if f.Function == name {
			return f
		}
	}
	return functionAccount{}
}

// moving counts the events that no function has finished.
func (a account) moving() int {
	n := 0
	for _, f := range a.Functions {
		n += f.Pending + f.Delivering + f.Retrying + f.Held
	}
	return n
}

// rest waits until nothing moves any more in the account of n accepted events for function name, and returns it.
func rest(t *testing.T, p *process, name string, n int) account {
	t.Helper()
	var a account
	eventually(t, func() string {
		// Exit code 1 says that the account does not hold, which in the middle of things it need not.
		got := p.cli(t, "account", "--json")
		a = account{}
		if err := json.Unmarshal([]byte(got.stdout), &a); err != nil {
			t.Fatalf("siding account: got exit code %d: %s%s", got.code, got.stdout, got.stderr)
		}
		if a.of(name).Accepted < n || a.moving() > 0 || !a.Holds {
			return fmt.Sprintf("%d of %d accepted, or not at rest: %+v", a.of(name).Accepted, n, a)
		}
		return ""
	})
	return a
}

// counted reads the metrics whose line begins with prefix, by the last label value behind it.
func (p *process) counted(t *testing.T, prefix string) map[string]string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			label, value, _ := strings.Cut(rest, `"} `)
			found[label] = strings.TrimSpace(value)
		}
	}
	return found
}
