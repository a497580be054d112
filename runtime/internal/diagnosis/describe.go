package diagnosis

import (
	"fmt"
	"strings"

	"github.com/siding-dev/siding/streams"
)

// Describe says in one sentence what speaks for a suspension, or who asked for it.
func Describe(s streams.Suspension) string {
	e := s.Evidence
	var text string
	switch {
	case e.Of > 0:
		text = fmt.Sprintf("%d of the last %d events would be parked", e.Failures, e.Of)
	case e.Failures > 0:
		text = fmt.Sprintf("%s of %s, %s and %s failed in a row, none succeeded", count(e.Failures, "attempt"), count(e.Events, "event"),
			count(e.Keys, "key"), count(e.Sources, "source"))
	default:
		return s.Reason
	}
	if len(e.Errors) > 0 {
		text += ": " + strings.Join(e.Errors, "; ")
	}
	return text
}

// Knows reports whether an audit that knows of one change knows of another: they come in this order.
func Knows(told, news streams.SuspensionTold) bool {
	order := []streams.SuspensionTold{streams.ToldNothing, streams.ToldSuspended, streams.ToldGaveUp, streams.ToldResumed}
	at := func(t streams.SuspensionTold) int {
		for i, o := range order {
			if o == t {
				return i
			}
		}
		return 0
	}
	return at(told) >= at(news)
}
