package e2e_test

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// refusal runs a command that must fail, and returns its one line and its hint.
func refusal(t *testing.T, program string, code int, env []string, args ...string) (line, hint string) {
	t.Helper()
	got := command(t, program, env, args...)
	if got.code != code {
		t.Errorf("siding %s: got exit code %d, want %d", strings.Join(args, " "), got.code, code)
	}
	lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
	if got.stdout != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], "siding: ") || !strings.HasPrefix(lines[1], "hint: ") {
		t.Fatalf("siding %s: got %q and %q on stdout, want one line and its hint", strings.Join(args, " "), got.stderr, got.stdout)
	}
	return lines[0], lines[1]
}

func TestServeRefusesWithOneLineAndItsHint(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	newer := t.TempDir()
	if err := os.WriteFile(filepath.Join(newer, "format"), []byte("2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	strange := t.TempDir()
	if err := os.WriteFile(filepath.Join(strange, "holiday.jpg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name       string
		code       int
		args       []string
		line, hint string // what they must contain
	}{
		{"unknown flag", 2, []string{"--htpt", "127.0.0.1:0"}, "unknown flag --htpt", "did you mean --http?"},
		{"unknown flag like no other", 2, []string{"--frobnicate"}, "unknown flag --frobnicate", "--help"},
		{"unknown level", 2, []string{"--log-level", "wran"}, `--log-level: "wran"`, "did you mean warn?"},
		{"argument", 2, []string{"now"}, "got 1 argument", "use siding serve"},
		{"HTTP port in use", 1, []string{"--http", taken.Addr().String(), "--nats", "off"}, "address already in use", "--http"},
		{"NATS port in use", 1, []string{"--http", "127.0.0.1:0", "--nats", taken.Addr().String()}, "port in use", "--nats"},
		{"newer format", 1, []string{"--data-dir", newer}, "2", "newer"},
		{"data directory is a file", 1, []string{"--data-dir", file}, file, "--data-dir"},
		{"data directory of somebody else", 1, []string{"--data-dir", strange}, "holiday.jpg", "--data-dir"},
		{"HTTP open to the world", 4, []string{"--http", "0.0.0.0:0"}, "--http 0.0.0.0:0", "--token-file"},
		{"NATS open to the world", 4, []string{"--http", "127.0.0.1:0", "--nats", ":0"}, "--nats :0", "--token-file"},
		{"no address", 2, []string{"--http", "127.0.0.1"}, "--http", "host:port"},
		{"token file missing", 2, []string{"--token-file", filepath.Join(strange, "token")}, "--token-file", ""},
		{"token file empty", 2, []string{"--token-file", empty}, empty, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args := []string{"serve", "--log-level", "error"}
			if !strings.Contains(strings.Join(test.args, " "), "--data-dir") {
				args = append(args, "--data-dir", t.TempDir())
			}
			if !strings.Contains(strings.Join(test.args, " "), "--http") {
				args = append(args, "--http", "127.0.0.1:0", "--nats", "off")
			}
			line, hint := refusal(t, built.siding, test.code, nil, append(args, test.args...)...)
			if !strings.Contains(line, test.line) || !strings.Contains(hint, test.hint) {
				t.Errorf("got %q and %q, want them to name %q and %q", line, hint, test.line, test.hint)
			}
		})
	}
}

func TestSecondProcessOnADirectoryIsRefusedAndNamesTheFirst(t *testing.T) {
	dir := t.TempDir()
	first := start(t, built.siding, dir)
	line, _ := refusal(t, built.siding, 1, nil, "serve", "--data-dir", dir, "--http", "127.0.0.1:0", "--nats", "off", "--log-level", "error")
	if !strings.Contains(line, "process "+strconv.Itoa(first.pid)) {
		t.Errorf("got %q, want it to name process %d", line, first.pid)
	}
	send(t, newHTTPClient(t), first, newSample("1", "com.example.lock", "{}")) // which is not disturbed
	first.kill()
	second := start(t, built.siding, dir) // what a killed process leaves locks nothing
	if got := ask[struct{ ID string }](t, second, "event", "show", "1"); got.ID != "1" {
		t.Errorf("got event %q from the directory of the killed process, want 1", got.ID)
	}
}

func TestWrongFunctionsAreOneJoinedErrorBeforeAnythingStarts(t *testing.T) {
	program := newProgram(t, nil,
		function{Name: "File Claim", Types: []string{"com.example.x"}},
		function{Name: "no-types"},
		function{Name: "twice", Types: []string{"com.example.x"}},
		function{Name: "twice", Types: []string{"com.example.x"}, Attempts: -1},
	)
	got := command(t, built.node, program.env, serveArgs(program.dir)...)
	if got.code != 2 {
		t.Errorf("got exit code %d, want 2", got.code)
	}
	for _, part := range []string{`function "File Claim": name`, `function "no-types": types`, `function "twice": name`, `function "twice": retry.attempts`} {
		if strings.Count(got.stderr, part) != 1 {
			t.Errorf("got %q, want it to name %s once", got.stderr, part)
		}
	}
	if n := strings.Count(got.stderr, "siding: "); n != 1 {
		t.Errorf("got %d errors, want one that joins all:\n%s", n, got.stderr)
	}
	if _, err := os.Stat(program.dir); !os.IsNotExist(err) {
		t.Errorf("got %v for the data directory, want it not to exist: nothing may start", err)
	}
}

func TestCommandsRefuseWithOneLineAndItsHint(t *testing.T) {
	p := start(t, built.siding, t.TempDir())
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		code       int
		args       string
		line, hint string
	}{
		{2, "dlq sl", "unknown command dlq sl", "did you mean siding dlq ls?"},
		{2, "dlq ls --jsno", "unknown flag --jsno", "did you mean --json?"},
		{2, "dlq show 42", `"42": not a dead letter's id`, "file-claim/42"},
		{3, "dlq show none/42", "none/42: not found", ""},
		{3, "function show none", "function none: not found", "siding function ls"},
		{3, "event show nothing", "event nothing: not found", ""},
		{2, "dlq discard none/42 --yes", "no reason", "--reason"},
		{2, "event send", "no type", "--type"},
		{2, "event send --type t --attribute bad_name=1 --json", "bad_name", "only a to z and 0 to 9"},
		{5, "account --server " + nobody, "unreachable", "siding serve"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			got := p.cli(t, strings.Fields(test.args)...)
			line, hint, _ := strings.Cut(got.stderr, "\n")
			if got.code != test.code || got.stdout != "" || !strings.HasPrefix(line, "siding: ") || !strings.Contains(line, test.line) {
				t.Errorf("got exit code %d, %q and %q, want %d and a line with %q", got.code, got.stdout, got.stderr, test.code, test.line)
			}
			if !strings.Contains(hint, test.hint) || test.hint != "" && !strings.HasPrefix(hint, "hint: ") || strings.Count(got.stderr, "\n") > 2 {
				t.Errorf("got the hint %q, want one with %q", hint, test.hint)
			}
		})
	}
}

func TestBadRequestsAreRefusedByNameAndTheNextGoodOneIsAccepted(t *testing.T) {
	const kind = "com.example.bad"
	program := newProgram(t, nil, function{Name: "f", Types: []string{">"}})
	p := program.start(t)
	client := newHTTPClient(t)
	good := newSample("good", kind, `{"n":1}`)
	large := func(n int) []byte { return append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, n)...), '"') }
	binary := func(change func(h map[string][]string)) map[string][]string {
		h := good.headers(true)
		change(h)
		return h
	}
	structured := map[string][]string{"Content-Type": {"application/cloudevents+json"}}
	batch := map[string][]string{"Content-Type": {"application/cloudevents-batch+json"}}
	type expected struct {
		status                int
		code, attribute, path string
		index                 int  // -1 = none
		foreign               bool // the answer of Go's own server
	}
	tests := []struct {
		name   string
		header map[string][]string
		body   []byte
		want   expected
	}{
		{"JSON that is no event", map[string][]string{"Content-Type": {"application/json"}}, []byte(`{"a":1}`), expected{status: 415, code: "unsupported_media", index: -1}},
		{"a form", map[string][]string{"Content-Type": {"application/x-www-form-urlencoded"}}, []byte(`a=1`), expected{status: 415, code: "unsupported_media", index: -1}},
		{"an event in XML", map[string][]string{"Content-Type": {"application/cloudevents+xml"}}, []byte(`<event/>`), expected{status: 415, code: "unsupported_media", index: -1}},
		{"no body in structured mode", structured, nil, expected{status: 400, code: "invalid", index: -1}},
		{"torn JSON", structured, []byte(`{"specversion":"1.0","id":"x",`), expected{status: 400, code: "invalid", index: -1}},
		{"no id", binary(func(h map[string][]string) { delete(h, "ce-id") }), nil, expected{status: 400, code: "invalid", attribute: "id", index: -1}},
		{"bad attribute name in a header", binary(func(h map[string][]string) { h["ce-bad_name"] = []string{"1"} }), nil, expected{status: 400, code: "invalid", attribute: "bad_name", index: -1}},
		{"bad attribute name in JSON", structured, []byte(`{"specversion":"1.0","id":"x","source":"/s","type":"t","badName":"1"}`), expected{status: 400, code: "invalid", attribute: "badName", index: -1}},
		{"control character", binary(func(h map[string][]string) { h["ce-note"] = []string{"a%0Ab"} }), nil, expected{status: 400, code: "invalid", attribute: "note", index: -1}},
		{"bad base64", structured, []byte(`{"specversion":"1.0","id":"x","source":"/s","type":"t","data_base64":"***"}`), expected{status: 400, code: "invalid", path: "$.data_base64", index: -1}},
		{"second of a batch", batch, []byte(`[{"specversion":"1.0","id":"x","source":"/s","type":"t"},{"specversion":"1.0","source":"/s","type":"t"}]`), expected{status: 400, code: "invalid", attribute: "id", index: 1}},
		{"two of a batch under one id that say different things", batch, []byte(`[{"specversion":"1.0","id":"x","source":"/s","type":"t","data":1},{"specversion":"1.0","id":"x","source":"/s","type":"t","data":2}]`), expected{status: 409, code: "conflict", index: -1}},
		{"too large", good.headers(true), large(1 << 20), expected{status: 413, code: "too_large", index: -1}},
		{"too large in JSON", structured, append(append([]byte(`{"specversion":"1.0","id":"x","source":"/s","type":"t","data":`), large(950<<10)...), '}'), expected{status: 413, code: "too_large", index: -1}},
		{"attributes too large", binary(func(h map[string][]string) { h["ce-note"] = []string{strings.Repeat("n", 40<<10)} }), nil, expected{status: 413, code: "too_large", index: -1}},
		{"headers beyond what HTTP takes", binary(func(h map[string][]string) { h["ce-note"] = []string{strings.Repeat("n", 100<<10)} }), nil, expected{status: 431, foreign: true}},
		{"type too long for a subject", binary(func(h map[string][]string) { h["ce-type"] = []string{strings.Repeat("t", 2<<10)} }), nil, expected{status: 400, code: "invalid", attribute: "type", index: -1}},
		{"type beyond the control line", binary(func(h map[string][]string) { h["ce-type"] = []string{strings.Repeat("t.", 3<<10) + "t"} }), nil, expected{status: 400, code: "invalid", attribute: "type", index: -1}},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := post(t.Context(), client, p.url, test.header, test.body)
			if err != nil {
				t.Fatal(err)
			}
			if got.status != test.want.status {
				t.Errorf("got %d %s, want %d", got.status, got.body, test.want.status)
			}
			if !test.want.foreign {
				pr := got.problem(t)
				index := -1
				if pr.Index != nil {
					index = *pr.Index
				}
				if pr.Code != test.want.code || pr.Attribute != test.want.attribute || index != test.want.index || test.want.path != "" && pr.Path != test.want.path || pr.Detail == "" {
					t.Errorf("got %+v, want %+v", pr, test.want)
				}
			}
			send(t, client, p, good.with("good-"+strconv.Itoa(i)))
		})
	}

	t.Run("same id with other data", func(t *testing.T) {
		got, err := post(t.Context(), client, p.url, good.with("good-0").headers(true), []byte(`{"n":2}`))
		if err != nil {
			t.Fatal(err)
		}
		if pr := got.problem(t); got.status != http.StatusConflict || pr.Code != "conflict" {
			t.Errorf("got %d %+v, want a conflict", got.status, pr)
		}
	})
	if a := rest(t, p, "f", len(tests)).of("f"); a.Delivered != len(tests) || a.Accepted != len(tests) {
		t.Errorf("got %+v, want the %d good events delivered and no other one stored", a, len(tests))
	}
}

// A key of any length is only a key: in subjects a hash stands for it.
func TestEventsWithOverlongKeysAreHandledAndParked(t *testing.T) {
	const kind = "com.example.key"
	program := newProgram(t, nil, function{Name: "f", Types: []string{kind}})
	p := program.start(t)
	key := strings.Repeat("käse %", 10<<10/7)
	send(t, newHTTPClient(t), p,
		newSample("done", kind, "{}", "partitionkey", key),
		newSample("parked", kind, "{}", "partitionkey", key, "do", "park-until=/never"))
	rest(t, p, "f", 2)
	for _, c := range program.read(t) {
		if c.What == "begin" && c.Attributes["partitionkey"] != key {
			t.Errorf("event %s: got a key of %d bytes, want its own of %d", c.ID, len(c.Attributes["partitionkey"]), len(key))
		}
	}
	letters := ask[[]deadLetter](t, p, "dlq", "ls")
	if len(letters) != 1 || letters[0].EventID != "parked" {
		t.Fatalf("got the dead letters %+v, want the one parked", letters)
	}
	if shown := ask[deadLetterDetail](t, p, "dlq", "show", letters[0].ID); shown.Attributes["partitionkey"] != key {
		t.Errorf("got a key of %d bytes in the dead letter, want %d", len(shown.Attributes["partitionkey"]), len(key))
	}
}

// What comes by NATS has passed no check: it is stored, and parked by each function whose types match.
func TestWhatIsNoEventAndComesByNATSIsParkedOnceWithItsBytes(t *testing.T) {
	const kind = "com.example.raw"
	program := newProgram(t, nil,
		function{Name: "f", Types: []string{kind}}, function{Name: "g", Types: []string{"com.example.>"}}, function{Name: "other", Types: []string{"com.other"}},
	)
	p := program.start(t)
	conn, err := nats.Connect(p.nats)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raws := [][]byte{[]byte("no event at all"), {0xff, 0x00, 0xfe}, {}, []byte(`{"specversion":"1.0"`)}
	for _, raw := range raws {
		if _, err := conn.RequestWithContext(t.Context(), "events."+kind, raw); err != nil {
			t.Fatal(err)
		}
	}
	broken := &nats.Msg{Subject: "events." + kind, Header: nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"x"}, "ce-source": {"/s"}, "ce-type": {kind}, "ce-bad_name": {"1"}}, Data: []byte("bad name")}
	if _, err := conn.RequestMsgWithContext(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	raws = append(raws, broken.Data)
	send(t, newHTTPClient(t), p, newSample("good", kind, "{}"))
	a := rest(t, p, "f", len(raws)+1)
	for _, name := range []string{"f", "g"} {
		if got := a.of(name); got.Parked != len(raws) || got.Delivered != 1 {
			t.Errorf("%s: got %+v, want %d parked and the good one delivered", name, got, len(raws))
		}
		letters := ask[[]deadLetter](t, p, "dlq", "ls", "--function", name)
		if len(letters) != len(raws) {
			t.Fatalf("%s: got %d dead letters, want %d", name, len(letters), len(raws))
		}
		for i, letter := range letters {
			shown := ask[deadLetterDetail](t, p, "dlq", "show", letter.ID)
			kept := shown.DataBase64
			if kept == nil {
				kept = shown.Data
			}
			if !bytes.Equal(kept, raws[i]) || letter.Cause != "undecodable" || letter.Class != "undecodable" || letter.Error == "" {
				t.Errorf("%s: got %+v with %q, want it undecodable, with %q", name, letter, kept, raws[i])
			}
		}
		if last := letters[len(letters)-1]; !strings.Contains(last.Error, "bad_name") {
			t.Errorf("%s: got %q, want it to name bad_name", name, last.Error)
		}
	}
	if got := a.of("other"); got.Accepted != 0 {
		t.Errorf("other: got %+v, want nothing", got)
	}
	if n := count(program.read(t), call{What: "begin"}); n != 2 {
		t.Errorf("got %d handlers called, want 2: those for the good event", n)
	}

	// A subject beyond the server's control line ends the connection of the one who sent it, and of nobody else.
	offender, err := nats.Connect(p.nats, nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer offender.Close()
	_ = offender.Publish("events."+strings.Repeat("t", 8<<10), nil)
	eventually(t, func() string {
		if !offender.IsClosed() {
			return "the offender is still connected"
		}
		return ""
	})
	if _, err := conn.RequestMsgWithContext(t.Context(), &nats.Msg{Subject: "events." + kind, Header: newSample("after", kind, "{}").headers(false), Data: []byte("{}")}); err != nil {
		t.Errorf("got %v on the other connection, want it to work", err)
	}
	if got := rest(t, p, "f", len(raws)+2).of("f"); got.Delivered != 2 {
		t.Errorf("got %+v, want the event of the other connection delivered", got)
	}
}

// Guests of the NATS listener publish events and browse; what Siding keeps for itself is beyond their reach.
func TestNATSClientsCannotTouchWhatSidingKeeps(t *testing.T) {
	p := start(t, built.siding, t.TempDir())
	conn, err := nats.Connect(p.nats)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, subject := range []string{"siding.retry.f._.1", "$JS.API.STREAM.PURGE.EVENTS", "$JS.API.STREAM.DELETE.EVENTS", "$JS.API.STREAM.UPDATE.EVENTS", "$JS.API.STREAM.MSG.DELETE.EVENTS"} {
		denied := make(chan error, 1)
		conn.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case denied <- err:
			default:
			}
		})
		if err := conn.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-denied:
			if !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
				t.Errorf("%s: got %v, want a permissions violation", subject, err)
			}
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// A token guards HTTP and NATS alike; health stays open to whoever probes it.
func TestTokenIsAskedForByHTTPAndNATSAndSentByCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	made := command(t, built.siding, nil, "token", "new", "ana", "--append", file)
	token := strings.TrimSpace(made.stdout)
	if made.code != 0 || token == "" {
		t.Fatalf("siding token new: got exit code %d: %s", made.code, made.stderr)
	}
	p, err := launch(t, exec.Command(built.siding, append(serveArgs(t.TempDir()), "--token-file", file)...))
	if err == nil {
		err = p.awaitReady(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	client := newHTTPClient(t)
	s := newSample("1", "com.example.token", "{}")
	got, err := post(t.Context(), client, p.url, s.headers(true), s.data)
	if err != nil {
		t.Fatal(err)
	}
	if got.status != http.StatusUnauthorized {
		t.Errorf("got %d without a token, want 401", got.status)
	}
	header := s.headers(true)
	header["Authorization"] = []string{"Bearer " + token}
	if got, err = post(t.Context(), client, p.url, header, s.data); err != nil || got.status != http.StatusAccepted {
		t.Errorf("got %d %s (%v) with the token, want 202", got.status, got.body, err)
	}
	if got := p.cli(t, "account"); got.code != 4 {
		t.Errorf("siding account without a token: got exit code %d, want 4", got.code)
	}
	if got := p.cli(t, "account", "--token", token); got.code != 0 {
		t.Errorf("siding account with the token: got exit code %d: %s", got.code, got.stderr)
	}
	if conn, err := nats.Connect(p.nats); err == nil {
		conn.Close()
		t.Error("got a NATS connection without a token, want it refused")
	}
	conn, err := nats.Connect(p.nats, nats.Token(token))
	if err != nil {
		t.Fatalf("got %v for NATS with the token", err)
	}
	conn.Close()
	resp, err := client.Get(p.url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %d of /readyz, want 200 without a token", resp.StatusCode)
	}
}
