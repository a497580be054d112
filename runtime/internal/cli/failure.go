package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/siding-dev/siding/runtime/client"
)

// failure is an error that knows its exit code and its hint.
type failure struct {
	exit       int
	text, hint string
}

func (f *failure) Error() string { return f.text }

// usage returns a wrong use of the command line.
func usage(hint, format string, args ...any) error {
	return &failure{exit: client.ExitUsage, text: fmt.Sprintf(format, args...), hint: hint}
}

// failed returns something that did not come out as it was asked for.
func failed(hint, format string, args ...any) *failure {
	return &failure{exit: client.ExitFailed, text: fmt.Sprintf(format, args...), hint: hint}
}

// refused returns something that a command will not do as asked.
func refused(hint, format string, args ...any) error {
	return &failure{exit: client.ExitRefused, text: fmt.Sprintf(format, args...), hint: hint}
}

// report prints an error as its line and its hint, and returns the exit code.
func (a *app) report(ctx context.Context, err error) int {
	if err == nil {
		return client.ExitOK
	}
	f := a.failureOf(ctx, err)
	fmt.Fprintf(a.env.Stderr, "siding: %s\n", clean(f.text))
	if f.hint != "" {
		fmt.Fprintf(a.env.Stderr, "hint: %s\n", clean(f.hint))
	}
	return f.exit
}

// failureOf gives every error its exit code, and its hint where it has one.
func (a *app) failureOf(ctx context.Context, err error) *failure {
	var f *failure
	var p *client.Problem
	var coded interface{ ExitCode() int }
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &p):
		return &failure{exit: p.Code.ExitCode(), text: p.Detail, hint: p.Hint}
	case errors.Is(err, client.ErrUnreachable):
		return &failure{client.ExitUnreachable, err.Error(), unreachableHint(err)}
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return &failure{client.ExitFailed, "interrupted", ""}
	}
	f = &failure{exit: client.ExitFailed}
	if errors.As(err, &coded) {
		f.exit = coded.ExitCode()
	} else if !a.entered {
		f.exit = client.ExitUsage
	}
	f.text, f.hint, _ = strings.Cut(err.Error(), ": hint: ")
	return f
}

// unreachableHint says what most likely helps against a node that does not answer.
func unreachableHint(err error) string {
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	switch {
	case errors.As(err, &authority):
		return "give the certificate of its issuer with --ca or SIDING_CA"
	case errors.As(err, &hostname):
		return "name the node as its certificate does"
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return "use http://: the node has no --tls-cert"
	}
	return "start a node with siding serve, or name one with --server or SIDING_SERVER"
}

// flagError names the nearest flag for one that is unknown. A group that got a
// verb it does not know stumbles over the verb's flags first: the verb is what
// is wrong.
func (a *app) flagError(c *cobra.Command, err error) error {
	if found, rest, _ := c.Root().Find(a.args); found.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return unknownCommand(found, rest[0])
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usage(c.CommandPath()+" --help says what its flags take", "%v", err)
	}
	if shorthand := unknown.GetSpecifiedShortnames(); shorthand != "" {
		return usage(c.CommandPath()+" --help names its flags", "unknown flag -%s", shorthand)
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	hint := c.CommandPath() + " --help names its flags"
	if near := nearest(unknown.GetSpecifiedName(), known); near != "" {
		hint = "did you mean --" + near + "?"
	}
	return usage(hint, "unknown flag --%s", unknown.GetSpecifiedName())
}

// unknownCommand names the nearest command for one that is unknown.
func unknownCommand(c *cobra.Command, name string) error {
	known := names(c)
	hint := "use one of " + strings.Join(known, ", ")
	if near := nearest(name, known); near != "" {
		hint = "did you mean " + c.CommandPath() + " " + near + "?"
	}
	return usage(hint, "unknown command %s", strings.TrimSpace(command(c)+" "+name))
}

// command returns the name of c without that of the program, which begins every
// message anyway.
func command(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

// names returns the commands below c.
func names(c *cobra.Command) []string {
	var out []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, sub.Name())
		}
	}
	return out
}

// arguments returns a check that a command got as many arguments as form names.
func arguments(least, most int, form string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return usage("use "+strings.TrimSpace(c.CommandPath()+" "+form), "%s: got %d arguments", command(c), len(args))
		}
		return nil
	}
}
