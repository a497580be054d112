package cli

import (
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// ServeOptions is what the flags of serve say, checked.
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
	LogFormat string
}

func (a *app) serve() *cobra.Command {
	var o ServeOptions
	var tokenFile, level string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a node: the store, the functions and the API",
		Args:  arguments(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(tokenFile, level); err != nil {
				return err
			}
			return a.env.Serve(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.DataDir, "data-dir", "siding-data", "directory of everything that is stored")
	f.StringVar(&o.HTTP, "http", "127.0.0.1:4280", "address of the HTTP API")
	f.StringVar(&o.NATS, "nats", "127.0.0.1:4222", "address for NATS clients, or off")
	f.StringVar(&o.Sync, "sync", "interval", "when the disk is synced: interval, or always (safe against power loss)")
	f.StringVar(&tokenFile, "token-file", "", "file with the token that callers must present")
	f.BoolVar(&o.Insecure, "insecure", false, "allow open access from other machines")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.LogFormat, "log-format", "text", "text or json")
	return c
}

// check reads what is named and refuses what is wrong or open to the world.
func (o *ServeOptions) check(tokenFile, level string) error {
	if o.DataDir == "" {
		return usage("name the directory of the store", "--data-dir: empty")
	}
	if err := oneOf("--sync", o.Sync, "interval", "always"); err != nil {
		return err
	}
	if err := oneOf("--log-format", o.LogFormat, "text", "json"); err != nil {
		return err
	}
	if err := oneOf("--log-level", level, "debug", "info", "warn", "error"); err != nil {
		return err
	}
	if err := o.LogLevel.UnmarshalText([]byte(level)); err != nil {
		return usage("", "--log-level %s: %v", level, err)
	}
	if tokenFile != "" {
		b, err := os.ReadFile(tokenFile)
		if err != nil {
			return usage("name a file that holds one token", "--token-file: %v", err)
		}
		if o.Token = strings.TrimSpace(string(b)); o.Token == "" || strings.ContainsAny(o.Token, " \t\r\n") {
			return usage("put one token and nothing else into it", "--token-file %s: not one word", tokenFile)
		}
	}
	for _, l := range []struct{ flag, address string }{{"--http", o.HTTP}, {"--nats", o.NATS}} {
		if l.flag == "--nats" && l.address == "off" {
			continue
		}
		host, port, err := net.SplitHostPort(l.address)
		if err != nil {
			return usage("use host:port", "%s %s: not an address", l.flag, strconv.Quote(l.address))
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return usage("use host:port", "%s %s: %s is not a port", l.flag, l.address, strconv.Quote(port))
		}
		if !loopback(host) && o.Token == "" && !o.Insecure {
			return refused("give --token-file, or --insecure if this network may do everything",
				"%s %s: reachable from other machines without a token", l.flag, l.address)
		}
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	hint := "use " + strings.Join(allowed, " or ")
	if near := nearest(value, allowed); near != "" {
		hint = "did you mean " + near + "?"
	}
	return usage(hint, "%s %s: unknown", flag, strconv.Quote(value))
}

func (a *app) demo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See in a minute what parks, holds and comes back",
		Args:  arguments(0, 0, ""),
		RunE:  func(c *cobra.Command, _ []string) error { return a.env.Demo(c.Context(), a.env.Stdout) },
	}
}
