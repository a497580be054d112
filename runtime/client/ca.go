package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
)

// ErrNoCertificate is what New answers where WithCA was given nothing of use.
var ErrNoCertificate = errors.New("no certificate in PEM")

// Option changes how a Client calls.
type Option func(*options)

type options struct{ ca []byte }

// WithCA makes the client trust these certificates, in PEM, and no others: those of an issuer of one's own, or the node's own.
func WithCA(pem []byte) Option { return func(o *options) { o.ca = pem } }

// transport returns what calls go through; nil is Go's default.
func (o options) transport() (http.RoundTripper, error) {
	if o.ca == nil {
		return nil, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(o.ca) {
		return nil, ErrNoCertificate
	}
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // somebody has put one of his own in its place
		t = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	}
	t = t.Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return t, nil
}
