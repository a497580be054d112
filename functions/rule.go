package functions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Rule says which class failures of one kind have, and how patient the function
// is with them. Function.Rules are asked in their order, and the first one that
// matches decides; the later ones are not asked.
//
// A rule speaks where the handler has not: it is asked about a plain error, one
// that only [RetryAfter] wraps, a panic and a timeout. What a handler has called
// [Park], [Undecodable], [Discard], [Unavailable] or [Suspend] stays that; an
// attempt that a stop has interrupted is nobody's failure, and a crash of the
// process leaves no error to ask about.
//
// A literal says all; [OnError], [OnIs] and [OnText] make the usual ones.
type Rule struct {
	// Text is a part of the error's text, as it is written; it is no pattern.
	// "" is any text.
	Text string
	// Match says whether the rule is about an error; nil is about any. With a
	// Text both must hold. After the deadline errors.Is finds [ErrTimeout] in
	// what it is given. It is called from many goroutines at once. A Match that
	// panics makes the attempt a failed one of class panic, whose error has both
	// the panic and what the handler said; no other rule is asked then.
	Match func(error) bool
	// Class is what such a failure is; "" leaves it as it is.
	//
	//	ClassTransient, ClassTimeout          retry
	//	ClassUnavailable                      retry, and it counts for the Breaker
	//	ClassPermanent, ClassUndecodable      park at once
	Class Class
	// Attempts is after how many attempts of an event's cycle such a failure
	// exhausts it, the attempts that failed otherwise included; at most
	// Retry.Attempts, and 0 is that. Attempt.Allowed does not know of it, because
	// nobody knows how an attempt will fail.
	Attempts int
	// Backoff replaces Retry.Backoff for the wait after such a failure; the zero
	// value leaves it. What the handler asks for by RetryAfter comes before both,
	// and Retry.Budget holds in any case.
	Backoff Backoff
}

// OnError is the rule about errors that errors.AsType finds an E in.
func OnError[E error](class Class) Rule {
	return Rule{Class: class, Match: func(err error) bool { _, ok := errors.AsType[E](err); return ok }}
}

// OnIs is the rule about errors that errors.Is finds target in.
func OnIs(target error, class Class) Rule {
	return Rule{Class: class, Match: func(err error) bool { return errors.Is(err, target) }}
}

// OnText is the rule about errors whose text has this part.
func OnText(part string, class Class) Rule { return Rule{Text: part, Class: class} }

// WithAttempts returns r with other Attempts.
func (r Rule) WithAttempts(n int) Rule {
	r.Attempts = n
	return r
}

// WithBackoff returns r with another Backoff.
func (r Rule) WithBackoff(b Backoff) Rule {
	r.Backoff = b
	return r
}

// Parks says whether a failure that the rule is about is parked at once.
func (r Rule) Parks() bool { return r.Class == ClassPermanent || r.Class == ClassUndecodable }

// String describes r for a person: `"deadlock": transient, 3 attempts, delays 1s`.
func (r Rule) String() string {
	var about, says []string
	if r.Text != "" {
		about = append(about, fmt.Sprintf("%q", r.Text))
	}
	if r.Match != nil {
		about = append(about, "what a Go function matches")
	}
	if r.Class != "" {
		says = append(says, string(r.Class))
	}
	if r.Attempts != 0 {
		says = append(says, fmt.Sprintf("%d attempts", r.Attempts))
	}
	if !r.Backoff.unset() {
		says = append(says, r.Backoff.String())
	}
	return strings.Join(about, " and ") + ": " + strings.Join(says, ", ")
}

// For returns r as it is for the failure that an attempt came to: with the
// attempts and the backoff of the rule that has decided about it. Next of that
// decides what follows the attempt.
func (r Retry) For(failure Result) Retry {
	r = r.WithDefaults()
	rule := failure.Rule
	if rule == nil {
		return r
	}
	if rule.Attempts > 0 {
		r.Attempts = min(r.Attempts, rule.Attempts)
	}
	if !rule.Backoff.unset() {
		r.Backoff = rule.Backoff
	}
	return r
}

// ruled is r as the first rule says that matches. It runs code of the
// function's author, which may panic.
func ruled(rules []Rule, r Result) Result {
	about := r.Err
	if r.Class == ClassTimeout {
		about = timedOut{r.Err}
	}
	i := slices.IndexFunc(rules, func(rule Rule) bool {
		return strings.Contains(about.Error(), rule.Text) && (rule.Match == nil || rule.Match(about))
	})
	if i < 0 {
		return r
	}
	r.Rule = &rules[i]
	if r.Rule.Class != "" {
		r.Class = r.Rule.Class
	}
	if r.Rule.Parks() {
		r.Outcome, r.After = Parked, 0
	}
	return r
}

// timedOut is an error after the deadline, as a rule sees it.
type timedOut struct{ error }

func (e timedOut) Unwrap() []error { return []error{e.error, ErrTimeout} }

// ruleProblems lists what is wrong with the rules of a function that allows so
// many attempts, each with the field it is about.
func ruleProblems(rules []Rule, allowed int) []problem {
	var ps []problem
	classes := []Class{"", ClassTransient, ClassPermanent, ClassUnavailable, ClassTimeout, ClassUndecodable}
	for i, r := range rules {
		field := fmt.Sprintf("rules[%d]", i)
		patient := r.Attempts != 0 || !r.Backoff.unset()
		switch {
		case r.Text == "" && r.Match == nil:
			ps = append(ps, problemf(field, "matches nothing; write a part of the error's text, or a Match"))
		case !slices.Contains(classes, r.Class):
			ps = append(ps, problemf(field+".class", "%q is no class that a rule gives; write transient, permanent, unavailable, timeout or undecodable", r.Class))
		case r.Class == "" && !patient:
			ps = append(ps, problemf(field, "changes nothing; write a class, attempts or a backoff"))
		case r.Parks() && patient:
			ps = append(ps, problemf(field, "is %s, which parks at once; leave attempts and backoff out, or write another class", r.Class))
		}
		if r.Attempts < 0 || r.Attempts > allowed {
			ps = append(ps, problemf(field+".attempts", "%d is out of range; write 1 to %d, which retry.attempts allows", r.Attempts, allowed))
		}
		ps = append(ps, r.Backoff.problems(field+".backoff")...)
	}
	return ps
}
