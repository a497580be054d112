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
	if v, ok := root.of[s.Key]; ok {
		return Resolved{s.Key, v.text, FromFile, fmt.Sprintf("%s:%d", c.File, v.at.line)}, nil
	}
	return Resolved{s.Key, s.Default, FromDefault, ""}, nil
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
