package digest

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bounds of a digest. What is beyond them is counted and not named.
const (
	maxGroups  = 100
	maxSources = 16 // counted one by one in a group
	maxNamed   = 3  // named
	maxSource  = 160
	maxCauses  = 8 // there are no more
)

// Parking is one event that became a dead letter.
type Parking struct {
	Function string
	ID       string // of the dead letter
	Source   string // who sent the event; "" is what was no event
	Cause    string
	Group    string // its fingerprint
	Why      string // normalised
	At       time.Time
}

// Fold counts parkings by what they have in common. Its zero value is empty; it belongs to one goroutine.
type Fold struct {
	groups map[key]*group
	others group // of all groups beyond the bound
	// functions of all that was added. There are no more of them than are hosted here.
	functions map[string]bool
}

type key struct{ function, fingerprint string }

type group struct {
	parked, standing int
	first, last      time.Time
	example          string // the first one
	why              string
	causes           map[string]bool
	sources          map[string]int
	elsewhere        int // events of sources beyond the bound
}

// Len is how many parkings were added.
func (f *Fold) Len() int {
	n := f.others.parked
	for _, g := range f.groups {
		n += g.parked
	}
	return n
}

// Functions lists the functions of all parkings, sorted.
func (f *Fold) Functions() []string { return slices.Sorted(maps.Keys(f.functions)) }

// Add counts one parking.
func (f *Fold) Add(p Parking) {
	if f.groups == nil {
		f.groups, f.functions = map[key]*group{}, map[string]bool{}
	}
	f.functions[p.Function] = true
	k := key{p.Function, p.Group}
	g := f.groups[k]
	switch {
	case g != nil:
	case len(f.groups) < maxGroups:
		g = &group{why: Normalise(p.Why), causes: map[string]bool{}, sources: map[string]int{}}
		f.groups[k] = g
	default:
		f.others.count(p)
		return
	}
	g.count(p)
	if len(g.causes) < maxCauses {
		g.causes[p.Cause] = true
	}
	source := Clean(p.Source, maxSource)
	if _, known := g.sources[source]; known || len(g.sources) < maxSources {
		g.sources[source]++
	} else {
		g.elsewhere++
	}
}

func (g *group) count(p Parking) {
	g.parked++
	if g.first.IsZero() || p.At.Before(g.first) || p.At.Equal(g.first) && p.ID < g.example {
		g.first, g.example = p.At, p.ID
	}
	if p.At.After(g.last) {
		g.last = p.At
	}
}

// Stands notes that the dead letter of a parking that was added still stands.
func (f *Fold) Stands(function, fingerprint string) {
	if g := f.groups[key{function, fingerprint}]; g != nil {
		g.standing++
		return
	}
	f.others.standing++
}

// NoneStand forgets what was noted about that.
func (f *Fold) NoneStand() {
	for _, g := range f.groups {
		g.standing = 0
	}
	f.others.standing = 0
}

// AllStand notes that every one still stands.
func (f *Fold) AllStand() {
	for _, g := range f.groups {
		g.standing = g.parked
	}
	f.others.standing = f.others.parked
}

// Digest is what is told about newly parked events.
type Digest struct {
	Text        string    `json:"text"` // one line a group
	Parked      int       `json:"parked"`
	StillParked int       `json:"still_parked"`
	Since       time.Time `json:"since"`
	Until       time.Time `json:"until"`
	Groups      []Group   `json:"groups"`
	// Others counts what is in none of Groups, because there were too many.
	Others *Others `json:"others,omitempty"`
}

// Group is what is told about one function and one fingerprint.
type Group struct {
	Function    string    `json:"function"`
	Group       string    `json:"group"`
	Parked      int       `json:"parked"`
	StillParked int       `json:"still_parked"`
	Since       time.Time `json:"since"`
	Last        time.Time `json:"last"`
	Sources     []Source  `json:"sources"`
	MoreSources int       `json:"more_sources,omitempty"` // that are not named
	Causes      []string  `json:"causes"`
	Why         string    `json:"why"`
	Example     string    `json:"example"` // id of the first dead letter
	Line        string    `json:"line"`
	elsewhere   bool      // MoreSources is a lower bound
}

// Source is who sent events, and how many of a group.
type Source struct {
	Source string `json:"source"`
	Events int    `json:"events"`
}

// Others is what is told about groups that are not named.
type Others struct {
	Parked      int       `json:"parked"`
	StillParked int       `json:"still_parked"`
	Since       time.Time `json:"since"`
	Line        string    `json:"line"`
}

// Digest tells what was added, at a time that all of it is before. Groups stand by function, the largest first.
func (f *Fold) Digest(now time.Time) Digest {
	d := Digest{Until: now.UTC(), Groups: []Group{}}
	note := func(g *group) {
		d.Parked += g.parked
		d.StillParked += g.standing
		if d.Since.IsZero() || g.first.Before(d.Since) {
			d.Since = g.first.UTC()
		}
	}
	for k, g := range f.groups {
		note(g)
		d.Groups = append(d.Groups, g.told(k, now))
	}
	slices.SortFunc(d.Groups, func(a, b Group) int {
		return cmp.Or(strings.Compare(a.Function, b.Function), cmp.Compare(b.Parked, a.Parked), strings.Compare(a.Group, b.Group))
	})
	lines := make([]string, 0, len(d.Groups)+1)
	for _, g := range d.Groups {
		lines = append(lines, g.Line)
	}
	if o := f.others; o.parked > 0 {
		note(&o)
		d.Others = &Others{Parked: o.parked, StillParked: o.standing, Since: o.first.UTC()}
		d.Others.Line = d.Others.line(now)
		lines = append(lines, d.Others.Line)
	}
	d.Text = strings.Join(lines, "\n")
	return d
}

func (g *group) told(k key, now time.Time) Group {
	t := Group{
		Function: k.function, Group: k.fingerprint, Parked: g.parked, StillParked: g.standing, Since: g.first.UTC(), Last: g.last.UTC(),
		Causes: slices.Sorted(maps.Keys(g.causes)), Why: g.why, Example: g.example, elsewhere: g.elsewhere > 0,
	}
	for source, n := range g.sources {
		t.Sources = append(t.Sources, Source{Source: source, Events: n})
	}
	slices.SortFunc(t.Sources, func(a, b Source) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), strings.Compare(a.Source, b.Source))
	})
	if len(t.Sources) > maxNamed {
		t.MoreSources = len(t.Sources) - maxNamed
		t.Sources = t.Sources[:maxNamed]
	}
	if t.elsewhere {
		t.MoreSources++
	}
	t.Line = t.line(now)
	return t
}
