package e2e_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const crashType = "com.example.crash"

// deathbed is a node of which some events take the process down, among many that do not.
type deathbed struct {
	program
	gate     string // nothing begins before this file exists
	culprits []int
	deaths   int
	late     bool // who kills comes when all others may be done
}

const (
	inFlight   = 500
	crashKeys  = 100
	concurrent = 32
)

// newDeathbed has 500 events accepted, and lets 32 at a time run as soon as all of them are in flight.
func newDeathbed(t *testing.T, do string, env []string, culprits ...int) (*deathbed, *process) {
	t.Helper()
	d := &deathbed{gate: filepath.Join(t.TempDir(), "gate"), culprits: culprits}
	d.program = newProgram(t, env, function{Name: "f", Types: []string{crashType}, Beginning: true, Attempts: 5, Concurrency: concurrent, Breaker: true})
	p := d.start(t)
	batch(t, newHTTPClient(t), p, crashType, 1, inFlight, crashKeys, func(id int) string {
		if slices.Contains(culprits, id) {
			return "wait=" + d.gate + " " + do
		}
		return "wait=" + d.gate + " slow=3ms"
	})
	eventually(t, func() string {
		if n := count(d.read(t), call{What: "begin"}); n < concurrent {
			return strconv.Itoa(n) + " attempts have begun"
		}
		return ""
	})
	if err := os.WriteFile(d.gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return d, p
}

// live starts the process again whenever it has ended by itself, until it comes to rest, and returns the account.
func (d *deathbed) live(t *testing.T, p *process) (*process, account) {
	t.Helper()
	for {
		var a account
		eventually(t, func() string {
			select {
			case <-p.done:
				return ""
			default:
			}
			a = askAccount(t, p)
			if f := a.of("f"); !a.Holds || f.Accepted != inFlight || f.Pending+f.Delivering+f.Retrying > 0 {
				return fmt.Sprintf("not at rest: %+v", a)
			}
			return ""
		})
		select {
		case <-p.done:
		default:
			return p, a
		}
		if code := p.exitCode(); code != 0 && code != exitByScript && code != exitByPanic && code != -1 {
			t.Fatalf("process %d: got exit code %d: %s", p.pid, code, p.log())
		}
		if d.deaths++; d.deaths > 20 {
			t.Fatal("the process dies again and again")
		}
		p = d.start(t)
	}
}

// askAccount is the account of a process, or nothing if it does not answer.
func askAccount(t *testing.T, p *process) (a account) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/api/v1/account", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return account{}
	}
	defer resp.Body.Close()
	if json.NewDecoder(resp.Body).Decode(&a) != nil {
		return account{}
	}
	return a
}

const (
	exitByScript = 7
	exitByPanic  = 2
)

// check says that the culprits have been convicted, after two attempts each, and nobody else, and that each key's events were done in order.
func (d *deathbed) check(t *testing.T, p *process, a account) {
	t.Helper()
	var parked, want []int
	for _, letter := range ask[[]deadLetter](t, p, "dlq", "ls") {
		id, _ := strconv.Atoi(letter.EventID)
		parked = append(parked, id)
		if letter.Cause != "crash" || letter.Attempts != 0 {
			t.Errorf("got %+v, want it parked as crash, and no attempt charged", letter)
		}
		shown := p.cli(t, "dlq", "show", letter.ID).stdout
		if _, crashes, _ := strings.Cut(shown, "\ncrashes\n"); strings.Count(crashes, ", life ") != 2 || !d.late && !strings.Contains(crashes, "beside it ran f/") || !strings.Contains(crashes, "; nothing else ran") {
			t.Errorf("siding dlq show %s: got\n%s\nwant both crashes, in which life, and what else ran", letter.ID, shown)
		}
	}
	want = slices.Clone(d.culprits)
	slices.Sort(parked)
	slices.Sort(want)
	if !slices.Equal(parked, want) {
		t.Errorf("got %v parked, want %v", parked, want)
	}
	if got := a.of("f"); got.Delivered+got.Held+got.Parked != inFlight || got.Parked != len(want) {
		t.Errorf("got %+v, want all delivered, held or parked", got)
	}
	d.ordered(t)
	for _, id := range d.culprits {
		if n := count(d.read(t), call{What: "begin", ID: strconv.Itoa(id)}); n != 2 {
			t.Errorf("event %d was attempted %d times, want 2", id, n)
		}
	}
}

// ordered says that no event of a key was done before an earlier one of the same key, or begun after a later one.
func (d *deathbed) ordered(t *testing.T) {
	t.Helper()
	last := map[string]int{}
	for _, c := range d.read(t) {
		if c.What != "begin" {
			continue
		}
		id, _ := strconv.Atoi(c.ID)
		if id < last[c.Key] {
			t.Errorf("key %s: event %d began after %d", c.Key, id, last[c.Key])
		}
		last[c.Key] = max(last[c.Key], id)
	}
}

// discard ends the culprits, so that what is held behind them goes on.
func (d *deathbed) discard(t *testing.T, p *process) {
	t.Helper()
	if got := p.cli(t, "dlq", "discard", "--function", "f", "--all", "--reason", "takes the process down", "--yes"); got.code != 0 {
		t.Fatalf("siding dlq discard: got exit code %d: %s", got.code, got.stderr)
	}
	if got := rest(t, p, "f", inFlight).of("f"); got.Delivered != inFlight-len(d.culprits) || got.Discarded != len(d.culprits) {
		t.Errorf("got %+v, want all others delivered", got)
	}
	d.ordered(t)
}

// TestACrashOfTheProcessParksTheCulpritAndNobodyElse: the handler of one event, or of three, ends the process while 31 others run and hundreds wait.
func TestACrashOfTheProcessParksTheCulpritAndNobodyElse(t *testing.T) {
	for name, c := range map[string]struct {
		culprits []int
		env      string
		do       string
		least    int // deaths
		most     int
	}{
		"one that exits":                   {[]int{207}, "", "slow=5ms exit", 2, 2},
		"one that exits, synced always":    {[]int{207}, "SIDING_SYNC=always", "slow=5ms exit", 2, 2},
		"one whose goroutine panics":       {[]int{207}, "", "panic-later=1ms slow=1h", 2, 2},
		"one that exits as if all is well": {[]int{207}, "", "slow=5ms exit=0", 2, 2},
		"one that fills its stack":         {[]int{207}, "", "slow=5ms overflow", 2, 2},
		"three that exit":                  {[]int{111, 207, 390}, "", "slow=5ms exit", 4, 6},
		"three of the first 32":            {[]int{3, 5, 30}, "", "slow=5ms exit", 4, 6},
		"three that exit, synced always":   {[]int{111, 207, 390}, "SIDING_SYNC=always", "slow=5ms exit", 4, 6},
		"one that exits, the first of it":  {[]int{1}, "", "exit", 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, p := newDeathbed(t, c.do, []string{cmp.Or(c.env, "SIDING_SYNC=interval")}, c.culprits...)
			p, a := d.live(t, p)
			if d.deaths < c.least || d.deaths > c.most {
				t.Errorf("got %d deaths, want %d to %d", d.deaths, c.least, c.most)
			}
			t.Attr("deaths", strconv.Itoa(d.deaths))
			d.check(t, p, a)
			d.discard(t, p)
		})
	}
}

// TestACrashThatCannotBeWrittenDownParksTheCulpritAllTheSame: where the words of a panic would be kept stands something else.
func TestACrashThatCannotBeWrittenDownParksTheCulpritAllTheSame(t *testing.T) {
	t.Parallel()
	until := filepath.Join(t.TempDir(), "until")
	d, p := newDeathbed(t, "wait="+until+" overflow", nil, 207)
	d.late = true
	words := filepath.Join(d.dir, "panic")
	if err := errors.Join(os.Remove(words), os.MkdirAll(filepath.Join(words, "else"), 0o700), os.WriteFile(until, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	p, a := d.live(t, p)
	if d.deaths != 2 {
		t.Errorf("got %d deaths, want 2", d.deaths)
	}
	d.check(t, p, a)
	if log := p.log(); !strings.Contains(log, "what a panic says cannot be kept") || !strings.Contains(log, "let this user write "+words) {
		t.Errorf("got the log\n%s\nwant it to say that no panic can be kept, and where", log)
	}
	d.discard(t, p)
}

// TestACrashFromOutsideParksWhatRanAloneAgain: another process kills the node whenever it sees the begin of one event.
func TestACrashFromOutsideParksWhatRanAloneAgain(t *testing.T) {
	for _, sync := range []string{"interval", "always"} {
		t.Run(sync, func(t *testing.T) {
			t.Parallel()
			d, p := newDeathbed(t, "slow=1h", []string{"SIDING_SYNC=" + sync}, 207)
			d.late = true
			for n := 1; n <= 2; n++ {
				eventually(t, func() string {
					if count(d.read(t), call{What: "begin", ID: "207"}) < n {
						return "event 207 has not begun"
					}
					return ""
				})
				p.kill()
				d.deaths++
				p = d.start(t)
			}
			p, a := d.live(t, p)
			if d.deaths != 2 {
				t.Errorf("got %d deaths, want 2", d.deaths)
			}
			d.check(t, p, a)
			d.discard(t, p)
		})
	}
}

// TestACrashBehindTheHandlerSuspendsItsFunction: goroutines of one function panic 200 ms after its handler has returned, when all of its events are
// delivered and only others' run. It is suspended after the third time; the other function is served all the while and loses nothing.
func TestACrashBehindTheHandlerSuspendsItsFunction(t *testing.T) {
	const badType, goodType = "com.example.bad", "com.example.good"
	program := newProgram(t, nil,
		function{Name: "bad", Types: []string{badType}, Beginning: true, Attempts: 5, Concurrency: 4, Breaker: true},
		function{Name: "good", Types: []string{goodType}, Beginning: true, Attempts: 5, Concurrency: 4, Breaker: true})
	client := newHTTPClient(t)
	const each = 40
	p, sent, deaths := program.start(t), 0, 0
	for {
		batch(t, client, p, goodType, 1+sent*each, each, 8, func(int) string { return "slow=20ms" })
		batch(t, client, p, badType, 1_000_001+sent, 1, 1, func(int) string { return "panic-later=200ms" })
		sent++
		select {
		case <-p.done:
		case <-time.After(3 * time.Second):
		}
		select {
		case <-p.done:
			if code := p.exitCode(); code != exitByPanic {
				t.Fatalf("got exit code %d: %s", code, p.log())
			}
			if deaths++; deaths > 5 {
				t.Fatal("the process dies again and again")
			}
			p = program.start(t)
			continue
		default:
		}
		break
	}
	t.Attr("deaths", strconv.Itoa(deaths))
	if deaths != 3 {
		t.Errorf("got %d deaths, want 3", deaths)
	}
	eventually(t, func() string {
		if got := askAccount(t, p).of("good"); got.Delivered != sent*each {
			return fmt.Sprintf("got %+v, want all delivered", got)
		}
		return ""
	})
	if letters := ask[[]deadLetter](t, p, "dlq", "ls"); len(letters) != 0 {
		t.Errorf("got %+v, want nobody convicted", letters)
	}
	bad := ask[struct {
		State      string
		Suspension struct{ Cause, Reason string }
	}](t, p, "function", "show", "bad")
	if bad.State != "suspended" || bad.Suspension.Cause != "crashes" || !strings.Contains(bad.Suspension.Reason, "the process died 3 times") || !strings.Contains(bad.Suspension.Reason, "200ms later, as the script asks") {
		t.Errorf("got %+v, want it suspended, and why", bad)
	}
	if good := ask[struct{ State string }](t, p, "function", "show", "good"); good.State != "running" {
		t.Errorf("got %+v, want it running", good)
	}
}
