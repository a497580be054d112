package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	tortureType     = "com.example.torture"
	tortureAttempts = 5
)

// torture is a node that is killed again and again while events and decisions keep coming.
type torture struct {
	program program
	random  *rand.Rand // of the killer alone
	client  *http.Client

	url atomic.Value // string: of the newest process, also of one that is dead

	mu         sync.Mutex
	accepted   map[string]bool        // ids of events that the node has answered for
	repeated   int                    // of them, those it had stored without our learning of it
	decisions  map[string]map[int]int // discards asked for, by dead letter and cycle
	unanswered []sample               // what publishers were at when they ended
	redrives   int                    // redrives answered for
	discards   int                    // discards answered for
}

// TestTortureKillsUnderLoadLoseNothing kills a node at random moments. Publishers never pause: they repeat an event, under the same id,
// until it is accepted. Redrives and discards go on all the while. SIDING_TORTURE says how long it takes, SIDING_SEED which moments.
func TestTortureKillsUnderLoadLoseNothing(t *testing.T) {
	length := 20 * time.Second
	if s := os.Getenv("SIDING_TORTURE"); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatalf("SIDING_TORTURE: %v", err)
		}
	}
	seed := rand.Uint64()
	if s := os.Getenv("SIDING_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("SIDING_SEED: %v", err)
		}
	}
	t.Attr("seed", strconv.FormatUint(seed, 10))
	t.Logf("SIDING_SEED=%d", seed)

	delays := []time.Duration{40 * time.Millisecond, 80 * time.Millisecond}
	w := &torture{
		program: newProgram(t, nil,
			function{Name: "slow", Types: []string{tortureType}, Beginning: true, Attempts: tortureAttempts, Delays: delays, Do: "slow=15ms"},
			function{Name: "flaky", Types: []string{tortureType}, Beginning: true, Attempts: tortureAttempts, Delays: delays, Do: "slow=1ms fail=2"},
			function{Name: "parks", Types: []string{tortureType}, Beginning: true, Attempts: tortureAttempts, Delays: delays, Do: "slow=1ms park-one-in=10 fail-one-in=4"},
		),
		random: rand.New(rand.NewPCG(seed, 0)), client: newHTTPClient(t),
		accepted: map[string]bool{}, decisions: map[string]map[int]int{},
	}
	p := w.program.start(t)
	w.url.Store(p.url)

	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var busy sync.WaitGroup
	for i := range 4 {
		busy.Go(func() { w.publish(ctx, t, "p"+strconv.Itoa(i)) })
	}
	busy.Go(func() { w.operate(ctx, t, rand.New(rand.NewPCG(seed, 1))) })
	pids, moves := w.kill(ctx, t, p)
	busy.Wait()

	p = w.program.start(t)
	w.url.Store(p.url)
	for _, s := range w.unanswered {
		if !w.accept(t.Context(), t, s) {
			t.Errorf("event %s: was not accepted by the last process", s.attributes["id"])
		}
	}
	w.check(t, p, pids, append(moves, p.said(moveCut)))
}

// kill kills the process and starts it again until ctx ends; one in four dies while it starts. It leaves none running, and returns
// which ones there were, and how many moves each said that the kill before it had cut.
func (w *torture) kill(ctx context.Context, t *testing.T, p *process) (pids, moves []int) {
	slowest := time.Duration(0)
	defer func() { t.Attr("slowest-start", slowest.Round(time.Millisecond).String()) }()
	for {
		if w.random.IntN(4) == 0 && len(pids) > 0 {
			w.live(ctx, p, time.Duration(w.random.IntN(300))*time.Millisecond)
		} else {
			select {
			case <-p.ready:
				w.url.Store(p.url)
				slowest = max(slowest, p.took)
				w.live(ctx, p, time.Duration(300+w.random.IntN(3000))*time.Millisecond)
			case <-p.done:
			case <-ctx.Done():
			case <-time.After(patience):
				t.Errorf("process %d is not ready after %s", p.pid, patience)
				return pids, moves
			}
		}
		select {
		case <-p.done:
			t.Errorf("process %d ended by itself: %s", p.pid, p.log())
			return pids, moves
		default:
		}
		p.kill()
		pids, moves = append(pids, p.pid), append(moves, p.said(moveCut))
		if ctx.Err() != nil {
			return pids, moves
		}
		var err error
		if p, err = launch(t, exec.Command(built.node, serveArgs(w.program.dir)...), w.program.env...); err != nil {
			t.Error(err)
			return pids, moves
		}
	}
}

// moveCut is what a node says at its start of a move that the kill before it had cut.
const moveCut = "a crash had cut a move"

// live waits for d, or for an end before that.
func (w *torture) live(ctx context.Context, p *process, d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.done:
	case <-ctx.Done():
	}
}

// publish sends one event after the other until ctx ends, each until it is accepted.
func (w *torture) publish(ctx context.Context, t *testing.T, name string) {
	tick := time.NewTicker(12 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n := strconv.Itoa(i)
		s := newSample(name+"-"+n, tortureType, `{"n":`+n+`}`, "partitionkey", "k"+strconv.Itoa(i%20))
		for !w.accept(ctx, t, s) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				w.mu.Lock()
				w.unanswered = append(w.unanswered, s)
				w.mu.Unlock()
				return
			}
		}
	}
}

// accept sends an event once and reports whether the node has answered for it. Each request is bounded by itself: a process that dies
// answers nothing.
func (w *torture) accept(ctx context.Context, t *testing.T, s sample) bool {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	got, err := post(bounded, w.client, w.address(), s.headers(true), s.data)
	if err != nil || got.status == http.StatusServiceUnavailable {
		return false
	}
	if got.status != http.StatusAccepted && got.status != http.StatusOK {
		t.Errorf("event %s: got %d %s, want it stored or 503", s.attributes["id"], got.status, got.body)
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accepted[s.attributes["id"]] = true
	if got.status == http.StatusOK {
		w.repeated++
	}
	return true
}

func (w *torture) address() string { return w.url.Load().(string) }

// operate decides about dead letters at random, with decisions pinned to what it saw. What a dying process does not answer may have
// been done or not.
func (w *torture) operate(ctx context.Context, t *testing.T, random *rand.Rand) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(random.IntN(200)) * time.Millisecond):
		}
		var letters []deadLetter
		if status, err := w.call(ctx, http.MethodGet, "/api/v1/dlq?limit=200", nil, &letters); err != nil || status != http.StatusOK || len(letters) == 0 {
			continue
		}
		for range 1 + random.IntN(8) {
			letter := letters[random.IntN(len(letters))]
			action := "redrive"
			if random.IntN(4) == 0 {
				action = "discard"
				w.mu.Lock()
				if w.decisions[letter.ID] == nil {
					w.decisions[letter.ID] = map[int]int{}
				}
				w.decisions[letter.ID][letter.Cycle]++
				w.mu.Unlock()
			}
			decision := map[string]any{
				"function": letter.Function, "sequence": letter.Sequence, "action": action, "cycle": letter.Cycle, "reason": "torture", "by": "e2e",
			}
			var decided struct{ Applied bool }
			status, err := w.call(ctx, http.MethodPost, "/api/v1/dlq/"+letter.ID+"/"+action, decision, &decided)
			switch {
			case err != nil:
			case status == http.StatusOK || status == http.StatusAccepted:
				w.mu.Lock()
				if action == "discard" {
					w.discards++
				} else {
					w.redrives++
				}
				w.mu.Unlock()
			case status != http.StatusNotFound && status != http.StatusConflict && status != http.StatusServiceUnavailable:
				t.Errorf("%s %s: got status %d", action, letter.ID, status)
			}
		}
	}
}

func (w *torture) call(ctx context.Context, method, path string, in, out any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, method, w.address()+path, strings.NewReader(string(body)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		return resp.StatusCode, err
	}
	return resp.StatusCode, json.Unmarshal(b, out)
}

// life is what the calls tell of one event at one function.
type life struct {
	begins map[[3]int]int // by cycle, attempt and process
	done   int
}

// check waits until all is at rest, and compares what was accepted with what the calls, the dead letters and the account say.
func (w *torture) check(t *testing.T, p *process, pids, moves []int) {
	t.Helper()
	kills := len(pids)
	a := rest(t, p, "slow", len(w.accepted))
	if got := p.cli(t, "account"); got.code != 0 {
		t.Errorf("siding account: got exit code %d, want 0:\n%s%s", got.code, got.stdout, got.stderr)
	}
	lives := map[string]map[string]*life{} // by function and event id
	sequences := map[string]uint64{}
	running := map[int]map[string]bool{} // by process: begun and not ended
	for _, c := range w.program.read(t) {
		if lives[c.Function] == nil {
			lives[c.Function] = map[string]*life{}
		}
		l := lives[c.Function][c.ID]
		if l == nil {
			l = &life{begins: map[[3]int]int{}}
			lives[c.Function][c.ID] = l
		}
		if running[c.PID] == nil {
			running[c.PID] = map[string]bool{}
		}
		sequences[c.ID] = c.Sequence
		switch {
		case c.What == "begin":
			at := [3]int{c.Cycle, c.Attempt, c.PID}
			if l.begins[at]++; l.begins[at] > 1 {
				t.Errorf("%s: event %s: cycle %d: got attempt %d twice in process %d, want only a kill to repeat one", c.Function, c.ID, c.Cycle, c.Attempt, c.PID)
			}
			running[c.PID][c.Function+"/"+c.ID] = true
			if c.Attempt > tortureAttempts {
				t.Errorf("%s: event %s: cycle %d: got attempt %d of %d", c.Function, c.ID, c.Cycle, c.Attempt, tortureAttempts)
			}
		case c.Outcome == "done":
			l.done++
			fallthrough
		default:
			delete(running[c.PID], c.Function+"/"+c.ID)
		}
	}
	for _, name := range []string{"flaky", "parks", "slow"} {
		w.checkFunction(t, p, name, a.of(name), lives[name], sequences, kills)
	}
	for i, pid := range pids {
		t.Attr(fmt.Sprintf("kill-%d-hit", i+1), fmt.Sprintf("%d attempts, %d moves", len(running[pid]), moves[i+1]))
	}
	total := 0
	for _, r := range running {
		total += len(r)
	}
	if total == 0 {
		t.Error("got no attempt that a kill interrupted: these kills prove nothing")
	}
	t.Attr("kills", strconv.Itoa(kills))
	t.Attr("events", strconv.Itoa(len(w.accepted)))
	t.Attr("events-stored-without-an-answer", strconv.Itoa(w.repeated))
	t.Attr("attempts-interrupted", strconv.Itoa(total))
	t.Attr("decisions", fmt.Sprintf("%d redrives, %d discards", w.redrives, w.discards))
}

func (w *torture) checkFunction(t *testing.T, p *process, name string, got functionAccount, lives map[string]*life, sequences map[string]uint64, kills int) {
	t.Helper()
	letters := map[string]deadLetter{}
	for page := []string{"dlq", "ls", "--function", name, "--limit", "1000"}; page != nil; {
		list := ask[[]deadLetter](t, p, page...)
		for _, l := range list {
			if _, twice := letters[l.EventID]; twice {
				t.Errorf("%s: event %s: got two dead letters", name, l.EventID)
			}
			letters[l.EventID] = l
		}
		page = nil
		if len(list) == 1000 {
			page = []string{"dlq", "ls", "--function", name, "--limit", "1000", "--after", list[len(list)-1].ID}
		}
	}
	delivered, discarded, twice := 0, 0, 0
	for _, id := range slices.Sorted(maps.Keys(w.accepted)) {
		l := lives[id]
		if l == nil {
			t.Errorf("%s: event %s: was accepted and never handled", name, id)
			continue
		}
		letter, parked := letters[id]
		asked := len(w.decisions[name+"/"+strconv.FormatUint(sequences[id], 10)]) > 0
		switch {
		case l.done > 0 && parked:
			t.Errorf("%s: event %s: was delivered, and stands as the dead letter %+v", name, id, letter)
		case l.done > 0:
			delivered++
			twice += l.done - 1
		case parked:
		case asked:
			discarded++
		default:
			t.Errorf("%s: event %s: was accepted, and is neither delivered nor parked nor was it to be discarded: %v", name, id, l.begins)
		}
		perCycle := map[int]int{}
		for at, n := range l.begins {
			perCycle[at[0]] += n
		}
		for cycle, n := range perCycle {
			if n > tortureAttempts+kills {
				t.Errorf("%s: event %s: cycle %d: got %d attempts in %d kills, want at most %d without", name, id, cycle, n, kills, tortureAttempts)
			}
		}
	}
	if got.Accepted != len(w.accepted) || got.Delivered != delivered || got.Parked != len(letters) || got.Discarded != discarded {
		t.Errorf("%s: got the account %+v, want %d accepted, %d delivered, %d parked, %d discarded as the calls tell",
			name, got, len(w.accepted), delivered, len(letters), discarded)
	}
	t.Attr(name+"-ended", fmt.Sprintf("%d delivered, %d parked, %d discarded", delivered, len(letters), discarded))
	t.Attr(name+"-delivered-twice", strconv.Itoa(twice))
}
