package streams_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/streams"
	"github.com/siding-dev/siding/streams/streamstest"
)

func TestATokenFileHoldsNamesAndHashes(t *testing.T) {
	ana, tokenOfAna, err := streams.NewToken("ana")
	if err != nil {
		t.Fatal(err)
	}
	ci, err := streams.HashToken("ci@build", strings.Repeat("x1", 12))
	if err != nil {
		t.Fatal(err)
	}
	all, err := streams.ParseTokens("# of the claims team\n\n  " + tokenOfAna.String() + " \r\n" + ci.String())
	if err != nil || !slices.Equal(all, streams.Tokens{tokenOfAna, ci}) {
		t.Fatalf("got %v, %v, want both tokens", all, err)
	}
	if strings.Contains(tokenOfAna.String(), strings.TrimPrefix(ana, "siding_")) {
		t.Errorf("got line %s, want nothing of the token in it", tokenOfAna)
	}
	for presented, want := range map[string]string{
		ana: "ana", strings.Repeat("x1", 12): "ci@build",
		"": "", ana[1:]: "", ana + " ": "", tokenOfAna.String(): "", strings.TrimPrefix(tokenOfAna.String(), "ana:"): "",
	} {
		if name, ok := all.Find(presented); name != want || ok != (want != "") {
			t.Errorf("token %q: got %q, %v, want %q", presented, name, ok, want)
		}
	}
	if _, ok := (streams.Tokens{}).Find(""); ok {
		t.Error("got a token found among none")
	}
}

func TestATokenFileThatIsNotOneIsRefusedWithoutRepeatingIt(t *testing.T) {
	_, token, err := streams.NewToken("ana")
	if err != nil {
		t.Fatal(err)
	}
	const plain = "open-sesame-of-24-letters"
	for name, c := range map[string]struct{ text, want string }{
		"empty":         {"", "no tokens"},
		"only comments": {"# x\n\n", "no tokens"},
		"plain":         {plain + "\n", "line 1: not name:sha256"},
		"named plain":   {"ana:" + plain, "line 1: not name:sha256"},
		"half a hash":   {"\n" + token.String()[:20], "line 2: not name:sha256"},
		"no name":       {strings.TrimPrefix(token.String(), "ana"), "line 1: its name"},
		"bad name":      {"a b" + strings.TrimPrefix(token.String(), "ana"), "line 1: its name"},
		"twice":         {token.String() + "\n" + token.String(), "line 2: the name ana stands in line 1"},
	} {
		_, err := streams.ParseTokens(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ": hint: ") || strings.Contains(err.Error(), plain) {
			t.Errorf("%s: got %v, want %q and a hint", name, err, c.want)
		}
	}
	for _, secret := range []string{"", "short", strings.Repeat("x", 23), strings.Repeat("a b", 10), strings.Repeat("é", 20)} {
		if _, err := streams.HashToken("ana", secret); err == nil || !strings.Contains(err.Error(), ": hint: ") || secret != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("token %q: got %v, want it refused with a hint and not repeated", secret, err)
		}
	}
	for _, name := range []string{"", "a b", "a:b", "ä", strings.Repeat("x", 65)} {
		if _, _, err := streams.NewToken(name); err == nil {
			t.Errorf("name %q: got nil, want it refused", name)
		}
	}
}

func TestEachOfTheTokensOpensTheListener(t *testing.T) {
	one, first, err := streams.NewToken("one")
	if err != nil {
		t.Fatal(err)
	}
	two, second, err := streams.NewToken("two")
	if err != nil {
		t.Fatal(err)
	}
	node := streamstest.New(t, func(cfg *streams.Config) { cfg.Listen, cfg.Tokens = "127.0.0.1:0", streams.Tokens{first, second} })
	for presented, want := range map[string]bool{one: true, two: true, "": false, "wrong": false, first.String(): false} {
		conn, err := nats.Connect(node.Addr(), nats.Token(presented))
		if want != (err == nil) || err != nil && !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("token %q: got %v, want it open: %v", presented, err, want)
		}
		if err == nil {
			conn.Close()
		}
	}
}
