package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/siding-dev/siding/streams"
)

// death is what is known of how the process before this one ended, if it did not stop in order.
type death struct {
	at      time.Time     // when, as far as that is known; otherwise when this one found out
	report  string        // what the Go runtime said of the panic, or of the fatal error, that ended it; "" for a kill
	blamed  streams.Ref   // whose attempt that goroutine ran, or had been started by; no function if that is not known
	running []string      // ids of the events whose attempt ran
	quiet   time.Duration // what is waited behind each suspect
}

// words are the report in one line.
func (d *death) words() string {
	for line := range strings.Lines(d.report) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return inOneLine(line)
		}
	}
	return ""
}

// eventLabel is the label that each goroutine of an attempt has, and whatever it starts inherits. Its value is the event's id.
const eventLabel = "siding.event"

// eventLabelled finds that label in what the Go runtime says of a goroutine.
var eventLabelled = regexp.MustCompile(`labels:\{[^}]*"` + regexp.QuoteMeta(eventLabel) + `": "([^"/]+)/(\d+)"`)

// blame finds out whose attempt the goroutine came from that ended the process: it is the first one in the report.
func (d *death) blame() {
	for line := range strings.Lines(d.report) {
		if !strings.HasPrefix(line, "goroutine ") {
			continue
		}
		if found := eventLabelled.FindStringSubmatch(line); found != nil {
			sequence, _ := strconv.ParseUint(found[2], 10, 64)
			d.blamed = streams.Ref{Function: found[1], Sequence: sequence}
		}
		return
	}
}

// others reports whether the process was ended by what an attempt of another event had started.
func (d *death) others(ref streams.Ref) bool { return d.blamed.Function != "" && d.blamed != ref }

// maxBeside bounds how many other events are named.
const maxBeside = 20

// beside says what else ran when the process died during an attempt, and which event's attempt ended it if that is known.
func (d *death) beside(ref streams.Ref) string {
	var others []string
	for _, id := range d.running {
		if id != ref.ID() {
			others = append(others, id)
		}
	}
	text := "nothing else ran"
	if n := len(others); n > 0 {
		text = "beside it ran " + strings.Join(others[:min(n, maxBeside)], ", ")
		if n > maxBeside {
			text += fmt.Sprintf(" and %d more", n-maxBeside)
		}
	}
	if d.blamed.Function != "" {
		text += "; the goroutine came from " + d.blamed.ID()
	}
	return text
}

// lookAtDeath finds out which attempts of hosted functions ran when the process died, and says what is done about that. A ledger that cannot be read is
// left to its owner.
func (h *host) lookAtDeath() {
	if h.death.at.IsZero() {
		h.death.at = time.Now()
	}
	h.death.blame()
	if h.death.blamed.Function != "" {
		h.log.Error("the process before this one was ended by a goroutine that an attempt of this event ran or had started", "event", h.death.blamed.ID(), "last_words", h.death.words())
	}
	h.death.running = nil
	for _, fn := range h.fns {
		for _, run := range streams.LedgerRuns(ledgerPath(h.store, fn.Name)) {
			if run.State != streams.RunBegun {
				h.death.running = append(h.death.running, streams.Ref{Function: fn.Name, Sequence: run.Sequence}.ID())
			}
		}
	}
	if len(h.death.running) == 0 {
		return
	}
	if h.death.report != "" {
		h.death.quiet = quietAfterPanic
	}
	named := h.death.running[:min(len(h.death.running), maxBeside)]
	h.log.Warn("the process before this one died while events were attempted; they are attempted again one at a time, with nothing beside them, and one that does it again is parked",
		"events", len(h.death.running), "among_them", strings.Join(named, " "), "at", h.death.at.UTC().Format(time.RFC3339), "last_words", h.death.words())
}

// The files in the data directory that keep a panic.
const (
	panicFile     = "panic"      // of this process, empty while it lives
	lastPanicFile = "panic.last" // the newest one, for people
)

// maxReport bounds what is kept of a panic in memory, in bytes.
const maxPanicReport = 64 << 10

// watchLife finds out how the process before this one ended, and sees to it that the next one can find out the same. stop ends that in order.
func (r *Runtime) watchLife(node *streams.Node) (stop func()) {
	if died, ok := node.Died(); ok {
		r.death.at = died.At
		r.log.Warn("the process before this one did not stop in order", "pid", died.PID, "since", died.Since.Format(time.RFC3339), "last_sign_of_life", died.At.UTC().Format(time.RFC3339))
	}
	over := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				node.Alive()
			}
		}
	}()
	rest := func() { close(over); <-done }
	if !r.process {
		return rest
	}
	file, err := r.keepPanic(node.Dir())
	if err != nil {
		r.log.Warn("what a panic says cannot be kept: if one ends the process, the next start may not know whose it was", "error", err.Error(),
			"hint", "let this user write "+filepath.Join(node.Dir(), panicFile)+" and "+lastPanicFile+" beside it, and remove what else stands there")
	}
	if file == nil {
		return rest
	}
	return func() {
		rest()
		_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
		_ = file.Close()
		_ = os.Remove(file.Name())
	}
}

// keepPanic reads what the process before this one has left, and has the Go runtime write down what ends this one. It does that as well as it can
// where something stands in the way: a file comes with an error then.
func (r *Runtime) keepPanic(dir string) (*os.File, error) {
	path := filepath.Join(dir, panicFile)
	report, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var renamed error
	if len(report) > 0 {
		if info, err := os.Stat(path); err == nil {
			r.death.at = info.ModTime()
		}
		r.death.report = string(report[:min(len(report), maxPanicReport)])
		renamed = os.Rename(path, filepath.Join(dir, lastPanicFile))
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := debug.SetCrashOutput(file, debug.CrashOptions{}); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, errors.Join(renamed, nameLabels())
}

// nameLabels has the Go runtime write the labels of goroutines into what it says of a panic. A user's own setting stays.
func nameLabels() error {
	const name, setting = "GODEBUG", "tracebacklabels"
	value := os.Getenv(name)
	if strings.Contains(value, setting) {
		return nil
	}
	return os.Setenv(name, strings.TrimPrefix(value+","+setting+"=1", ","))
}
