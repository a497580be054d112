package runtime

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/functions"
)

// hostileValues are texts that have broken somebody's event system.
func hostileValues() map[string]string {
	return map[string]string{
		"unicode": "käse €😀", "right to left": "a\u202eb", "combining": "e\u0301", "space": "a b", "padded": " a ", "two dots": "a..b", "leading dot": ".a",
		"trailing dot": "a.", "star": "a.*", "arrow": ">", "dollar": "$JS.API.>", "ours": "siding.retry.f._.1", "slash": "../../etc/passwd", "backslash": `a\b`, "query": "a?b=c#d&e",
		"percent": "%", "encoded": "a%20b%2", "quoted": `"a"`, "quote inside": `a"b`, "underscore": "_", "hash": "#abc", "json": `{"a":1}`, "html": "<script>alert(1)</script>",
		"tab": "a\tb", "nul": "a\x00b", "line break": "a\r\nce-id: x", "escape": "a\x1b[2Jb", "C1 control": "a\u0085b", "invalid UTF-8": "a\xff\xfeb", "overlong": "\xc0\xaf",
		"surrogate": "\xed\xa0\x80", "noncharacter": "a\uffffb", "empty": "", "4 KB": strings.Repeat("k", 4<<10), "40 KB": strings.Repeat("k", 40<<10),
	}
}

// hostileFields are the attributes that take them. An event has something plain in each of the others.
var hostileFields = []string{"type", "id", "source", "subject", "partitionkey"}

// percented is a value as a careful client writes it into a header.
func percented(value string) string {
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// hostileNode is a node whose function keeps what it saw of an event, by the attribute case, and parks it.
type hostileNode struct {
	t    *testing.T
	r    *Runtime
	conn *nats.Conn
	mu   sync.Mutex
	seen map[string]functions.Event
	news chan struct{}
}

func newHostileNode(t *testing.T) *hostileNode {
	t.Helper()
	n := &hostileNode{t: t, seen: map[string]functions.Event{}, news: make(chan struct{}, 1)}
	r, err := New(Config{DataDir: scratch(t), HTTP: "127.0.0.1:0", NATS: "127.0.0.1:0", Logger: testLog()}, functions.Function{
		Name: "f", Types: []string{">"}, OnPark: functions.Continue, Breaker: functions.Breaker{Off: true}, Handle: func(_ context.Context, e functions.Event) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.seen[fmt.Sprint(e.Extensions()["case"])] = e
			select {
			case n.news <- struct{}{}:
			default:
			}
			return functions.Park(errNo)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	runNode(t, r)
	n.r = r
	if n.conn, err = nats.Connect(r.NATSAddr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.conn.Close)
	return n
}

// await returns the event of a case as the handler saw it.
func (n *hostileNode) await(name string) functions.Event {
	n.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		n.mu.Lock()
		e, ok := n.seen[name]
		n.mu.Unlock()
		if ok {
			return e
		}
		select {
		case <-n.news:
		case <-deadline:
			n.t.Fatalf("case %s: accepted, and never handled", name)
		}
	}
}

func (n *hostileNode) post(header map[string]string, body string) (status int, answer string) {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, "http://"+n.r.HTTPAddr()+"/events", strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	return n.do(r)
}

func (n *hostileNode) do(r *http.Request) (status int, answer string) {
	n.t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// rawJSON writes a string of JSON with its bytes as they are, where Go would replace those that are no UTF-8.
func rawJSON(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

// entrances are the ways in. Each sends attributes and reports whether they were accepted.
func (n *hostileNode) entrances() map[string]func(attributes map[string]string) (accepted bool, answer string) {
	verdict := func(status int, answer string) (bool, string) {
		if status != http.StatusAccepted && (status < 400 || status >= 500) {
			n.t.Errorf("got %d %s, want it accepted or refused", status, answer)
		}
		return status == http.StatusAccepted, answer
	}
	structured := func(attributes map[string]string) string {
		var parts []string
		for name, value := range attributes {
			parts = append(parts, `"`+name+`":`+rawJSON(value))
		}
		return `{"specversion":"1.0","data":1,` + strings.Join(parts, ",") + "}"
	}
	return map[string]func(map[string]string) (bool, string){
		"HTTP binary": func(attributes map[string]string) (bool, string) {
			header := map[string]string{"ce-specversion": "1.0", "Content-Type": "application/json"}
			for name, value := range attributes {
				header["ce-"+name] = percented(value)
			}
			return verdict(n.post(header, "1"))
		},
		"HTTP structured": func(attributes map[string]string) (bool, string) {
			return verdict(n.post(map[string]string{"Content-Type": structuredType}, structured(attributes)))
		},
		"HTTP batch": func(attributes map[string]string) (bool, string) {
			return verdict(n.post(map[string]string{"Content-Type": batchType}, "["+structured(attributes)+"]"))
		},
		"NATS": func(attributes map[string]string) (bool, string) {
			m := &nats.Msg{Subject: "events.hostile", Header: nats.Header{"ce-specversion": {"1.0"}}, Data: []byte("1")}
			for name, value := range attributes {
				m.Header["ce-"+name] = []string{percented(value)}
			}
			answer, err := n.conn.RequestMsgWithContext(n.t.Context(), m)
			if err != nil {
				n.t.Fatal(err)
			}
			var ack struct {
				Seq   uint64
				Error any
			}
			if err := json.Unmarshal(answer.Data, &ack); err != nil {
				n.t.Fatal(err)
			}
			if ack.Error != nil {
				return false, string(answer.Data)
			}
			// The store takes everything: what is no event is parked before it gets to the handler.
			for {
				life, err := n.r.eventShow(n.t.Context(), strconv.FormatUint(ack.Seq, 10), "")
				if err != nil {
					n.t.Fatal(err)
				}
				if f := life.Functions[0]; f.State == "parked" && len(f.History) > 1 {
					return f.Attempts > 0, string(answer.Data)
				}
				select {
				case <-n.t.Context().Done():
					n.t.Fatal("event stays on its way")
				case <-time.After(5 * time.Millisecond):
				}
			}
		},
		"CLI": func(attributes map[string]string) (bool, string) {
			args := []string{"event", "send", "--server", "http://" + n.r.HTTPAddr(), "--data", "1", "--attribute", "case=" + attributes["case"]}
			for flag, name := range map[string]string{"type": "type", "id": "id", "source": "source", "subject": "subject", "key": "partitionkey"} {
				args = append(args, "--"+flag, attributes[name])
			}
			code, _, errs := siding(n.t, nil, nil, args...)
			if code != 0 && code != 2 && code != 4 {
				n.t.Errorf("got exit code %d: %s", code, errs)
			}
			return code == 0, errs
		},
	}
}

// TestHostileValuesComeThroughUnchangedOrAreRefusedAtEveryEntrance sends each value in each attribute by each way in. All ways must agree, and what
// is accepted must reach the handler as it was sent.
func TestHostileValuesComeThroughUnchangedOrAreRefusedAtEveryEntrance(t *testing.T) {
	n := newHostileNode(t)
	entrances := n.entrances()
	number := 0
	verdicts := map[string]bool{}
	for _, field := range hostileFields {
		for name, value := range hostileValues() {
			got := map[string]bool{}
			for entrance, send := range entrances {
				if entrance == "CLI" && (value == "" || strings.Contains(value, "\x00")) {
					continue // a flag without a value is one that is not given, and a NUL cannot be on a command line
				}
				number++
				id := strconv.Itoa(number)
				attributes := map[string]string{"type": "hostile", "id": "id-" + id, "source": "/case/" + id, "subject": "s", "partitionkey": "k", "case": id}
				attributes[field] = value
				accepted, answer := send(attributes)
				got[entrance] = accepted
				if !accepted {
					continue
				}
				e := n.await(id)
				seen := map[string]string{"type": e.Type(), "id": e.ID(), "source": e.Source(), "subject": e.Subject(), "partitionkey": fmt.Sprint(e.Extensions()["partitionkey"])}[field]
				if seen != value || !bytes.Equal(e.Data(), []byte("1")) {
					t.Errorf("%s of %s by %s: got %.80q with data %s, want %.80q (%.200s)", name, field, entrance, seen, e.Data(), value, answer)
				}
			}
			reference := got["HTTP structured"]
			verdicts[field+" "+name] = reference
			for entrance, accepted := range got {
				if (name == "40 KB" || field == "type" && name == "4 KB") && entrance == "NATS" {
					continue // only our own entrances bound the attributes, so that copies have room; a copy of this one stands by reference
				}
				if accepted != reference {
					t.Errorf("%s of %s by %s: got accepted %v, and %v by HTTP in structured mode", name, field, entrance, accepted, reference)
				}
			}
		}
	}
	for what, want := range map[string]bool{
		"type space": true, "type two dots": true, "type leading dot": true, "type star": true, "type arrow": true, "type unicode": true, "type ours": true, "type 4 KB": false,
		"partitionkey 4 KB": true, "partitionkey empty": true, "partitionkey unicode": true, "partitionkey underscore": true, "partitionkey padded": true,
		"id padded": true, "id unicode": true, "id empty": false, "type empty": false, "source empty": false, "subject empty": false,
		"id nul": false, "id line break": false, "id escape": false, "id invalid UTF-8": false, "id overlong": false, "id surrogate": false, "id noncharacter": false,
		"id 40 KB": false, "partitionkey 40 KB": false, "subject C1 control": false, "partitionkey tab": false,
	} {
		if got, ok := verdicts[what]; !ok || got != want {
			t.Errorf("%s: got accepted %v, want %v", what, got, want)
		}
	}
}

// TestHostileValuesInEveryPlaceOfTheAPIAreAnswered and none of them takes the node away from others: a name that becomes a part of a subject
// beyond the broker's control line would end the node's own connection.
func TestHostileValuesInEveryPlaceOfTheAPIAreAnswered(t *testing.T) {
	n := newHostileNode(t)
	if status, answer := n.post(map[string]string{"Content-Type": structuredType}, `{"specversion":"1.0","id":"x","source":"s","type":"t","partitionkey":"k","case":"1"}`); status != http.StatusAccepted {
		t.Fatalf("got %d %s", status, answer)
	}
	n.await("1")
	for name, value := range hostileValues() {
		q, p := url.QueryEscape(value), url.PathEscape(value)
		for _, target := range []string{
			"/api/v1/dlq?key=" + q, "/api/v1/dlq?type=" + q, "/api/v1/dlq?source=" + q, "/api/v1/dlq?function=" + q, "/api/v1/dlq?cause=" + q, "/api/v1/dlq?after=" + q, "/api/v1/dlq?limit=" + q, "/api/v1/dlq?" + q,
			"/api/v1/dlq/" + p + "/1", "/api/v1/dlq/f/" + p, "/api/v1/functions/" + p, "/api/v1/lanes/" + p + "?key=k", "/api/v1/lanes/f?key=" + q, "/api/v1/lanes?after=" + q, "/api/v1/lanes?state=" + q,
			"/api/v1/events?id=" + q, "/api/v1/events?id=x&source=" + q, "/api/v1/events?sequence=" + q, "/" + p,
		} {
			r, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "http://"+n.r.HTTPAddr()+target, nil)
			if err != nil {
				n.t.Fatal(err)
			}
			status, answer := n.do(r)
			if status >= 500 || status >= 300 && status < 400 && status != http.StatusMovedPermanently && status != http.StatusTemporaryRedirect {
				n.t.Errorf("%s in %.100s: got %d %.300s", name, target, status, answer)
			}
		}
		body := `{"by":` + rawJSON(value) + `,"reason":` + rawJSON(value) + `,"key":` + rawJSON(value) + `}`
		for _, target := range []string{"/api/v1/dlq/f/999999/discard", "/api/v1/lanes/f/pause", "/api/v1/lanes/f/resume", "/api/v1/lanes/" + p + "/pause"} {
			for _, sent := range []string{body, base64.StdEncoding.EncodeToString([]byte(value)), value} {
				r, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, "http://"+n.r.HTTPAddr()+target, strings.NewReader(sent))
				if err != nil {
					n.t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				if status, answer := n.do(r); status >= 500 {
					n.t.Errorf("%s to %.100s: got %d %.300s", name, target, status, answer)
				}
			}
		}
	}
}
