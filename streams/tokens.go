package streams

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// tokenPrefix tells people, and scanners for leaked secrets, what a token is of.
const tokenPrefix = "siding_"

// minToken is the shortest token that somebody may choose himself. Plain SHA-256, which is fast, keeps a secret only if nobody can try all
// that it may be: the tokens that NewToken makes have 130 random bits, and no slow hash could add to that. It also is why each
// call can afford the comparison.
const minToken = 24

// ErrNoTokens is what is wrong with a token file that says nothing.
var ErrNoTokens = errors.New("no tokens in it")

// Token is somebody who may call a node. What he presents is not kept, only its hash.
type Token struct {
	Name string
	Hash [sha256.Size]byte
}

// NewToken makes a token that nobody can guess. secret is what its owner presents; it is kept nowhere.
func NewToken(name string) (secret string, t Token, err error) {
	secret = tokenPrefix + rand.Text()
	t, err = HashToken(name, secret)
	return secret, t, err
}

// HashToken makes a token of a secret that somebody has already.
func HashToken(name, secret string) (Token, error) {
	if !tokenName(name) {
		return Token{}, fmt.Errorf("name %q: not valid for a token: hint: use letters, digits and . _ @ -, at most 64 of them", name)
	}
	if len(secret) < minToken || strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Token{}, fmt.Errorf("token of %s: too easily guessed, or not one word of ASCII: hint: use at least %d random characters, or `siding token new %s`", name, minToken, name)
	}
	return Token{Name: name, Hash: sha256.Sum256([]byte(secret))}, nil
}

// String is the token's line in a token file: name:sha256.
func (t Token) String() string { return t.Name + ":" + hex.EncodeToString(t.Hash[:]) }

func tokenName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._@-", r)
	})
}

// Tokens are all who may call a node; none is open access.
type Tokens []Token

// ParseTokens reads a token file: a line name:sha256 for each token, blank lines, and comments behind #. Errors name lines and
// never repeat them: what stands in the wrong place may be a secret. A file without tokens is an error, because it would mean open access.
func ParseTokens(text string) (Tokens, error) {
	var all Tokens
	names := map[string]int{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, digits, two := strings.Cut(line, ":")
		hash, err := hex.DecodeString(digits)
		if !two || err != nil || len(hash) != sha256.Size {
			return nil, fmt.Errorf("line %d: not name:sha256-in-hex: hint: a token itself is never stored; `siding token hash NAME` makes the line of one, `siding token new NAME` a new one", number)
		}
		if !tokenName(name) {
			return nil, fmt.Errorf("line %d: its name is not valid: hint: use letters, digits and . _ @ -, at most 64 of them", number)
		}
		if names[name] > 0 {
			return nil, fmt.Errorf("line %d: the name %s stands in line %d already: hint: a name tells who decided, so each has one", number, name, names[name])
		}
		names[name] = number
		all = append(all, Token{Name: name, Hash: [sha256.Size]byte(hash)})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: hint: `siding token new NAME --append FILE` adds one", ErrNoTokens)
	}
	return all, nil
}

// Find returns the name of the token that was presented. It takes the same time whichever it is, and if it is none: all are compared, by
// their hashes, which tell nothing of what would have been right.
func (ts Tokens) Find(presented string) (name string, ok bool) {
	hash := sha256.Sum256([]byte(presented))
	found := -1
	for i := range ts {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], ts[i].Hash[:]), i, found)
	}
	if found < 0 {
		return "", false
	}
	return ts[found].Name, true
}
