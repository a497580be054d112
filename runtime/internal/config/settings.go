package config

import (
	"regexp"
	"strings"
	"time"
)

// Setting is one setting of the node, as the file, the environment and the
// flags know it.
type Setting struct {
	// Key is its name in the file; one with a dot stands in a section.
	Key string
	// Default is its value where nobody says anything.
	Default string
	// Doc says what it is, for the help and the schema.
	Doc string
	// Bool says that it is a switch: its flag needs no value.
	Bool bool
	// URL says that it is one, of which only the host is shown.
	URL bool

	rule scalar
}

// Env is its name in the environment.
func (s Setting) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// Flag is its name on the command line, without hyphens before it.
func (s Setting) Flag() string { return strings.NewReplacer("_", "-", ".", "-").Replace(s.Key) }

// sections are the settings that stand below a key of their own, with what is said about all of them.
func sections() []field {
	return []field{{name: "notify", doc: "who is told of what parks and of what stops"}}
}

const (
	envPrefix = "SIDING_"
	// EnvFile is the variable that names the file, as the flag --config does.
	EnvFile = "SIDING_CONFIG"
)

// clientVariables belong to the commands that ask a node, and to nobody here.
func clientVariables() []string { return []string{"SIDING_SERVER", "SIDING_TOKEN"} }

const port = `([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])`

var (
	onePath    = text{"a path", regexp.MustCompile(`^[^\x00-\x1f]+$`)}
	oneAddress = text{"host:port, as in 127.0.0.1:4280", regexp.MustCompile(`^(\[[0-9a-zA-Z:.%]+\]|[^\[\]:\s]*):` + port + `$`)}
	addressOff = text{"host:port, as in 127.0.0.1:4222, or off", regexp.MustCompile(`^((\[[0-9a-zA-Z:.%]+\]|[^\[\]:\s]*):` + port + `|off)$`)}
)

// Settings returns every setting of a node, in the order in which they are
// documented.
func Settings() []Setting {
	return []Setting{
		{Key: "data_dir", Default: "siding-data", rule: onePath, Doc: "directory of everything that is stored"},
		{Key: "http", Default: "127.0.0.1:4280", rule: oneAddress, Doc: "address of the HTTP API"},
		{Key: "nats", Default: "127.0.0.1:4222", rule: addressOff, Doc: "address for NATS clients, or off"},
		{Key: "sync", Default: "interval", rule: words{"interval", "always"}, Doc: "when the disk is synced: interval, or always (safe against power loss)"},
		{Key: "token_file", rule: onePath, Doc: "file of the tokens of which callers must present one; see siding token"},
		{Key: "tls_cert", rule: onePath, Doc: "file with the certificate of both listeners, in PEM, its issuers behind it"},
		{Key: "tls_key", rule: onePath, Doc: "file with its private key"},
		{Key: "insecure", Default: "false", Bool: true, rule: yesNo{}, Doc: "allow open access from other machines"},
		{Key: "log_level", Default: "info", rule: words{"debug", "info", "warn", "error"}, Doc: "debug, info, warn or error"},
		{Key: "log_format", Default: "text", rule: words{"text", "json"}, Doc: "text or json"},
		{Key: "grace", Default: "20s", rule: duration{positive: true, seconds: true}, Doc: "time that a stop gives to running attempts"},
		{Key: "ack_wait", Default: "2m", rule: duration{positive: true, seconds: true}, Doc: "time without a heartbeat after which JetStream delivers an event again"},
		{Key: "notify.interval", Default: "1h", rule: duration{positive: true, seconds: true}, Doc: "time between two digests of newly parked events"},
		{Key: "notify.webhook", URL: true, rule: oneURL, Doc: "URL that every notice is posted to"},
		{Key: "notify.secret_file", rule: onePath, Doc: "file with the secret that signs what is posted, as Standard Webhooks say"},
	}
}

// Node is what the settings say.
type Node struct {
	DataDir, HTTP, NATS, Sync string
	TokenFile                 string // "" is none
	TLSCert, TLSKey           string // "" is none
	Insecure                  bool
	LogLevel, LogFormat       string
	Grace, AckWait            time.Duration
	NotifyInterval            time.Duration
	NotifyWebhook             string // "" is none
	NotifySecretFile          string // "" is none
}

// nodeOf expects values that their rules have accepted.
func nodeOf(values map[string]string) Node {
	length := func(key string) time.Duration {
		d, _ := time.ParseDuration(values[key])
		return d
	}
	return Node{
		DataDir: values["data_dir"], HTTP: values["http"], NATS: values["nats"], Sync: values["sync"],
		TokenFile: values["token_file"], TLSCert: values["tls_cert"], TLSKey: values["tls_key"], Insecure: values["insecure"] == "true",
		LogLevel: values["log_level"], LogFormat: values["log_format"],
		Grace: length("grace"), AckWait: length("ack_wait"),
		NotifyInterval: length("notify.interval"), NotifyWebhook: values["notify.webhook"], NotifySecretFile: values["notify.secret_file"],
	}
}
