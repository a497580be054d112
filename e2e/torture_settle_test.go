package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/siding-dev/siding/e2e/torture"
)

// settle lets a node come to rest that is not killed any more, twice: first with the dead letters that stand, then after all of them were
// decided. It returns the first violation.
func (s *storm) settle(t *testing.T, p *process) *torture.Violation {
	t.Helper()
	began := time.Now()
	took := func(phase string) {
		t.Attr(phase+"-took", time.Since(began).Round(time.Second).String())
		began = time.Now()
	}
	end, ok := s.rest(t, false)
	took("coming-to-rest")
	if !ok || t.Failed() {
		return s.check(t, nil)
	}
	if v := s.check(t, end); v != nil {
		return v
	}
	for _, name := range []string{ordered, unordered} {
		t.Attr(name+"-parked-by-the-storm", fmt.Sprintf("%d, held %d", end.Accounts[name].Parked, end.Accounts[name].Held))
	}
	if err := os.WriteFile(s.goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	end, ok = s.rest(t, true)
	took("deciding")
	if !ok {
		return s.check(t, nil)
	}
	for _, name := range []string{ordered, unordered} {
		t.Attr(name+"-ended", fmt.Sprintf("%d delivered, %d discarded", end.Accounts[name].Delivered, end.Accounts[name].Discarded))
	}
	if got := p.cli(t, "account"); got.code != 0 {
		t.Errorf("siding account: got exit code %d, want 0:\n%s%s", got.code, got.stdout, got.stderr)
	}
	return s.check(t, end)
}

// restPatience bounds how long a node takes to come to rest. The longest way is that of a lane that is decided event by event.
const restPatience = 3 * time.Minute

// rest waits until nothing moves but what dead letters hold, and with decide until none of these is left, because it decides about all.
func (s *storm) rest(t *testing.T, decide bool) (*torture.End, bool) {
	t.Helper()
	random := s.random(200)
	limit := time.After(restPatience)
	still := ""
	for before := ""; ; {
		var a account
		asked := time.Now()
		status, err := s.call(t.Context(), http.MethodGet, "/api/v1/account", nil, &a)
		took := time.Since(asked)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("got status %d", status)
		}
		if err != nil {
			t.Errorf("account: %v", err)
			return nil, false
		}
		moving, parked, counts := 0, 0, map[string]torture.Counts{}
		for _, f := range a.Functions {
			moving += f.Pending + f.Delivering + f.Retrying
			parked += f.Parked + f.Held
			counts[f.Function] = torture.Counts{
				Accepted: f.Accepted, Delivered: f.Delivered, Pending: f.Pending, Delivering: f.Delivering, Retrying: f.Retrying,
				Held: f.Held, Parked: f.Parked, Discarded: f.Discarded, Gone: f.Gone,
			}
		}
		still = fmt.Sprintf("%+v", a)
		quiet := moving == 0 && a.Holds && still == before
		if decide && parked > 0 {
			s.decideAll(t, random)
		} else if quiet {
			end := &torture.End{Accounts: counts, Letters: map[string][]torture.Letter{}}
			for _, name := range []string{ordered, unordered} {
				for _, l := range s.letters(t, name) {
					end.Letters[name] = append(end.Letters[name], torture.Letter{ID: l.EventID, Sequence: l.Sequence, Cycle: l.Cycle, Cause: l.Cause})
				}
			}
			return end, true
		}
		before = still
		select {
		case <-time.After(max(250*time.Millisecond, 3*took)): // an account reads much, and is not to be what the node is busy with
		case <-limit:
			t.Errorf("after %s still not at rest: %s", restPatience, still)
			return nil, false
		}
	}
}

// decideAll decides about every dead letter that stands now. What fails in cycle after cycle is discarded.
func (s *storm) decideAll(t *testing.T, random *rand.Rand) {
	t.Helper()
	for _, name := range []string{ordered, unordered} {
		for _, letter := range s.letters(t, name) {
			action, tail := randomAction(random, name)
			if letter.Cycle >= 4 {
				action, tail = torture.Discard, false
			}
			s.decide(t.Context(), t, letter, action, tail)
		}
	}
}

// letters lists all dead letters of a function.
func (s *storm) letters(t *testing.T, function string) []deadLetter {
	t.Helper()
	const page = 1000
	var all []deadLetter
	for after := ""; ; {
		var list []deadLetter
		status, err := s.call(t.Context(), http.MethodGet, "/api/v1/dlq?function="+function+"&limit="+strconv.Itoa(page)+after, nil, &list)
		if err != nil || status != http.StatusOK {
			t.Fatalf("dead letters of %s: got status %d (%v)", function, status, err)
		}
		all = append(all, list...)
		if len(list) < page {
			return all
		}
		after = "&after=" + list[len(list)-1].ID
	}
}
