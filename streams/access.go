package streams

import (
	"crypto/rand"
	"crypto/subtle"

	"github.com/nats-io/nats-server/v2/server"
)

// gate decides what a connection to the embedded server may do. The node's own connections, which know a secret made
// anew at every start, may do everything. All others are guests.
type gate struct {
	secret string // of the node's own connections
	token  string // guests must present it; "" lets everybody in
	guest  *server.Permissions
}

func newGate(token string, publish, consumers []string) *gate {
	if publish == nil {
		publish = []string{eventsPrefix + ">"}
	}
	return &gate{secret: rand.Text(), token: token, guest: guestPermissions(publish, consumers)}
}

// Check is called by the server for every connection, from many goroutines.
func (g *gate) Check(c server.ClientAuthentication) bool {
	presented := c.GetOpts().Token
	switch {
	case equalSecret(presented, g.secret):
		c.RegisterUser(&server.User{Username: "node"})
	case g.token == "" || equalSecret(presented, g.token):
		c.RegisterUser(&server.User{Username: "guest", Permissions: g.guest})
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
// What a permission cannot hold back: the server answers a publish at its reply subject whatever that is, so that a
// guest can make a bare PubAck land in any stream. Who reads siding.> must therefore expect a message that is not ours.
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
	for _, consumer := range consumers {
		deny = append(deny,
			"$JS.API.CONSUMER.CREATE.*."+consumer, "$JS.API.CONSUMER.CREATE.*."+consumer+".>",
			"$JS.API.CONSUMER.MSG.NEXT.*."+consumer)
	}
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: allow, Deny: deny},
		// A guest that hears the API's requests could answer them in the server's place.
		Subscribe: &server.SubjectPermission{Deny: []string{"$JS.API.>", "$JS.ACK.>"}},
	}
}
