package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/siding-dev/siding/runtime/client"
)

// sampleSize is how many dead letters are shown before many are decided about.
const sampleSize = 5

// confirm shows what is about to be decided and asks, unless --yes was given.
// With more than one it shows count and sample in any case.
func (a *app) confirm(f decideFlags, list []client.DeadLetter) error {
	if !f.yes || len(list) > 1 {
		a.say("%s %s:", f.action, f.what(list))
		for _, d := range list[:min(sampleSize, len(list))] {
			held := ""
			if f.touchesHeld() {
				held = fmt.Sprintf("  held behind it: %d", d.Held)
			}
			a.say("  %s  %s  %s%s", clean(d.ID), clean(d.Cause), clean(cut(d.Error, 60)), held)
		}
		if more := len(list) - sampleSize; more > 0 {
			a.say("  … and %d more", more)
		}
	}
	if f.yes {
		return nil
	}
	if !terminal(a.env.Stdin) {
		return refused("add --yes, or look first with --dry-run", "%s %s: no terminal to ask on", f.action, count(len(list)))
	}
	fmt.Fprintf(a.env.Stderr, "%s? [y/N] ", f.action)
	answer, err := bufio.NewReader(a.env.Stdin).ReadString('\n')
	if err != nil {
		a.say("")
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return refused("add --yes to decide without being asked", "%s %s: not confirmed", f.action, count(len(list)))
}

// touchesHeld reports whether the decision does more to what is held than to
// let it go on in its turn.
func (f *decideFlags) touchesHeld() bool { return f.tail || f.action == client.Release }

// what tells in words what is decided about.
func (f *decideFlags) what(list []client.DeadLetter) string {
	if !f.touchesHeld() {
		return count(len(list))
	}
	held := 0
	for _, d := range list {
		held += d.Held
	}
	events := "1 event"
	if held != 1 {
		events = fmt.Sprintf("%d events", held)
	}
	them := "them"
	if len(list) == 1 {
		them = "it"
	}
	if f.tail {
		return fmt.Sprintf("%s and %s held behind %s", count(len(list)), events, them)
	}
	return fmt.Sprintf("%s out of order, with %s held behind %s", count(len(list)), events, them)
}

// terminal reports whether a person may answer. The null device passes as one,
// and then gives no answer.
func terminal(in any) bool {
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func count(n int) string {
	if n == 1 {
		return "1 dead letter"
	}
	return fmt.Sprintf("%d dead letters", n)
}
