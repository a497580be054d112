package runtime

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
)

// exposed lists the addresses on which other machines can reach the node.
func (c Config) exposed() []string {
	var all []string
	for _, l := range []struct{ name, address string }{{"http", c.HTTP}, {"nats", c.NATS}} {
		if l.address != "" && l.address != "off" && !loopback(l.address) {
			all = append(all, l.name+" "+l.address)
		}
	}
	return all
}

// loopback reports whether only this machine can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback())
}

// checkAccess refuses to let the network do everything unless that is said. It holds for programs too, where no command line asks.
func (c Config) checkAccess() error {
	if open := c.exposed(); len(open) > 0 && len(c.Tokens) == 0 && !c.Insecure {
		return fmt.Errorf("%s: reachable from other machines without a token: hint: set Tokens, or Insecure if this network may do everything", strings.Join(open, ", "))
	}
	return nil
}

// warnAccess says once what a network can see or do.
func (c Config) warnAccess(log *slog.Logger) {
	open := strings.Join(c.exposed(), ", ")
	switch {
	case open == "":
	case len(c.Tokens) == 0:
		log.Warn("other machines can do everything without a token", "listeners", open)
	case c.TLS == nil:
		log.Warn("tokens and events travel in clear to other machines; --tls-cert and --tls-key encrypt them", "listeners", open)
	}
}

// serveOn serves on a listener, over TLS if that is configured, until the server is shut down.
func serveOn(server *http.Server, l net.Listener, secure *tls.Config) error {
	if secure == nil {
		return server.Serve(l)
	}
	server.TLSConfig = secure.Clone()
	return server.ServeTLS(l, "", "")
}
