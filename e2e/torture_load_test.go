package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/siding-dev/siding/e2e/torture"
)

const (
	torturePublishers = 4
	tortureBatch      = 5 // events of one request
)

// encodeLines renders lines as the node program writes its own.
func encodeLines(lines []torture.Line) []byte {
	var text bytes.Buffer
	now := time.Now()
	for _, l := range lines {
		l.At = now
		b, err := json.Marshal(l)
		if err != nil {
			panic(err) // it has nothing that JSON cannot say
		}
		fmt.Fprintf(&text, "\n%s\n", b)
	}
	return text.Bytes()
}

// publish starts the publishers. Each has keys of its own, sends their events in a random order of keys and never pauses: it repeats a batch,
// under the same ids, until it is accepted.
func (s *storm) publish(ctx context.Context, t *testing.T, busy *sync.WaitGroup) {
	pace := s.form.length * torturePublishers * tortureBatch / time.Duration(s.form.events())
	for i := range torturePublishers {
		busy.Go(func() {
			random := s.random(uint64(1 + i))
			var keys []int // one for each event
			for k := i; k < s.form.keys; k += torturePublishers {
				for range s.form.each {
					keys = append(keys, k)
				}
			}
			random.Shuffle(len(keys), func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
			next := map[int]int{}
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for ; len(keys) > 0; keys = keys[min(tortureBatch, len(keys)):] {
				var batch []sample
				for _, k := range keys[:min(tortureBatch, len(keys))] {
					key := "k" + strconv.Itoa(k)
					id := fmt.Sprintf("%s.%d.%s", key, next[k], strconv.FormatUint(s.seed, 36))
					batch = append(batch, newSample(id, tortureType, `{"n":`+strconv.Itoa(next[k])+`}`, "partitionkey", key))
					next[k]++
				}
				if !s.deliver(ctx, t, tick.C, batch) {
					return
				}
			}
		})
	}
}

// deliver sends a batch until it is accepted.
func (s *storm) deliver(ctx context.Context, t *testing.T, tick <-chan time.Time, batch []sample) bool {
	var body [][]byte
	var lines []torture.Line
	for _, e := range batch {
		body = append(body, e.structured(t))
		lines = append(lines, torture.Line{What: torture.Sent, ID: e.attributes["id"], Key: e.attributes["partitionkey"]})
	}
	s.log.write(t, lines...)
	text := append(append([]byte("["), bytes.Join(body, []byte(","))...), ']')
	header := map[string][]string{"Content-Type": {"application/cloudevents-batch+json"}}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
		}
		// Each request is bounded by itself: a process that dies answers nothing.
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		got, err := post(bounded, s.client, s.address(), header, text)
		cancel()
		if err != nil || got.status == http.StatusServiceUnavailable {
			continue
		}
		var accepted []struct {
			ID        string
			Sequence  uint64
			Duplicate bool
		}
		if err := json.Unmarshal(got.body, &accepted); err != nil || got.status >= 300 || len(accepted) != len(batch) {
			t.Errorf("batch of %s: got %d %s, want it stored or 503", batch[0].attributes["id"], got.status, got.body)
			return false
		}
		for i, a := range accepted {
			lines[i].What, lines[i].Sequence = torture.Accepted, a.Sequence
			if a.Duplicate {
				s.mu.Lock()
				s.repeated++
				s.mu.Unlock()
			}
		}
		s.log.write(t, lines...)
		return true
	}
}

// operate decides about dead letters at random, with decisions pinned to what it saw.
func (s *storm) operate(ctx context.Context, t *testing.T) {
	random := s.random(100)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(randomUpTo(random, 100*time.Millisecond)):
		}
		name := []string{ordered, unordered}[random.IntN(2)]
		var letters []deadLetter
		if status, err := s.call(ctx, http.MethodGet, "/api/v1/dlq?limit=50&function="+name, nil, &letters); err != nil || status != http.StatusOK || len(letters) == 0 {
			continue
		}
		random.Shuffle(len(letters), func(i, j int) { letters[i], letters[j] = letters[j], letters[i] })
		for _, letter := range letters[:min(len(letters), 1+random.IntN(12))] {
			action, tail := randomAction(random, name)
			s.decide(ctx, t, letter, action, tail)
		}
	}
}

func randomAction(random *rand.Rand, function string) (action string, tail bool) {
	n := random.IntN(20)
	switch {
	case n >= 16:
		return torture.Edit, false
	case n == 0 && function == ordered:
		return torture.Release, false
	case n <= 3:
		return torture.Discard, function == ordered && n >= 2
	}
	return torture.Redrive, false
}

// decide states one decision and writes down what became of it. What a dying process does not answer may have been done or not.
func (s *storm) decide(ctx context.Context, t *testing.T, letter deadLetter, action string, tail bool) {
	line := torture.Line{
		What: torture.Asked, Decision: s.log.nextDecision(), Action: action, Tail: tail,
		Function: letter.Function, ID: letter.EventID, Sequence: letter.Sequence, Cycle: letter.Cycle,
	}
	s.log.write(t, line)
	decision := map[string]any{
		"function": letter.Function, "sequence": letter.Sequence, "action": action, "cycle": letter.Cycle, "reason": "torture", "by": "e2e",
	}
	if tail {
		decision["tail"] = true
	}
	if action == torture.Edit { // of nothing: the data as they were sent
		_, rest, _ := strings.Cut(letter.EventID, ".")
		n, _, _ := strings.Cut(rest, ".")
		decision["data"] = json.RawMessage(`{"n":` + n + `}`)
	}
	status, err := s.call(ctx, http.MethodPost, "/api/v1/dlq/"+letter.ID+"/"+action, decision, nil)
	answer := torture.Line{What: torture.Answered, Decision: line.Decision, Outcome: torture.Unknown}
	switch {
	case err != nil || status == http.StatusServiceUnavailable:
	case status == http.StatusOK:
		answer.Outcome = torture.Applied
	case status == http.StatusAccepted:
		answer.Outcome = torture.Stored
	case status >= 400 && status < 500:
		answer.Outcome = torture.Refused
		s.mu.Lock()
		s.statuses[status]++
		s.mu.Unlock()
	default:
		t.Errorf("%s %s: got status %d", action, letter.ID, status)
	}
	s.log.write(t, answer)
}

// call makes one call of the API; out may be nil.
func (s *storm) call(ctx context.Context, method, path string, in, out any) (int, error) {
	// A decision that was sent is not taken back because the storm ends.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, method, s.address()+path, strings.NewReader(string(body)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 || out == nil {
		return resp.StatusCode, err
	}
	return resp.StatusCode, json.Unmarshal(b, out)
}
