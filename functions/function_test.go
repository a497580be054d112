package functions_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
)

func ignore(context.Context, functions.Event) error { return nil }

func there(context.Context) error { return nil }

func valid() functions.Function {
	return functions.Function{Name: "file-claim", Types: []string{"com.insurer.claim.reported"}, Handle: ignore}
}

func TestFunctionDefaults(t *testing.T) {
	f := valid().WithDefaults()
	if f.Stream != "EVENTS" || f.Timeout != 30*time.Second || f.Concurrency != 16 || f.Retry.Attempts != 12 ||
		f.OrderBy != functions.PartitionKey || f.Start != functions.FromNow {
		t.Errorf("got %+v", f)
	}
	set := functions.Function{Stream: "ORDERS", Timeout: time.Second, Concurrency: 1, Retry: functions.Quick()}
	f = set.WithDefaults()
	if f.Stream != "ORDERS" || f.Timeout != time.Second || f.Concurrency != 1 || f.Retry.Attempts != 3 {
		t.Errorf("got %+v, want what was set", f)
	}
}

func TestDefaultsShareNoTypes(t *testing.T) {
	f := valid()
	g := f.WithDefaults()
	f.Types[0] = "changed"
	if got := g.Types[0]; got != "com.insurer.claim.reported" {
		t.Errorf("got %q, want the copy unchanged", got)
	}
}

func TestValidateAccepts(t *testing.T) {
	for name, change := range map[string]func(*functions.Function){
		"what is complete":      func(*functions.Function) {},
		"one letter":            func(f *functions.Function) { f.Name = "a" },
		"63 characters":         func(f *functions.Function) { f.Name = "a" + strings.Repeat("-9", 31) },
		"wildcards":             func(f *functions.Function) { f.Types = []string{"a.*.c", "b.>", "*.x"} },
		"all types":             func(f *functions.Function) { f.Types = []string{">"} },
		"types that only meet":  func(f *functions.Function) { f.Types = []string{"a.*", "*.b"} },
		"bounds":                func(f *functions.Function) { f.Concurrency, f.Retry.Attempts = 1024, 1000 },
		"any stream":            func(f *functions.Function) { f.Stream = "orders_2025-DE" },
		"an extension":          func(f *functions.Function) { f.OrderBy = functions.ByExtension("tenant1") },
		"from the beginning":    func(f *functions.Function) { f.Start = functions.FromBeginning },
		"an owner in any words": func(f *functions.Function) { f.Owner, f.Version = "Schäden & Co", "1.4.0+dirty" },
		"passing dead letters":  func(f *functions.Function) { f.OnPark = functions.Continue },
		"limits of holding":     func(f *functions.Function) { f.HoldLimit.Age, f.HoldLimit.Depth = 1, 1 },
		"a slow rate":           func(f *functions.Function) { f.Rate = 0.0001 },
		"a fast rate":           func(f *functions.Function) { f.Rate = 100_000 },
		"a window":              func(f *functions.Function) { f.Window = functions.Window("0 2 * * MON-FRI", time.Hour) },
		"a window in a zone": func(f *functions.Function) {
			f.Window = functions.Window("CRON_TZ=Europe/Berlin 0 2 * * 7", 7*24*time.Hour)
		},
		"a window in words": func(f *functions.Function) {
			f.Window = functions.Window("0,30 1-5/2 * jan,Mar-dec Mon-Fri,0", time.Hour)
		},
		"a window on leap days": func(f *functions.Function) { f.Window = functions.Window("0 0 29 2 *", time.Minute) },
		"dependencies": func(f *functions.Function) {
			f.Dependencies = []functions.Dependency{{Name: "contract-system", Check: there}, {Name: "b", Check: there, Every: 1, Timeout: 1}}
		},
		"no delay": func(f *functions.Function) { f.Retry.Backoff = functions.Delays(0) },
	} {
		f := valid()
		change(&f)
		if err := f.Validate(); err != nil {
			t.Errorf("%s: got %v, want nil", name, err)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	backoff := func(b functions.Backoff) func(*functions.Function) {
		return func(f *functions.Function) { f.Retry.Backoff = b }
	}
	types := func(types ...string) func(*functions.Function) {
		return func(f *functions.Function) { f.Types = types }
	}
	named := func(name string) func(*functions.Function) {
		return func(f *functions.Function) { f.Name = name }
	}
	stream := func(name string) func(*functions.Function) {
		return func(f *functions.Function) { f.Stream = name }
	}
	window := func(cron string, length time.Duration) func(*functions.Function) {
		return func(f *functions.Function) { f.Window = functions.Window(cron, length) }
	}
	needs := func(ds ...functions.Dependency) func(*functions.Function) {
		return func(f *functions.Function) { f.Dependencies = ds }
	}
	for _, tc := range []struct {
		name, field string
		change      func(*functions.Function)
	}{
		{"no name", "name", named("")},
		{"capital", "name", named("fileClaim")},
		{"digit first", "name", named("1st")},
		{"underscore", "name", named("file_claim")},
		{"64 characters", "name", named(strings.Repeat("a", 64))},
		{"no type", "types", types()},
		{"empty type", "types[1]", types("a", "")},
		{"empty token", "types[0]", types("a..b")},
		{"trailing dot", "types[0]", types("a.")},
		{"space", "types[0]", types("a b")},
		{"control character", "types[0]", types("a\x7f")},
		{"not UTF-8", "types[0]", types("a\xff")},
		{"wildcard in a token", "types[0]", types("a.b*")},
		{"> before the end", "types[0]", types("a.>.b")},
		{"> in a token", "types[0]", types("a>")},
		{"type twice", "types[1]", types("a", "a")},
		{"type within another", "types[0]", types("a.b", "a.*")},
		{"dot in stream", "stream", stream("a.b")},
		{"star in stream", "stream", stream("a*")},
		{"> in stream", "stream", stream("a>")},
		{"slash in stream", "stream", stream("a/b")},
		{"backslash in stream", "stream", stream(`a\b`)},
		{"space in stream", "stream", stream("a b")},
		{"line break in stream", "stream", stream("a\n")},
		{"long stream", "stream", stream(strings.Repeat("a", 256))},
		{"unknown key", "orderby", func(f *functions.Function) { f.OrderBy = "tenant" }},
		{"extension in capitals", "orderby", func(f *functions.Function) { f.OrderBy = functions.ByExtension("Tenant") }},
		{"unknown rule for dead letters", "onpark", func(f *functions.Function) { f.OnPark = 2 }},
		{"negative age", "holdlimit.age", func(f *functions.Function) { f.HoldLimit.Age = -1 }},
		{"negative depth", "holdlimit.depth", func(f *functions.Function) { f.HoldLimit.Depth = -1 }},
		{"negative attempts", "retry.attempts", func(f *functions.Function) { f.Retry.Attempts = -1 }},
		{"too many attempts", "retry.attempts", func(f *functions.Function) { f.Retry.Attempts = 1001 }},
		{"negative budget", "retry.budget", func(f *functions.Function) { f.Retry.Budget = -1 }},
		{"no first delay", "retry.backoff", backoff(functions.Exponential(0, time.Second))},
		{"longest below first", "retry.backoff", backoff(functions.Exponential(time.Minute, time.Second))},
		{"no delays", "retry.backoff", backoff(functions.Delays())},
		{"negative delay", "retry.backoff", backoff(functions.Delays(time.Second, -time.Second))},
		{"negative jitter", "retry.backoff", backoff(functions.Delays(1).WithJitter(-0.1))},
		{"jitter above one", "retry.backoff", backoff(functions.Delays(1).WithJitter(1.1))},
		{"negative rate", "rate", func(f *functions.Function) { f.Rate = -1 }},
		{"too slow", "rate", func(f *functions.Function) { f.Rate = 0.00009 }},
		{"too fast", "rate", func(f *functions.Function) { f.Rate = 100_001 }},
		{"rate that is no number", "rate", func(f *functions.Function) { f.Rate = math.NaN() }},
		{"window of no length", "window.length", window("* * * * *", 0)},
		{"window of weeks", "window.length", window("* * * * *", 7*24*time.Hour+1)},
		{"window without a schedule", "window.cron", window("", time.Hour)},
		{"window of seconds", "window.cron", window("0 0 2 * * *", time.Hour)},
		{"window by a name", "window.cron", window("@daily", time.Hour)},
		{"window at minute 60", "window.cron", window("60 * * * *", time.Hour)},
		{"window in a list that goes wrong", "window.cron", window("0,foo * * * *", time.Hour)},
		{"window in another list that goes wrong", "window.cron", window("* * * * 0,1,2,3,4,5,6,8", time.Hour)},
		{"window on the last day", "window.cron", window("0 0 L * *", time.Hour)},
		{"window on the third Monday", "window.cron", window("0 0 * * 1#3", time.Hour)},
		{"window in a month for a day", "window.cron", window("0 0 * * JAN", time.Hour)},
		{"window in a range of three", "window.cron", window("1-2-3 * * * *", time.Hour)},
		{"window every no minutes", "window.cron", window("*/0 * * * *", time.Hour)},
		{"window in words", "window.cron", window("every day at two o'clock", time.Hour)},
		{"window that never opens", "window.cron", window("0 0 31 4 *", time.Hour)},
		{"window nowhere", "window.cron", window("CRON_TZ=Mars/Base 0 2 * * *", time.Hour)},
		{"window in no zone", "window.cron", window("CRON_TZ= 0 2 * * *", time.Hour)},
		{"window where the node is", "window.cron", window("CRON_TZ=Local 0 2 * * *", time.Hour)},
		{"window in a zone alone", "window.cron", window("CRON_TZ=UTC", time.Hour)},
		{"dependency without a name", "dependencies[0].name", needs(functions.Dependency{Check: there})},
		{"dependency in capitals", "dependencies[0].name", needs(functions.Dependency{Name: "DB", Check: there})},
		{"dependency twice", "dependencies[1].name", needs(functions.Dependency{Name: "a", Check: there}, functions.Dependency{Name: "a", Check: there})},
		{"dependency without a check", "dependencies[0].check", needs(functions.Dependency{Name: "a"})},
		{"dependency checked backwards", "dependencies[0].every", needs(functions.Dependency{Name: "a", Check: there, Every: -1})},
		{"dependency checked for less than no time", "dependencies[0].timeout", needs(functions.Dependency{Name: "a", Check: there, Timeout: -1})},
		{"negative timeout", "timeout", func(f *functions.Function) { f.Timeout = -1 }},
		{"negative concurrency", "concurrency", func(f *functions.Function) { f.Concurrency = -1 }},
		{"too much concurrency", "concurrency", func(f *functions.Function) { f.Concurrency = 1025 }},
		{"unknown start", "start", func(f *functions.Function) { f.Start = 2 }},
		{"line break in owner", "owner", func(f *functions.Function) { f.Owner = "a\r\nb" }},
		{"line break in version", "version", func(f *functions.Function) { f.Version = "1\n" }},
		{"no handler", "handle", func(f *functions.Function) { f.Handle = nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := valid()
			tc.change(&f)
			err := f.Validate()
			if err == nil {
				t.Fatalf("got nil, want %s refused", tc.field)
			}
			if lines := strings.Split(err.Error(), "\n"); len(lines) != 1 {
				t.Errorf("got %d problems, want one: %v", len(lines), err)
			}
			if want := `: ` + tc.field + `: `; !strings.HasPrefix(err.Error(), `function "`) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %q, want the function and %q named", err, tc.field)
			}
		})
	}
}

func TestValidateJoinsEveryProblem(t *testing.T) {
	err := functions.Function{Name: "x", Concurrency: -1, Retry: functions.Retry{Attempts: -1}}.Validate()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 4 { // types, attempts, concurrency, handle
		t.Errorf("got %v, want four problems", err)
	}
}

func TestValidateAllFindsNamesGivenTwice(t *testing.T) {
	a, b := valid(), valid()
	b.Name = "notify"
	if err := functions.ValidateAll([]functions.Function{a, b}); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if err := functions.ValidateAll(nil); err != nil {
		t.Errorf("no function: got %v, want nil", err)
	}
	bad := valid()
	bad.Name, bad.Timeout = "bad", -1
	err := functions.ValidateAll([]functions.Function{a, b, a, a, bad})
	if err == nil {
		t.Fatal("got nil, want the name refused")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `function "file-claim": name: two functions`) || !strings.HasPrefix(lines[1], `function "bad": timeout: `) {
		t.Errorf("got %q, want the name once and the timeout", lines)
	}
}

func TestStartNames(t *testing.T) {
	for s, want := range map[functions.Start]string{functions.FromNow: "now", functions.FromBeginning: "beginning", 7: "start(7)"} {
		if got := s.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
