package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/siding-dev/siding/runtime/client"
)

// editFlags are the flags of edit.
type editFlags struct {
	decideFlags
	file, source   string
	set, setString []string
	forgetSteps    bool
}

func (a *app) dlqEdit() *cobra.Command {
	f := editFlags{decideFlags: decideFlags{action: client.Edit, did: "edited"}}
	c := &cobra.Command{
		Use:   "edit ID (--data FILE | --set PATH=VALUE…) --reason WHY",
		Short: "Correct the data of a dead letter and send it through its function again",
		Long: "Correct the data of a dead letter and send it through its function again, in its place: what is held behind it waits.\n\n" +
			"Attributes and ordering key stay as they are, and the original stays in its stream. --set changes one member of JSON data and\n" +
			"leaves the rest alone: --set damage.cents=1200, --set items.0.name=roof. A value is JSON if\n" +
			"it can be read as such, and text otherwise; --set-string takes it as text in any case.\n\n" +
			"Steps that the function has done for the event (functions.Once) are not done again, so that their results are those of the old\n" +
			"data. --forget-steps has all of them done again.\n\n" + lookFirst,
		Example: "  siding dlq edit file-claim/42 --set date_of_loss=2026-03-01 --source 'letter of the broker, 2 April' --reason 'date was missing'",
		Args:    arguments(1, 1, "FUNCTION/SEQUENCE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.checkEdit(args, a.env.Getenv); err != nil {
				return err
			}
			return a.edit(c, f, args[0])
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.file, "data", "", "file with the new data, whole; - is the standard input")
	fs.StringArrayVar(&f.set, "set", nil, "change one member of JSON data (repeatable)")
	fs.StringArrayVar(&f.setString, "set-string", nil, "the same, with a value that is text (repeatable)")
	fs.StringVar(&f.source, "source", "", "where the new data come from")
	fs.BoolVar(&f.forgetSteps, "forget-steps", false, "have the steps done again that were done for the event")
	fs.StringVar(&f.reason, "reason", "", "why (required)")
	fs.StringVar(&f.by, "by", "", "who decides (default: the user)")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print the new data and stop")
	jsonFlag(c, &f.asJSON)
	return c
}

func (f *editFlags) checkEdit(args []string, getenv func(string) string) error {
	if err := f.check(args, getenv); err != nil {
		return err
	}
	sets := len(f.set) + len(f.setString)
	switch {
	case f.file == "" && sets == 0:
		return usage("give --data FILE, or --set PATH=VALUE", "dlq edit: no new data")
	case f.file != "" && sets > 0:
		return usage("give the data whole, or change members of what stands", "dlq edit: --data and --set together")
	case strings.TrimSpace(f.reason) == "":
		return usage("say why with --reason: the event says something else from here on", "dlq edit: no reason")
	case f.file == "-" && !f.yes && !f.dryRun:
		return usage("add --yes, or look first with --dry-run", "dlq edit: the standard input cannot give the data and the answer")
	}
	for _, s := range append(append([]string{}, f.set...), f.setString...) {
		if path, _, ok := strings.Cut(s, "="); !ok || path == "" {
			return usage("write a member's path and its value, such as --set damage.cents=1200", "--set %s: not PATH=VALUE", s)
		}
	}
	return nil
}

func (a *app) edit(c *cobra.Command, f editFlags, id string) error {
	ctx := c.Context()
	node, err := a.client()
	if err != nil {
		return err
	}
	function, sequence, err := parseID(id)
	if err != nil {
		return err
	}
	letter, err := node.DeadLetter(ctx, function, sequence)
	if err != nil {
		return err
	}
	data, changes, err := f.data(a.env.Stdin, letter)
	if err != nil {
		return err
	}
	if f.dryRun {
		_, err := a.env.Stdout.Write(data)
		return err
	}
	if !f.yes {
		for _, change := range changes {
			a.say("  %s", clean(change))
		}
	}
	if err := a.confirm(f.decideFlags, []client.DeadLetter{letter.DeadLetter}); err != nil {
		return err
	}
	decided, err := node.Decide(ctx, client.Decision{
		Function: function, Sequence: sequence, Action: client.Edit, Cycle: &letter.Cycle,
		Reason: f.reason, By: f.by, Source: f.source, DataBase64: data, ForgetSteps: f.forgetSteps,
	})
	if err != nil {
		return err
	}
	return a.printDecided(f.decideFlags, []client.Decided{decided})
}

// data returns the new data, and says in words what they change.
func (f *editFlags) data(stdin io.Reader, letter client.DeadLetterDetail) (data []byte, changes []string, err error) {
	if f.file == "" {
		return f.changed(letter)
	}
	if f.file == "-" {
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(f.file)
	}
	if err != nil {
		return nil, nil, usage("name a file that can be read", "--data: %v", err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil, usage("discard the event if nothing is left of it", "--data %s: empty", f.file)
	}
	before := len(letter.Data) + len(letter.DataBase64)
	return data, []string{fmt.Sprintf("data: %d bytes instead of %d", len(data), before)}, nil
}

// changed sets members of the data that stand.
func (f *editFlags) changed(letter client.DeadLetterDetail) (data []byte, changes []string, err error) {
	if letter.Data == nil {
		return nil, nil, refused("give the new data whole, with --data FILE", "%s: its data are not JSON, so no member can be set", letter.ID)
	}
	data = letter.Data
	set := func(assignment string, text bool) error {
		path, value, _ := strings.Cut(assignment, "=")
		before := gjson.GetBytes(data, path).Raw
		raw := []byte(value)
		if text || !json.Valid(raw) {
			raw, _ = json.Marshal(value) // text always can be
		}
		after, err := sjson.SetRawBytes(data, path, raw)
		if err != nil || bytes.Equal(after, data) && before != string(raw) {
			return usage("write the path of one member, such as damage.cents or items.0.name", "--set %s: names no member that can be set", path)
		}
		data = after
		if before == "" {
			before = "nothing"
		}
		changes = append(changes, fmt.Sprintf("%s: %s instead of %s", path, cut(string(raw), 60), cut(before, 60)))
		return nil
	}
	for _, s := range f.set {
		if err := set(s, false); err != nil {
			return nil, nil, err
		}
	}
	for _, s := range f.setString {
		if err := set(s, true); err != nil {
			return nil, nil, err
		}
	}
	return data, changes, nil
}
