package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
)

// defaultServer is where a node listens when nothing else is said.
const defaultServer = "http://127.0.0.1:4280"

// Env is what a command may touch beside the network.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// Environ is the environment as a whole, as in os.Environ.
	Environ func() []string
	// Functions are those that are compiled in, and URL makes a handler of the
	// address of one that is not.
	Functions []functions.Function
	URL       func(url string) functions.Handler
	// Serve runs a node until ctx ends. Its error may implement
	// ExitCode() int and may end with ": hint: …".
	Serve func(ctx context.Context, o ServeOptions) error
	// Exit ends the process at once.
	Exit func(code int)
	// Demo shows on standard output, in one run, what Siding does. With keep the
	// node that it shows runs on until ctx ends.
	Demo func(ctx context.Context, keep bool) error
	// VerifyBackup reads the backup in a file and says what it holds; Restore
	// makes a data directory of it. Their errors are problems.
	VerifyBackup func(path string) (client.Backup, error)
	Restore      func(path, dir string) (client.Backup, error)
	// Inspect says what is wrong with a data directory.
	Inspect func(dir string) (client.Doctor, error)
	// Adopt gives what a data directory keeps of a function to its new name.
	Adopt   func(ctx context.Context, dir string, r client.AdoptRequest) (client.Adopted, error)
	Version client.Version
	// Release is the version that the go command can fetch this program's Siding
	// by, or nothing where it comes from a checkout.
	Release string
}

// Main runs one command line, without the program's name, and returns the exit
// code. The first interrupt ends it in order, the second one at once.
func Main(args []string, env Env) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, args, env)
}

func run(ctx context.Context, args []string, env Env) int {
	a := &app{env: env, args: args}
	root := a.root() //nolint:contextcheck // a command gets its context from cobra when it runs
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return a.report(ctx, err)
}

// app is one run of the command line.
type app struct {
	env  Env
	args []string
	// entered is set when a command has accepted its arguments: an error
	// before that is a wrong use, whoever made it.
	entered           bool
	server, token, ca string
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:              "siding",
		Short:            "Host event-driven functions on an embedded NATS JetStream",
		SilenceErrors:    true,
		SilenceUsage:     true,
		Args:             cobra.ArbitraryArgs,
		PersistentPreRun: func(*cobra.Command, []string) { a.entered = true },
		RunE:             a.needsVerb,
	}
	root.SetIn(a.env.Stdin)
	root.SetOut(a.env.Stdout)
	root.SetErr(a.env.Stderr)
	root.SetFlagErrorFunc(a.flagError)
	root.AddCommand(a.serve(), a.dev(), a.initModule(), a.demo(), a.config(), a.event(), a.function(), a.dlq(), a.lane(), a.audit(), a.account(),
		a.doctor(), a.backup(), a.restore(), a.tokenNoun(), a.version())
	// Cobra's own noun answers a wrong verb with its help and exit 0.
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args, completion.RunE = cobra.ArbitraryArgs, a.needsVerb
	}
	return root
}

// noun returns a command that only holds verbs.
func (a *app) noun(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: a.needsVerb}
	c.AddCommand(verbs...)
	a.remote(c)
	return c
}

// needsVerb answers a noun without a verb of its own.
func (a *app) needsVerb(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(c, args[0])
	}
	if !c.HasParent() {
		return c.Help()
	}
	return usage("use one of "+strings.Join(names(c), ", "), "%s: no verb", command(c))
}

// remote gives a command and those below it the flags that name a node.
func (a *app) remote(c *cobra.Command) {
	c.PersistentFlags().StringVar(&a.server, "server", "", "URL of the node (SIDING_SERVER, "+defaultServer+")")
	c.PersistentFlags().StringVar(&a.token, "token", "", "token of the node (SIDING_TOKEN)")
	c.PersistentFlags().StringVar(&a.ca, "ca", "", "file with the certificates that the node's own is checked against (SIDING_CA)")
}

// client returns a client of the node that flags or environment name.
func (a *app) client() (*client.Client, error) {
	server := first(a.server, a.env.Getenv("SIDING_SERVER"), defaultServer)
	var options []client.Option
	if file := first(a.ca, a.env.Getenv("SIDING_CA")); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, usage("give --ca or SIDING_CA a file with certificates in PEM", "--ca: %v", err)
		}
		options = append(options, client.WithCA(pem))
	}
	c, err := client.New(server, first(a.token, a.env.Getenv("SIDING_TOKEN")), options...)
	if errors.Is(err, client.ErrNoCertificate) {
		return nil, usage("give --ca or SIDING_CA a file with certificates in PEM", "--ca: %v", err)
	}
	if err != nil {
		return nil, usage("give --server or SIDING_SERVER as in "+defaultServer, "%v", err)
	}
	return c, nil
}

// first returns the first of its arguments that is not empty.
func first(of ...string) string {
	for _, s := range of {
		if s != "" {
			return s
		}
	}
	return ""
}
