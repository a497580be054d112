package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"pgregory.net/rapid"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/config"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"siding": func() { os.Exit(Main(os.Args[1:], fakeEnv(os.Stdin, os.Stdout, os.Stderr, os.Getenv))) },
	})
}

func fakeEnv(in io.Reader, out, errs io.Writer, getenv func(string) string) Env {
	return Env{
		Stdin: in, Stdout: out, Stderr: errs, Getenv: getenv, Environ: func() []string { return fakeEnviron(getenv) },
		Functions: []functions.Function{{
			Name: "file-claim", Types: []string{"com.insurer.claim.*"}, Retry: functions.Retry{Attempts: 3}, Owner: "claims-team",
			Handle: func(context.Context, functions.Event) error { return nil },
		}},
		URL: func(string) functions.Handler {
			return func(context.Context, functions.Event) error { return nil }
		},
		Serve: func(_ context.Context, o ServeOptions) error {
			if o.DataDir == "locked" {
				return errors.New("directory locked: locked by process 7: hint: stop it or choose another --data-dir")
			}
			if o.Ready != nil {
				o.Ready(o.HTTP, "nats://"+o.NATS)
				_, err := os.Stat(o.DataDir)
				fmt.Fprintln(out, "data there:", err == nil)
			}
			fakeRehearsal(out, o.Chaos)
			for _, f := range o.Functions[1:] {
				fmt.Fprintln(out, "declared:", f.Name, f.Types, f.OrderBy)
			}
			return json.NewEncoder(out).Encode(o)
		},
		Exit: func(code int) { fmt.Fprintln(out, "exit:", code) },
		Demo: func(_ context.Context, keep bool) error {
			_, err := fmt.Fprintln(out, "all aboard, keep:", keep)
			return err
		},
		VerifyBackup: fakeVerify, Restore: fakeRestore, Inspect: fakeInspect, Adopt: fakeAdopt,
		Release: getenv("RELEASE"),
		Version: client.Version{Version: "1.2.3", Go: "go1.26", NATSServer: "v2.15.2", Commit: "abcdef"},
	}
}

// fakeEnviron has what a script may set: a script's environment can only be
// asked for one name at a time.
func fakeEnviron(getenv func(string) string) []string {
	var all []string
	names := []string{config.EnvFile, "SIDING_SERVER", "SIDING_DATADIR", "SIDING_TEST_DIR"}
	for _, s := range config.Settings() {
		names = append(names, s.Env())
	}
	for _, name := range names {
		if v := getenv(name); v != "" {
			all = append(all, name+"="+v)
		}
	}
	return all
}

var update = flag.Bool("update", false, "rewrite the expected output in testdata/script")

func TestScripts(t *testing.T) {
	urls := map[string]string{}
	for name, node := range map[string]struct {
		holds bool
		token string
	}{"SIDING_SERVER": {true, ""}, "BROKEN": {false, ""}, "SECURED": {true, "s3cret"}, "EMPTY": {true, "empty"}} {
		server := httptest.NewServer(fakeNode(node.holds, node.token))
		t.Cleanup(server.Close)
		urls[name] = server.URL
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			for name, url := range urls {
				e.Setenv(name, url)
			}
			e.Setenv("USER", "ana")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a command and checks its exit code: exits 3 siding dlq show a/1.
// It runs in this process, which is ten times as fast under the race detector,
// unless the command reads the script's files or its standard input, or writes
// files: the working directory and standard input belong to a whole process.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[1] != "siding" {
		ts.Fatalf("use: exits code siding …")
	}
	outside := len(args) > 2 && args[2] == "init"
	for _, arg := range args[2:] {
		_, err := os.Stat(ts.MkAbs(arg))
		outside = outside || arg == "-" || arg != "" && err == nil
	}
	var got int
	if outside {
		if err := ts.Exec("siding", args[2:]...); err != nil {
			var exit interface{ ExitCode() int }
			if !errors.As(err, &exit) {
				ts.Fatalf("%v", err)
			}
			got = exit.ExitCode()
		}
	} else {
		got = run(context.Background(), args[2:], fakeEnv(strings.NewReader(""), ts.Stdout(), ts.Stderr(), ts.Getenv))
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("got exit code %d, want %s", got, args[0])
	}
}

// writerFunc is a writer that a test looks at.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestInterruptedTailIsDone(t *testing.T) {
	server := httptest.NewServer(fakeNode(true, ""))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs bytes.Buffer
	lines := 0
	code := run(ctx, []string{"dlq", "tail", "--function", "open", "--json", "--server", server.URL}, Env{
		Stdin: strings.NewReader(""), Stderr: &errs, Getenv: func(string) string { return "" },
		Stdout: writerFunc(func(b []byte) (int, error) {
			if lines += bytes.Count(b, []byte("\n")); lines == 2 {
				cancel()
			}
			return len(b), nil
		}),
	})
	if code != client.ExitOK || errs.Len() > 0 || lines != 2 {
		t.Errorf("got exit %d, %d lines and %q, want 0, 2 lines and no talk", code, lines, &errs)
	}
}

func TestWhoDecidesMustBeKnown(t *testing.T) {
	var errs bytes.Buffer
	code := run(t.Context(), []string{"dlq", "redrive", "file-claim/42", "--yes"}, Env{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &errs, Getenv: func(string) string { return "" },
	})
	if want := "siding: dlq redrive: nobody named\nhint: say who decides with --by\n"; code != client.ExitUsage || errs.String() != want {
		t.Errorf("got %d %q, want 2 %q", code, &errs, want)
	}
}

func TestAgesUseTheirLargestUnit(t *testing.T) {
	now := parkedAt()
	for d, want := range map[time.Duration]string{
		0: "0s ago", 59 * time.Second: "59s ago", time.Minute: "1m ago", 3*time.Minute + 59*time.Second: "3m ago",
		47 * time.Hour: "47h ago", 48 * time.Hour: "2d ago", 400 * 24 * time.Hour: "400d ago", -90 * time.Second: "in 1m",
	} {
		if got := ago(now, now.Add(-d)); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
	if got := ago(now, time.Time{}); got != "-" {
		t.Errorf("never: got %q, want -", got)
	}
	if got, want := at(now.Add(3*time.Minute), now), "2026-01-02T03:04:05Z (3m ago)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNearestNameIsOfferedOnlyWhenItIsNear(t *testing.T) {
	known := []string{"json", "function", "reason", "yes", "by", "ls", "show", "redrive", "discard"}
	for name, want := range map[string]string{
		"jsno": "json", "JSON": "json", "fnction": "function", "reasons": "reason", "lst": "ls", "redirve": "redrive",
		"dicsard": "discard", "": "", "completely": "", "x": "", "sl": "ls",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestTerminalNeverGetsControlCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s")
		got := clean(s)
		for _, r := range got {
			if r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0xfffd && !strings.ContainsRune(s, 0xfffd) {
				t.Fatalf("got %q for %q", got, s)
			}
		}
		if clean(got) != got {
			t.Fatalf("got %q, cleaned again %q", got, clean(got))
		}
	})
}

func TestFileOfEventsIsReadInEveryForm(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
		bad  int
	}{
		"one":             {` {"a": 1} `, []string{`{"a": 1}`}, 0},
		"a line each":     {"{\"a\":1}\n{\"a\":2}\r\n\n{\"a\":3}", []string{`{"a":1}`, `{"a":2}`, `{"a":3}`}, 0},
		"array":           {"\n[{\"a\":1}, {\"a\":2}]\n", []string{`{"a":1}`, `{"a":2}`}, 0},
		"empty array":     {"[]", nil, 0},
		"nothing":         {" \n", nil, 0},
		"bad second line": {"{\"a\":1}\n{\"a\"\n", []string{`{"a":1}`}, 2},
		"array cut":       {`[{"a":1},`, []string{`{"a":1}`}, 2},
		"array not ended": {`[{"a":1}`, []string{`{"a":1}`}, 2},
		"no JSON":         {`hello`, nil, 1},
	} {
		var got []string
		err := eachEvent(strings.NewReader(c.in), func(raw json.RawMessage) error {
			got = append(got, string(raw))
			return nil
		})
		if strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		var bad *notJSONError
		if errors.As(err, &bad) != (c.bad > 0) || bad != nil && bad.event != c.bad {
			t.Errorf("%s: got %v, want event %d refused (0: none)", name, err, c.bad)
		}
	}
}
