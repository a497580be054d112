package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/spelling"
)

// host sets the functions of the node. What the parser has refused is left
// aside.
func (c *Config) host(handler func(url string) functions.Handler) Problems {
	hosted := slices.Clone(c.compiled)
	var problems Problems
	for _, name := range c.said.order {
		said, sound := c.said.of[name].data.(mapping)
		if !sound {
			continue
		}
		i := slices.IndexFunc(hosted, func(f functions.Function) bool { return f.Name == name })
		_, declared := said.of["url"]
		switch {
		case declared && i >= 0:
			problems = append(problems, c.problem(name, "url", faultf("remove url and what belongs to it, and keep the numbers",
				"%s is compiled into this program, which says what it means; this file tunes its numbers", name)))
			continue
		case !declared && i < 0:
			problems = append(problems, c.problem(name, "", c.stranger(name)))
			continue
		case declared:
			hosted = append(hosted, functions.Function{Name: name})
			i = len(hosted) - 1
		}
		fn := &hosted[i]
		tune(fn, said)
		if declared {
			where := said.of["url"].text
			if text := urlProblem(where); text != "" {
				problems = append(problems, c.problem(name, "url", faultf("write "+string(oneURL.want), "%s", text)))
				continue // a handler cannot be made of it
			}
			mean(fn, said)
			problems = append(problems, c.depend(fn, said)...)
			if schema, ok := said.of["schema_file"].data.(string); ok {
				var err error
				if fn.Schema, err = os.ReadFile(schema); err != nil {
					problems = append(problems, c.problem(name, "schema_file", faultf("name a file that holds a JSON Schema", "%v", err)))
				}
			}
			fn.Handle = handler(where)
		}
		problems = append(problems, c.invalid(*fn)...)
	}
	c.Functions = hosted
	return problems
}

// urlProblem says what the shape of a URL does not show, and "" for a sound one.
func urlProblem(raw string) string {
	u, err := url.Parse(raw)
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err
	}
	switch {
	case err != nil:
		return err.Error()
	case u.Hostname() == "":
		return "names no host"
	}
	return ""
}

// stranger is what is wrong with a function that nobody hosts.
func (c *Config) stranger(name string) fault {
	var known []string
	for _, f := range c.compiled {
		known = append(known, f.Name)
	}
	hint := "add the url of its handler, or compile it in"
	if near := spelling.Nearest(name, known); near != "" {
		hint = "did you mean " + near + "?"
	} else if len(known) > 0 {
		hint += "; compiled in are " + strings.Join(known, ", ")
	}
	return faultf(hint, "is neither compiled into this program nor has a url")
}

// tune sets what an operator may say about every function.
func tune(f *functions.Function, said mapping) {
	retry, _ := said.of["retry"].data.(mapping)
	set(&f.Retry.Attempts, retry, "attempts")
	set(&f.Retry.Budget, retry, "budget")
	if backoff, ok := retry.of["backoff"].data.(mapping); ok {
		f.Retry.Backoff = backoffOf(backoff)
	}
	f.Rules = rulesOf(said, *f)
	breaker, _ := said.of["breaker"].data.(mapping)
	set(&f.Breaker.Off, breaker, "off")
	set(&f.Breaker.Failures, breaker, "failures")
	set(&f.Breaker.Unavailable, breaker, "unavailable")
	set(&f.Breaker.Inflow, breaker, "inflow")
	set(&f.Breaker.Probe, breaker, "probe")
	set(&f.Breaker.LongestProbe, breaker, "longest_probe")
	set(&f.Breaker.Probes, breaker, "probes")
	set(&f.Rate, said, "rate")
	if window, ok := said.of["window"].data.(mapping); ok {
		var length time.Duration
		set(&length, window, "length")
		f.Window = functions.Window(window.of["cron"].text, length)
	}
	set(&f.Timeout, said, "timeout")
	set(&f.Concurrency, said, "concurrency")
	limit, _ := said.of["hold_limit"].data.(mapping)
	set(&f.HoldLimit.Age, limit, "age")
	set(&f.HoldLimit.Depth, limit, "depth")
	set(&f.Owner, said, "owner")
}

// mean sets what only a function without code has from the file.
func mean(f *functions.Function, said mapping) {
	f.Types = all[string](said, "types")
	set(&f.Stream, said, "stream")
	set(&f.Version, said, "version")
	if key, ok := said.of["order_by"]; ok {
		f.OrderBy = orderBy(key.text)
	}
	if said.of["on_park"].text == functions.Continue.String() {
		f.OnPark = functions.Continue
	}
	if said.of["start"].text == functions.FromBeginning.String() {
		f.Start = functions.FromBeginning
	}
}

// depend sets what a function without code depends on.
func (c *Config) depend(f *functions.Function, said mapping) Problems {
	var problems Problems
	for i, d := range all[mapping](said, "dependencies") {
		where := d.of["url"].text
		if text := urlProblem(where); text != "" {
			problems = append(problems, c.problem(f.Name, fmt.Sprintf("dependencies[%d].url", i), faultf("write "+string(oneURL.want), "%s", text)))
			continue // a check cannot be made of it
		}
		dependency := functions.Dependency{Name: d.of["name"].text, Check: functions.HTTPCheck(where)}
		set(&dependency.Every, d, "every")
		set(&dependency.Timeout, d, "timeout")
		f.Dependencies = append(f.Dependencies, dependency)
	}
	return problems
}

// orderBy keeps a rule that ParseKey refuses as it is, so that Validate says
// what is wrong with it.
func orderBy(text string) functions.Key {
	if key, err := functions.ParseKey(text); err == nil {
		return key
	}
	return functions.Key(text)
}

// rulesOf are the rules of the file, and behind them those of the code, which
// nobody can repeat here: an operator adds the exception that he has just seen.
// Where the file allows fewer attempts than the code does, it means its rules too.
func rulesOf(said mapping, f functions.Function) []functions.Rule {
	var out []functions.Rule
	for _, one := range all[mapping](said, "rules") {
		var r functions.Rule
		var class string
		set(&r.Text, one, "text")
		set(&class, one, "class")
		r.Class = functions.Class(class)
		set(&r.Attempts, one, "attempts")
		if backoff, ok := one.of["backoff"].data.(mapping); ok {
			r.Backoff = backoffOf(backoff)
		}
		out = append(out, r)
	}
	for _, r := range f.Rules {
		if has(said.of["retry"], "attempts") {
			r.Attempts = min(r.Attempts, f.Retry.Attempts)
		}
		out = append(out, r)
	}
	return out
}

func backoffOf(said mapping) functions.Backoff {
	var b functions.Backoff
	if delays := all[time.Duration](said, "delays"); delays != nil {
		b = functions.Delays(delays...)
	} else {
		var first, longest time.Duration
		set(&first, said, "first")
		set(&longest, said, "longest")
		b = functions.Exponential(first, longest)
	}
	var jitter float64
	if set(&jitter, said, "jitter"); jitter > 0 {
		b = b.WithJitter(jitter)
	}
	return b
}

// set gives to what the file says, if it says something.
func set[T any](to *T, said mapping, key string) {
	if v, ok := said.of[key].data.(T); ok {
		*to = v
	}
}

// all returns the values of a list.
func all[T any](said mapping, key string) []T {
	items, _ := said.of[key].data.([]value)
	var out []T
	for _, item := range items {
		if v, ok := item.data.(T); ok {
			out = append(out, v)
		}
	}
	return out
}

// invalid is what the function itself refuses, at the lines that say it.
func (c *Config) invalid(f functions.Function) Problems {
	var problems Problems
	err := f.Validate()
	if err == nil {
		return nil
	}
	each := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		each = joined.Unwrap()
	}
	for _, err := range each {
		bad, ok := errors.AsType[*functions.FieldError](err)
		if !ok {
			problems = append(problems, c.problem(f.Name, "", fault{text: err.Error()}))
			continue
		}
		said, hint, _ := strings.Cut(bad.Text, "; ")
		if strings.HasSuffix(bad.Field, ".backoff") {
			hint = backoffSection().hint // Validate speaks to those who write Go
		}
		problems = append(problems, c.problem(f.Name, keyOf(bad.Field), fault{said, hint}))
	}
	return problems
}

// keyOf is the key in the file of a field of Function.
func keyOf(field string) string {
	return strings.NewReplacer("orderby", "order_by", "onpark", "on_park", "holdlimit", "hold_limit", "longestprobe", "longest_probe", "schema", "schema_file").Replace(field)
}

// problem is one about a key of a function, at the line that says it or at the
// nearest one above.
func (c *Config) problem(name, key string, f fault) Problem {
	at := c.said.keys[name]
	if v, ok := c.said.of[name]; ok && key != "" {
		at = find(v, key, at)
	}
	path := "functions." + name
	if key != "" {
		path = join(path, key)
	}
	return Problem{File: c.File, Line: at.line, Column: at.column, Path: path, Text: f.text, Hint: f.hint}
}

// find returns where the value of a path such as retry.attempts or types[1]
// stands, or the nearest above it.
func find(v value, path string, at position) position {
	m, ok := v.data.(mapping)
	if !ok {
		return at
	}
	key, rest, _ := strings.Cut(path, ".")
	key, index, listed := strings.Cut(key, "[")
	below, ok := m.of[key]
	if !ok {
		return at
	}
	if items, ok := below.data.([]value); ok && listed {
		for i, item := range items {
			if index == strconv.Itoa(i)+"]" {
				below = item
			}
		}
	}
	if rest == "" {
		return below.at
	}
	return find(below, rest, below.at)
}
