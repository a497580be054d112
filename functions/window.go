package functions

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// zonePrefix begins a cron expression that is not meant in UTC.
const zonePrefix = "CRON_TZ="

// maxWindow bounds the length of a window: a longer one is open all the time,
// and is looked for again and again.
const maxWindow = 7 * 24 * time.Hour

// Schedule says when a function may begin attempts. The zero value is always;
// [Window] makes any other one. Schedules are values and may be shared.
type Schedule struct {
	cron   string
	length time.Duration
	made   bool
}

// Window lets a function begin attempts only in windows that open by a cron
// expression and last for length at most, as in Window("0 2 * * *", time.Hour).
//
// Each window is one run: it works off what was there when it opened, retries
// that come due within it included, and is over when that is done or when
// length has passed. What arrives meanwhile, what is redriven after the run is over and
// a retry whose backoff ends outside of a window wait for the next one. An
// outage ends the run too. Attempts count across runs, and those that run when
// a window closes end in their own time. A window that opens while the last one is
// still open takes its place. After a restart within a window a run begins anew, for
// what is there then.
//
// The five fields are minute, hour, day of the month, month and day of the
// week (0 to 7 or SUN to SAT), in UTC or in the time zone of a prefix, as in
// "CRON_TZ=Europe/Berlin 0 2 * * 1-5". If both days are given, either may
// match. An hour that the change to summer time leaves out opens no window, and
// one that comes twice opens them when it comes again.
func Window(cron string, length time.Duration) Schedule {
	return Schedule{cron: strings.Join(strings.Fields(cron), " "), length: length, made: true}
}

// Always reports whether s is the zero value.
func (s Schedule) Always() bool { return !s.made }

// Cron is the expression that s was made of, and Length how long its windows last at most.
func (s Schedule) Cron() string { return s.cron }

// Length is how long a window lasts at most.
func (s Schedule) Length() time.Duration { return s.length }

// String returns "always", or the expression and the length as in "0 2 * * * for 1h0m0s".
func (s Schedule) String() string {
	if s.Always() {
		return "always"
	}
	return fmt.Sprintf("%s for %v", s.cron, s.length)
}

// Next returns when the first window after t opens, in UTC; the zero time if
// none ever does, as for a schedule that is not valid.
func (s Schedule) Next(t time.Time) time.Time {
	zone, fields, err := s.split()
	if err != nil {
		return time.Time{}
	}
	next, err := gronx.NextTickAfter(fields, t.In(zone), false)
	// A window that does not lie ahead would open for ever.
	if err != nil || !next.After(t) {
		return time.Time{}
	}
	return next.UTC()
}

// At returns when the newest window that is open at t has opened, and ok =
// false if none is open. A window is open at the instant at which it opens,
// and no more when its length is over.
func (s Schedule) At(t time.Time) (opened time.Time, ok bool) {
	for at := s.Next(t.Add(-s.length)); !at.IsZero() && !at.After(t); at = s.Next(at) {
		opened, ok = at, true
	}
	return opened, ok
}

// split returns the time zone and the five fields.
func (s Schedule) split() (*time.Location, string, error) {
	zone, fields := time.UTC, s.cron
	if rest, ok := strings.CutPrefix(s.cron, zonePrefix); ok {
		var name string
		name, fields, _ = strings.Cut(rest, " ")
		var err error
		if zone, err = time.LoadLocation(name); err != nil || name == "" || name == "Local" {
			return nil, "", fmt.Errorf("%q is no time zone; write one such as CRON_TZ=Europe/Berlin", name)
		}
	}
	if !validCron(fields) {
		return nil, "", fmt.Errorf("%q is no cron expression of five fields; write minute, hour, day, month and day of the week, as in 0 2 * * *", fields)
	}
	return zone, fields, nil
}

// What a field may hold between commas. The library knows more (seconds, years, the last day of a month), which other crons do not.
var (
	cronNumber  = regexp.MustCompile(`^(\*|\d{1,2}(-\d{1,2})?)(/\d{1,2})?$`)
	cronMonth   = cronNames("jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec")
	cronWeekday = cronNames("sun|mon|tue|wed|thu|fri|sat")
)

func cronNames(names string) *regexp.Regexp {
	one := `(\d{1,2}|` + names + `)`
	return regexp.MustCompile(`(?i)^(\*|` + one + `(-` + one + `)?)(/\d{1,2})?$`)
}

// validCron looks at each part of each field by itself: the library stops at the first part of a list that matches the time at which it is asked.
func validCron(cron string) bool {
	fields := strings.Split(cron, " ")
	if len(fields) != 5 {
		return false
	}
	for i, field := range fields {
		shape := cronNumber
		switch i {
		case 3:
			shape = cronMonth
		case 4:
			shape = cronWeekday
		}
		for part := range strings.SplitSeq(field, ",") {
			alone := []string{"*", "*", "*", "*", "*"}
			if alone[i] = part; !shape.MatchString(part) || !gronx.IsValid(strings.Join(alone, " ")) {
				return false
			}
		}
	}
	return true
}

// problems lists what is wrong with s, each with the field it is about.
func (s Schedule) problems() []problem {
	if s.Always() {
		return nil
	}
	var ps []problem
	if _, _, err := s.split(); err != nil {
		ps = append(ps, problemf("window.cron", "%v", err))
	} else if s.Next(time.Unix(0, 0)).IsZero() {
		ps = append(ps, problemf("window.cron", "%q never comes; write a day that the month has", s.cron))
	}
	if s.length <= 0 || s.length > maxWindow {
		ps = append(ps, problemf("window.length", "%v is out of range; write more than 0 and at most %v", s.length, maxWindow))
	}
	return ps
}
