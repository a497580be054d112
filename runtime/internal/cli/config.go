package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/config"
	"github.com/siding-dev/siding/runtime/internal/patience"
)

func (a *app) config() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "The configuration of a node: what it is, whether it is sound, what it may be",
		Args: cobra.ArbitraryArgs, RunE: a.needsVerb,
	}
	c.AddCommand(a.configShow(), a.configCheck(), a.configSchema())
	return c
}

// settingFlags gives c a flag for every setting that it does not leave out, and
// --config. What is given there is read by load.
func settingFlags(c *cobra.Command, without ...string) {
	f := c.Flags()
	f.String("config", "", "YAML file with settings and functions ("+config.EnvFile+")")
	for _, s := range config.Settings() {
		switch {
		case slices.Contains(without, s.Key):
		case s.Bool:
			f.Bool(s.Flag(), s.Default == "true", s.Doc)
		default:
			f.String(s.Flag(), s.Default, s.Doc)
		}
	}
}

// load is how serve, dev and config show learn what they are told: defaults,
// file, environment, flags.
func (a *app) load(c *cobra.Command) (*config.Config, error) {
	keys := map[string]string{}
	for _, s := range config.Settings() {
		keys[s.Flag()] = s.Key
	}
	s := config.Sources{Environ: a.env.Environ(), Flags: map[string]string{}, Compiled: a.env.Functions, Handler: a.env.URL}
	c.Flags().Visit(func(f *pflag.Flag) {
		if key, ok := keys[f.Name]; ok {
			s.Flags[key] = f.Value.String()
		} else if f.Name == "config" {
			s.File = f.Value.String()
		}
	})
	loaded, err := config.Load(s)
	if err != nil {
		return nil, a.unsound(err)
	}
	for _, w := range loaded.Warnings {
		a.say("warning: %s", clean(w))
	}
	return loaded, nil
}

// unsound is unsoundFile for the configuration of a node.
func (a *app) unsound(err error) error {
	return a.unsoundFile(err, "the configuration", "siding config schema describes the file, siding serve --help the flags")
}

// unsoundFile prints everything that is wrong with what a node is told but the
// last line, which is the error: a start that is told nonsense is a wrong use.
func (a *app) unsoundFile(err error, what, hint string) error {
	problems := config.AllProblems(err)
	if len(problems) == 1 {
		return usage(problems[0].Hint, "%s", problems[0].What())
	}
	for _, p := range problems {
		line := p.What()
		if p.Hint != "" {
			line += " (" + p.Hint + ")"
		}
		a.say("%s", clean(line))
	}
	return usage(hint, "%s has %d problems", what, len(problems))
}

func (a *app) configShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Show every setting and where its value comes from",
		Long: "Shows what siding serve would run with, given the same flags, environment and file: each value and who had\n" +
			"the last word about it (default, code, file, env or flag). Secrets are not shown.",
		Args: arguments(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := a.load(c)
			if err != nil {
				return err
			}
			settings := []client.Setting{}
			for _, r := range loaded.Resolved() {
				settings = append(settings, client.Setting{Key: r.Key, Value: r.Value, Origin: string(r.Origin), Where: r.Where})
			}
			if asJSON {
				return a.printJSON(settings)
			}
			t := newTable(a.env.Stdout, "SETTING", "VALUE", "FROM")
			for _, s := range settings {
				from := s.Origin
				if s.Where != "" {
					from += " " + s.Where
				}
				t.row(s.Key, s.Value, from)
			}
			return t.flush()
		},
	}
	settingFlags(c)
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) configCheck() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file",
		Long: "Reads the file (" + config.EnvFile + " where none is named) as siding serve does, against the functions of this program, and\n" +
			"names everything that is wrong with it. Of a sound one it says, function by function, how patient its policy is: which outage\n" +
			"it rides out, and after how long an event is parked. The exit code is that of a start with this file: 0, or 2.",
		Args: arguments(0, 1, "[FILE]"),
		RunE: func(_ *cobra.Command, args []string) error {
			file := a.env.Getenv(config.EnvFile)
			if len(args) > 0 {
				file = args[0]
			}
			if file == "" {
				return usage("use siding config check FILE, or set "+config.EnvFile, "config check: no file")
			}
			loaded, err := config.Load(config.Sources{File: file, Compiled: a.env.Functions, Handler: a.env.URL})
			if asJSON {
				if err := a.printJSON(checked(file, loaded, config.AllProblems(err))); err != nil {
					return err
				}
			}
			if err != nil {
				return a.unsound(err)
			}
			if !asJSON {
				a.sayPatience(loaded.Functions)
				a.say("%s is sound; functions: %d", clean(file), len(loaded.Functions))
			}
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// sayPatience prints a line about each function's policy, and warns where it is short.
func (a *app) sayPatience(fns []functions.Function) {
	for _, f := range fns {
		report := patience.Of(f)
		fmt.Fprintf(a.env.Stdout, "%s: %s\n", f.Name, clean(report.String()))
		for _, warning := range report.Warnings {
			a.say("warning: function %s: %s", f.Name, clean(warning))
		}
	}
}

func patienceOf(f functions.Function) client.ConfigPatience {
	r := patience.Of(f)
	out := client.ConfigPatience{
		Function: f.Name, Attempts: r.Attempts, RidesOut: r.RidesOut.String(), LongestUntilParked: r.LongestUntilParked.String(),
		Warnings: append([]string{}, r.Warnings...), Notes: append([]string{}, r.Notes...),
	}
	if r.LongestBlocked != patience.UntilDecided {
		out.LongestBlocked = r.LongestBlocked.String()
	}
	return out
}

// checked expects a nil configuration where there are problems.
func checked(file string, loaded *config.Config, problems config.Problems) client.ConfigCheck {
	out := client.ConfigCheck{File: file, Valid: len(problems) == 0, Problems: []client.ConfigProblem{}, Functions: []client.ConfigPatience{}}
	if loaded != nil {
		for _, f := range loaded.Functions {
			out.Functions = append(out.Functions, patienceOf(f))
		}
	}
	for _, p := range problems {
		out.Problems = append(out.Problems, client.ConfigProblem{
			File: p.File, Line: p.Line, Column: p.Column, Path: p.Path, Problem: p.Text, Hint: p.Hint,
		})
	}
	return out
}

func (a *app) configSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the configuration file", Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.env.Stdout, string(config.Schema()))
			return err
		},
	}
}
