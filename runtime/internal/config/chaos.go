package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/chaos"
	"github.com/siding-dev/siding/runtime/internal/spelling"
)

// chaosFile is the rule of the file of siding dev --chaos, which is as strict as
// that of the node.
func chaosFile() section {
	return section{
		fields: []field{
			{name: "seed", rule: integer{0, math.MaxInt32}, doc: "what the shares pick; another seed picks other events"},
			{name: "rules", rule: list{chaosRule(), 1}, doc: "what fails; slow rules add up, and the first other rule that applies decides"},
		},
		require: [][]string{{"rules"}},
		hint:    "write rules: and below it - do: fail",
	}
}

func chaosRule() section {
	var actions words
	for _, a := range chaos.Actions() {
		actions = append(actions, string(a))
	}
	return section{
		fields: []field{
			{name: "function", rule: text{"the name of a function", functionName}, doc: "function that fails; all where it is left out"},
			{name: "where", rule: oneLine, doc: "patterns of attributes and extensions, as in source=//broker*,type=claim.*"},
			{name: "share", rule: share{}, doc: "share of the events, picked by a hash of seed, source and id"},
			{name: "do", rule: actions, doc: "what happens instead of the attempt"},
			{name: "times", rule: integer{1, maxAttempts}, doc: "attempts of each cycle that it applies to; of kill, deaths with each event; for good where it is left out"},
			{name: "delay", rule: duration{positive: true}, doc: "how long a slow attempt waits before its handler is called"},
			{name: "error", rule: oneLine, doc: "text of the failure"},
			{name: "window", rule: section{fields: []field{
				{name: "after", rule: duration{}, doc: "when it begins, counted from the start of the process"},
				{name: "for", rule: duration{positive: true}, doc: "how long it lasts; without end where it is left out"},
			}}, doc: "when the rule applies; always where it is left out"},
		},
		require: [][]string{{"do"}},
		hint:    "write what it does, as in do: fail; one of " + strings.Join(actions, ", "),
	}
}

// LoadChaos reads the plan of a rehearsal for these functions. The error is a
// Problems with all that is wrong.
func LoadChaos(file string, hosted []functions.Function) (chaos.Plan, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return chaos.Plan{}, Problems{{File: file, Text: plain(err), Hint: "name the file with --chaos"}}
	}
	plan, problems := parseChaos(file, content, hosted)
	return plan, problems.err()
}

// parseChaos reads the whole document. The plan is what is sound of it.
func parseChaos(name string, content []byte, hosted []functions.Function) (chaos.Plan, Problems) {
	r := &reader{file: name}
	node := r.document(content)
	if node == nil {
		if len(r.problems) == 0 {
			r.report(position{}, "", faultf(chaosFile().hint, "is empty"))
		}
		return chaos.Plan{}, r.problems
	}
	read, _ := chaosFile().read(r, "", node)
	root, _ := read.data.(mapping)
	seed, _ := root.of["seed"].data.(int)
	plan := chaos.Plan{Seed: uint64(seed)}
	rules, _ := root.of["rules"].data.([]value)
	for i, v := range rules {
		said, _ := v.data.(mapping)
		plan.Rules = append(plan.Rules, ruleOf(said))
		r.checkRule(fmt.Sprintf("rules[%d]", i), v, said, hosted)
	}
	if len(r.problems) > 0 {
		return plan, r.problems // what is left out because it was unsound would only be reported again
	}
	for _, wrong := range ruleErrors(plan.Validate()) {
		at, path := read.at, wrong.Field
		if i := wrong.Rule - 1; i >= 0 {
			at, path = find(rules[i], wrong.Field, rules[i].at), fmt.Sprintf("rules[%d].%s", i, wrong.Field)
		}
		text, hint, _ := strings.Cut(wrong.Text, "; ")
		r.report(at, path, fault{text, hint})
	}
	return plan, r.problems
}

func ruleOf(said mapping) chaos.Rule {
	var rule chaos.Rule
	set(&rule.Function, said, "function")
	set(&rule.Where, said, "where")
	set(&rule.Share, said, "share")
	rule.Do = chaos.Action(said.of["do"].text)
	set(&rule.Times, said, "times")
	set(&rule.Delay, said, "delay")
	set(&rule.Error, said, "error")
	window, _ := said.of["window"].data.(mapping)
	set[time.Duration](&rule.Window.After, window, "after")
	set[time.Duration](&rule.Window.For, window, "for")
	return rule
}

// checkRule reports what only this file can say wrong: a function that the node
// does not host, and a share of nothing, which in Go is the zero value and means all.
func (r *reader) checkRule(path string, v value, said mapping, hosted []functions.Function) {
	if name, ok := said.of["function"].data.(string); ok && !slices.ContainsFunc(hosted, func(f functions.Function) bool { return f.Name == name }) {
		r.report(find(v, "function", v.at), join(path, "function"), noSuchFunction(name, hosted))
	}
	if picked, ok := said.of["share"].data.(float64); ok && picked == 0 {
		r.report(find(v, "share", v.at), join(path, "share"), faultf("write more than 0, or leave it out for all events", "0 picks no event at all"))
	}
}

func noSuchFunction(name string, hosted []functions.Function) fault {
	var known []string
	for _, f := range hosted {
		known = append(known, f.Name)
	}
	hint := "this node hosts no function"
	if near := spelling.Nearest(name, known); near != "" {
		hint = "did you mean " + near + "?"
	} else if len(known) > 0 {
		hint = "this node hosts " + strings.Join(known, ", ")
	}
	return faultf(hint, "function %s is not hosted here", name)
}

// ruleErrors takes apart what Plan.Validate has joined.
func ruleErrors(err error) []*chaos.RuleError {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var all []*chaos.RuleError
	for _, err := range joined.Unwrap() {
		if wrong, ok := errors.AsType[*chaos.RuleError](err); ok {
			all = append(all, wrong)
		}
	}
	return all
}
