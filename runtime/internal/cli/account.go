package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

func (a *app) account() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "account",
		Short: "Check that every accepted event is accounted for",
		Long: "For each function: accepted = delivered + pending + delivering + retrying + held + parked + discarded + gone,\n" +
			"each counted from its own source. Exits 1 and names function and sequence where the sum does not hold.",
		Args: arguments(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			node, err := a.client()
			if err != nil {
				return err
			}
			account, err := node.Account(c.Context())
			if err != nil {
				return err
			}
			if err := a.printAccount(account, asJSON); err != nil || account.Holds {
				return err
			}
			return a.accountBroken(account)
		},
	}
	jsonFlag(c, &asJSON)
	a.remote(c)
	return c
}

func (a *app) printAccount(account client.Account, asJSON bool) error {
	if asJSON {
		return a.printJSON(account)
	}
	if len(account.Functions) == 0 {
		a.say("no functions")
		return nil
	}
	t := newTable(a.env.Stdout, "FUNCTION", "ACCEPTED", "DELIVERED", "PENDING", "DELIVERING", "RETRYING", "HELD", "PARKED", "DISCARDED", "GONE", "HOLDS")
	for _, f := range account.Functions {
		t.row(f.Function, number(f.Accepted), number(f.Delivered), number(f.Pending), number(f.Delivering), number(f.Retrying),
			number(f.Held), number(f.Parked), number(f.Discarded), number(f.Gone), yesNo(f.Holds))
	}
	return t.flush()
}

// accountBroken names every event that the account cannot explain; the last
// line says how many functions it does not hold for.
func (a *app) accountBroken(account client.Account) error {
	broken := 0
	for _, f := range account.Functions {
		if f.Holds {
			continue
		}
		broken++
		sum := f.Delivered + f.Pending + f.Delivering + f.Retrying + f.Held + f.Parked + f.Discarded + f.Gone
		if sum != f.Accepted {
			a.say("%s: accepted %d, but found %d", clean(f.Function), f.Accepted, sum)
		}
		for _, p := range f.Problems {
			a.say("%s/%d: %s", clean(f.Function), p.Sequence, clean(p.What))
		}
	}
	return &failure{client.ExitFailed, fmt.Sprintf("the account does not hold for %d of %d functions", broken, len(account.Functions)),
		"siding event show SEQUENCE tells the life of an event"}
}
