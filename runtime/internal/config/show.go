package config

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/siding-dev/siding/functions"
)

// shown is one line about a function: its key below the name, what it says of a
// function with its defaults, and whether code has left it to the default.
type shown struct {
	key   string
	text  func(functions.Function) string
	unset func(functions.Function) bool
}

func shownFields() []shown {
	type fn = functions.Function
	return []shown{
		{"types", func(f fn) string { return strings.Join(f.Types, " ") }, func(fn) bool { return false }},
		{"stream", func(f fn) string { return f.Stream }, func(f fn) bool { return f.Stream == "" }},
		{"order_by", func(f fn) string { return f.OrderBy.String() }, func(f fn) bool { return f.OrderBy == functions.PartitionKey }},
		{"on_park", func(f fn) string { return f.OnPark.String() }, func(f fn) bool { return f.OnPark == functions.Hold }},
		{"start", func(f fn) string { return f.Start.String() }, func(f fn) bool { return f.Start == functions.FromNow }},
		{"version", func(f fn) string { return f.Version }, func(f fn) bool { return f.Version == "" }},
		{"retry.attempts", func(f fn) string { return strconv.Itoa(f.Retry.Attempts) }, func(f fn) bool { return f.Retry.Attempts == 0 }},
		{"retry.budget", func(f fn) string { return f.Retry.Budget.String() }, func(f fn) bool { return f.Retry.Budget == 0 }},
		{"retry.backoff", func(f fn) string { return f.Retry.Backoff.String() }, func(f fn) bool { return reflect.ValueOf(f.Retry.Backoff).IsZero() }},
		{"breaker.off", func(f fn) string { return strconv.FormatBool(f.Breaker.Off) }, func(f fn) bool { return !f.Breaker.Off }},
		{"breaker.failures", func(f fn) string { return strconv.Itoa(f.Breaker.Failures) }, func(f fn) bool { return f.Breaker.Failures == 0 }},
		{"breaker.unavailable", func(f fn) string { return strconv.Itoa(f.Breaker.Unavailable) }, func(f fn) bool { return f.Breaker.Unavailable == 0 }},
		{"breaker.inflow", func(f fn) string { return fmt.Sprint(f.Breaker.Inflow) }, func(f fn) bool { return f.Breaker.Inflow == 0 }},
		{"breaker.probe", func(f fn) string { return f.Breaker.Probe.String() }, func(f fn) bool { return f.Breaker.Probe == 0 }},
		{"breaker.longest_probe", func(f fn) string { return f.Breaker.LongestProbe.String() }, func(f fn) bool { return f.Breaker.LongestProbe == 0 }},
		{"breaker.probes", func(f fn) string { return strconv.Itoa(f.Breaker.Probes) }, func(f fn) bool { return f.Breaker.Probes == 0 }},
		{"dependencies", dependencies, func(f fn) bool { return len(f.Dependencies) == 0 }},
		{"rate", func(f fn) string { return strconv.FormatFloat(f.Rate, 'g', -1, 64) }, func(f fn) bool { return f.Rate == 0 }},
		{"window", func(f fn) string { return f.Window.String() }, func(f fn) bool { return f.Window.Always() }},
		{"timeout", func(f fn) string { return f.Timeout.String() }, func(f fn) bool { return f.Timeout == 0 }},
		{"concurrency", func(f fn) string { return strconv.Itoa(f.Concurrency) }, func(f fn) bool { return f.Concurrency == 0 }},
		{"hold_limit.age", func(f fn) string { return f.HoldLimit.Age.String() }, func(f fn) bool { return f.HoldLimit.Age == 0 }},
		{"hold_limit.depth", func(f fn) string { return strconv.Itoa(f.HoldLimit.Depth) }, func(f fn) bool { return f.HoldLimit.Depth == 0 }},
		{"owner", func(f fn) string { return f.Owner }, func(f fn) bool { return f.Owner == "" }},
	}
}

// Resolved returns every setting, and after them every rule of the functions,
// with where each came from. Nothing in it is secret: a file of tokens is named
// and not read, and of a URL the password and the query are left out.
func (c *Config) Resolved() []Resolved {
	out := slices.Clone(c.settings)
	for i, s := range Settings() {
		if s.URL && out[i].Value != "" {
			out[i].Value = onlyHost(out[i].Value)
		}
	}
	for _, f := range c.Functions {
		name := "functions." + f.Name + "."
		said := c.said.of[f.Name]
		raw := functions.Function{}
		if i := slices.IndexFunc(c.compiled, func(k functions.Function) bool { return k.Name == f.Name }); i >= 0 {
			raw = c.compiled[i]
		}
		if m, _ := said.data.(mapping); m.of["url"].text != "" {
			u := m.of["url"]
			out = append(out, Resolved{name + "url", withoutSecrets(u.text), FromFile, fmt.Sprintf("%s:%d", c.File, u.at.line)})
		}
		full := f.WithDefaults()
		for _, s := range shownFields() {
			r := Resolved{Key: name + s.key, Value: s.text(full), Origin: FromCode}
			if has(said, s.key) {
				if m, _ := said.data.(mapping); s.key == "dependencies" {
					r.Value = saidDependencies(m)
				}
				r.Origin, r.Where = FromFile, fmt.Sprintf("%s:%d", c.File, find(said, s.key, position{}).line)
			} else if raw.Name == "" || s.unset(raw) {
				r.Origin = FromDefault
			}
			out = append(out, r)
			if s.key == "retry.backoff" {
				out = append(out, c.rules(full, said)...)
			}
		}
	}
	return out
}

// rules has a line for each rule of f, those of the file first.
func (c *Config) rules(f functions.Function, said value) []Resolved {
	m, _ := said.data.(mapping)
	inFile := len(all[mapping](m, "rules"))
	var out []Resolved
	for i, rule := range f.Rules {
		key := fmt.Sprintf("rules[%d]", i)
		r := Resolved{Key: "functions." + f.Name + "." + key, Value: rule.String(), Origin: FromCode}
		if i < inFile {
			r.Origin, r.Where = FromFile, fmt.Sprintf("%s:%d", c.File, find(said, key, position{}).line)
		}
		out = append(out, r)
	}
	return out
}

// dependencies are the names of what a function depends on: of what code
// declares, the check is code.
func dependencies(f functions.Function) string {
	names := make([]string, len(f.Dependencies))
	for i, d := range f.Dependencies {
		names[i] = d.Name
	}
	return strings.Join(names, " ")
}

// saidDependencies has the URL with each name.
func saidDependencies(said mapping) string {
	var each []string
	for _, d := range all[mapping](said, "dependencies") {
		each = append(each, d.of["name"].text+" "+withoutSecrets(d.of["url"].text))
	}
	return strings.Join(each, ", ")
}

// has says whether the path stands in v.
func has(v value, path string) bool {
	m, ok := v.data.(mapping)
	if !ok {
		return false
	}
	key, rest, more := strings.Cut(path, ".")
	below, ok := m.of[key]
	return ok && (!more || has(below, rest))
}

func withoutSecrets(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "…"
	}
	if u.RawQuery != "" {
		u.RawQuery = ""
		return u.Redacted() + "?…"
	}
	return u.Redacted()
}

// onlyHost shows a URL of which every other part may be the secret, as those are that chat services hand out.
func onlyHost(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "…"
	}
	return u.Scheme + "://" + u.Host + "/…"
}
