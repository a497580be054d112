package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cloudevents/sdk-go/v2/types"

	"github.com/siding-dev/siding/functions"
)

// call is one line of the file of calls: the begin or the end of an attempt, or something within it.
type call struct {
	At       time.Time `json:"at"`
	PID      int       `json:"pid"`
	What     string    `json:"what"` // begin or end, or what a script notes in between
	Function string    `json:"function"`
	ID       string    `json:"id"`
	Key      string    `json:"key,omitempty"` // the ordering key as the handler was told
	Sequence uint64    `json:"sequence"`
	Attempt  int       `json:"attempt"`
	Cycle    int       `json:"cycle"`
	// SHA256 of the data and Attributes stand in the begin alone.
	SHA256     string            `json:"sha256,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	// Outcome stands in the end alone: done, error, park, discard, interrupted or panic.
	Outcome string `json:"outcome,omitempty"`
}

// calls appends to a file. Each line is one write, so that lines of several goroutines, and of processes that follow each other, never
// mix; a kill loses none that was written. The empty line before each keeps one that a kill tore from spoiling the next.
type calls struct{ file *os.File }

func openCalls(path string) (*calls, error) {
	if path == "" {
		return &calls{}, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &calls{file: file}, err
}

func (c *calls) write(line call) {
	if c.file == nil {
		return
	}
	line.At, line.PID = time.Now(), os.Getpid()
	b, err := json.Marshal(line)
	if err == nil {
		_, err = c.file.Write(append(append([]byte{'\n'}, b...), '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("a call cannot be written down: %v", err))
	}
}

// around writes down the begin of an attempt, makes it, and writes down what it came to before the host learns it. A panic goes through.
func (c *calls) around(ctx context.Context, function string, e functions.Event, attempt func(note func(what string)) error) error {
	a := functions.AttemptFrom(ctx)
	line := call{What: "begin", Function: function, ID: e.ID(), Key: a.Key, Sequence: a.Sequence, Attempt: a.Number, Cycle: a.Cycle}
	begin := line
	sum := sha256.Sum256(e.Data())
	begin.SHA256, begin.Attributes = hex.EncodeToString(sum[:]), attributes(e)
	c.write(begin)
	line.What, line.Outcome = "end", "panic"
	defer func() { c.write(line) }()
	err := attempt(func(what string) {
		noted := begin
		noted.What, noted.SHA256, noted.Attributes = what, "", nil
		c.write(noted)
	})
	line.Outcome = outcome(ctx, err)
	return err
}

// outcome is what the host should make of an error.
func outcome(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, errDiscard):
		return "discard"
	case errors.Is(err, errPark):
		return "park"
	case errors.Is(context.Cause(ctx), functions.ErrStopping):
		return "interrupted"
	}
	return "error"
}

// attributes are all that an event has beside its data, as strings.
func attributes(e functions.Event) map[string]string {
	all := map[string]string{"specversion": e.SpecVersion(), "id": e.ID(), "source": e.Source(), "type": e.Type()}
	for name, value := range map[string]string{
		"subject": e.Subject(), "datacontenttype": e.DataContentType(), "dataschema": e.DataSchema(),
	} {
		if value != "" {
			all[name] = value
		}
	}
	if !e.Time().IsZero() {
		all["time"] = types.FormatTime(e.Time())
	}
	for name, value := range e.Extensions() {
		text, err := types.Format(value)
		if err != nil {
			text = fmt.Sprintf("%T: %v", value, err)
		}
		all[name] = text
	}
	return all
}
