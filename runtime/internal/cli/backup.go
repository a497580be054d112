package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) backup() *cobra.Command {
	var asJSON bool
	var out string
	c := &cobra.Command{
		Use:   "backup --out FILE",
		Short: "Write everything that a running node keeps into one file",
		Long: "The node goes on: events are accepted meanwhile and handlers run, but for a moment, which is printed, nothing that functions\n" +
			"did is stored. The file is checked before it gets its name, and none is overwritten.",
		Args: arguments(0, 0, "--out FILE"),
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" {
				return usage("name the file to write with --out", "backup: no file")
			}
			if _, err := os.Lstat(out); err == nil {
				return outExists(out)
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			b, err := a.download(c.Context(), node, out)
			if err != nil {
				return err
			}
			a.say("backup written to %s", out)
			return a.printBackup(b, asJSON)
		},
	}
	c.Flags().StringVar(&out, "out", "", "file to write; it must not exist")
	jsonFlag(c, &asJSON)
	a.remote(c)
	return c
}

func outExists(out string) error {
	return refused("name another file", "--out %s: exists", out)
}

// download writes the backup beside out, checks it, and gives it its name.
func (a *app) download(ctx context.Context, node *client.Client, out string) (b client.Backup, err error) {
	part, err := os.CreateTemp(filepath.Dir(out), filepath.Base(out)+".part-*")
	if err != nil {
		return b, usage("name a file in a directory that can be written", "--out %s: %v", out, err)
	}
	defer func() { err = errors.Join(err, removeIfThere(part.Name())) }()
	err = node.WriteBackup(ctx, part)
	if err == nil {
		err = part.Sync()
	}
	if closed := part.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return b, err
	}
	if b, err = a.env.VerifyBackup(part.Name()); err != nil {
		return b, err
	}
	// A link refuses to overwrite, which a rename does not; not every file system has links.
	switch err := os.Link(part.Name(), out); {
	case err == nil:
		return b, nil
	case errors.Is(err, fs.ErrExist):
		return b, outExists(out)
	}
	return b, os.Rename(part.Name(), out)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (a *app) restore() *cobra.Command {
	var asJSON bool
	var dir string
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory from a backup",
		Long: "No node may run on the directory, which must be missing or empty. It appears when every checksum has been compared; on a\n" +
			"fault nothing is left behind.",
		Args: arguments(1, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if dir == "" {
				return usage("name the directory to make", "--data-dir: empty")
			}
			b, err := a.env.Restore(args[0], dir)
			if err != nil {
				return err
			}
			a.say("restored to %s; serve it with siding serve --data-dir %s", dir, dir)
			return a.printBackup(b, asJSON)
		},
	}
	c.Flags().StringVar(&dir, "data-dir", "siding-data", "directory to make; missing or empty")
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) printBackup(b client.Backup, asJSON bool) error {
	if asJSON {
		return a.printJSON(b)
	}
	t := newTable(a.env.Stdout)
	t.row("taken at", b.TakenAt.UTC().Format(time.RFC3339))
	t.row("held", b.Held)
	t.row("bytes", number(b.Bytes))
	t.row("data format", number(int64(b.DataFormat)))
	for _, s := range b.Streams {
		t.row("stream", fmt.Sprintf("%s: %d messages, last sequence %d", s.Name, s.Messages, s.LastSequence))
	}
	for _, f := range b.Functions {
		t.row("function", f)
	}
	return t.flush()
}
