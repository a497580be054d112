package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// SourceStream is a stream beside EVENTS that functions can read, on subjects of its own. A node makes those that its configuration
// names: clients of the embedded server may publish to their subjects, and may not create streams themselves.
type SourceStream struct {
	Name     string
	Subjects []string // NATS patterns, of which the first token is no wildcard
	MaxBytes int64    // from which on new events are refused; 0 = no limit of its own
}

// Validate says what is wrong with the description, with a hint.
func (s SourceStream) Validate() error {
	if s.Name == "" || strings.ContainsAny(s.Name, ".*>/\\ \t\r\n\x00") {
		return fmt.Errorf("stream %q: not a name: hint: use letters, digits, - and _, as in ORDERS", s.Name)
	}
	if s.Name == EventsStream || ownStream(s.Name) {
		return fmt.Errorf("stream %s: is made by siding itself: hint: choose another name", s.Name)
	}
	if len(s.Subjects) == 0 {
		return fmt.Errorf("stream %s: no subjects: hint: name at least one, as in orders.>", s.Name)
	}
	for _, subject := range s.Subjects {
		tokens := strings.Split(subject, ".")
		for i, t := range tokens {
			if t == "" || strings.ContainsAny(t, " \t\r\n\x00") || t == ">" && i < len(tokens)-1 {
				return fmt.Errorf("stream %s: subject %q: not a NATS subject: hint: write tokens with single dots between them, as in orders.>", s.Name, subject)
			}
		}
		// Clients may publish to these subjects, so none may reach what is the broker's or ours.
		if first := tokens[0]; first == "*" || first == ">" || first[0] == '$' || first[0] == '_' || first == "siding" || first+"." == eventsPrefix {
			return fmt.Errorf("stream %s: subject %q: begins with a token that is not free: hint: begin with a word of your own, as in orders.>; events, siding, $… and _… are taken", s.Name, subject)
		}
	}
	if s.MaxBytes < 0 {
		return fmt.Errorf("stream %s: max bytes %d: negative: hint: a number of bytes, or 0 for no limit", s.Name, s.MaxBytes)
	}
	return nil
}

// ownStream reports whether a stream holds what Siding keeps, and no events of others: functions write to it, so a backup holds them meanwhile.
func ownStream(name string) bool {
	return strings.HasPrefix(name, "SIDING_") || strings.HasPrefix(name, dlqPrefix) || strings.HasPrefix(name, "KV_SIDING_")
}

// EnsureSources makes the streams that are missing, and gives those that exist their subjects. It changes nothing else of them: they may be
// somebody else's.
func (s *Store) EnsureSources(ctx context.Context, sources []SourceStream) error {
	ctx, cancel := context.WithTimeout(ctx, 6*OpTimeout)
	defer cancel()
	js := s.node.JetStream()
	for _, source := range sources {
		st, err := js.Stream(ctx, source.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			_, err = js.CreateStream(ctx, jetstream.StreamConfig{
				Name: source.Name, Subjects: source.Subjects, MaxBytes: source.MaxBytes,
				Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
				MaxMsgSize: MaxEventSize(s.limits.MaxPayload) + publishRoom, Duplicates: DedupeWindow, AllowDirect: true,
			})
		case err == nil && !slices.Equal(st.CachedInfo().Config.Subjects, source.Subjects):
			cfg := st.CachedInfo().Config
			cfg.Subjects = source.Subjects
			_, err = js.UpdateStream(ctx, cfg)
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", source.Name, err)
		}
	}
	return nil
}

// SourceNames lists the streams that a function could read, in order.
func (s *Store) SourceNames(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	var names []string
	list := s.node.JetStream().StreamNames(ctx)
	for name := range list.Name() {
		if !ownStream(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, list.Err()
}

// Attachable says why a function that wants these types cannot read the stream, with a hint; nil if it can.
//
// What a function has not finished must stay until it has, and an event must be there for every other function too: only a stream that keeps
// its events whoever has acknowledged them gives that. A stream in memory forgets its events at a restart and begins its sequences anew,
// which are the identity of all that we keep.
func (s Source) Attachable(types []string) error {
	c := s.config
	switch {
	case ownStream(s.Name):
		return fmt.Errorf("stream %s: is one that siding keeps for itself: hint: let the function read %s, or a stream of your own", s.Name, EventsStream)
	case c.Retention != jetstream.LimitsPolicy:
		return fmt.Errorf("stream %s: has %s retention, which removes an event when somebody has acknowledged it: hint: read a stream with limits retention; one with `--source %s` can copy it",
			s.Name, strings.ToLower(c.Retention.String()), s.Name)
	case c.Storage == jetstream.MemoryStorage:
		return fmt.Errorf("stream %s: is kept in memory and loses its events at a restart: hint: read a stream with file storage", s.Name)
	}
	if s.Name == EventsStream || c.SubjectTransform != nil || c.Mirror != nil || len(c.Sources) > 0 {
		return nil // what its events' subjects are is not to be read from its own
	}
	for _, t := range types {
		if !slices.ContainsFunc(c.Subjects, func(subject string) bool { return overlap(subject, t) }) {
			return fmt.Errorf("stream %s: no event on it can match %q: hint: the types of a function that reads another stream than %s are patterns of that stream's subjects: %s",
				s.Name, t, EventsStream, strings.Join(c.Subjects, ", "))
		}
	}
	return nil
}

// Removes names the rules by which the stream removes events by itself, whether they are finished or not; none is the full promise.
func (s Source) Removes() []string {
	c := s.config
	var rules []string
	if c.MaxAge > 0 {
		rules = append(rules, "older than "+c.MaxAge.String())
	}
	if c.Discard == jetstream.DiscardOld && c.MaxBytes > 0 {
		rules = append(rules, fmt.Sprintf("the oldest beyond %d bytes", c.MaxBytes))
	}
	if c.Discard == jetstream.DiscardOld && c.MaxMsgs > 0 {
		rules = append(rules, fmt.Sprintf("the oldest beyond %d events", c.MaxMsgs))
	}
	if c.MaxMsgsPerSubject > 0 && !c.DiscardNewPerSubject {
		rules = append(rules, fmt.Sprintf("the oldest beyond %d of one subject", c.MaxMsgsPerSubject))
	}
	if c.AllowMsgTTL {
		rules = append(rules, "when the time to live that their publisher gave is over")
	}
	if c.AllowRollup {
		rules = append(rules, "when a publisher rolls them up")
	}
	return rules
}

// RemovesInside reports whether the stream removes events from its middle, where their absence is no bound that moves.
func (s Source) RemovesInside() bool {
	c := s.config
	return c.MaxMsgsPerSubject > 0 && !c.DiscardNewPerSubject || c.AllowMsgTTL || c.AllowRollup
}

// Whole reports whether a function that wants these types reads every event of the stream: then a sequence that is not there was removed, and
// is none of another type.
func (s Source) Whole(types []string) bool {
	filters, err := SubjectFilters(s.Name, types)
	c := s.config
	return err == nil && c.SubjectTransform == nil && c.Mirror == nil && len(c.Sources) == 0 &&
		!slices.ContainsFunc(c.Subjects, func(subject string) bool {
			return !slices.ContainsFunc(filters, func(f string) bool { return covers(f, subject) })
		})
}

// overlap reports whether some subject matches both patterns.
func overlap(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		switch {
		case x[i] == ">" || y[i] == ">":
			return true
		case x[i] != "*" && y[i] != "*" && x[i] != y[i]:
			return false
		}
	}
	return len(x) == len(y)
}
