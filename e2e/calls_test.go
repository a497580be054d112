package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// function describes one function of the node program, whose source says what Do may be.
type function struct {
	Name        string          `json:"name"`
	Types       []string        `json:"types"`
	Beginning   bool            `json:"beginning"`
	Attempts    int             `json:"attempts"`
	Delays      []time.Duration `json:"delays"`
	Timeout     time.Duration   `json:"timeout"`
	Concurrency int             `json:"concurrency"`
	OrderBy     string          `json:"order_by"`
	Do          string          `json:"do"`
	URL         string          `json:"url"`
	Breaker     bool            `json:"breaker"`
}

// program is the environment of the node program, and where it writes down its calls.
type program struct {
	env   []string
	calls string
	dir   string // a data directory for it
}

// newProgram describes a node program that hosts these functions; env is added to its environment.
func newProgram(t *testing.T, env []string, functions ...function) program {
	t.Helper()
	b, err := json.Marshal(functions)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := program{calls: filepath.Join(dir, "calls"), dir: filepath.Join(dir, "data")}
	p.env = append([]string{"NODE_FUNCTIONS=" + string(b), "NODE_CALLS=" + p.calls}, env...)
	return p
}

func (p program) start(t *testing.T) *process {
	t.Helper()
	return start(t, built.node, p.dir, p.env...)
}

// call is one line that the node program has written: the begin or the end of an attempt.
type call struct {
	At         time.Time         `json:"at"`
	PID        int               `json:"pid"`
	What       string            `json:"what"`
	Function   string            `json:"function"`
	ID         string            `json:"id"`
	Key        string            `json:"key"`
	Sequence   uint64            `json:"sequence"`
	Attempt    int               `json:"attempt"`
	Cycle      int               `json:"cycle"`
	SHA256     string            `json:"sha256"`
	Attributes map[string]string `json:"attributes"`
	Outcome    string            `json:"outcome"`
}

// read returns all calls so far. A line that a kill tore was of an attempt that had not begun or had not returned.
func (p program) read(t *testing.T) []call {
	t.Helper()
	b, err := os.ReadFile(p.calls)
	if err != nil {
		t.Fatal(err)
	}
	var all []call
	for line := range bytes.Lines(b) {
		var c call
		if json.Unmarshal(line, &c) == nil && line[len(line)-1] == '\n' {
			all = append(all, c)
		}
	}
	return all
}

// count counts the calls that are like what, with every field of it that is not zero.
func count(calls []call, like call) int {
	n := 0
	for _, c := range calls {
		same := (like.What == "" || c.What == like.What) && (like.Function == "" || c.Function == like.Function) &&
			(like.ID == "" || c.ID == like.ID) && (like.Outcome == "" || c.Outcome == like.Outcome) &&
			(like.Attempt == 0 || c.Attempt == like.Attempt) && (like.PID == 0 || c.PID == like.PID)
		if same {
			n++
		}
	}
	return n
}
