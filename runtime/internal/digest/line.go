package digest

import (
	"fmt"
	"strings"
	"time"
)

// line has the four facts about a group: how many, since when, from whom, why.
func (g Group) line(now time.Time) string {
	why := g.Why
	if why == "" {
		why = because(g.Causes)
	}
	return fmt.Sprintf("%s: %s, %s, because %s (%s, group %s)",
		g.Function, howMany(g.Parked, g.StillParked, g.Since, now), g.from(), why, strings.Join(g.Causes, ", "), g.Group)
}

func (o Others) line(now time.Time) string {
	return "other groups: " + howMany(o.Parked, o.StillParked, o.Since, now)
}

func howMany(parked, standing int, since, now time.Time) string {
	if parked == 1 {
		text := "1 parked at " + At(since, now)
		if standing == 0 {
			text += " and not parked any more"
		}
		return text
	}
	text := fmt.Sprintf("%d parked since %s", parked, At(since, now))
	switch standing {
	case parked:
		return text
	case 0:
		return text + ", none of them still parked"
	}
	return fmt.Sprintf("%s, %d of them still parked", text, standing)
}

// At is a time as people read it who look at now: the day is left out where it is the same.
func At(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	layout := "15:04 UTC"
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		layout = "2006-01-02 15:04 UTC"
	}
	return t.Format(layout)
}

// from says who sent the events of a group.
func (g Group) from() string {
	if len(g.Sources) == 1 && g.MoreSources == 0 {
		text := "from " + named(g.Sources[0].Source)
		if g.Parked > 1 {
			text = "all " + text
		}
		return text
	}
	parts := make([]string, 0, len(g.Sources)+1)
	for _, s := range g.Sources {
		parts = append(parts, fmt.Sprintf("%s (%d)", named(s.Source), s.Events))
	}
	switch {
	case g.elsewhere:
		parts = append(parts, fmt.Sprintf("at least %d more", g.MoreSources))
	case g.MoreSources > 0:
		parts = append(parts, fmt.Sprintf("%d more", g.MoreSources))
	}
	last := len(parts) - 1
	return "from " + strings.Join(parts[:last], ", ") + " and " + parts[last]
}

func named(source string) string {
	if source == "" {
		return "an unknown source"
	}
	return source
}

// because says why where the failures have no text of their own.
func because(causes []string) string {
	if len(causes) != 1 {
		return "of several causes"
	}
	switch causes[0] {
	case "exhausted":
		return "all attempts failed"
	case "undecodable":
		return "the data is not what the function reads"
	case "crash":
		return "the process died while it was handled"
	case "stuck":
		return "its handler does not return"
	case "expired":
		return "it expired"
	case "set-aside":
		return "it was set aside"
	}
	return "it failed"
}
