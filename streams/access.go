package streams

import (
	"crypto/rand"
	"crypto/subtle"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// gate decides what a connection to the embedded server may do. The node's own connections, which know a secret made
// anew at every start, may do everything. All others are guests.
type gate struct {
	secret string // of the node's own connections
	inbox  string // prefix of where answers to them go: nobody else hears them, or knows where to forge one
	tokens Tokens // guests must present one; none lets everybody in
	guest  *server.Permissions
}

// nodePrefix begins the subjects on which the node's own connections hear answers.
const nodePrefix = "_SIDING."

func newGate(tokens Tokens, publish, consumers []string) *gate {
	publish = append([]string{eventsPrefix + ">"}, publish...)
	return &gate{secret: rand.Text(), inbox: nodePrefix + rand.Text(), tokens: tokens, guest: guestPermissions(publish, consumers)}
}

// Check is called by the server for every connection, from many goroutines.
func (g *gate) Check(c server.ClientAuthentication) bool {
	presented := c.GetOpts().Token
	name, known := g.tokens.Find(presented)
	switch {
	case equalSecret(presented, g.secret):
		c.RegisterUser(&server.User{Username: "node"})
	case known || len(g.tokens) == 0:
		c.RegisterUser(&server.User{Username: strings.TrimSpace("guest " + name), Permissions: g.guest})
	default:
		return false
	}
	return true
}

func equalSecret(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// guestPermissions lets guests publish events, subscribe and browse: read streams by sequence or subject, and through
// consumers of their own that need no ack. They cannot create, update, purge or delete a stream, delete from one, ack
// for somebody, or get at the durable consumers named in consumers and at the work queues, where a second reader would
// take work away.
//
// Guests hear each other: every client's answers go to _INBOX.>, and no permission tells one client's inbox from another's. There they
// hear nothing that they may not ask for themselves.
//
// What a permission cannot hold back: the server answers at the reply subject of a request whatever that is, and delivers to
// the subject that a consumer's configuration names. A guest who means to can so make a PubAck, or an event, land in any stream. Who
// reads siding.> must therefore expect a message that is not ours. Guests are colleagues who are kept from mistakes; who is to have
// no influence at all gets no token.
func guestPermissions(publish, consumers []string) *server.Permissions {
	allow := append([]string{
		"$JS.API.INFO",
		"$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.*",
		"$JS.API.STREAM.MSG.GET.*", "$JS.API.DIRECT.GET.>",
		"$JS.API.CONSUMER.NAMES.*", "$JS.API.CONSUMER.LIST.*", "$JS.API.CONSUMER.INFO.*.*",
		"$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.MSG.NEXT.*.*",
		"$JS.FC.>",
	}, publish...)
	deny := []string{"siding.>"}
	for _, stream := range []string{RetryStream, DecisionsStream, AdvisoriesStream} {
		deny = append(deny,
			"$JS.API.CONSUMER.CREATE."+stream, "$JS.API.CONSUMER.CREATE."+stream+".>",
			"$JS.API.CONSUMER.MSG.NEXT."+stream+".*")
	}
	for _, consumer := range append([]string{WebhookConsumer}, consumers...) {
		deny = append(deny,
			"$JS.API.CONSUMER.CREATE.*."+consumer, "$JS.API.CONSUMER.CREATE.*."+consumer+".>",
			"$JS.API.CONSUMER.MSG.NEXT.*."+consumer)
	}
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: allow, Deny: deny},
		// A guest that hears the API's requests could answer them in the server's place. One that hears where the node waits
		// for an answer could have the server send another there, as the reply to a request of his own.
		Subscribe: &server.SubjectPermission{Deny: []string{"$JS.API.>", "$JS.ACK.>", "$SYS.>", nodePrefix + ">"}},
	}
}
