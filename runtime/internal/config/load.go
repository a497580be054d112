package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/spelling"
)

// Sources is where a configuration comes from.
type Sources struct {
	// File is the flag --config; "" leaves it to the environment.
	File string
	// Environ is the environment, as in os.Environ.
	Environ []string
	// Flags are the settings that were given on the command line, by their keys.
	Flags map[string]string
	// Compiled are the functions of the program, and Handler makes the handlers
	// of those that the file declares.
	Compiled []functions.Function
	Handler  func(url string) functions.Handler
}

// Config is everything that was said, checked.
type Config struct {
	Node Node
	// Functions are those that are compiled in, with the numbers of the file,
	// and behind them those that the file declares.
	Functions []functions.Function
	// File is the file that was read; "" is none.
	File string
	// Warnings are what is no error but looks like one, for a person.
	Warnings []string

	settings []Resolved
	compiled []functions.Function
	root     mapping // of the file
	said     mapping // of the functions
}

// Origin says who had the last word about a value.
type Origin string

// The origins. FromCode is for what a compiled-in function says itself.
const (
	FromDefault Origin = "default"
	FromCode    Origin = "code"
	FromFile    Origin = "file"
	FromEnv     Origin = "env"
	FromFlag    Origin = "flag"
)

// Resolved is one value and where it comes from.
type Resolved struct {
	Key, Value string
	Origin     Origin
	// Where is file:line, the name of the variable or the flag; "" else.
	Where string
}

// Load reads the file that a flag or the environment names, if any, resolves
// every setting and gives the functions their numbers. The error is a Problems
// with all that is wrong.
func Load(s Sources) (*Config, error) {
	env := environment(s.Environ)
	c := &Config{File: s.File, Warnings: strangers(env), compiled: s.Compiled}
	if c.File == "" {
		c.File = env[EnvFile]
	}
	var problems Problems
	var root mapping
	if c.File != "" {
		content, err := os.ReadFile(c.File)
		if err != nil {
			return nil, Problems{{File: c.File, Text: plain(err), Hint: "name the file with --config or " + EnvFile}}
		}
		root, problems = parse(c.File, content)
	}
	c.root = root
	c.said, _ = root.of["functions"].data.(mapping)
	values := map[string]string{}
	for _, setting := range Settings() {
		r, problem := c.resolve(setting, root, env, s.Flags)
		if problem != nil {
			problems = append(problems, *problem)
		}
		c.settings = append(c.settings, r)
		values[setting.Key] = r.Value
	}
	problems = append(problems, c.webhook(values)...)
	problems = append(problems, c.host(s.Handler)...)
	if err := problems.err(); err != nil {
		return nil, err
	}
	c.Node = nodeOf(values)
	return c, nil
}

// plain is what is wrong with a file, without its name.
func plain(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// resolve asks the sources of one setting, the strongest first. The file's own
// value has been checked by the parser.
func (c *Config) resolve(s Setting, root mapping, env, flags map[string]string) (Resolved, *Problem) {
	if given, ok := flags[s.Key]; ok {
		return s.outside(given, FromFlag, "--"+s.Flag())
	}
	// An empty variable is what a shell makes of one that it does not have.
	if given := env[s.Env()]; given != "" {
		return s.outside(given, FromEnv, s.Env())
	}
	if v, ok := root.at(s.Key); ok {
		return Resolved{s.Key, v.text, FromFile, fmt.Sprintf("%s:%d", c.File, v.at.line)}, nil
	}
	return Resolved{s.Key, s.Default, FromDefault, ""}, nil
}

// at returns what stands at a key, which may be below a section.
func (m mapping) at(key string) (value, bool) {
	section, below, nested := strings.Cut(key, ".")
	v, ok := m.of[section]
	if !nested || !ok {
		return v, ok
	}
	inner, _ := v.data.(mapping)
	v, ok = inner.of[below]
	return v, ok
}

// webhook is what is wrong with the settings of the webhook together, at the place of the one that was said.
func (c *Config) webhook(values map[string]string) Problems {
	url, file := values["notify.webhook"], values["notify.secret_file"]
	key, f := "notify.webhook", fault{}
	switch {
	case (url == "") == (file == ""):
		if text := urlProblem(url); url != "" && oneURL.pattern.MatchString(url) && text != "" {
			f = faultf("write "+string(oneURL.want), "%s", text)
		}
	case file == "":
		f = faultf("make one: openssl rand -base64 32 > FILE, and name it in notify.secret_file", "what is posted must be signed, and there is no secret")
	default:
		key, f = "notify.secret_file", faultf("name the URL in notify.webhook, or remove it", "there is no webhook whose posts it could sign")
	}
	if f == (fault{}) {
		return nil
	}
	for _, r := range c.settings {
		if r.Key == key {
			return Problems{c.settingProblem(r, f)}
		}
	}
	return nil
}

// settingProblem is one about a setting, at whoever had the last word about it.
func (c *Config) settingProblem(r Resolved, f fault) Problem {
	p := Problem{Text: f.text, Hint: f.hint}
	if r.Origin != FromFile {
		p.Where = r.Where
		return p
	}
	v, _ := c.root.at(r.Key)
	p.File, p.Line, p.Column, p.Path = c.File, v.at.line, v.at.column, r.Key
	return p
}

func (s Setting) outside(given string, origin Origin, where string) (Resolved, *Problem) {
	r := Resolved{s.Key, given, origin, where}
	if _, f := s.rule.parse(given); f != (fault{}) {
		return r, &Problem{Where: where, Text: f.text, Hint: f.hint}
	}
	return r, nil
}

// environment has the variables that begin as ours do.
func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, line := range environ {
		if name, v, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, envPrefix) {
			env[name] = v
		}
	}
	return env
}

// strangers warns of variables that look like a misspelt one of ours. Others
// that begin like ours belong to somebody else.
func strangers(env map[string]string) []string {
	known := append(clientVariables(), EnvFile)
	for _, s := range Settings() {
		known = append(known, s.Env())
	}
	var warnings []string
	for name := range env {
		if slices.Contains(known, name) {
			continue
		}
		// The prefix is common to all, and would make everything look near.
		var bare []string
		for _, k := range known {
			bare = append(bare, strings.TrimPrefix(k, envPrefix))
		}
		if near := spelling.Nearest(strings.TrimPrefix(name, envPrefix), bare); near != "" {
			warnings = append(warnings, fmt.Sprintf("%s is not known and changes nothing; did you mean %s?", name, envPrefix+near))
		}
	}
	slices.Sort(warnings)
	return warnings
}
