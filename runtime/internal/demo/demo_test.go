package demo_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/demo"
)

// start returns a node that hosts what change makes of the demo's function.
func start(change func(*functions.Function)) func(string, functions.Function) (demo.Node, error) {
	return func(dir string, fn functions.Function) (demo.Node, error) {
		if change != nil {
			change(&fn)
		}
		return runtime.New(runtime.Config{DataDir: dir, HTTP: "127.0.0.1:0", Grace: time.Second, Getenv: func(string) string { return "" }}, fn)
	}
}

// temp makes temporary directories go to one of the test, and checks at the end
// that none is left.
func temp(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
		t.Setenv(name, dir)
	}
	t.Cleanup(func() {
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("got %v (%v) left behind, want nothing", left, err)
		}
	})
}

func TestTheStoryIsToldAndChecked(t *testing.T) {
	temp(t)
	var out bytes.Buffer
	if err := demo.Run(t.Context(), demo.Options{Out: &out, Node: start(nil)}); err != nil {
		t.Fatalf("got %v, want no error:\n%s", err, &out)
	}
	for _, want := range []string{
		`sends 400 claim reports, garages send 88 invoices`,
		`488 accepted: 399 handled, 38 parked, 51 held behind these\.`,
		`[1-9]\d* events came while the contract system was away: [1-9]\d* attempts? failed, then the function was suspended until a probe succeeded\. None is parked for that\.`,
		`37 +\d\d:\d\d:\d\d \(.* ago\) +/brokers/cedar +the report has no date of loss\n`,
		`1 +\d\d:\d\d:\d\d \(.* ago\) +/brokers/dogwood +claim-203 reported the same loss`,
		`wrote 37 events\n`,
		`/brokers/cedar answers with the true dates of 37 events`,
		`The contract system has claim-150, invoice-150, invoice-150-b of POL-1150, in order\.`,
		`stored +EVENTS sequence 150`,
		`parked +permanent`,
		`edited +by demo: the date of loss was missing`,
		`5\. The other 36, in the order in which they were sent`,
		`486 of 488 events are handled now, 1 parked, 1 held\.`,
		`discard file-claim/399 --reason`,
		`has all 487 events once, and not the 1 discarded`,
		`All 75 policies with several events were handled in order; 38 of them had waited for a decision\.`,
		`\naccount: 488 accepted = 487 delivered \+ 0 parked \+ 1 discarded\n$`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("got no %s in\n%s", want, &out)
		}
	}
	if strings.ContainsAny(out.String(), "\r\x1b") {
		t.Error("got control characters, want none where the output is no terminal")
	}
}

// What the demo says must not be what it only hopes: each fault here is one that a node without Siding's promises would have.
func TestAFaultEndsTheDemoWithAnError(t *testing.T) {
	lose := func(f *functions.Function) {
		handle := f.Handle
		f.Handle = func(ctx context.Context, e functions.Event) error {
			if e.ID() == "claim-042" {
				return nil
			}
			return handle(ctx, e)
		}
	}
	for name, c := range map[string]struct {
		node func(string, functions.Function) (demo.Node, error)
		want string
	}{
		"a claim is lost":         {start(lose), "claim-042 is accounted for, but the contract system has it 0 times"},
		"nothing is held":         {start(func(f *functions.Function) { f.OnPark = functions.Continue }), "want 38 parked, 51 held and 0 discarded"},
		"nothing is retried":      {start(func(f *functions.Function) { f.Retry.Attempts, f.Breaker.Off = 1, true }), "want 38 parked, 51 held and 0 discarded"},
		"the node does not start": {func(string, functions.Function) (demo.Node, error) { return nil, errors.New("no node") }, "no node"},
		"the node fails":          {func(string, functions.Function) (demo.Node, error) { return broken{errors.New("no disk")}, nil }, "no disk"},
		"the node ends":           {func(string, functions.Function) (demo.Node, error) { return broken{}, nil }, "the node ended before the demo did"},
	} {
		t.Run(name, func(t *testing.T) {
			temp(t)
			var out bytes.Buffer
			err := demo.Run(t.Context(), demo.Options{Out: &out, Node: c.node})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
			if strings.Contains(out.String(), "account: ") || strings.Contains(out.String(), "Nothing is lost") {
				t.Errorf("got the smile of the end:\n%s", &out)
			}
		})
	}
}

// broken is a node that ends at once.
type broken struct{ err error }

func (b broken) Run(context.Context) error { return b.err }
func (broken) Ready() <-chan struct{}      { return nil }
func (broken) HTTPAddr() string            { return "" }

// watched is an output that calls seen once, when text has been written to it.
type watched struct {
	bytes.Buffer
	text string
	seen func(soFar string)
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if w.seen != nil && strings.Contains(w.String(), w.text) {
		seen := w.seen
		w.seen = nil
		seen(w.String())
	}
	return n, err
}

func TestATerminalSeesProgressAndAnInterruptEndsTheStory(t *testing.T) {
	temp(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watched{text: "\n\x1b[1m3. ", seen: func(string) { cancel() }}
	err := demo.Run(ctx, demo.Options{Out: out, Live: true, Bold: true, Node: start(nil)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if got := out.String(); !strings.Contains(got, "\r   [####") || strings.Contains(got, "account: ") || !strings.Contains(got, "its directory is removed") {
		t.Errorf("got %q, want progress, no end and the directory removed", got)
	}
}

// closing is an output that somebody stops reading.
type closing struct{ lines int }

var errClosed = errors.New("nobody reads")

func (c *closing) Write(b []byte) (int, error) {
	if c.lines--; c.lines < 0 {
		return 0, errClosed
	}
	return len(b), nil
}

func TestAStoryThatNobodyReadsEndsInOrder(t *testing.T) {
	temp(t)
	if err := demo.Run(t.Context(), demo.Options{Out: &closing{lines: 3}, Keep: true, Node: start(nil)}); !errors.Is(err, errClosed) {
		t.Errorf("got %v, want %v", err, errClosed)
	}
}

func TestAKeptNodeAnswersUntilItIsInterrupted(t *testing.T) {
	temp(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watched{text: "siding event trace 489 ", seen: func(soFar string) {
		defer cancel()
		url := regexp.MustCompile(`The node runs on at (\S+) until`).FindStringSubmatch(soFar)
		if url == nil {
			t.Errorf("got no URL in\n%s", soFar)
			return
		}
		api, err := client.New(url[1], "")
		if err != nil {
			t.Error(err)
			return
		}
		sent, err := api.SendJSON(ctx, []byte(`{"specversion":"1.0","id":"mine","source":"/me","type":"com.insurer.claim.reported","data":{"policy":"POL-7"}}`))
		if err != nil || sent.Sequence != 489 {
			t.Errorf("got %+v and %v, want the sequence that is named in what may be typed", sent, err)
		}
		if o, err := api.Wait(ctx, sent.Sequence, time.Minute); err != nil || len(o.Functions) != 1 || o.Functions[0].State != client.StateParked {
			t.Errorf("got %+v and %v, want an own report without a date parked", o, err)
		}
	}}
	if err := demo.Run(ctx, demo.Options{Out: out, Keep: true, Node: start(nil)}); err != nil {
		t.Errorf("got %v, want none", err)
	}
	if !strings.Contains(out.String(), "account: 488 accepted = 487 delivered + 0 parked + 1 discarded\n\nThe node runs on") {
		t.Errorf("got\n%s\nwant the account before the node is left running", out)
	}
}
