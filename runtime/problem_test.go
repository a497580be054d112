package runtime

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

func TestEveryCodeHasAStatusAndAnExitCode(t *testing.T) {
	want := map[client.Code][2]int{
		client.NotFound:         {404, 3},
		client.Conflict:         {409, 4},
		client.Refused:          {422, 4},
		client.Invalid:          {400, 4},
		client.TooLarge:         {413, 4},
		client.UnsupportedMedia: {415, 4},
		client.StreamFull:       {503, 1},
		client.Unavailable:      {503, 5},
		client.Unauthorized:     {401, 4},
		client.Method:           {405, 2},
		client.Usage:            {400, 2},
		client.Internal:         {500, 1},
	}
	for _, code := range client.Codes() {
		if got := [2]int{code.Status(), code.ExitCode()}; got != want[code] {
			t.Errorf("%s: got status and exit code %v, want %v", code, got, want[code])
		}
		delete(want, code)
	}
	if len(want) > 0 {
		t.Errorf("got no %v in the closed set", want)
	}
	if got := client.Code("new").Status(); got != http.StatusInternalServerError {
		t.Errorf("unknown code: got status %d, want 500", got)
	}
}

func TestProblemIsFoundInWrappedErrors(t *testing.T) {
	p, known := problemOf(fmt.Errorf("outer: %w", newProblem(client.Refused, "event %d: refused", 7).WithHint("do %s", "this")))
	if !known || p.Code != client.Refused || p.Detail != "event 7: refused" || p.Hint != "do this" {
		t.Errorf("got %+v, want the wrapped problem", p)
	}
	if got, want := p.Error(), "event 7: refused: hint: do this"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p, known = problemOf(fmt.Errorf("batch: %w", &streams.InvalidError{Index: 3, Attribute: "time", Path: "$[3].time", Reason: "no"}))
	if !known || p.Code != client.Invalid || p.Attribute != "time" || p.Path != "$[3].time" || p.Index == nil || *p.Index != 3 {
		t.Errorf("got %+v, want attribute, path and index of the invalid event", p)
	}
}
