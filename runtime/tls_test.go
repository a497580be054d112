package runtime

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/cli"
)

// authority is an issuer of certificates that nobody knows.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nobody's"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue writes a certificate for this machine, valid between two times from now, and its key.
func (a *authority) issue(from, to time.Duration) (cert, key string) {
	a.t.Helper()
	private := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return cert, key
}

// siding runs a command of the command line.
func siding(t *testing.T, env map[string]string, serve func(context.Context, cli.ServeOptions) error, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Main(args, cli.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(name string) string { return env[name] }, Serve: serve,
		Environ: func() []string { return nil }, URL: urlFunction,
	})
	return code, out.String(), errs.String()
}

// TestBothListenersSpeakTLS starts a node by the flags of serve and asks it as people do, right and wrong.
func TestBothListenersSpeakTLS(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.issue(-time.Minute, time.Hour)
	handled := make(chan string, 1)
	var r *Runtime
	code, _, stderr := siding(t, nil, func(_ context.Context, o cli.ServeOptions) (err error) {
		r, err = New(Config{DataDir: t.TempDir(), HTTP: "127.0.0.1:0", NATS: "127.0.0.1:0", TLS: o.TLS, Tokens: tokens("ana", secret)},
			functions.Function{Name: "f", Types: []string{">"}, Handle: func(_ context.Context, e functions.Event) error {
				handled <- e.ID()
				return nil
			}})
		return err
	}, "serve", "--tls-cert", cert, "--tls-key", key)
	if code != 0 {
		t.Fatalf("got exit code %d: %s", code, stderr)
	}
	runNode(t, r)

	// NATS, with a certificate that is checked. The node's own connections need none.
	if !strings.HasPrefix(r.NATSAddr(), "tls://127.0.0.1:") {
		t.Errorf("got %s, want a URL that says tls", r.NATSAddr())
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.pem)
	conn, err := nats.Connect(r.NATSAddr(), nats.Token(secret), nats.Secure(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.RequestMsgWithContext(t.Context(), &nats.Msg{Subject: "events.t", Header: nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"nats"}, "ce-source": {"s"}, "ce-type": {"t"}}}); err != nil {
		t.Fatal(err)
	}
	if got := <-handled; got != "nats" {
		t.Errorf("got event %s, want nats", got)
	}
	if conn, err := nats.Connect(r.NATSAddr(), nats.Token(secret)); err == nil {
		conn.Close()
		t.Error("NATS: got a connection without knowing the issuer, want none")
	}
	if _, err := tls.Dial("tcp", r.HTTPAddr(), &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("HTTP: got TLS 1.1, want at least 1.2")
	}

	// HTTP, by the command line.
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, ca.pem, 0o600); err != nil {
		t.Fatal(err)
	}
	url := "https://" + r.HTTPAddr()
	if code, out, errs := siding(t, map[string]string{"SIDING_TOKEN": secret}, nil, "event", "send", "--id", "cli", "--type", "t", "--server", url, "--ca", file); code != 0 || !strings.Contains(out, "stored") {
		t.Errorf("got %d %q %q, want it stored", code, out, errs)
	}
	if got := <-handled; got != "cli" {
		t.Errorf("got event %s, want cli", got)
	}
	if code, _, errs := siding(t, map[string]string{"SIDING_TOKEN": secret, "SIDING_CA": file, "SIDING_SERVER": url}, nil, "account"); code != 0 {
		t.Errorf("got %d %q with everything in the environment, want it answered", code, errs)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no issuer": {[]string{"--server", url}, 5, "hint: give the certificate of its issuer with --ca or SIDING_CA"},
		"http":      {[]string{"--server", "http://" + r.HTTPAddr(), "--ca", file}, 2, "hint: use https://" + r.HTTPAddr()},
		"localhost": {[]string{"--server", strings.Replace(url, "127.0.0.1", "localhost", 1), "--ca", file}, 5, "hint: name the node as its certificate does"},
	} {
		if code, out, errs := siding(t, map[string]string{"SIDING_TOKEN": secret}, nil, append([]string{"account"}, c.args...)...); code != c.code || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%s: got %d %q %q, want %d and %q", name, code, out, errs, c.code, c.want)
		}
	}
	plain, err := New(Config{DataDir: t.TempDir(), HTTP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	runNode(t, plain)
	if code, _, errs := siding(t, nil, nil, "account", "--server", "https://"+plain.HTTPAddr(), "--ca", file); code != 5 || !strings.Contains(errs, "hint: use http://") {
		t.Errorf("https where there is none: got %d %q, want 5 and a hint", code, errs)
	}
}

// TestCertificatesThatClientsWouldRefuseAreRefusedAtTheStart and nothing of a key is shown.
func TestCertificatesThatClientsWouldRefuseAreRefusedAtTheStart(t *testing.T) {
	ca := newAuthority(t)
	good, key := ca.issue(-time.Minute, time.Hour)
	_, otherKey := ca.issue(-time.Minute, time.Hour)
	expired, expiredKey := ca.issue(-2*time.Hour, -time.Hour)
	early, earlyKey := ca.issue(time.Hour, 2*time.Hour)
	for name, c := range map[string]struct{ cert, key, want string }{
		"good":          {good, key, ""},
		"another's key": {good, otherKey, "private key does not match"},
		"swapped":       {key, good, "hint: both are files in PEM"},
		"expired":       {expired, expiredKey, "hint: renew it"},
		"not yet valid": {early, earlyKey, "hint: look at the clock of this machine"},
	} {
		code, _, errs := siding(t, nil, func(context.Context, cli.ServeOptions) error { return nil }, "serve", "--tls-cert", c.cert, "--tls-key", c.key)
		if (code == 0) != (c.want == "") || !strings.Contains(errs, c.want) {
			t.Errorf("%s: got %d %q, want it refused with %q", name, code, errs, c.want)
		}
	}
}

// TestANodeIsNotOpenToTheNetworkUnlessThatIsSaid holds for programs that host a node, too.
func TestANodeIsNotOpenToTheNetworkUnlessThatIsSaid(t *testing.T) {
	key := tokens("ana", secret)
	for name, c := range map[string]struct {
		cfg     Config
		refused bool
		warning string // "" = none
	}{
		"nowhere":                {Config{}, false, ""},
		"off":                    {Config{HTTP: "off", NATS: "off"}, false, ""},
		"loopback":               {Config{HTTP: "127.0.0.1:0", NATS: "[::1]:0"}, false, ""},
		"localhost":              {Config{HTTP: "localhost:0"}, false, ""},
		"everywhere":             {Config{HTTP: ":0"}, true, ""},
		"NATS everywhere":        {Config{HTTP: "127.0.0.1:0", NATS: "0.0.0.0:0"}, true, ""},
		"everywhere, insecure":   {Config{HTTP: ":0", Insecure: true}, false, "without a token"},
		"everywhere, a token":    {Config{HTTP: ":0", Tokens: key}, false, "in clear"},
		"loopback, a token":      {Config{HTTP: "127.0.0.1:0", Tokens: key}, false, ""},
		"everywhere, encrypted":  {Config{HTTP: ":0", Tokens: key, TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, false, ""},
		"a name that is no loop": {Config{HTTP: "example.com:0"}, true, ""},
	} {
		_, err := New(c.cfg)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%s: got %v, want it refused: %v", name, err, c.refused)
		}
		var log bytes.Buffer
		c.cfg.warnAccess(slog.New(slog.NewTextHandler(&log, nil)))
		if !c.refused && (strings.Count(log.String(), "level=WARN") != min(1, len(c.warning)) || !strings.Contains(log.String(), c.warning)) {
			t.Errorf("%s: got log %q, want one warning: %q", name, &log, c.warning)
		}
	}
}

// A client that trusts one issuer trusts no other.
func TestAClientWithAnIssuerOfItsOwnTrustsNoOther(t *testing.T) {
	if _, err := client.New("https://127.0.0.1:1", "", client.WithCA([]byte("no PEM"))); !errors.Is(err, client.ErrNoCertificate) {
		t.Errorf("got %v, want ErrNoCertificate", err)
	}
	a, b := newAuthority(t), newAuthority(t)
	cert, key := a.issue(-time.Minute, time.Hour)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	server := newHTTPServer(newHTTPHandler(newFakeBackend(), httpOptions{}), slog.New(slog.DiscardHandler))
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	for name, c := range map[string]struct {
		ca   []byte
		want bool
	}{"its issuer": {a.pem, true}, "another issuer": {b.pem, false}, "both": {append(bytes.Clone(b.pem), a.pem...), true}} {
		node, err := client.New("https://"+listener.Addr().String(), "", client.WithCA(c.ca))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := node.Version(t.Context()); (err == nil) != c.want {
			t.Errorf("%s: got %v, want it answered: %v", name, err, c.want)
		}
	}
}
