package functions_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
)

func ignore(context.Context, functions.Event) error { return nil }

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
		"no delay":              func(f *functions.Function) { f.Retry.Backoff = functions.Delays(0) },
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
