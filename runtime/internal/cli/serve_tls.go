package cli

import (
	"crypto/tls"
	"time"
)

// loadTLS reads the certificate that both listeners answer with, nil if none is named. What a client would refuse is refused here,
// where somebody can do something about it.
func loadTLS(cert, key string) (*tls.Config, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, usage("give both, or none", "--tls-cert and --tls-key: one of them is missing")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, usage("both are files in PEM, and the key is that of the first certificate", "--tls-cert %s, --tls-key %s: %v", cert, key, err)
	}
	now := time.Now()
	switch leaf := pair.Leaf; {
	case now.After(leaf.NotAfter):
		return nil, usage("renew it", "--tls-cert %s: expired %s", cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return nil, usage("look at the clock of this machine", "--tls-cert %s: not valid before %s", cert, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
