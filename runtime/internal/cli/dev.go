package cli

import (
	"cmp"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/functions"
)

func (a *app) dev() *cobra.Command {
	var temporary bool
	var rehearsal string
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a node to develop with: open on this machine, closed to others",
		Long: "Runs a node as siding serve does, without tokens and on loopback only, and says where it listens and what to try.\n" +
			"Its data stays in --data-dir, so that a dead letter can wait for the next build of its handler; --temp leaves nothing.\n\n" +
			"With --chaos it rehearses: functions fail on purpose, by the rules of a YAML file. Slow rules add up; the first other rule that\n" +
			"applies to an attempt takes the place of its handler. Only do is required:\n\n" + chaosExample +
			"\nA rule without times, share and window applies to every attempt. kill ends the process at once, times with each event:\n" +
			"start it again, as a supervisor would. What fails has the code chaos in its history.",
		Args: arguments(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return a.runDev(c, temporary, rehearsal) },
	}
	settingFlags(c, "token_file", "insecure", "tls_cert", "tls_key")
	c.Flags().BoolVar(&temporary, "temp", false, "keep the data in a temporary directory, and remove it at the end")
	c.Flags().StringVar(&rehearsal, "chaos", "", "YAML file with rules by which functions fail on purpose")
	return c
}

func (a *app) runDev(c *cobra.Command, temporary bool, rehearsal string) (err error) {
	if temporary && c.Flags().Changed("data-dir") {
		return usage("choose one of them", "--temp and --data-dir name two places for the data")
	}
	loaded, err := a.load(c)
	if err != nil {
		return err
	}
	// A file that is made for production may be tried as it is.
	if n := loaded.Node; n.TokenFile != "" || n.Insecure || n.TLSCert != "" {
		a.say("tokens, TLS and insecure are left aside: dev is open, on loopback only")
		n.TokenFile, n.TLSCert, n.TLSKey, n.Insecure = "", "", "", false
		loaded.Node = n
	}
	if err := onlyLoopback(loaded.Node, "use 127.0.0.1, or siding serve with a token for other machines"); err != nil {
		return err
	}
	if temporary {
		dir, err := os.MkdirTemp("", "siding-dev-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		loaded.Node.DataDir = dir
	}
	o, err := a.serveOptions(loaded)
	if err != nil {
		return err
	}
	if c.Flags().Changed("chaos") {
		if o.Chaos, err = a.rehearsal(rehearsal, o.Functions); err != nil {
			return err
		}
	}
	o.Ready = func(http, nats string) { a.welcome(o, http, nats) }
	return a.env.Serve(c.Context(), o)
}

// welcome says where a node of dev is and what to try first, in another
// terminal. It names the node only where the commands would not find it.
func (a *app) welcome(o ServeOptions, http, nats string) {
	url := "http://" + http
	t := newTable(a.env.Stderr)
	t.row("HTTP", url)
	t.row("NATS", cmp.Or(nats, "off"))
	t.row("data", o.DataDir)
	t.row("functions", functionNames(o.Functions))
	_ = t.flush()
	if len(o.Functions) == 0 {
		a.say("no functions: siding init writes a program that has one, siding config schema says how a file declares one")
	}
	server := ""
	if url != defaultServer {
		server = " --server " + url
	}
	a.say("try in another terminal:")
	a.say("  siding event send --type %s --data '{}'%s", clean(exampleType(o.Functions)), server)
	a.say("  siding function ls%s", server)
	a.say("  siding dlq ls%s", server)
	a.say("  siding account%s", server)
}

func functionNames(fns []functions.Function) string {
	all := make([]string, len(fns))
	for i, f := range fns {
		all[i] = f.Name
	}
	return strings.Join(all, ", ")
}

// exampleType is a type that the first function wants.
func exampleType(fns []functions.Function) string {
	if len(fns) == 0 || len(fns[0].Types) == 0 {
		return "com.example.tried"
	}
	tokens := strings.Split(fns[0].Types[0], ".")
	for i, token := range tokens {
		if token == "*" || token == ">" {
			tokens[i] = "example"
		}
	}
	return strings.Join(tokens, ".")
}
