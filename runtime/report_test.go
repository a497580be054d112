package runtime

import "github.com/siding-dev/siding/advisories"

// report is what the dead letter of an event says about itself.
func (l *life) report(function, id string) advisories.Report {
	l.w.t.Helper()
	m, ok := l.letters(function)[id]
	if !ok {
		l.w.t.Fatalf("event %s is no dead letter", id)
	}
	r, err := advisories.ReadReport(m)
	if err != nil {
		l.w.t.Fatal(err)
	}
	return r
}
