package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
)

// storyLimit bounds the whole story, which takes some seconds where nothing is
// wrong: a demo that hangs would say the opposite of what it is for.
const storyLimit = 3 * time.Minute

// errEndedEarly is why the story breaks off when its node does.
var errEndedEarly = errors.New("the node ended before the demo did: hint: siding serve --data-dir on a new directory says in its log why")

// Node is a node that hosts the demo's function and listens on loopback.
type Node interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	// HTTPAddr is host:port of the API once the node is ready.
	HTTPAddr() string
}

// Options are what Run needs to know.
type Options struct {
	Out io.Writer
	// Live says that Out is a terminal, on which a line of progress can be
	// rewritten; Bold that it may show headings in bold.
	Live, Bold bool
	// Keep leaves the node running after the story until the context ends.
	Keep bool
	// Node returns a node, not started, that keeps its data in dir.
	Node func(dir string, fn functions.Function) (Node, error)
}

// Run tells the story on a node of its own, whose directory it removes. It
// returns nil when everything was as it should be, and nil at the end of ctx if
// the node was only kept running by then.
func Run(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "siding-demo-")
	if err != nil {
		return fmt.Errorf("temporary directory: %w: hint: set TMPDIR to a directory that can be written", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &screen{out: outlet{o.Out, cancel}, live: o.Live, bold: o.Bold}
	account, err := onNode(ctx, o, s, dir)
	if removed := os.RemoveAll(dir); removed != nil {
		return errors.Join(err, fmt.Errorf("%s is left behind: %w: hint: remove it by hand", dir, removed))
	}
	s.say("\nThe node is stopped and its directory is removed: %s", dir)
	if err != nil {
		return err
	}
	if !o.Keep {
		s.say("To look around in it: siding demo --keep")
		s.sayAccount(account)
	}
	return nil
}

// onNode runs the node for as long as the story takes, or longer.
func onNode(ctx context.Context, o Options, s *screen, dir string) (client.FunctionAccount, error) {
	var none client.FunctionAccount
	contracts := newContracts()
	node, err := o.Node(filepath.Join(dir, "data"), function(contracts))
	if err != nil {
		return none, err
	}
	running, stop := context.WithCancel(ctx)
	told, give := context.WithCancelCause(ctx) // the story ends with the node
	defer give(nil)
	ended := make(chan error, 1)
	go func() {
		err := node.Run(running)
		give(errEndedEarly) // unless the context ended first
		ended <- err
	}()
	account, err := tell(told, o, s, dir, node, contracts)
	stop()
	if failed := <-ended; failed != nil {
		return none, failed // also if the story failed: then by this
	}
	return account, err
}

// tell tells the story as soon as the node is ready.
func tell(ctx context.Context, o Options, s *screen, dir string, node Node, contracts *contracts) (client.FunctionAccount, error) {
	var none client.FunctionAccount
	limited, cancel := context.WithTimeoutCause(ctx, storyLimit,
		fmt.Errorf("the demo is not through after %s: hint: run it again on a machine that is less busy", storyLimit))
	defer cancel()
	select {
	case <-node.Ready():
	case <-limited.Done():
		return none, context.Cause(limited)
	}
	url := "http://" + node.HTTPAddr()
	api, err := client.New(url, "")
	if err != nil {
		return none, err
	}
	t := &tour{
		screen: s, api: api, url: url, dir: dir, portal: newPortal(), contracts: contracts,
		sequences: map[string]uint64{}, discarded: map[string]bool{},
	}
	account, err := t.story(limited)
	if err != nil {
		s.clear()
		if limited.Err() != nil {
			err = context.Cause(limited) // what the story says then is only that it was cut
		}
		return none, err
	}
	if o.Keep {
		s.sayAccount(account)
		t.lookAround()
		<-ctx.Done()
	}
	return account, nil
}
