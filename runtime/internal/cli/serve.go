package cli

import (
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/chaos"
	"github.com/siding-dev/siding/runtime/internal/config"
	"github.com/siding-dev/siding/streams"
)

// ServeOptions is how a node is to run, checked.
type ServeOptions struct {
	DataDir string
	// HTTP is host:port of the API. NATS is host:port for NATS clients, or
	// "off" for none.
	HTTP, NATS string
	// Sync is "interval" or "always".
	Sync string
	// Tokens are who may call; none is open access.
	Tokens streams.Tokens `json:",omitempty"`
	// TLS is what both listeners answer with; nil is plain text.
	TLS *tls.Config `json:"-"`
	// Insecure allows open access beyond loopback.
	Insecure bool
	LogLevel slog.Level
	// LogFormat is "text" or "json".
	LogFormat      string
	Grace, AckWait time.Duration
	// Interval is the time between two digests. Webhook is the URL that notices
	// are posted to, signed with Secret; "" is none.
	Interval time.Duration `json:"-"`
	Webhook  string        `json:"-"`
	Secret   string        `json:"-"`
	// Functions are those that are compiled in, with the numbers of the
	// configuration, and those that it declares.
	Functions []functions.Function `json:"-"`
	// Chaos is how they are to fail on purpose; none without rules.
	Chaos chaos.Plan `json:"-"`
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
			o, err := a.serveOptions(loaded)
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
func (a *app) serveOptions(c *config.Config) (ServeOptions, error) {
	n := c.Node
	o := ServeOptions{
		DataDir: n.DataDir, HTTP: n.HTTP, NATS: n.NATS, Sync: n.Sync, Insecure: n.Insecure, LogFormat: n.LogFormat,
		Grace: n.Grace, AckWait: n.AckWait, Functions: c.Functions,
		Interval: n.NotifyInterval, Webhook: n.NotifyWebhook,
	}
	if err := o.LogLevel.UnmarshalText([]byte(n.LogLevel)); err != nil {
		return o, usage("", "log_level %s: %v", n.LogLevel, err)
	}
	var err error
	if n.TokenFile != "" {
		if o.Tokens, err = a.readTokens(n.TokenFile); err != nil {
			return o, err
		}
	}
	if n.NotifySecretFile != "" {
		secret, err := os.ReadFile(n.NotifySecretFile)
		if err != nil {
			return o, usage("make it: openssl rand -base64 32 > FILE", "notify.secret_file: %v", err)
		}
		o.Secret = string(secret)
	}
	if o.TLS, err = loadTLS(n.TLSCert, n.TLSKey); err != nil {
		return o, err
	}
	if len(o.Tokens) == 0 && !o.Insecure {
		if err := onlyLoopback(n, "give --token-file, or --insecure if this network may do everything"); err != nil {
			return o, err
		}
	}
	return o, nil
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
