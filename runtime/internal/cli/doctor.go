package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) doctor() *cobra.Command {
	var asJSON bool
	var dir string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with a node or its data directory",
		Long: "Asks a running node, which sees everything; with --data-dir it looks at a directory, which works without one and sees less.\n" +
			"Exits 1 when something failed; a warning is none.",
		Args: arguments(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			found, err := a.examine(c, dir)
			if err != nil {
				return err
			}
			if err := a.printDoctor(found, asJSON); err != nil || found.OK {
				return err
			}
			failed := 0
			for _, check := range found.Checks {
				if check.Status == client.DoctorFail {
					failed++
				}
			}
			return &failure{client.ExitFailed, fmt.Sprintf("%d of %d checks failed", failed, len(found.Checks)), ""}
		},
	}
	c.Flags().StringVar(&dir, "data-dir", "", "directory to look at, instead of a running node")
	jsonFlag(c, &asJSON)
	a.remote(c)
	return c
}

func (a *app) examine(c *cobra.Command, dir string) (client.Doctor, error) {
	if c.Flags().Changed("data-dir") {
		if c.Flags().Changed("server") {
			return client.Doctor{}, usage("give one of --data-dir and --server", "doctor: a directory and a node")
		}
		if dir == "" {
			return client.Doctor{}, usage("name the directory to look at", "--data-dir: empty")
		}
		return a.env.Inspect(dir)
	}
	node, err := a.client()
	if err != nil {
		return client.Doctor{}, err
	}
	found, err := node.Doctor(c.Context())
	if errors.Is(err, client.ErrUnreachable) {
		return found, &failure{client.ExitUnreachable, err.Error(), "siding doctor --data-dir DIR looks at the directory of a node that does not run"}
	}
	return found, err
}

func (a *app) printDoctor(found client.Doctor, asJSON bool) error {
	if asJSON {
		return a.printJSON(found)
	}
	t := newTable(a.env.Stdout, "STATUS", "CHECK", "FOUND")
	for _, check := range found.Checks {
		t.row(check.Status, check.Check, check.Detail)
		if check.Hint != "" {
			t.row(" ", " ", "hint: "+check.Hint)
		}
	}
	return t.flush()
}
