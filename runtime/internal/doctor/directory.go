package doctor

import (
	"maps"
	"slices"
	"time"
)

// Beyond these, times that were stored are in the future: the clock was set back, and ages and delays are wrong until it has caught up.
const (
	clockSlack = 2 * time.Second
	clockFault = time.Minute
)

func checkDirectory(r *report, f Facts, d *Directory) {
	if d.Absent {
		r.warn("lock", "siding serve makes it; siding restore makes it from a backup", "directory %s: not there", d.Path)
		return
	}
	switch {
	case f.Node != nil:
		r.ok("lock", "directory %s: held by this node, process %d", d.Path, f.Node.PID)
	case d.Locked != "":
		r.warn("lock", "ask the node itself: siding doctor --server URL sees more", "directory %s: held by %s", d.Path, d.Locked)
	default:
		r.ok("lock", "directory %s: held by nobody", d.Path)
	}
	if d.Format != "" {
		r.fail("format", d.FormatHint, "directory %s: %s", d.Path, d.Format)
	} else {
		r.ok("format", "this program reads the directory's format")
	}
	switch room := "make room on the disk, or give the data directory a larger one"; {
	case d.Free < d.Reserve/2:
		r.fail("disk", room, "%s free, the store needs a reserve of %s", size(d.Free), size(d.Reserve))
	case d.Free < d.Reserve:
		r.warn("disk", room, "%s free, less than the reserve of %s", size(d.Free), size(d.Reserve))
	default:
		r.ok("disk", "%s free, the store takes %s", size(d.Free), size(d.Used))
	}
	before := len(r.findings)
	for _, function := range slices.Sorted(maps.Keys(d.Damaged)) {
		r.warn("ledgers", "the next start sets it aside: events since the last acknowledgement may be handled once more",
			"function %s: its ledger %s", function, d.Damaged[function])
	}
	for _, name := range d.Aside {
		r.warn("ledgers", "keep it until you know what happened to the disk, then remove it", "%s was not trusted by a start", name)
	}
	r.unless(before, "ledgers", "%d readable", d.Ledgers)
}

// checkClock looks for times that were stored and are still to come.
func checkClock(r *report, f Facts) {
	what, ahead := "", time.Duration(0)
	look := func(name string, t time.Time) {
		if d := t.Sub(f.Now); d > ahead {
			what, ahead = name, d
		}
	}
	if f.Node != nil {
		for _, s := range f.Node.Streams {
			look("stream "+s.Name, s.Last)
		}
	}
	if f.Directory != nil {
		look("a file of the directory", f.Directory.Newest)
	}
	hint := "set the clock, by NTP; delays and ages are wrong until it has caught up"
	switch {
	case ahead > clockFault:
		r.fail("clock", hint, "%s was written %s from now: the clock was set back", what, ahead.Round(time.Second))
	case ahead > clockSlack:
		r.warn("clock", hint, "%s was written %s from now: the clock was set back", what, ahead.Round(time.Second))
	default:
		r.ok("clock", "nothing that is stored comes from the future")
	}
}
