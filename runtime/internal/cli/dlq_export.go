package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) dlqExport() *cobra.Command {
	var q client.DeadLetterQuery
	var path string
	var withReason bool
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the events of dead letters, one CloudEvent a line",
		Long: "Writes the events as they were sent, attributes and data byte for byte, in the order in which they must be sent\n" +
			"again; siding event send takes the file. Nothing is decided about the dead letters.\n\n" +
			"For whoever sent them, --with-reason adds why they were parked, as the extension attributes sidingdeadletter,\n" +
			"sidingcause, sidingclass, sidingcode, sidingerror, sidingattempts, sidingparkedat and sidingtraceid. With them it is\n" +
			"another event under the same id, which a node that remembers the first one refuses.",
		Example: "  siding dlq export --source /portal --with-reason --out portal.jsonl",
		Args:    arguments(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			node, err := a.client()
			if err != nil {
				return err
			}
			if path == "" {
				return a.exportTo(a.env.Stdout, "", func(yield func(client.Exported) error) error { return node.Export(c.Context(), q, yield) }, withReason)
			}
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, fs.ErrExist) {
				return refused("choose another --out, or remove it", "%s: stands there already", path)
			}
			if err != nil {
				return usage("", "%v", err)
			}
			err = a.exportTo(file, " to "+path, func(yield func(client.Exported) error) error { return node.Export(c.Context(), q, yield) }, withReason)
			if closed := file.Close(); err == nil {
				err = closed
			}
			var partly *leftOutError
			if err != nil && !errors.As(err, &partly) {
				return errors.Join(err, os.Remove(path)) // half a file looks like a whole one
			}
			return err
		},
	}
	filterFlags(c, &q)
	c.Flags().StringVar(&path, "out", "", "write to this new file (default: standard output)")
	c.Flags().BoolVar(&withReason, "with-reason", false, "add why each was parked, as extension attributes")
	return c
}

// leftOutError says that dead letters were no CloudEvents.
type leftOutError struct{ leftOut, written int }

func (e *leftOutError) Error() string {
	them := fmt.Sprintf("%s are", count(e.leftOut))
	if e.leftOut == 1 {
		them = "1 dead letter is"
	}
	return fmt.Sprintf("%s no CloudEvent and not among the %d written: hint: siding dlq show ID --json has the bytes", them, e.written)
}

// exportTo writes what export yields, and names what is no event.
func (a *app) exportTo(w io.Writer, where string, export func(func(client.Exported) error) error, withReason bool) error {
	out := bufio.NewWriter(w)
	written, leftOut := 0, 0
	err := export(func(e client.Exported) error {
		line := e.Event
		if line == nil {
			leftOut++
			a.say("not written: %s: %s", clean(e.ID), clean(e.NotEvent))
			return nil
		}
		if withReason {
			var err error
			if line, err = e.WithReason(); err != nil {
				return err
			}
		}
		written++
		_, err := out.Write(append(line, '\n'))
		return err
	})
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	if err != nil {
		return err
	}
	if leftOut > 0 {
		return &leftOutError{leftOut, written}
	}
	if written == 0 {
		a.say("no dead letters")
	} else {
		a.say("wrote %s%s", count(written), where)
	}
	return nil
}
