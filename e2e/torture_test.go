package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/siding-dev/siding/e2e/torture"
)

const (
	tortureType     = "com.example.torture"
	tortureAttempts = 5
	// Two functions handle every event: one in the order of its key, one without order.
	ordered, unordered = "ordered", "unordered"
)

// form says how much torture there is.
type form struct {
	keys, each   int           // each key has so many events
	kills, stops int           // at random moments
	length       time.Duration // that the events and the kills are spread over, without the starts
	stuck        bool          // whether some handlers do not return, which takes another ten seconds
}

func (f form) events() int { return f.keys * f.each }

// fullForm is what SIDING_TORTURE=full asks for.
func fullForm() form {
	return form{keys: 1000, each: 50, kills: 30, stops: 5, length: 32 * time.Second, stuck: true}
}

// tortureForm reads SIDING_TORTURE: "full", or <keys>x<events of each> with kills and stops in proportion; the short form if it is not set.
func tortureForm(t *testing.T) form {
	t.Helper()
	f := form{keys: 100, each: 20, kills: 8, stops: 2, length: 8 * time.Second}
	text := os.Getenv("SIDING_TORTURE")
	switch text {
	case "":
		return f
	case "full":
		return fullForm()
	}
	keys, each, _ := strings.Cut(text, "x")
	var err error
	if f.keys, err = strconv.Atoi(keys); err == nil {
		f.each, err = strconv.Atoi(each)
	}
	if err != nil || f.events() <= 0 {
		t.Fatalf("SIDING_TORTURE=%s: hint: full, or <keys>x<events of each>, such as 200x20", text)
	}
	full := fullForm()
	share := float64(f.events()) / float64(full.events())
	scale := func(n int) int { return int(share * float64(n)) }
	f.kills, f.stops = max(f.kills, scale(full.kills)), max(f.stops, scale(full.stops))
	f.length = max(f.length, time.Duration(share*float64(full.length)))
	return f
}

// tortureSeeds are the one that SIDING_SEED names, as many fresh ones as SIDING_SEEDS says, or two that are always the same.
func tortureSeeds(t *testing.T) []uint64 {
	t.Helper()
	if s := os.Getenv("SIDING_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("SIDING_SEED: %v", err)
		}
		return []uint64{seed}
	}
	if s := os.Getenv("SIDING_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("SIDING_SEEDS=%s: not a number of seeds", s)
		}
		seeds := make([]uint64, n)
		for i := range seeds {
			seeds[i] = rand.Uint64()
		}
		return seeds
	}
	return []uint64{1, 2}
}

// TestTortureKillsAndStopsBreakNoPromise kills and stops a node at random moments, while publishers and an operator never pause, and then
// judges what it did. A seed decides what is published, what fails, and when the node dies, but not what the node is at just then.
//
//	SIDING_TORTURE  full, or <keys>x<events of each>; a short form if it is not set
//	SIDING_SEED     the seed to take
//	SIDING_SEEDS    how many fresh ones to take, one after the other
func TestTortureKillsAndStopsBreakNoPromise(t *testing.T) {
	f := tortureForm(t)
	var total tortureResult
	began, seeds := time.Now(), tortureSeeds(t)
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			r := runTorture(t, f, seed)
			total.kills += r.kills
			total.stops += r.stops
			total.decisions += r.decisions
			total.violations = append(total.violations, r.violations...)
		})
	}
	summary := fmt.Sprintf("%d seeds, %d kills, %d stops, %d events, %d decisions, %d violations in %s",
		len(seeds), total.kills, total.stops, len(seeds)*f.events(), total.decisions, len(total.violations), time.Since(began).Round(time.Second))
	t.Attr("torture", summary)
	t.Log(strings.Join(append(total.violations, summary), "\n"))
}

type tortureResult struct {
	kills, stops, decisions int
	violations              []string // kind and seed
}

// storm is a node that is killed and stopped while events and decisions keep coming.
type storm struct {
	form    form
	seed    uint64
	program program
	goOn    string // a file: handlers that do not return do so when it exists
	client  *http.Client
	log     *tortureLog
	url     atomic.Value // string: of the newest process, also of one that is dead

	mu       sync.Mutex
	statuses map[int]int // what refused decisions were answered
	repeated int         // events that were stored without our learning of it
}

func (s *storm) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(s.seed, stream)) }

func (s *storm) address() string { return s.url.Load().(string) }

func runTorture(t *testing.T, f form, seed uint64) tortureResult {
	t.Logf("SIDING_SEED=%d", seed)
	s := &storm{form: f, seed: seed, goOn: filepath.Join(t.TempDir(), "go-on"), client: newHTTPClient(t), statuses: map[int]int{}}
	delays := []time.Duration{40 * time.Millisecond, 80 * time.Millisecond}
	fn := func(name, orderBy, do string) function {
		if f.stuck {
			do = "stuck-one-in=20000:" + s.goOn + " " + do
		}
		return function{
			Name: name, Types: []string{tortureType}, Beginning: true, Attempts: tortureAttempts, Delays: delays, Timeout: 500 * time.Millisecond,
			OrderBy: orderBy, Do: "slow=1ms slow-one-in=20:40ms " + do,
		}
	}
	s.program = newProgram(t, []string{"NODE_ACK_WAIT=1s"},
		fn(ordered, "partitionkey", "hang-one-in=1000 panic-one-in=100 park-one-in=200 fail-one-in=200 flaky-one-in=10"),
		fn(unordered, "unordered", "hang-one-in=2000 panic-one-in=100 park-one-in=200 fail-one-in=400 flaky-one-in=20"),
	)
	s.log = openTortureLog(t, s.program.calls)
	p := s.program.start(t)
	s.url.Store(p.url)
	began := time.Now()

	publishing, stopPublishing := context.WithTimeout(t.Context(), f.length+10*time.Minute)
	defer stopPublishing()
	operating, stopOperating := context.WithCancel(t.Context())
	defer stopOperating()
	var publishers, operator sync.WaitGroup
	s.publish(publishing, t, &publishers)
	operator.Go(func() { s.operate(operating, t) })
	p, slowest, alive := s.kill(t, p)
	t.Attr("kills-took", time.Since(began).Round(time.Second).String())
	if !alive {
		stopPublishing()
	}
	// The operator rests first, so that dead letters, and what they hold, are left for the first look at a node that is at rest.
	stopOperating()
	operator.Wait()
	publishers.Wait()
	t.Attr("storm-took", time.Since(began).Round(time.Second).String())

	var v *torture.Violation
	if alive {
		v = s.settle(t, p)
	} else {
		v = s.check(t, nil)
	}
	r := s.report(t, p, v)
	t.Attr("slowest-start", slowest.Round(time.Millisecond).String())
	return r
}

// check judges the log so far.
func (s *storm) check(t *testing.T, end *torture.End) *torture.Violation {
	t.Helper()
	return torture.Check(torture.Log{
		Functions: map[string]torture.Rules{ordered: {Ordered: true, Allowed: tortureAttempts}, unordered: {Allowed: tortureAttempts}},
		Lines:     s.log.read(t), End: end,
	})
}

// report says what the storm came to, and keeps the log of one that broke a promise.
func (s *storm) report(t *testing.T, p *process, v *torture.Violation) tortureResult {
	t.Helper()
	figures := torture.Measure(s.log.read(t))
	interrupted := 0
	for _, n := range figures.Interrupted {
		interrupted += n
	}
	r := tortureResult{kills: len(s.log.killed), stops: s.log.stopped, decisions: s.log.decisions}
	if v != nil {
		r.violations = []string{fmt.Sprintf("seed %d: %s: %s", s.seed, v.Kind, v.Text)}
		t.Errorf("%s\nhint: SIDING_SEED=%d, and the log is kept in %s", v, s.seed, s.log.keep(t, s.seed))
	}
	if interrupted == 0 {
		t.Error("got no attempt that a kill interrupted: these kills prove nothing")
	}
	if s.form == fullForm() {
		for _, action := range []string{torture.Redrive, torture.Edit, torture.Discard, torture.Discard + " with tail", torture.Release} {
			if figures.Decisions[action][torture.Applied] == 0 {
				t.Errorf("got no %s applied, want some: %v", action, figures.Decisions[action])
			}
		}
	}
	for i, k := range s.log.killed {
		t.Attr(fmt.Sprintf("kill-%d-hit", i+1), fmt.Sprintf("%d attempts, %d moves", figures.Interrupted[k.pid], k.moves))
	}
	t.Attr("kills", strconv.Itoa(r.kills))
	t.Attr("stops", strconv.Itoa(r.stops))
	t.Attr("events", strconv.Itoa(s.form.events()))
	t.Attr("events-stored-without-an-answer", strconv.Itoa(s.repeated))
	t.Attr("attempts-interrupted", strconv.Itoa(interrupted))
	for _, action := range slices.Sorted(maps.Keys(figures.Decisions)) {
		t.Attr("decisions-"+strings.ReplaceAll(action, " ", "-"), fmt.Sprint(figures.Decisions[action]))
	}
	t.Attr("decisions-refused-with", fmt.Sprint(s.statuses))
	for _, name := range []string{ordered, unordered} {
		t.Attr(name+"-attempts", fmt.Sprint(figures.Outcomes[name]))
		t.Attr(name+"-delivered-twice", strconv.Itoa(figures.Twice[name]))
	}
	if p != nil {
		t.Attr("moves-cut-before-the-last-start", strconv.Itoa(p.said(moveCut)))
	}
	return r
}

// moveCut is what a node says at its start of a move that the kill before it had cut.
const moveCut = "a crash had cut a move"

// tortureLog is the file of calls, to which the driver of the storm adds what it does: the order of its lines is the order of things.
type tortureLog struct {
	path string

	mu        sync.Mutex
	file      *os.File
	decisions int // asked for so far

	// These belong to the killer.
	killed  []killed
	stopped int
}

// killed is a process that was killed, and how many moves the kill before it had cut.
type killed struct{ pid, moves int }

func openTortureLog(t *testing.T, path string) *tortureLog {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &tortureLog{path: path, file: file}
}

// write adds lines by one write, as the node does.
func (l *tortureLog) write(t *testing.T, lines ...torture.Line) {
	text := encodeLines(lines)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(text); err != nil {
		t.Errorf("log: %v", err)
	}
}

// nextDecision numbers decisions from 1.
func (l *tortureLog) nextDecision() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decisions++
	return l.decisions
}

func (l *tortureLog) read(t *testing.T) []torture.Line {
	t.Helper()
	text, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := torture.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// keep copies the log to where it outlives the test.
func (l *tortureLog) keep(t *testing.T, seed uint64) string {
	t.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("siding-torture-%d.jsonl", seed))
	text, err := os.ReadFile(l.path)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Errorf("log: %v", err)
	}
	return path
}
