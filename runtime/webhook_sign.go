package runtime

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// sign sets the three headers of the Standard Webhooks scheme (https://www.standardwebhooks.com): the id, which is the same whenever the notice is
// posted, the time of this post, and the signature of both and the body. Who receives it refuses old times and remembers ids.
func sign(h http.Header, secret []byte, id string, at time.Time, body []byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.", id, timestamp)
	mac.Write(body)
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", timestamp)
	h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// Bounds of a secret in bytes. Anybody who sees one post can try short ones.
const (
	minSecret = 16
	maxSecret = 512
)

// ParseWebhookSecret reads the secret of a webhook as it stands in its file: whsec_ and base64, as services that speak Standard Webhooks hand it
// out, or the secret itself. White space around it does not count.
func ParseWebhookSecret(text string) ([]byte, error) {
	text = strings.TrimSpace(text)
	secret := []byte(text)
	if encoded, ok := strings.CutPrefix(text, "whsec_"); ok {
		var err error
		if secret, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, fmt.Errorf("webhook secret: no base64 behind whsec_: hint: copy it as a whole")
		}
	}
	if len(secret) < minSecret || len(secret) > maxSecret {
		return nil, fmt.Errorf("webhook secret: %d bytes, want %d to %d: hint: openssl rand -base64 32", len(secret), minSecret, maxSecret)
	}
	return secret, nil
}

// check refuses what cannot be posted to or is not signed.
func (n Notify) check() error {
	switch u, err := url.Parse(n.Webhook); {
	case n.Interval < 0:
		return fmt.Errorf("notify: interval %s: negative: hint: 0 is the default of %s", n.Interval, defaultDigestInterval)
	case n.Webhook == "":
		return nil
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("notify: webhook: no absolute http or https URL: hint: as in https://hooks.example/siding")
	case len(n.Secret) < minSecret:
		return fmt.Errorf("notify: webhook: the secret that signs what is posted has %d bytes, want %d at least: hint: openssl rand -base64 32", len(n.Secret), minSecret)
	}
	return nil
}
