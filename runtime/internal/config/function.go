package config

import (
	"regexp"
	"strings"

	"github.com/siding-dev/siding/functions"
)

// field is a key of a section.
type field struct {
	name string
	doc  string
	rule rule
	// meaning marks what belongs to a function behind a URL alone: a
	// compiled-in one has it from its code.
	meaning bool
}

// section is the rule of a mapping with known keys.
type section struct {
	fields []field
	// require lists groups of keys: a mapping must have every key of exactly
	// one group and none of the others. None means that all keys are optional.
	require [][]string
	// hint says what to write when require does not hold.
	hint string
}

// list is the rule of a sequence.
type list struct {
	of    rule
	least int
}

// functionMap is the rule of the section functions: a name, and what is said of it.
type functionMap struct{ section }

const (
	maxAttempts, maxConcurrency, maxDepth = 1000, 1024, 1_000_000_000
	minRate, maxRate                      = 0.0001, 100_000
)

var (
	functionName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	oneLine      = text{"one line of text", regexp.MustCompile(`^[^\x00-\x1f\x7f-\x9f]*$`)}
	errorText    = text{"a part of an error's text, on one line", regexp.MustCompile(`^[^\x00-\x1f\x7f-\x9f]+$`)}
	oneURL       = text{"an absolute http or https URL", regexp.MustCompile(`^https?://[^\s/?#]+\S*$`)}
	oneKey       = text{"partitionkey, subject, source, unordered or extension:NAME", regexp.MustCompile(`^(partitionkey|subject|source|unordered|extension:[a-z0-9]+)$`)}
	oneName      = text{"a letter a to z, then letters, digits and hyphens, at most 63 characters", functionName}
	oneCron      = text{"minute, hour, day, month and day of the week, as in 0 2 * * *, with CRON_TZ=Europe/Berlin before it where it is not meant in UTC", regexp.MustCompile(`^(CRON_TZ=\S+ +)?\S+( +\S+){4}$`)}
	oneType      = text{"an event type, as in com.insurer.claim.*", regexp.MustCompile(`^\S+$`)}
)

// functionFields are the keys below the name of a function.
func functionFields() []field {
	return []field{
		{name: "url", meaning: true, rule: oneURL, doc: "where the handler listens; with it the function is declared here and needs no Go"},
		{name: "types", meaning: true, rule: list{oneType, 1}, doc: "CloudEvents types that it wants; * stands for one token, a last > for the rest"},
		{name: "stream", meaning: true, rule: oneType, doc: "stream that it reads"},
		{name: "order_by", meaning: true, rule: oneKey, doc: "what finds the ordering key: partitionkey, subject, source, unordered or extension:NAME"},
		{name: "on_park", meaning: true, rule: words{"hold", "continue"}, doc: "whether a dead letter holds later events of its key"},
		{name: "start", meaning: true, rule: words{"now", "beginning"}, doc: "where it begins when it is hosted for the first time"},
		{name: "version", meaning: true, rule: oneLine, doc: "version of the handler, recorded with every failed attempt"},
		{name: "schema_file", meaning: true, rule: onePath, doc: "file with the JSON Schema of the data; what does not satisfy it is refused"},
		{name: "dependencies", meaning: true, rule: list{dependencySection(), 1}, doc: "what it cannot work without; while one is away no attempt begins"},
		{name: "retry", rule: retrySection(), doc: "how often and how soon an event is attempted again"},
		{name: "rules", rule: list{ruleSection(), 1}, doc: "what failures of one kind are; asked before those in Go, and the first one that matches decides"},
		{name: "breaker", rule: breakerSection(), doc: "when the function is suspended because a resource is away"},
		{name: "rate", rule: rate{minRate, maxRate}, doc: "attempts that may begin within a second; 0 is no such limit"},
		{name: "window", rule: windowSection(), doc: "when attempts may begin; always where it is left out"},
		{name: "timeout", rule: duration{positive: true}, doc: "longest time of one attempt"},
		{name: "concurrency", rule: integer{1, maxConcurrency}, doc: "attempts that may run at once"},
		{name: "hold_limit", rule: holdLimitSection(), doc: "when holding raises an alarm"},
		{name: "owner", rule: oneLine, doc: "who is to be asked about its dead letters"},
	}
}

func retrySection() section {
	return section{fields: []field{
		{name: "attempts", rule: integer{1, maxAttempts}, doc: "attempts in all, the first included"},
		{name: "budget", rule: duration{}, doc: "longest time since the first failure within which an attempt may start; 0s is no such limit"},
		{name: "backoff", rule: backoffSection(), doc: "waits between attempts; it replaces the whole backoff of the function, its jitter included"},
	}}
}

func backoffSection() section {
	return section{
		fields: []field{
			{name: "first", rule: duration{positive: true}, doc: "wait after the first failed attempt; it doubles from then on"},
			{name: "longest", rule: duration{positive: true}, doc: "longest wait"},
			{name: "delays", rule: list{duration{}, 1}, doc: "the waits one by one; the last one repeats"},
			{name: "jitter", rule: share{}, doc: "width of the band around a wait as a share of it, 0 to 1; 0 where it is left out"},
		},
		require: [][]string{{"first", "longest"}, {"delays"}},
		hint:    "write first and longest, or delays",
	}
}

func ruleSection() section {
	return section{
		fields: []field{
			{name: "text", rule: errorText, doc: "a part of the error's text, as it is written; no pattern"},
			{name: "class", rule: ruleClasses(), doc: "what such a failure is; permanent and undecodable park at once, unavailable counts for the breaker"},
			{name: "attempts", rule: integer{1, maxAttempts}, doc: "after how many attempts such a failure parks; at most retry.attempts"},
			{name: "backoff", rule: backoffSection(), doc: "wait after such a failure, instead of retry.backoff"},
		},
		require: [][]string{{"text"}},
		hint:    "write text, which is a part of the error's text, and class, attempts or backoff",
	}
}

func ruleClasses() words {
	return words{
		string(functions.ClassTransient), string(functions.ClassPermanent), string(functions.ClassUnavailable),
		string(functions.ClassTimeout), string(functions.ClassUndecodable),
	}
}

func breakerSection() section {
	return section{fields: []field{
		{name: "off", rule: yesNo{}, doc: "never suspend"},
		{name: "failures", rule: integer{1, maxAttempts}, doc: "different events that must fail one after the other, none succeeding in between"},
		{name: "unavailable", rule: integer{1, maxAttempts}, doc: "the same for failures of class unavailable"},
		{name: "inflow", rule: share{positive: true}, doc: "share of the last 100 events that may be parked before the function is suspended instead; 1 is no such limit"},
		{name: "probe", rule: duration{positive: true}, doc: "wait before the first probe; it doubles from then on"},
		{name: "longest_probe", rule: duration{positive: true}, doc: "longest wait between two probes"},
		{name: "probes", rule: integer{1, maxAttempts}, doc: "probes that may fail before a person must resume the function"},
	}}
}

func windowSection() section {
	return section{
		fields: []field{
			{name: "cron", rule: oneCron, doc: "when a window opens: minute, hour, day, month and day of the week, in UTC unless CRON_TZ=… stands before them"},
			{name: "length", rule: duration{positive: true}, doc: "how long it is open at most; it is over earlier when all is worked off that was there when it opened"},
		},
		require: [][]string{{"cron", "length"}},
		hint:    "write cron and length",
	}
}

func dependencySection() section {
	return section{
		fields: []field{
			{name: "name", rule: oneName, doc: "what people see"},
			{name: "url", rule: oneURL, doc: "it is there if a GET is answered with a status below 500"},
			{name: "every", rule: duration{positive: true}, doc: "time between two checks; 5s where it is left out"},
			{name: "timeout", rule: duration{positive: true}, doc: "longest time of one check; 3s where it is left out"},
		},
		require: [][]string{{"name", "url"}},
		hint:    "write name and url",
	}
}

func holdLimitSection() section {
	return section{fields: []field{
		{name: "age", rule: duration{}, doc: "how long one key may hold events without a break; 0s is no such limit"},
		{name: "depth", rule: integer{0, maxDepth}, doc: "how many events one key may hold; 0 is no such limit"},
	}}
}

// file is the rule of the whole document.
func file() section {
	var s section
	below := map[string][]field{}
	for _, setting := range Settings() {
		f := field{name: setting.Key, rule: setting.rule, doc: setting.Doc}
		if name, key, nested := strings.Cut(setting.Key, "."); nested {
			f.name = key
			below[name] = append(below[name], f)
			continue
		}
		s.fields = append(s.fields, f)
	}
	for _, f := range sections() {
		f.rule = section{fields: below[f.name]}
		s.fields = append(s.fields, f)
	}
	s.fields = append(s.fields, field{
		name: "functions", rule: functionMap{section{fields: functionFields()}},
		doc: "numbers for functions that are compiled in, and whole functions that live behind a URL",
	})
	return s
}
