//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// terminate asks the process to end in order and returns its exit code.
func (p *process) terminate(limit time.Duration) (int, error) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	return p.awaitExit(limit)
}

// stopFor stops the process for d as a suspended machine would: no timer of it fires, and all that were due fire at once afterwards.
func (p *process) stopFor(t *testing.T, d time.Duration) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	pause(t, d)
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// When the process wakes, JetStream takes each running delivery for lost, and the last allowed one for used up: it says so by an
// advisory while the handler still runs. That must neither park what then succeeds nor lose what then fails.
func TestPauseLongerThanAckWaitInTheLastAttemptEndsDeliveredOrParkedAndNeverBoth(t *testing.T) {
	const kind, each, attempts = "com.example.pause", 12, 2
	dir := t.TempDir()
	goOn := filepath.Join(dir, "go-on")
	// The first attempt fails at once, so that the last one is what waits.
	fails := fmt.Sprintf("fail=1 wait=%s fail=2", goOn)
	succeeds := fmt.Sprintf("fail=1 wait=%s", goOn)
	first := fmt.Sprintf("wait=%s", goOn) // the only one whose delivery is one of the source stream
	program := newProgram(t, []string{"NODE_ACK_WAIT=1s", "NODE_GRACE=5s"},
		function{Name: "f", Types: []string{kind}, Attempts: attempts, Delays: []time.Duration{20 * time.Millisecond}, Concurrency: 64},
	)
	p := program.start(t)
	client := newHTTPClient(t)
	want := map[string]string{} // outcome of the last attempt by id
	for i := range each {
		n := strconv.Itoa(i)
		send(t, client, p,
			newSample("fails-"+n, kind, "{}", "do", fails), newSample("succeeds-"+n, kind, "{}", "do", succeeds), newSample("first-"+n, kind, "{}", "do", first))
		want["fails-"+n], want["succeeds-"+n], want["first-"+n] = "error", "done", "done"
	}
	eventually(t, func() string {
		calls := program.read(t)
		if n := count(calls, call{What: "begin", Attempt: 2}); n < 2*each {
			return fmt.Sprintf("%d of %d last attempts have begun", n, 2*each)
		}
		return ""
	})
	// Our heartbeats are as late as JetStream's timers: sometimes they come first, and the pause has passed unnoticed. The handlers run
	// on for a moment, so that what JetStream has to say comes before their ends.
	const verdicts = `siding_advisories_total{kind="max_deliveries",verdict="`
	pauses := 0
	for pauses < 5 && p.counted(t, verdicts)["mark_dead"] == "" {
		pauses++
		p.stopFor(t, 2500*time.Millisecond)
		pause(t, 300*time.Millisecond)
	}
	if p.counted(t, verdicts)["mark_dead"] == "" {
		t.Errorf("got no advisory for a running attempt in %d pauses: they prove nothing", pauses)
	}
	t.Attr("pauses", strconv.Itoa(pauses))
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := rest(t, p, "f", 3*each).of("f")
	if a.Delivered != 2*each || a.Parked != each {
		t.Errorf("got %+v, want %d delivered and %d parked", a, 2*each, each)
	}
	calls := program.read(t)
	letters := map[string]deadLetter{}
	for _, l := range ask[[]deadLetter](t, p, "dlq", "ls") {
		letters[l.EventID] = l
	}
	for id, outcome := range want {
		letter, parked := letters[id]
		if parked != (outcome == "error") {
			t.Errorf("event %s: got parked %t, want its last attempt to end with %s and that to rule", id, parked, outcome)
		}
		if parked && (letter.Cause != "exhausted" || letter.Attempts != attempts) {
			t.Errorf("event %s: got %+v, want it exhausted after %d attempts", id, letter, attempts)
		}
		wanted := attempts
		if id[:2] == "fi" {
			wanted = 1
		}
		if n := count(calls, call{What: "begin", ID: id}); n != wanted {
			t.Errorf("event %s: got %d attempts, want %d", id, n, wanted)
		}
	}
	for verdict, n := range p.counted(t, verdicts) {
		t.Attr("advisories-"+verdict, n)
	}
	advised := 0
	for _, l := range letters {
		if l.ParkedBy == "advisory" {
			advised++
		}
	}
	t.Attr("parked-by-advisory", fmt.Sprintf("%d of %d", advised, len(letters)))
}

func TestSIGTERMUnderLoadEndsWithinTheGraceAndChargesNobody(t *testing.T) {
	const kind, grace = "com.example.stop", time.Second
	program := newProgram(t, []string{"NODE_GRACE=" + grace.String()},
		function{Name: "quick", Types: []string{kind}, Beginning: true, Attempts: 3, Do: "slow=5ms"},
		function{Name: "slow", Types: []string{kind}, Beginning: true, Attempts: 3, Do: "slow=1500ms", Concurrency: 128},
	)
	p := program.start(t)
	client := newHTTPClient(t)

	// The publisher never pauses; what is refused while the node is down is sent again to the next one.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var publisher sync.WaitGroup
	var accepted, refused []sample
	publisher.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			s := newSample("e"+strconv.Itoa(i), kind, "{}")
			if got, err := post(ctx, client, p.url, s.headers(true), s.data); err == nil && got.status == http.StatusAccepted {
				accepted = append(accepted, s)
			} else {
				refused = append(refused, s)
			}
		}
	})
	eventually(t, func() string {
		if n := count(program.read(t), call{What: "end", Function: "slow"}); n < 20 {
			return fmt.Sprintf("%d slow handlers have ended", n)
		}
		return ""
	})
	began := time.Now()
	code, err := p.terminate(patience)
	took := time.Since(began)
	if err != nil || code != 0 {
		t.Fatalf("got exit code %d (%v) after SIGTERM, want 0", code, err)
	}
	if limit := grace + 5*time.Second; took > limit {
		t.Errorf("got %s from SIGTERM to the end, want at most %s", took, limit)
	}
	stop()
	publisher.Wait()
	interrupted := count(program.read(t), call{What: "end", Outcome: "interrupted"})
	if interrupted == 0 {
		t.Error("got no handler interrupted, want some: the slow ones take longer than the grace")
	}
	if begun, ended := count(program.read(t), call{What: "begin"}), count(program.read(t), call{What: "end"}); begun != ended {
		t.Errorf("got %d handlers begun and %d ended, want none left behind", begun, ended)
	}

	p = program.start(t)
	if n := p.said("the process died while an event was attempted"); n != 0 {
		t.Errorf("got %d attempts taken for crashed after an orderly stop, want none", n)
	}
	for _, s := range refused {
		if got, err := post(t.Context(), client, p.url, s.headers(true), s.data); err != nil || got.status >= 300 {
			t.Fatalf("event %s: got %d %s (%v)", s.attributes["id"], got.status, got.body, err)
		}
	}
	total := len(accepted) + len(refused)
	a := rest(t, p, "slow", total)
	for _, name := range []string{"quick", "slow"} {
		if got := a.of(name); got.Delivered != total || got.Accepted != total {
			t.Errorf("%s: got %+v, want all %d delivered", name, got, total)
		}
	}
	calls := program.read(t)
	for _, c := range calls {
		if c.What == "begin" && c.Attempt != 1 {
			t.Errorf("%s: event %s: got attempt %d, want 1: an interrupted attempt is not charged", c.Function, c.ID, c.Attempt)
		}
	}
	for _, s := range append(accepted, refused...) {
		for _, name := range []string{"quick", "slow"} {
			if n := count(calls, call{What: "end", Function: name, ID: s.attributes["id"], Outcome: "done"}); n != 1 {
				t.Errorf("%s: event %s: got it delivered %d times, want once", name, s.attributes["id"], n)
			}
		}
	}
	t.Attr("interrupted", strconv.Itoa(interrupted))
	t.Attr("stop-took", took.Round(time.Millisecond).String())
}

// A second interrupt is for a person whose handlers do not return: it ends the process at once.
func TestSecondInterruptEndsAtOnce(t *testing.T) {
	program := newProgram(t, nil, function{Name: "hangs", Types: []string{"com.example.hang"}, Do: "hang"})
	p := program.start(t)
	send(t, newHTTPClient(t), p, newSample("h", "com.example.hang", "{}"))
	eventually(t, func() string {
		if count(program.read(t), call{What: "begin"}) == 0 {
			return "the handler has not begun"
		}
		return ""
	})
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if got, err := post(t.Context(), http.DefaultClient, p.url, nil, nil); err == nil {
			return fmt.Sprintf("the node still answers %d", got.status)
		}
		return ""
	})
	began := time.Now()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code, err := p.awaitExit(5 * time.Second); err != nil || code == 0 {
		t.Errorf("got exit code %d (%v) after %s, want the second interrupt to end it", code, err, time.Since(began))
	}
}
