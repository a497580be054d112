package demo

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/siding-dev/siding/runtime/client"
)

// group is a number of dead letters that one sender and one error have in
// common.
type group struct {
	source, why string
	letters     []client.DeadLetter
}

// look is the second step: what is parked, since when, from whom and why.
func (t *tour) look(ctx context.Context) error {
	t.heading("2. What no retry can help is parked until somebody decides about it, and says why:")
	var err error
	if t.letters, err = t.api.DeadLetters(ctx, client.DeadLetterQuery{Function: functionName, Limit: client.MaxLimit}); err != nil {
		return err
	}
	groups := grouped(t.letters)
	rows := [][]string{{"HOW MANY", "SINCE", "FROM", "WHY"}}
	held := 0
	for _, g := range groups {
		first := slices.MinFunc(g.letters, func(a, b client.DeadLetter) int { return a.ParkedAt.Compare(b.ParkedAt) })
		rows = append(rows, []string{strconv.Itoa(len(g.letters)), clock(first.ParkedAt), g.source, g.why})
		for _, l := range g.letters {
			held += l.Held
		}
	}
	t.command("dlq ls")
	t.table(rows...)
	t.say("   %s of the same policies are held behind them (siding lane ls), every other policy went on.", plural(held, "later event"))
	if held != t.portal.behind {
		return faulty("%d events are held, want %d", held, t.portal.behind)
	}
	t.sender = groups[0].source
	return nil
}

// grouped returns the groups, the largest first.
func grouped(letters []client.DeadLetter) []group {
	var groups []group
	for _, l := range letters {
		at := slices.IndexFunc(groups, func(g group) bool { return g.source == l.Source && g.why == l.Error })
		if at < 0 {
			at = len(groups)
			groups = append(groups, group{source: l.Source, why: l.Error})
		}
		groups[at].letters = append(groups[at].letters, l)
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(len(b.letters), len(a.letters)) })
	return groups
}

// ask is the third step: the sender gets its events back as it sent them, and
// answers with what it had left out.
func (t *tour) ask(ctx context.Context) error {
	question := filepath.Join(t.dir, "for-"+path.Base(t.sender)+".jsonl")
	answer := filepath.Join(t.dir, "from-"+path.Base(t.sender)+".jsonl")
	t.heading("3. The sender is asked. It gets its events back, each with the reason, one CloudEvent a line:")
	t.command("dlq export --source %s --with-reason --out %s", t.sender, question)
	var lines bytes.Buffer
	n := 0
	err := t.api.Export(ctx, client.DeadLetterQuery{Function: functionName, Source: t.sender}, func(e client.Exported) error {
		line, err := e.WithReason()
		if err != nil {
			return err
		}
		n++
		lines.Write(append(line, '\n'))
		return nil
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(question, lines.Bytes(), 0o600); err != nil {
		return err
	}
	t.say("   wrote %s", plural(n, "event"))
	if err := t.portal.reply(question, answer); err != nil {
		return err
	}
	if t.answers, err = readAnswers(answer); err != nil {
		return err
	}
	t.say("   %s answers with the true dates of %s: %s", t.sender, plural(len(t.answers), "event"), answer)
	if n != len(t.portal.dates) || len(t.answers) != n {
		return faulty("%d events were exported and %d answered, want %d", n, len(t.answers), len(t.portal.dates))
	}
	return nil
}

// reply is what the broker does: for each event in the file it looks up the
// date, and writes the event with it.
func (p *portal) reply(question, answer string) error {
	var out bytes.Buffer
	err := eachLine(question, func(e map[string]json.RawMessage) error {
		var id string
		var report paper
		if err := decode(e, "id", &id); err != nil {
			return err
		}
		if err := decode(e, "data", &report); err != nil {
			return err
		}
		report.DateOfLoss = p.dates[id]
		var err error
		if e["data"], err = json.Marshal(report); err != nil {
			return err
		}
		line, err := json.Marshal(e)
		out.Write(append(line, '\n'))
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(answer, out.Bytes(), 0o600)
}

// readAnswers returns the data of each event in a file by the dead letter that
// the event names.
func readAnswers(file string) (map[string]json.RawMessage, error) {
	answers := map[string]json.RawMessage{}
	return answers, eachLine(file, func(e map[string]json.RawMessage) error {
		var letter string
		if err := decode(e, client.ExtensionDeadLetter, &letter); err != nil {
			return err
		}
		answers[letter] = e["data"]
		return nil
	})
}

func eachLine(file string, yield func(map[string]json.RawMessage) error) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		var e map[string]json.RawMessage
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := yield(e); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func decode(e map[string]json.RawMessage, member string, into any) error {
	if err := json.Unmarshal(e[member], into); err != nil {
		return fmt.Errorf("member %s: %w", member, err)
	}
	return nil
}
