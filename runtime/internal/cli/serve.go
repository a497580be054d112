package cli

import (
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/config"
)

// ServeOptions is how a node is to run, checked.
type ServeOptions struct {
	DataDir string
	// HTTP is host:port of the API. NATS is host:port for NATS clients, or
	// "off" for none.
	HTTP, NATS string
	// Sync is "interval" or "always".
	Sync string
	// Token is what callers must present; empty is open access.
	Token string
	// Insecure allows open access beyond loopback.
	Insecure bool
	LogLevel slog.Level
	// LogFormat is "text" or "json".
	LogFormat      string
	Grace, AckWait time.Duration
	// Functions are those that are compiled in, with the numbers of the
	// configuration, and those that it declares.
	Functions []functions.Function `json:"-"`
	// Ready, if there is one, is told once where the node listens: the address
	// of the API, and the URL for NATS clients or nothing.
	Ready func(http, nats string) `json:"-"`
}

func (a *app) serve() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a node: the store, the functions and the API",
		Long: "Runs a node until it is interrupted. Every flag can also be set in a YAML file (--config) and in the environment:\n" +
			"default < file < environment < flag. siding config show tells what came from where.",
		Args: arguments(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := a.load(c)
			if err != nil {
				return err
			}
			o, err := serveOptions(loaded)
			if err != nil {
				return err
			}
			return a.env.Serve(c.Context(), o)
		},
	}
	settingFlags(c)
	return c
}

// serveOptions reads what is named and refuses what is open to the world.
func serveOptions(c *config.Config) (ServeOptions, error) {
	n := c.Node
	o := ServeOptions{
		DataDir: n.DataDir, HTTP: n.HTTP, NATS: n.NATS, Sync: n.Sync, Insecure: n.Insecure, LogFormat: n.LogFormat,
		Grace: n.Grace, AckWait: n.AckWait, Functions: c.Functions,
	}
	if err := o.LogLevel.UnmarshalText([]byte(n.LogLevel)); err != nil {
		return o, usage("", "log_level %s: %v", n.LogLevel, err)
	}
	if n.TokenFile != "" {
		var err error
		if o.Token, err = readToken(n.TokenFile); err != nil {
			return o, err
		}
	}
	if o.Token == "" && !o.Insecure {
		if err := onlyLoopback(n, "give --token-file, or --insecure if this network may do everything"); err != nil {
			return o, err
		}
	}
	return o, nil
}

// readToken reads the token that callers must present.
func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", usage("name a file that holds one token", "--token-file: %v", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", usage("put one token and nothing else into it", "--token-file %s: not one word", path)
	}
	return token, nil
}

// onlyLoopback refuses addresses that other machines reach.
func onlyLoopback(n config.Node, hint string) error {
	for _, l := range []struct{ flag, address string }{{"--http", n.HTTP}, {"--nats", n.NATS}} {
		if l.address == "off" {
			continue
		}
		if host, _, err := net.SplitHostPort(l.address); err != nil || !loopback(host) {
			return refused(hint, "%s %s: reachable from other machines without a token", l.flag, l.address)
		}
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func (a *app) demo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See in a minute what parks, holds and comes back",
		Args:  arguments(0, 0, ""),
		RunE:  func(c *cobra.Command, _ []string) error { return a.env.Demo(c.Context(), a.env.Stdout) },
	}
}
