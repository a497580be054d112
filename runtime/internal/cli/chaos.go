package cli

import (
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/chaos"
	"github.com/siding-dev/siding/runtime/internal/config"
)

// chaosExample is a file of siding dev --chaos, with every key.
const chaosExample = `  seed: 7
  rules:
    - function: file-claim
      where: source=//broker*,type=claim.*   # attributes and extensions; * any text, ? one character
      share: 0.1                             # of the events, the same ones in each attempt and each run
      do: fail                               # or park, hang, panic, kill, unavailable, slow
      times: 3                               # the first attempts of each cycle
      error: "contract system: connection refused"
    - {do: slow, delay: 2s}
    - {do: unavailable, window: {after: 30s, for: 10m}}   # from the start of the process
`

// exitKilled is what a shell reports of a process that kill -9 has ended.
const exitKilled = 137

// rehearsal reads the rules by which functions are to fail, and warns of each.
func (a *app) rehearsal(file string, hosted []functions.Function) (chaos.Plan, error) {
	plan, err := config.LoadChaos(file, hosted)
	if err != nil {
		return plan, a.unsoundFile(err, file, "siding dev --help shows such a file")
	}
	plan.Kill = func() { a.env.Exit(exitKilled) }
	a.say("warning: functions fail on purpose, by the rules of %s (seed %d):", clean(file), plan.Seed)
	for i, rule := range plan.Rules {
		a.say("  rule %d: %s", i+1, clean(rule.String()))
	}
	return plan, nil
}
