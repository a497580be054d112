package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/siding-dev/siding/functions"
)

func handled(context.Context, functions.Event) error { return nil }

func handler(string) functions.Handler { return handled }

func compiled() []functions.Function {
	return []functions.Function{
		{Name: "file-claim", Types: []string{"claim.*"}, Retry: functions.Retry{Attempts: 3}, Owner: "claims", Handle: handled},
		{Name: "audit", Types: []string{">"}, OrderBy: functions.BySource, Handle: handled},
	}
}

// load loads a file of this content, named c.yaml.
func load(t testing.TB, content string, change ...func(*Sources)) (*Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("c.yaml", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Sources{File: "c.yaml", Compiled: compiled(), Handler: handler}
	for _, c := range change {
		c(&s)
	}
	return Load(s)
}

func TestWhatIsWrongIsNamedWithItsLine(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    []string
	}{
		"unknown key":       {"htp: x\n", []string{"1:1: htp: unknown key: hint: did you mean http?"}},
		"hyphens":           {"data-dir: x\n", []string{"1:1: data-dir: unknown key: hint: did you mean data_dir?"}},
		"far from all":      {"functions:\n  audit:\n    retry: {zzzzzz: 1}\n", []string{"3:13: functions.audit.retry.zzzzzz: unknown key: hint: use one of attempts, budget, backoff"}},
		"twice":             {"grace: 1s\nhttp: localhost:1\ngrace: 2s\n", []string{"3:1: grace: is there twice, first in line 1: hint: leave one of them"}},
		"function twice":    {"functions:\n  audit: {timeout: 1s}\n  audit:\n", []string{"3:3: functions.audit: is there twice, first in line 2: hint: leave one of them"}},
		"no unit":           {"grace: 5\n", []string{"1:8: grace: got the integer 5, want a string: hint: write a unit, as in 5s"}},
		"no duration":       {"grace: soon\n", []string{`1:8: grace: "soon" is not a duration: hint: write whole seconds, minutes or hours, as in 30s or 1m30s`}},
		"part of a second":  {"ack_wait: 1500ms\n", []string{`1:11: ack_wait: "1500ms" is not a duration: hint: write whole seconds, minutes or hours, as in 30s or 1m30s`}},
		"no time":           {"grace: 0m\n", []string{"1:8: grace: 0m is no time at all: hint: write more than 0, or leave it out for the default"}},
		"negative":          {"functions: {audit: {timeout: -1s}}\n", []string{`1:30: functions.audit.timeout: "-1s" is not a duration: hint: write a number and a unit (ms, s, m, h), as in 500ms or 1m30s`}},
		"notify, unknown":   {"notify: {web_hook: x}\n", []string{"1:10: notify.web_hook: unknown key: hint: did you mean webhook?"}},
		"notify, interval":  {"notify:\n  interval: 0s\n", []string{"2:13: notify.interval: 0s is no time at all: hint: write more than 0, or leave it out for the default"}},
		"notify, no URL":    {"notify: {webhook: h/x, secret_file: f}\n", []string{`1:19: notify.webhook: "h/x" is not valid: hint: write an absolute http or https URL`}},
		"notify, no secret": {"notify: {secret_file: f}\n", []string{"1:23: notify.secret_file: there is no webhook whose posts it could sign: hint: name the URL in notify.webhook, or remove it"}},
		"notify, no host":   {"notify: {webhook: 'https://:80', secret_file: f}\n", []string{"1:19: notify.webhook: names no host: hint: write an absolute http or https URL"}},
		"notify, unsigned":  {"notify:\n  webhook: https://h/x\n", []string{"2:12: notify.webhook: what is posted must be signed, and there is no secret: hint: make one: openssl rand -base64 32 > FILE, and name it in notify.secret_file"}},
		"not a word":        {"sync: alway\n", []string{`1:7: sync: "alway" is unknown: hint: did you mean always?`}},
		"not an address":    {"http: localhost\n", []string{`1:7: http: "localhost" is not valid: hint: write host:port, as in 127.0.0.1:4280`}},
		"port":              {"nats: localhost:65536\n", []string{`1:7: nats: "localhost:65536" is not valid: hint: write host:port, as in 127.0.0.1:4222, or off`}},
		"not a switch":      {"insecure: yes\n", []string{`1:11: insecure: got string "yes", want true or false`}},
		"null":              {"http:\n", []string{"1:7: http: got null, want a string"}},
		"a number for text": {"functions: {audit: {owner: 1.5}}\n", []string{`1:28: functions.audit.owner: got the number 1.5, want a string: hint: write "1.5" in quotes if that is meant`}},
		"out of range": {"functions:\n  audit:\n    concurrency: 1025\n    retry: {attempts: 0}\n", []string{
			"3:18: functions.audit.concurrency: 1025 is out of range: hint: write a whole number from 1 to 1024",
			"4:23: functions.audit.retry.attempts: 0 is out of range: hint: write a whole number from 1 to 1000",
		}},
		"not whole":          {"functions: {audit: {concurrency: 1.5}}\n", []string{"1:34: functions.audit.concurrency: got number \"1.5\", want a whole number"}},
		"share":              {"functions: {audit: {retry: {backoff: {delays: [1s], jitter: 1.5}}}}\n", []string{"1:61: functions.audit.retry.backoff.jitter: 1.5 is out of range: hint: write a number from 0 to 1"}},
		"two backoffs":       {"functions:\n  audit:\n    retry:\n      backoff: {first: 1s, longest: 2s, delays: [1s]}\n", []string{"4:16: functions.audit.retry.backoff: has first and longest and delays: hint: write first and longest, or delays"}},
		"half a backoff":     {"functions: {audit: {retry: {backoff: {first: 1s}}}}\n", []string{"1:38: functions.audit.retry.backoff: has first alone: hint: write first and longest, or delays"}},
		"empty backoff":      {"functions: {audit: {retry: {backoff: }}}\n", []string{"1:37: functions.audit.retry.backoff: is empty: hint: write first and longest, or delays"}},
		"backoff reversed":   {"functions: {audit: {retry: {backoff: {first: 2s, longest: 1s}}}}\n", []string{"1:38: functions.audit.retry.backoff: the longest delay 1s is shorter than the first, 2s: hint: write first and longest, or delays"}},
		"rule without text":  {"functions: {audit: {rules: [{class: permanent}]}}\n", []string{"1:29: functions.audit.rules[0]: has class alone: hint: write text, which is a part of the error's text, and class, attempts or backoff"}},
		"rule of nothing":    {"functions:\n  audit:\n    rules:\n      - {text: a, class: permanent}\n      - text: b\n", []string{"5:9: functions.audit.rules[1]: changes nothing: hint: write a class, attempts or a backoff"}},
		"class":              {"functions: {audit: {rules: [{text: a, class: perm}]}}\n", []string{`1:46: functions.audit.rules[0].class: "perm" is unknown: hint: write transient or permanent or unavailable or timeout or undecodable`}},
		"rule's attempts":    {"functions:\n  audit:\n    retry: {attempts: 3}\n    rules:\n      - text: a\n        attempts: 4\n", []string{"6:19: functions.audit.rules[0].attempts: 4 is out of range: hint: write 1 to 3, which retry.attempts allows"}},
		"rule's backoff":     {"functions:\n  audit:\n    rules:\n      - text: a\n        backoff: {first: 2s, longest: 1s}\n", []string{"5:18: functions.audit.rules[0].backoff: the longest delay 1s is shorter than the first, 2s: hint: write first and longest, or delays"}},
		"patient at parking": {"functions: {audit: {rules: [{text: a, class: permanent, attempts: 2}]}}\n", []string{"1:29: functions.audit.rules[0]: is permanent, which parks at once: hint: leave attempts and backoff out, or write another class"}},
		"no rules":           {"functions: {audit: {rules: []}}\n", []string{"1:28: functions.audit.rules: the list is empty: hint: name at least one"}},
		"rules by name":      {"functions: {audit: {rules: {a: b}}}\n", []string{"1:28: functions.audit.rules: got mapping, want a list: hint: write a list, as in [a, b]"}},
		"breaker":            {"functions: {audit: {breaker: {offf: true}}}\n", []string{"1:31: functions.audit.breaker.offf: unknown key: hint: did you mean off?"}},
		"inflow of nothing":  {"functions: {audit: {breaker: {inflow: 0}}}\n", []string{"1:39: functions.audit.breaker.inflow: 0 is out of range: hint: write a number above 0, at most 1"}},
		"no probe":           {"functions: {audit: {breaker: {probe: 0s}}}\n", []string{"1:38: functions.audit.breaker.probe: 0s is no time at all: hint: write more than 0, or leave it out for the default"}},
		"probes shrink":      {"functions: {audit: {breaker: {probe: 1m, longest_probe: 1s}}}\n", []string{"1:57: functions.audit.breaker.longest_probe: 1s is shorter than the first, 1m0s"}},
		"no list":            {"functions: {u: {url: http://h, types: a}}\n", []string{"1:39: functions.u.types: got string, want a list: hint: write a list, as in [a, b]"}},
		"empty list":         {"functions: {u: {url: http://h, types: []}}\n", []string{"1:39: functions.u.types: the list is empty: hint: name at least one"}},
		"no mapping":         {"functions: [a]\n", []string{"1:12: functions: got list, want a mapping: hint: write key: value lines"}},
		"no document":        {"siding\n", []string{"1:1: got string, want a mapping: hint: write key: value lines"}},
		"two documents":      {"grace: 1s\n---\ngrace: 1s\n", []string{"3:1: a second document begins: hint: leave one document"}},
		"anchor":             {"grace: &g 1s\n", []string{"1:8: grace: got anchor, want a string: hint: write the value itself: this file has no anchors, aliases, tags or directives"}},
		"merge":              {"<<: {grace: 1s}\n", []string{"1:1: a key is not a plain word: hint: write the value itself: this file has no anchors, aliases, tags or directives"}},
		"syntax":             {"grace: 1s\n http: x\n", []string{"1:8: no YAML: mapping value is not allowed in this context"}},
		"not UTF-8":          {"grace: \xff\n", []string{"not UTF-8: hint: save it as UTF-8"}},
		"large":              {strings.Repeat("#\n", maxSize), []string{"larger than 1048576 bytes"}},
		"name":               {"functions: {File_Claim: {timeout: 1s}}\n", []string{"1:13: functions.File_Claim: is no name of a function: hint: write a letter a to z, then letters, digits and hyphens, at most 63 characters"}},
		"nobody hosts it":    {"functions: {file-clam: {timeout: 1s}}\n", []string{"1:13: functions.file-clam: is neither compiled into this program nor has a url: hint: did you mean file-claim?"}},
		"nobody is near":     {"functions: {other: }\n", []string{"1:13: functions.other: is neither compiled into this program nor has a url: hint: add the url of its handler, or compile it in; compiled in are file-claim, audit"}},
		"meaning":            {"functions: {audit: {types: [a], order_by: subject, timeout: 1s}}\n", meaningOf("audit", "1:21", "types", "1:33", "order_by")},
		"url of code":        {"functions: {audit: {url: http://h, types: [a]}}\n", []string{"1:26: functions.audit.url: audit is compiled into this program, which says what it means; this file tunes its numbers: hint: remove url and what belongs to it, and keep the numbers"}},
		"url without types":  {"functions: {u: {url: http://h}}\n", []string{"1:13: functions.u: has a url, but no types: hint: name the event types that it wants"}},
		"no url":             {"functions: {u: {url: ftp://h, types: [a]}}\n", []string{`1:22: functions.u.url: "ftp://h" is not valid: hint: write an absolute http or https URL`}},
		"bad url":            {"functions: {u: {url: 'http://h:x', types: [a]}}\n", []string{`1:22: functions.u.url: invalid port ":x" after host: hint: write an absolute http or https URL`}},
		"no host":            {"functions: {u: {url: 'http://:80', types: [a]}}\n", []string{`1:22: functions.u.url: names no host: hint: write an absolute http or https URL`}},
		"bad pattern":        {"functions:\n  u:\n    url: http://h\n    types:\n      - ok\n      - a..b\n", []string{`6:9: functions.u.types[1]: "a..b" has an empty token: hint: write tokens with single dots between them, such as com.insurer.claim.*`}},
		"no key":             {"functions:\n  u:\n    url: http://h\n    types: [a]\n    order_by: extension:type\n", []string{`5:15: functions.u.order_by: "extension:type" is an attribute, not an extension: hint: order by an extension that the publisher sets`}},
		"too fast":           {"functions: {audit: {rate: 100001}}\n", []string{"1:27: functions.audit.rate: 100001 is out of range: hint: write a number from 0.0001 to 100000, or 0 for no limit"}},
		"half a window":      {"functions: {audit: {window: {cron: 0 2 * * *}}}\n", []string{"1:29: functions.audit.window: has cron alone: hint: write cron and length"}},
		"no cron":            {"functions:\n  audit:\n    window:\n      cron: daily\n      length: 1h\n", []string{`4:13: functions.audit.window.cron: "daily" is not valid: hint: write minute, hour, day, month and day of the week, as in 0 2 * * *, with CRON_TZ=Europe/Berlin before it where it is not meant in UTC`}},
		"hour 25":            {"functions:\n  audit:\n    window:\n      cron: 0 25 * * *\n      length: 1h\n", []string{`4:13: functions.audit.window.cron: "0 25 * * *" is no cron expression of five fields: hint: write minute, hour, day, month and day of the week, as in 0 2 * * *`}},
		"long window":        {"functions:\n  audit:\n    window:\n      cron: 0 2 * * *\n      length: 169h\n", []string{"5:15: functions.audit.window.length: 169h0m0s is out of range: hint: write more than 0 and at most 168h0m0s"}},
		"depends in code":    {"functions: {audit: {dependencies: [{name: a, url: http://h}]}}\n", meaningOf("audit", "1:21", "dependencies")},
		"depends on no url":  {"functions: {u: {url: http://h, types: [a], dependencies: [{name: a}]}}\n", []string{"1:59: functions.u.dependencies[0]: has name alone: hint: write name and url"}},
		"depends twice": {"functions:\n  u:\n    url: http://h\n    types: [a]\n    dependencies:\n      - {name: a, url: http://h}\n      - {name: a, url: http://g}\n", []string{
			`7:16: functions.u.dependencies[1].name: "a" is there twice: hint: leave one of them`}},
		"depends on a bad url": {"functions:\n  u:\n    url: http://h\n    types: [a]\n    dependencies:\n      - {name: a, url: 'http://h:x'}\n", []string{
			`6:24: functions.u.dependencies[0].url: invalid port ":x" after host: hint: write an absolute http or https URL`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.content)
			var got []string
			for _, p := range AllProblems(err) {
				got = append(got, strings.TrimPrefix(strings.TrimPrefix(p.Error(), "c.yaml:"), " "))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func meaningOf(name string, placesAndKeys ...string) []string {
	var all []string
	for i := 0; i < len(placesAndKeys); i += 2 {
		all = append(all, fmt.Sprintf("%s: functions.%s.%s: is set in Go for a function without a url; this file tunes its numbers"+
			": hint: remove it, or add the url of a handler that lives elsewhere", placesAndKeys[i], name, placesAndKeys[i+1]))
	}
	return all
}

func TestFunctionsGetWhatTheFileSays(t *testing.T) {
	c, err := load(t, `
grace: 1m30s
functions:
  file-claim:
    retry: {attempts: 7, budget: 1h, backoff: {first: 2s, longest: 30s, jitter: 0.5}}
    timeout: 1.5s
    concurrency: 4
    rate: 2.5
    window: {cron: 0 2 * * *, length: 1h}
    hold_limit: {age: 2h, depth: 10}
    owner: night shift
  score:
    url: http://localhost:9000/score
    types: [claim.reported, "order.*"]
    stream: ORDERS
    order_by: extension:policy
    on_park: continue
    start: beginning
    version: "1.4"
    retry: {backoff: {delays: [0s, 10s]}}
    dependencies:
      - {name: contract-system, url: http://localhost:9001/health}
      - {name: ledger, url: http://localhost:9002, every: 10s, timeout: 1s}
  audit: # as it is
`)
	if err != nil {
		t.Fatal(err)
	}
	if c.Node.Grace != 90*time.Second || c.Node.AckWait != 2*time.Minute || c.Node.DataDir != "siding-data" {
		t.Errorf("got %+v, want the grace of the file and defaults", c.Node)
	}
	score := functions.Function{
		Name: "score", Types: []string{"claim.reported", "order.*"}, Stream: "ORDERS", OrderBy: functions.ByExtension("policy"),
		OnPark: functions.Continue, Start: functions.FromBeginning, Version: "1.4",
		Retry:        functions.Retry{Backoff: functions.Delays(0, 10*time.Second)},
		Dependencies: []functions.Dependency{{Name: "contract-system"}, {Name: "ledger", Every: 10 * time.Second, Timeout: time.Second}},
	}
	claim := compiled()[0]
	claim.Retry = functions.Retry{Attempts: 7, Budget: time.Hour, Backoff: functions.Exponential(2*time.Second, 30*time.Second).WithJitter(0.5)}
	claim.Timeout, claim.Concurrency, claim.Owner = 1500*time.Millisecond, 4, "night shift"
	claim.Rate, claim.Window = 2.5, functions.Window("0 2 * * *", time.Hour)
	claim.HoldLimit = functions.HoldLimit{Age: 2 * time.Hour, Depth: 10}
	want := []functions.Function{claim, compiled()[1], score}
	same := cmp.Options{
		cmpopts.IgnoreUnexported(functions.Function{}),
		cmp.Comparer(func(a, b functions.Handler) bool { return true }),
		cmp.Comparer(func(a, b functions.Schedule) bool { return a == b }),
		cmpopts.IgnoreFields(functions.Dependency{}, "Check"),
		cmp.Comparer(func(a, b functions.Backoff) bool { return a.String() == b.String() }),
	}
	if diff := cmp.Diff(want, c.Functions, same); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
	for _, f := range c.Functions {
		if f.Handle == nil {
			t.Errorf("%s: got no handler", f.Name)
		}
		for _, d := range f.Dependencies {
			if d.Check == nil {
				t.Errorf("%s: got no check of %s", f.Name, d.Name)
			}
		}
	}
}

func TestTheLastOneThatSaysSomethingWins(t *testing.T) {
	from := func(environ, flags string) func(*Sources) {
		return func(s *Sources) {
			s.Environ = strings.Fields(environ)
			if key, v, ok := strings.Cut(flags, "="); ok {
				s.Flags = map[string]string{key: v}
			}
		}
	}
	for name, c := range map[string]struct {
		content, environ, flags string
		want                    Resolved
	}{
		"default":        {"", "", "", Resolved{"sync", "interval", FromDefault, ""}},
		"file":           {"http: localhost:1\nsync: always\n", "", "", Resolved{"sync", "always", FromFile, "c.yaml:2"}},
		"environment":    {"sync: interval\n", "SIDING_SYNC=always", "", Resolved{"sync", "always", FromEnv, "SIDING_SYNC"}},
		"empty variable": {"sync: always\n", "SIDING_SYNC=", "", Resolved{"sync", "always", FromFile, "c.yaml:1"}},
		"flag":           {"sync: always\n", "SIDING_SYNC=always", "sync=interval", Resolved{"sync", "interval", FromFlag, "--sync"}},
	} {
		t.Run(name, func(t *testing.T) {
			loaded, err := load(t, c.content, from(c.environ, c.flags))
			if err != nil {
				t.Fatal(err)
			}
			if got := loaded.Resolved()[3]; got != c.want || loaded.Node.Sync != c.want.Value {
				t.Errorf("got %+v and %q, want %+v", got, loaded.Node.Sync, c.want)
			}
		})
	}
}

func TestEveryPlaceIsReportedAtOnce(t *testing.T) {
	_, err := load(t, "grace: x\n", func(s *Sources) {
		s.Environ, s.Flags = []string{"SIDING_ACK_WAIT=x"}, map[string]string{"http": "x"}
	})
	var got []string
	for _, p := range AllProblems(err) {
		got = append(got, p.Place())
	}
	if diff := cmp.Diff([]string{"--http", "SIDING_ACK_WAIT", "c.yaml:1:8"}, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

func TestOnlyANearMissOfAVariableIsSuspicious(t *testing.T) {
	c, err := Load(Sources{Environ: []string{
		"SIDING_SERVER=x", "SIDING_TOKEN=x", "SIDING_TEST_DIR=x", "SIDING_TORTURE=x", "SIDING_HTPP=x", "SIDING_CONFG=x", "SIDINGS=x", "PATH=x",
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"SIDING_CONFG is not known and changes nothing; did you mean SIDING_CONFIG?",
		"SIDING_HTPP is not known and changes nothing; did you mean SIDING_HTTP?",
	}
	if diff := cmp.Diff(want, c.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestAFlagNamesTheFileBeforeTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	for path, content := range map[string]string{one: "data_dir: one\n", two: "data_dir: two\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ flag, env, want string }{{one, two, "one"}, {"", two, "two"}, {"", "", "siding-data"}} {
		got, err := Load(Sources{File: c.flag, Environ: []string{EnvFile + "=" + c.env}})
		if err != nil || got.Node.DataDir != c.want {
			t.Errorf("flag %q, environment %q: got %+v and %v, want %s", c.flag, c.env, got, err, c.want)
		}
	}
	_, err := Load(Sources{File: filepath.Join(dir, "none.yaml")})
	if ps := AllProblems(err); len(ps) != 1 || !strings.Contains(ps[0].What(), "none.yaml: ") || ps[0].Hint == "" {
		t.Errorf("got %v, want the missing file named, with a hint", err)
	}
}

func TestNothingSecretIsShown(t *testing.T) {
	c, err := load(t, "token_file: /run/secrets/token\nfunctions: {u: {url: 'http://me:hush@h/p?code=hush', types: [a], dependencies: [{name: d, url: 'http://me:hush@d/?t=hush'}]}}\n")
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprint(c.Resolved())
	if strings.Contains(all, "hush") || !strings.Contains(all, "d http://me:xxxxx@d/?…") || !strings.Contains(all, "http://me:xxxxx@h/p?…") || !strings.Contains(all, "/run/secrets/token") {
		t.Errorf("got %s, want no password and no query", all)
	}
}

func TestASchemaStandsInAFileOfItsOwn(t *testing.T) {
	file := func(name, content string) string {
		path := filepath.ToSlash(filepath.Join(t.TempDir(), name))
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	with := func(schema string) string {
		return "functions:\n  score:\n    url: http://localhost:9000\n    types: [claim]\n    schema_file: " + schema + "\n"
	}
	c, err := load(t, with(file("claim.json", `{"required":["policy"]}`)))
	if err != nil || string(c.Functions[2].Schema) != `{"required":["policy"]}` {
		t.Errorf("got %v, want the schema of the file", err)
	}
	for schema, want := range map[string]string{
		"/no/such/file":                "5:18: functions.score.schema_file: open /no/such/file",
		file("bad.json", `{"type":7}`): "5:18: functions.score.schema_file: is no JSON Schema",
	} {
		if _, err := load(t, with(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// What is posted to may carry a secret in its path or query, which is for the receiver alone; sections have flags and variables like all settings.
func TestASectionsSettingsComeFromEverywhereAndAreShownWithoutSecrets(t *testing.T) {
	c, err := load(t, "notify:\n  webhook: https://u:pw@hooks.example/x?token=T\n  secret_file: a\n  interval: 2h\n", func(s *Sources) {
		s.Environ, s.Flags = []string{"SIDING_NOTIFY_SECRET_FILE=b"}, map[string]string{"notify.interval": "5m"}
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Node; n.NotifyWebhook != "https://u:pw@hooks.example/x?token=T" || n.NotifySecretFile != "b" || n.NotifyInterval != 5*time.Minute {
		t.Errorf("got %+v", n)
	}
	shown := map[string]Resolved{}
	for _, r := range c.Resolved() {
		shown[r.Key] = r
	}
	for key, want := range map[string]Resolved{
		"notify.webhook":     {"notify.webhook", "https://hooks.example/…", FromFile, "c.yaml:2"},
		"notify.secret_file": {"notify.secret_file", "b", FromEnv, "SIDING_NOTIFY_SECRET_FILE"},
		"notify.interval":    {"notify.interval", "5m", FromFlag, "--notify-interval"},
	} {
		if diff := cmp.Diff(want, shown[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	_, err = load(t, "", func(s *Sources) { s.Flags = map[string]string{"notify.webhook": "https://h"} })
	if err == nil || !strings.Contains(err.Error(), "--notify-webhook: what is posted must be signed") {
		t.Errorf("got %v, want a refusal that names the flag", err)
	}
}
