package streams

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
)

// ErrPortInUse is what the listener's address answers when somebody else listens there.
var ErrPortInUse = errors.New("port in use")

// windowsAddrInUse is WSAEADDRINUSE. The syscall package's EADDRINUSE is an invented number on Windows that no system
// call returns.
const windowsAddrInUse = syscall.Errno(10048)

// address is where NATS clients may connect.
type address struct {
	host string
	port int // 0 lets the system choose
}

// parseListen returns nil if there is to be no listener.
func parseListen(listen string) (*address, error) {
	if listen == "" || listen == "off" {
		return nil, nil
	}
	host, text, err := net.SplitHostPort(listen)
	if err == nil {
		var port uint64
		if port, err = strconv.ParseUint(text, 10, 16); err == nil {
			return &address{host: host, port: int(port)}, nil
		}
	}
	return nil, fmt.Errorf("listen %q: no host:port: hint: for example 127.0.0.1:4222, or off", listen)
}

func (a *address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

// probe checks that the address is free. The server itself would only log the failure and go on without a listener.
// Who takes the port between this check and the server's start is noticed by that log line.
func (a *address) probe() error {
	l, err := net.Listen("tcp", a.String())
	if err == nil {
		return l.Close()
	}
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, windowsAddrInUse) {
		return fmt.Errorf("listen %s: %w: hint: stop the program that listens there, choose another address with --nats, or use --nats off", a, ErrPortInUse)
	}
	return fmt.Errorf("%w: hint: choose another address with --nats, or use --nats off", err)
}

// apply tells the server where to listen; without an address it listens nowhere.
func (a *address) apply(opts *server.Options) {
	if a == nil {
		opts.DontListen = true
		return
	}
	opts.Host, opts.Port = a.host, a.port
	if a.port == 0 {
		opts.Port = server.RANDOM_PORT
	}
}
